// The map: base map, regions of queries, what moves, objects. Views say how queries look.

import { call } from "./api.js";
import { emptyStyle, paintBasemap, showBasemap, showGrid, showRoads } from "./basemap.js";
import { byId } from "./dom.js";
import { MoversLayer } from "./movers.js";
import { PointsLayer } from "./points.js";

const MOST_MOVING = 3000;
const RING = 11;
const NEAREST = 4.5;

export class Scene {
  constructor(live) {
    this.live = live;
    this.look = () => null;
    this.drawing = null;
    this.roads = new Map();
    this.map = new maplibregl.Map({
      container: "map",
      style: emptyStyle(),
      center: [0, 0],
      zoom: 6,
      maxZoom: 22,
      dragRotate: false,
      pitchWithRotate: false,
      attributionControl: false,
      renderWorldCopies: false,
      fadeDuration: 0,
    });
    this.map.touchZoomRotate.disableRotation();
    this.map.keyboard.disableRotation();
    this.map.addControl(new maplibregl.NavigationControl({ showCompass: false }), "top-right");
    this.map.addControl(fitControl(() => this.fit()), "top-right");
    this.ready = new Promise((resolve) => this.map.once("load", resolve)).then(() => this.begin());
  }

  begin() {
    const { map, live } = this;
    this.movers = new MoversLayer(live);
    this.points = new PointsLayer(live);
    map.addLayer(this.points, "regions-line");
    map.addLayer(this.movers, "drawing-fill");
    live.on("world", () => this.showWorld());
    live.on("queries", () => this.showQueries());
    for (const event of ["frame", "focals", "answer"]) live.on(event, () => this.later());
    map.on("zoomend", () => this.later());
    map.on("mousemove", ({ lngLat }) => this.readOut(lngLat));
    map.on("mouseout", () => (byId("readout").textContent = ""));
  }

  readOut(lngLat) {
    const { world } = this.live;
    const [x, y] = world.fromLngLat(lngLat);
    const names = world.isPlanar ? ["x", "y"] : ["lon", "lat"];
    byId("readout").textContent =
      `${names[0]} ${world.format(x)}   ${names[1]} ${world.format(y)}`;
  }

  paint(isDark) {
    this.live.isDark = isDark;
    paintBasemap(this.map, isDark);
    this.map.triggerRepaint();
  }

  async showWorld() {
    const { map, live } = this;
    const { world } = live;
    showGrid(map, world);
    showRoads(map, world, []);
    const seen = `${world.space} ${world.bounds}`;
    if (this.seen !== seen) this.fit(false); // and otherwise stay where one has gone to
    this.seen = seen;
    this.showQueries();
    if (!world.isPlanar) {
      await showBasemap(map, live.about.basemap);
      paintBasemap(map, live.isDark);
    }
    const networks = [];
    for (const { stream } of live.drawnTracks().filter((track) => track.stream.roads)) {
      if (!this.roads.has(stream.name)) {
        this.roads.set(stream.name, await call(`/map/roads/${encodeURIComponent(stream.name)}`));
      }
      networks.push(this.roads.get(stream.name));
    }
    if (live.world === world) showRoads(map, world, networks);
  }

  fit(moves = true) {
    const { world } = this.live;
    const [x1, y1, x2, y2] = world.bounds;
    const box = [world.toLngLat(x1, y1), world.toLngLat(x2, y2)];
    const camera = this.map.cameraForBounds(box, { padding: 24 });
    if (!camera) return;
    this.live.fitZoom = camera.zoom;
    this.map[moves ? "easeTo" : "jumpTo"](camera);
  }

  // `look(query)` gives {colour, strong} or null for a query that is not shown.
  setLook(look) {
    this.look = look;
    this.showQueries();
  }

  shown() {
    const { live } = this;
    const found = [];
    for (const query of live.queries.values()) {
      if (live.streamOf(query.streams[0] ?? "")?.space !== live.world?.space) continue;
      const look = this.look(query);
      if (look) found.push({ query, ...look });
    }
    return found;
  }

  showQueries() {
    if (!this.movers || !this.live.world) return;
    const { world } = this.live;
    const features = [];
    for (const { query, colour, strong } of this.shown()) {
      const table = this.live.tables.get(query.name);
      const shapes = query.region ? [query.region] : (table?.shapes ?? []);
      for (const shape of shapes) {
        const coordinates = world.rings(shape).map((ring) =>
          [...ring, ring[0]].map(([x, y]) => world.toLngLat(x, y)));
        features.push({ type: "Feature", properties: { colour, strong: Boolean(strong) },
          geometry: { type: "Polygon", coordinates } });
      }
    }
    this.map.getSource("regions").setData({ type: "FeatureCollection", features });
    this.later();
  }

