// What lies under the objects: a grid of the plane, roads, or a base map of tiles.

import { registerPmtiles } from "./pmtiles.js";

const LINES = 10;
const COLOURS = {
  light: {
    ground: "#f4f6f8", grid: "#dfe5ea", road: "#c3ccd6", major: "#a9b5c2", water: "#cfe3ee",
  },
  dark: {
    ground: "#12181f", grid: "#1f2933", road: "#2c3845", major: "#3e4d5c", water: "#17303f",
  },
};
const WIDTHS = [3, 2.6, 2.2, 1.7, 1.3, 0.9, 0.7];

const empty = { type: "FeatureCollection", features: [] };

export function emptyStyle() {
  const source = () => ({ type: "geojson", data: empty });
  const ifStrong = (yes, no) => ["case", ["get", "strong"], yes, no];
  const width = (times) => ["*", times, ["get", "width"]];
  return {
    version: 8,
    sources: { grid: source(), roads: source(), regions: source(), drawing: source() },
    layers: [
      { id: "ground", type: "background" },
      { id: "grid", type: "line", source: "grid", paint: { "line-width": 1 } },
      { id: "roads", type: "line", source: "roads",
        layout: { "line-cap": "round", "line-join": "round" },
        paint: { "line-width": ["interpolate", ["exponential", 1.5], ["zoom"],
          6, width(0.35), 9, width(1), 14, width(6)] } },
      { id: "regions-fill", type: "fill", source: "regions",
        paint: { "fill-color": ["get", "colour"], "fill-opacity": ifStrong(0.2, 0.07) } },
      { id: "regions-line", type: "line", source: "regions",
        paint: { "line-color": ["get", "colour"], "line-width": ifStrong(2.6, 1.3),
          "line-opacity": ifStrong(1, 0.75) } },
      { id: "drawing-fill", type: "fill", source: "drawing", filter: ["==", "$type", "Polygon"],
        paint: { "fill-color": "#e03168", "fill-opacity": 0.14 } },
      { id: "drawing-line", type: "line", source: "drawing",
        paint: { "line-color": "#e03168", "line-width": 2, "line-dasharray": [2, 1.5] } },
      { id: "drawing-point", type: "circle", source: "drawing", filter: ["==", "$type", "Point"],
        paint: { "circle-radius": 5, "circle-color": "#fff", "circle-stroke-color": "#e03168",
          "circle-stroke-width": 2 } },
    ],
  };
}

export function paintBasemap(map, isDark) {
  const colours = COLOURS[isDark ? "dark" : "light"];
  map.setPaintProperty("ground", "background-color", colours.ground);
  map.setPaintProperty("grid", "line-color", colours.grid);
  const isMajor = ["<=", ["get", "class"], 2];
  map.setPaintProperty("roads", "line-color", ["case", isMajor, colours.major, colours.road]);
  for (const [id, property, colour] of [["base-water", "fill-color", colours.water],
    ["base-roads", "line-color", colours.road]]) {
    if (map.getLayer(id)) map.setPaintProperty(id, property, colour);
  }
  if (map.getLayer("base-tiles")) {
    map.setPaintProperty("base-tiles", "raster-brightness-max", isDark ? 0.55 : 1);
  }
}

export function showGrid(map, world) {
  map.getSource("grid").setData(world.isPlanar ? gridOf(world) : empty);
}

function gridOf(world) {
  const [x1, y1, x2, y2] = world.bounds;
  const lines = [];
  for (let i = 0; i <= LINES; i++) {
    const x = x1 + ((x2 - x1) * i) / LINES;
    const y = y1 + ((y2 - y1) * i) / LINES;
    lines.push([world.toLngLat(x, y1), world.toLngLat(x, y2)]);
    lines.push([world.toLngLat(x1, y), world.toLngLat(x2, y)]);
  }
  const geometry = { type: "MultiLineString", coordinates: lines };
  return { type: "Feature", properties: {}, geometry };
}

// Roads come in the coordinates of their stream.
export function showRoads(map, world, networks) {
  const onMap = (line) => line.map(([x, y]) => world.toLngLat(x, y));
  const roads = networks.flatMap((network) => network.features);
  const features = roads.map(({ properties, geometry }) => ({
    type: "Feature",
    properties: { class: properties.class, width: WIDTHS[properties.class] ?? 1 },
    geometry: { ...geometry, coordinates: geometry.coordinates.map(onMap) },
  }));
  map.getSource("roads").setData({ type: "FeatureCollection", features });
}

// A base map is an address with {z}/{x}/{y}, or a PMTiles archive of pictures or of vectors.
export async function showBasemap(map, url) {
  if (map.getSource("base") || !url) return;
  const isArchive = url.startsWith("pmtiles://") || /\.pmtiles(\?|$)/.test(url);
  const archive = isArchive ? await registerPmtiles(url.replace("pmtiles://", "")) : null;
  const isVector = archive?.isVector ?? false;
  const tiles = [archive ? archive.template : url];
  map.addSource("base", isVector
    ? { type: "vector", tiles, maxzoom: archive.maxZoom }
    : { type: "raster", tiles, tileSize: 256, maxzoom: archive?.maxZoom ?? 19 });
  const layers = isVector
    ? [{ id: "base-water", type: "fill", source: "base", "source-layer": "water" },
      { id: "base-roads", type: "line", source: "base",
        "source-layer": archive.layers.includes("roads") ? "roads" : "transportation" }]
    : [{ id: "base-tiles", type: "raster", source: "base" }];
  for (const layer of layers) map.addLayer(layer, "grid");
}
