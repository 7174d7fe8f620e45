// Queries as the server describes them, and in words.

// A query with what the map draws of it: a region that stays, how far one reaches that moves, the
// places that kNN or RNN is around, and all objects that lead it, in the order of the server.
export function readQuery(told) {
  const centres = told.nearest?.places ?? [];
  return {
    ...told,
    region: told.region && readShape(told.region),
    extents: told.focal?.extents ?? [],
    centres,
    leaders: [told.focal, ...centres.filter((place) => !Array.isArray(place))].filter(Boolean),
  };
}

export function readShape({ type, coordinates, radius }) {
  if (type === "Circle") return { type: "circle", x: coordinates[0], y: coordinates[1], r: radius };
  if (type === "Polygon") {
    return { type: "polygon", rings: coordinates.map((ring) => ring.slice(0, -1)) };
  }
  const [x1, y1, x2, y2] = coordinates;
  return { type: "rectangle", x1, y1, x2, y2 };
}

export function kindOf(query) {
  if (query.kind === "trigger") return "trigger";
  if (query.kind !== "knn" && query.kind !== "range") return "other";
  return query.moving ? `moving ${query.kind}` : query.kind;
}

const number = (value) => Number(value.toPrecision(6)).toString();

// The parameters of a query in a few words.
export function aboutQuery(query) {
  if (query.nearest) return aboutNearest(query.nearest);
  if (query.focal) return `${query.extents.map(number).join(" × ")} around ${query.focal.key}`;
  if (query.kind === "trigger") return `tells ${query.columns.join(", ")}`;
  if (query.kind === "table") return `a table of queries on ${query.streams.join(", ")}`;
  if (!query.region) return query.streams.join(", ");
  const { type, ...rest } = query.region;
  if (type === "polygon") return `polygon of ${rest.rings[0].length} corners`;
  return `${type} ${Object.values(rest).map(number).join(", ")}`;
}

const TOTALS = { SUM: "all together", MAX: "the farthest", MIN: "the nearest" };

function aboutNearest({ k, reverse, total, places }) {
  const named = places.map((place) => (Array.isArray(place) ? place.map(number).join(", ")
    : place.key));
  if (reverse) return `with ${named} among their ${k} nearest`;
  if (total) return `${k} nearest to ${TOTALS[total]} of ${named.join("; ")}`;
  return `${k} nearest to ${named[0] ?? "each other"}`;
}
