// The SQL of what was drawn and chosen.

const MOST_TOGETHER = 16;
const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/;
const REGISTERED =
  /\b(?:REGISTER\s+QUERY|CREATE\s+TRIGGER)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:"((?:[^"]|"")+)"|(\w+))/i;

export const quoteName = (name) => (PLAIN.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
export const quoteText = (text) => `'${String(text).replaceAll("'", "''")}'`;

export function keyLiteral(stream, key) {
  const column = stream.columns.find(({ name }) => name === stream.key_column);
  return column?.type === "STRING" ? quoteText(key) : String(key);
}

// `spec`: {name, stream, columns, classes, where, kind, moving, shape, numbers, focal, k, far,
// span}. Returns the statement, or null with what is still missing.
export function writeSql(spec, world) {
  const missing = missingIn(spec);
  if (missing) return { sql: null, missing };
  if (spec.kind === "together") return { sql: togetherSql(spec, world), missing: null };
  const lines = [
    `REGISTER QUERY ${quoteName(spec.name)} AS`,
    `SELECT ${spec.columns.map(quoteName).join(", ")}`,
    `FROM ${quoteName(spec.stream.name)}`,
  ];
  const conditions = [spec.where ? (spec.classes.length ? `(${spec.where})` : spec.where) : "",
    classCondition(spec)].filter(Boolean);
  if (conditions.length) lines.push(`WHERE ${conditions.join(" AND ")}`);
  lines.push(spec.kind === "knn" ? nearestClause(spec, world) : insideClause(spec, world));
  return { sql: lines.join("\n"), missing: null };
}

// Different objects that are near each other at about the same time; then silence for as long, so
// that objects that stay together are told now and then.
function togetherSql(spec, world) {
  const { stream, k, far, span } = spec;
  const key = `V.${quoteName(stream.key_column)}`;
  const time = quoteText(`${span} seconds`);
  const conditions = [`DISTANCE(V, V) <= ${world.formatLength(far)}`, `SPAN(V) <= ${time}`,
    `${key} <> ${key}`, classCondition(spec, "V."), spec.where ? `(${spec.where})` : ""];
  return [
    `CREATE TRIGGER ${quoteName(spec.name)} /*+ TIGHT */`,
    `FOR ${quoteName(stream.name)} AS V[${k}]`,
    `WHEN ${conditions.filter(Boolean).join("\n AND ")}`,
    `REPORT FIRST EVERY ${time} PER V[1].${quoteName(stream.key_column)}`,
  ].join("\n");
}

function missingTogether({ k, far, span }) {
  if (!(k >= 2 && k <= MOST_TOGETHER)) return `Say how many: from 2 to ${MOST_TOGETHER}.`;
  if (!(far > 0)) return "Say how near to each other they are.";
  return span > 0 ? null : "Say within which time.";
}

function classCondition({ classes, stream }, before = "") {
  if (!classes.length || !stream.class_column) return "";
  const column = before + quoteName(stream.class_column);
  return classes.length === 1 ? `${column} = ${quoteText(classes[0])}`
    : `${column} IN (${classes.map(quoteText).join(", ")})`;
}

function missingIn(spec) {
  if (!spec.stream) return "There is no stream to ask yet.";
  if (!spec.name.trim()) return "Give the query a name.";
  if (spec.kind === "together") return missingTogether(spec);
  if (spec.moving && !String(spec.focal ?? "").trim()) {
    return "Pick the object to follow: click it on the map, or type its key.";
  }
  const wanted = {
    rectangle: spec.moving ? 2 : 4, circle: spec.moving ? 1 : 3, point: spec.moving ? 0 : 2,
  };
  const shape = spec.kind === "knn" ? "point" : spec.shape;
  if (shape === "polygon") {
    return spec.corners.length >= 3 ? null : "Draw a polygon of three corners or more.";
  }
  const given = spec.numbers.filter((number) => Number.isFinite(number)).length;
  if (given >= wanted[shape]) return null;
  if (spec.kind === "knn") return "Click the place on the map, or type its coordinates.";
  return spec.moving ? "Say how large the region is."
    : `Draw a ${shape} on the map, or type its numbers.`;
}

function insideClause({ moving, shape, numbers, corners, focal, stream }, world) {
  if (shape === "polygon") {
    const ring = corners.map(([x, y]) => `${world.format(x)} ${world.format(y)}`);
    return `INSIDE POLYGON ((${ring.join(", ")}))`;
  }
  if (moving) {
    const lengths = numbers.slice(0, shape === "circle" ? 1 : 2).map((n) => world.formatLength(n));
    return `INSIDE ('M', ${[keyLiteral(stream, focal), ...lengths].join(", ")})`;
  }
  const places = numbers.slice(0, 4).map((n) => world.format(n));
  if (shape === "circle") places.splice(2, 2, world.formatLength(numbers[2]));
  return `INSIDE (${places.join(", ")})`;
}

function nearestClause({ moving, k, numbers, focal, stream }, world) {
  if (moving) return `kNN ('M', ${k}, ${keyLiteral(stream, focal)})`;
  return `kNN (${k}, ${world.format(numbers[0])}, ${world.format(numbers[1])})`;
}

// The name that a text of SQL registers, as the server will call it.
export function registeredName(sql) {
  const found = REGISTERED.exec(sql);
  return found ? (found[1]?.replaceAll('""', '"') ?? found[2]) : null;
}

export function freeName(base, taken) {
  const known = new Set([...taken].map((name) => name.toLowerCase()));
  for (let i = 1; ; i++) if (!known.has(`${base}_${i}`)) return `${base}_${i}`;
}
