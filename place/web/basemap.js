// What lies under the objects: land and borders that the server has, roads, or a base map of tiles.

import { DRAWING } from "./colours.js";
import { registerPmtiles } from "./pmtiles.js";

const COLOURS = {
  light: {
    ground: "#f4f6f8", grid: "#dde3e8", road: "#c3ccd6", major: "#a9b5c2", water: "#cfe3ee",
    sea: "#dfe8ee", land: "#f7f7f4", shore: "#a3b4c0", border: "#b9c0c6",
  },
  dark: {
    ground: "#12181f", grid: "#232e38", road: "#2c3845", major: "#3e4d5c", water: "#17303f",
    sea: "#0f1822", land: "#202a33", shore: "#42525f", border: "#39444e",
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
        paint: { "fill-color": DRAWING, "fill-opacity": 0.14 } },
      { id: "drawing-line", type: "line", source: "drawing",
        paint: { "line-color": DRAWING, "line-width": 2, "line-dasharray": [2, 1.5] } },
      { id: "drawing-point", type: "circle", source: "drawing", filter: ["==", "$type", "Point"],
        paint: { "circle-radius": 5, "circle-color": "#fff", "circle-stroke-color": DRAWING,
          "circle-stroke-width": 2 } },
    ],
  };
}

export function paintBasemap(map, isDark, isPlanar) {
  const colours = COLOURS[isDark ? "dark" : "light"];
  const hasLand = !isPlanar && map.getLayer("land");
  map.setPaintProperty("ground", "background-color", hasLand ? colours.sea : colours.ground);
  for (const [id, property, colour] of hasLand ? [["land", "fill-color", colours.land],
    ["lakes", "fill-color", colours.sea], ["islands", "fill-color", colours.land],
    ["shore", "line-color", colours.shore], ["borders", "line-color", colours.border]] : []) {
    map.setPaintProperty(id, property, colour);
  }
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

const LAND = ["land", "lakes", "islands", "shore", "borders"];

// Land, lakes and borders, which the server cuts into tiles; there is none of them on the plane.
export function showLand(map, deepest, isPlanar) {
  if (!map.getSource("land")) {
    if (isPlanar || deepest === null || deepest === undefined) return;
    const tiles = [`${location.origin}/map/land/{z}/{x}/{y}`];
    map.addSource("land", { type: "vector", tiles, maxzoom: deepest });
    const layer = (id, type, paint, from = id) => map.addLayer(
      { id, type, source: "land", "source-layer": from, paint }, map.getLayer("base-tiles")
        ? "base-tiles" : "grid");
    layer("land", "fill", {});
    layer("lakes", "fill", {});
    layer("islands", "fill", {});
    layer("shore", "line", { "line-width": 0.9 }, "land");
    layer("borders", "line", { "line-width": 0.9, "line-dasharray": [4, 3] });
  }
  for (const id of LAND) map.setLayoutProperty(id, "visibility", isPlanar ? "none" : "visible");
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