  // Several causes of a change make one drawing.
  later() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.showMoving();
    });
  }

  showMoving() {
    const { live } = this;
    if (!live.world || !this.movers) return;
    const shown = this.shown().filter(({ query }) => query.moving || query.kind === "knn");
    shown.sort((a, b) => Boolean(b.strong) - Boolean(a.strong));
    const regions = shown.flatMap(({ query, ...look }) => this.tableRegions(query, look));
    const steps = shown.length > 300 ? 20 : 64;
    const pixel = 1 / (512 * 2 ** this.map.getZoom());
    const links = [];
    for (const { query, colour, strong } of shown.slice(0, MOST_MOVING)) {
      const path = this.pathOf(query);
      if (!path) continue;
      const ring = Array.from({ length: 20 }, (_, i) =>
        [Math.cos(i * Math.PI / 10) * RING * pixel, Math.sin(i * Math.PI / 10) * RING * pixel]);
      regions.push({ path, ring, colour, strong, filled: false });
      if (query.extents?.length) {
        const outline = this.offsets(path, query.extents, steps);
        regions.push({ path, ring: outline, colour, strong, filled: true });
      }
      if (query.kind === "knn" && strong) links.push(...this.links(query, path, colour));
    }
    this.movers.set(live.world, regions, links);
  }

  // The regions of a query table that move with objects.
  tableRegions(query, { colour, strong }) {
    const table = this.live.tables.get(query.name);
    const track = this.live.tracks.get(table?.stream);
    if (!track) return [];
    const steps = table.moving.length > 100 ? 16 : 40;
    return table.moving.slice(0, MOST_MOVING).filter(([slot]) => track.lives(slot))
      .map(([slot, ...extents]) => {
        const path = track.path(slot);
        return { path, ring: this.offsets(path, extents, steps), colour, strong, filled: true };
      });
  }

  // From where to where the middle of a query moves: its focal object's path, or a fixed place.
  pathOf(query) {
    const { live } = this;
    if (query.moving) {
      const [index, slot] = live.focals.get(query.name) ?? [];
      const track = live.tracks.get(index);
      return slot !== undefined && slot !== null && track?.lives(slot) ? track.path(slot) : null;
    }
    if (!query.point) return null;
    const [ox, oy] = live.world.origin;
    const [x, y] = live.world.toMercator(...query.point);
    return [x - ox, y - oy, x - ox, y - oy];
  }

  offsets([, , tx, ty], extents, steps) {
    const { world } = this.live;
    const [ox, oy] = world.origin;
    const middle = world.fromMercator(tx + ox, ty + oy);
    return world.around(middle, extents, steps).map(([x, y]) => {
      const [mx, my] = world.toMercator(x, y);
      return [mx - ox - tx, my - oy - ty];
    });
  }

  links(query, path, colour) {
    const found = [];
    for (const [index, slots] of Object.entries(this.live.answers.get(query.name) ?? {})) {
      const track = this.live.tracks.get(Number(index));
      if (!track) continue;
      for (const slot of slots) {
        if (track.lives(slot)) found.push({ from: path, to: track.path(slot), colour });
      }
    }
    return found;
  }

  // Go to where a query looks: its region, its place, or around its focal object.
  zoomTo(query) {
    const { world } = this.live;
    const path = this.pathOf(query);
    let corners = query.region ? world.rings(query.region)[0] : [];
    if (path) {
      const middle = world.fromMercator(path[2] + world.origin[0], path[3] + world.origin[1]);
      const near = world.isPlanar ? world.size / 25 : 1500;
      corners = world.around(middle, query.extents.length ? query.extents : [near, near]);
    }
    if (corners.length) this.goTo(corners);
  }

  // Go to where places lie, but not nearer than one can see what is around them; with so many
  // pixels left free beside them on the right.
  goTo(corners, beside = 0) {
    const { world } = this.live;
    const box = new maplibregl.LngLatBounds();
    for (const [x, y] of corners) box.extend(world.toLngLat(x, y));
    const maxZoom = this.live.fitZoom + NEAREST;
    const { clientWidth, clientHeight } = this.map.getContainer();
    const edge = Math.min(80, clientWidth / 6, clientHeight / 6);
    const right = edge + Math.min(beside, clientWidth / 3);
    const padding = { top: edge, bottom: edge, left: edge, right };
    this.map.fitBounds(box, { padding, duration: 600, maxZoom });
  }

  // What is being drawn: a shape with numbers, as the composer has them.
  showDrawing(shape) {
    this.drawing = shape;
    const { world } = this.live;
    const features = [];
    const feature = (type, coordinates) =>
      features.push({ type: "Feature", properties: {}, geometry: { type, coordinates } });
    if (shape?.type === "point") feature("Point", world.toLngLat(shape.x, shape.y));
    else if (shape) {
      const corners = world.rings(shape)[0].map(([x, y]) => world.toLngLat(x, y));
      if (corners.length >= 3) feature("Polygon", [[...corners, corners[0]]]);
      else if (corners.length === 2) feature("LineString", corners);
      if (shape.type === "polygon") corners.forEach((corner) => feature("Point", corner));
    }
    this.map.getSource("drawing").setData({ type: "FeatureCollection", features });
  }
}

function fitControl(onFit) {
  return {
    onAdd() {
      const box = document.createElement("div");
      box.className = "maplibregl-ctrl maplibregl-ctrl-group";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "fit";
      button.title = "Show all";
      button.setAttribute("aria-label", "Show all");
      button.textContent = "⤢";
      button.addEventListener("click", onFit);
      box.append(button);
      this.box = box;
      return box;
    },
    onRemove() {
      this.box.remove();
    },
  };
}
