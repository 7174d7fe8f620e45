// The map: base map, regions of queries, what moves, objects. Views say how queries look.

import { call } from "./api.js";
import { emptyStyle, paintBasemap, showBasemap, showLand, showRoads } from "./basemap.js";
import { byId } from "./dom.js";
import { showGrid, showScale } from "./ground.js";
import { Labels } from "./labels.js";
import { MoversLayer } from "./movers.js";
import { PointsLayer } from "./points.js";
import { boundsOf } from "./space.js";
import { Trails } from "./trails.js";

const MOST_MOVING = 3000;
const RING = 11;
const CHOSEN = 16;
const NEAREST = 4.5;

export class Scene {
  constructor(live) {
    this.live = live;
    this.look = () => null;
    this.drawing = null;
    this.chosen = null;
    this.isTouched = false;
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
    this.labels = new Labels(live, this);
    this.trails = new Trails(live, this);
    const touched = ({ originalEvent }) => (this.isTouched ||= Boolean(originalEvent));
    for (const event of ["dragstart", "zoomstart"]) map.on(event, touched);
    for (const event of ["moveend", "resize"]) map.on(event, () => this.showWhere());
    live.on("world", () => this.showWorld());
    live.on("queries", () => this.showQueries());
    for (const event of ["frame", "focals", "answer"]) live.on(event, () => this.later());
    live.on("frame", () => this.fitFirst());
    map.on("zoomend", () => this.later());
    map.on("mousemove", ({ lngLat }) => this.readOut(lngLat));
    map.on("mouseout", () => (byId("readout").textContent = ""));
  }

  showWhere() {
    if (!this.live.world) return;
    if (this.seen === `${this.live.world.space} ${this.live.world.bounds}`) {
      this.place = this.where();
    }
    this.labels.marks = showGrid(this.map, this.live.world);
    showScale(this.map, this.live.world);
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
    paintBasemap(this.map, isDark, this.live.world?.isPlanar ?? true);
    this.map.triggerRepaint();
  }

  async showWorld() {
    const { map, live } = this;
    const { world } = live;
    showRoads(map, world, []);
    showLand(map, live.about?.land, world.isPlanar);
    if (this.space !== world.space) [this.begins, this.isTouched] = [true, false];
    this.space = world.space;
    const seen = `${world.space} ${world.bounds}`;
    const isNew = this.seen !== seen;
    this.seen = seen;
    if (isNew && this.isTouched) this.keepPlace(); // stay where one has gone to
    else if (isNew) {
      this.begins = true;
      this.fit(false);
    }
    this.showWhere();
    this.showQueries();
    if (!world.isPlanar) await showBasemap(map, live.about.basemap);
    paintBasemap(map, live.isDark, world.isPlanar);
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
    const whole = this.cameraFor(world.bounds);
    if (!whole) return;
    this.live.fitZoom = whole.zoom;
    const data = this.dataBounds();
    this.map[moves ? "easeTo" : "jumpTo"]((data && this.cameraFor(data)) ?? whole);
  }

  cameraFor([x1, y1, x2, y2]) {
    const { world } = this.live;
    const box = [world.toLngLat(x1, y1), world.toLngLat(x2, y2)];
    const maxZoom = world.isPlanar ? 22 : 15;
    return this.map.cameraForBounds(box, { padding: 40, maxZoom });
  }

  // Where all is that a client may see: the regions of its queries, and the objects in its answers.
  // An operator sees where a stream says that its objects are.
  dataBounds() {
    const { live } = this;
    if (live.about?.you.role === "admin") return null;
    const places = [];
    for (const { query } of this.shown()) {
      places.push(...this.regionCorners(query).flat());
      for (const path of this.centrePaths(query)) places.push(...this.placeOf(path.slice(2)));
    }
    for (const track of live.drawnTracks()) {
      for (const slot of track.slots) {
        if (track.lives(slot)) places.push(...this.placeOf(track.path(slot).subarray(2)));
      }
    }
    return places.length ? boundsOf(places) : null;
  }

  // The first view shows the data as soon as there is some, unless one has gone elsewhere.
  fitFirst() {
    if (!this.begins || this.isTouched) return;
    if (this.live.about?.you.role !== "admin" && !this.dataBounds()) return;
    this.begins = false;
    this.fit(false);
  }

  placeOf([x, y]) {
    const { world } = this.live;
    return world.fromMercator(x + world.origin[0], y + world.origin[1]);
  }

  choose(chosen) {
    this.chosen = chosen;
    this.trails.draw();
    this.later();
  }

  // Go along with an object: as it moves between two frames, so does the middle of the map.
  moveTo(track, slot) {
    const center = this.live.world.toLngLat(...this.placeOf(track.path(slot).subarray(2)));
    const duration = Math.max(0, track.duration * (1 - track.progress(performance.now())));
    this.isTouched = true;
    this.map.easeTo({ center, duration, easing: (part) => part, essential: true });
  }

  goToObject(track, slot) {
    const center = this.live.world.toLngLat(...this.placeOf(track.path(slot).subarray(2)));
    this.isTouched = true;
    const zoom = Math.max(this.map.getZoom(), this.live.fitZoom + 1.5);
    this.map.easeTo({ center, zoom, duration: 600 });
  }

