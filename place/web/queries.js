// Queries as the server describes them, and in words.

// A query with its region as the map draws it: a rectangle, circle or polygon, or a point.
export function readQuery(told) {
  const region = told.region;
  const isPoint = region?.type === "Nearest";
  return {
    ...told,
    region: isPoint || !region ? null : readShape(region),
    point: isPoint ? region.coordinates : null,
    k: told.focal?.k ?? region?.k ?? null,
    extents: told.focal?.extents ?? [],
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

// The parameters of a query in a few words.
export function aboutQuery(query) {
  const number = (value) => Number(value.toPrecision(6)).toString();
  if (query.kind === "knn") {
    return query.focal ? `${query.k} nearest to ${query.focal.key}`
      : `${query.k} nearest to ${(query.point ?? []).map(number).join(", ")}`;
  }
  if (query.focal) return `${query.extents.map(number).join(" × ")} around ${query.focal.key}`;
  if (query.kind === "trigger") return `tells ${query.columns.join(", ")}`;
  if (query.kind === "table") return `a table of queries on ${query.streams.join(", ")}`;
  if (!query.region) return query.streams.join(", ");
  const { type, ...rest } = query.region;
  if (type === "polygon") return `polygon of ${rest.rings[0].length} corners`;
  return `${type} ${Object.values(rest).map(number).join(", ")}`;
}