  // What the middle of the map shows, and how wide it is: for a link to the same view.
  where() {
    const { world } = this.live;
    const [x, y] = world.fromLngLat(this.map.getCenter());
    const ends = this.ends();
    return [x, y, ends[1] - ends[0]];
  }

  ends() {
    const { clientWidth, clientHeight } = this.map.getContainer();
    return [0, clientWidth].map((at) => {
      const { lng, lat } = this.map.unproject([at, clientHeight / 2]);
      return this.live.world.isPlanar ? this.live.world.fromLngLat({ lng, lat })[0] : lng;
    });
  }

  goWhere([x, y, wide]) {
    const { world } = this.live;
    const span = world.isPlanar ? wide * world.scale : wide / 360;
    const zoom = Math.log2(this.map.getContainer().clientWidth / (512 * span));
    this.isTouched = true;
    this.begins = false;
    this.place = [x, y, wide];
    this.map.jumpTo({ center: world.toLngLat(x, y), zoom });
  }

  // The plane may be measured anew, and then the same place is elsewhere on the map.
  keepPlace() {
    const whole = this.cameraFor(this.live.world.bounds);
    if (whole) this.live.fitZoom = whole.zoom;
    if (this.place) this.goWhere(this.place);
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
    this.labels.setNames(this.names());
    this.later();
  }

  // The names of regions that stay, above the middle of each.
  names() {
    const { world } = this.live;
    const fixed = ({ centres }) => centres.filter((place) => Array.isArray(place));
    return this.shown().filter(({ query }) => query.region || fixed(query).length).map(
      ({ query, strong }) => {
        const corners = query.region ? world.rings(query.region)[0] : fixed(query);
        const top = Math.max(...corners.map(([, y]) => y));
        const highest = corners.filter(([, y]) => y === top).map(([x]) => x);
        const named = query.region_name ? `${query.name} (${query.region_name})` : query.name;
        return { text: named, strong, at: [(Math.min(...highest) + Math.max(...highest)) / 2, top] };
      });
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
      const around = this.regionPath(query);
      const centres = this.centrePaths(query);
      for (const path of around ? [around, ...centres] : centres) {
        regions.push({ path, ring: circleOf(RING * pixel, 20), colour, strong, filled: false });
      }
      if (around) {
        const outline = this.offsets(around, query.extents, steps);
        regions.push({ path: around, ring: outline, colour, strong, filled: true });
      }
      if (strong) for (const path of centres) links.push(...this.links(query, path, colour));
    }
    const track = this.chosen && live.tracks.get(this.chosen.stream);
    if (track?.lives(this.chosen.slot)) {
      regions.push({ path: track.path(this.chosen.slot), ring: circleOf(CHOSEN * pixel, 32),
        colour: live.isDark ? "#ffffff" : "#1b2733", strong: true, filled: false });
    }
    this.movers.set(live.world, regions, links);
  }

  // The regions of a query table that move with objects; those of then have other slots.
  tableRegions(query, { colour, strong }) {
    const table = this.live.tables.get(query.name);
    if (!table || !this.live.tracks.has(table.stream)) return [];
    const { past } = this.live;
    const steps = table.moving.length > 100 ? 16 : 40;
    return table.moving.slice(0, MOST_MOVING).map(([slot, key, ...extents]) => {
      const path = this.objectPath(table.stream, past ? past.slotOf(table.stream, key) : slot);
      return path && { path, ring: this.offsets(path, extents, steps), colour, strong,
        filled: true };
    }).filter(Boolean);
  }

  // From where to where an object moves, or null if it is not there.
  objectPath(index, slot) {
    const track = this.live.tracks.get(index);
    const isThere = slot !== undefined && slot !== null && track?.lives(slot);
    return isThere ? track.path(slot) : null;
  }

  leaderPath({ name }, i) {
    const [index, slot] = this.live.focals.get(name)?.[i] ?? [];
    return this.objectPath(index, slot);
  }

  // The path of the object that a region moves with.
  regionPath(query) {
    return query.focal ? this.leaderPath(query, 0) : null;
  }

  // The paths of all that kNN or RNN is around: points stay where they are.
  centrePaths(query) {
    const { world } = this.live;
    return query.centres.map((place) => {
      if (!Array.isArray(place)) return this.leaderPath(query, query.leaders.indexOf(place));
      const [x, y] = world.toMercator(...place).map((value, i) => value - world.origin[i]);
      return [x, y, x, y];
    }).filter(Boolean);
  }

  // The corners of the region of a query, wherever it is now.
  regionCorners(query) {
    const { world } = this.live;
    if (query.region) return world.rings(query.region)[0];
    const path = this.regionPath(query);
    return path ? world.around(this.placeOf(path.slice(2)), query.extents) : [];
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

  // Go to where a query looks: its region, and what is around its places.
  zoomTo(query) {
    const { world } = this.live;
    const near = world.isPlanar ? world.size / 25 : 1500;
    const corners = [...this.regionCorners(query), ...this.centrePaths(query).flatMap((path) =>
      world.around(this.placeOf(path.slice(2)), [near, near]))];
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

const circleOf = (radius, steps) => Array.from({ length: steps }, (_, i) => {
  const angle = (2 * Math.PI * i) / steps;
  return [Math.cos(angle) * radius, Math.sin(angle) * radius];
});

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
