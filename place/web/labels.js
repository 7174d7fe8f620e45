// Words on the map: names of regions, labels of objects, and the numbers of grid lines. They are
// painted on a canvas above the map, so whatever somebody called a thing is only ever ink.

import { showValue } from "./dom.js";
import { viewOf } from "./ground.js";

const MOST_LABELLED = 250;
const MOST_NAMES = 60;
const PAUSE = 700;
const LONGEST = 28;
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

const shorten = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

export class Labels {
  constructor(live, scene) {
    Object.assign(this, { live, scene });
    this.column = "";
    this.texts = new Map();
    this.marks = [];
    this.names = [];
    this.painted = [];
    this.askedAt = 0;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "labels";
    this.canvas.setAttribute("aria-hidden", "true");
    scene.map.getCanvasContainer().append(this.canvas);
    scene.map.on("render", () => this.paint());
    scene.map.on("moveend", () => this.ask());
    live.on("frame", () => this.ask());
    live.on("labels", (message) => this.take(message));
    live.on("past", () => this.texts.clear()); // slots are others there
  }

  choose(column) {
    this.column = column;
    this.texts.clear();
    this.askedAt = 0;
    this.ask();
    this.scene.map.triggerRepaint();
  }

  columns() {
    const found = new Set();
    for (const { stream } of this.live.drawnTracks()) {
      for (const { name } of stream.columns) found.add(name);
    }
    return [...found];
  }

  // What stands in the column, of the objects that are to be seen.
  ask() {
    clearTimeout(this.timer);
    if (!this.column || this.live.isPaused) return;
    const early = this.live.past ? 0 : this.askedAt + PAUSE - performance.now();
    if (early > 0) {
      this.timer = setTimeout(() => this.ask(), early);
      return;
    }
    this.askedAt = performance.now();
    for (const track of this.live.drawnTracks()) {
      const { columns, index } = track.stream;
      if (!columns.some(({ name }) => name === this.column)) continue;
      const slots = this.inView(track);
      const message = { type: "labels", stream: index, column: this.column, slots };
      if (slots.length) this.live.send(message);
      else this.texts.delete(index);
    }
  }

  // Objects of answers first, as many as may have a label.
  inView(track) {
    const { map } = this.scene;
    const { world } = track;
    const [x1, y1, x2, y2] = viewOf(map, world);
    const [left, bottom] = world.toMercator(x1, y1);
    const [right, top] = world.toMercator(x2, y2);
    const [ox, oy] = world.origin;
    const marked = [];
    const others = [];
    for (let i = 0; i < track.count; i++) {
      const slot = track.slots[i];
      const x = track.paths[slot * 4 + 2] + ox;
      const y = track.paths[slot * 4 + 3] + oy;
      if (x < left || x > right || y < top || y > bottom) continue;
      if (track.marks[slot]) marked.push(slot);
      else if (others.length < MOST_LABELLED && !track.hidden.has(track.classOf[slot])) {
        others.push(slot);
      }
    }
    return [...marked, ...others].slice(0, MOST_LABELLED);
  }

  take({ stream, column, slots, texts }) {
    if (column !== this.column) return;
    const type = this.live.tracks.get(stream)?.stream.columns
      .find(({ name }) => name === column)?.type;
    this.texts.set(stream, new Map(slots.map((slot, i) =>
      [slot, texts[i] === null ? "" : shorten(showValue(texts[i], type))])));
    this.scene.map.triggerRepaint();
  }

  // Names of regions: [{text, colour, at: [x, y] in the world, strong}].
  setNames(names) {
    this.names = names.sort((a, b) => Boolean(b.strong) - Boolean(a.strong)).slice(0, MOST_NAMES);
  }

  paint() {
    const { canvas } = this;
    const { map } = this.scene;
    const ratio = map.getPixelRatio();
    const { clientWidth: width, clientHeight: height } = map.getContainer();
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      [canvas.width, canvas.height] = [width * ratio, height * ratio];
      [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.painted = [];
    if (!this.live.world) return;
    this.pen = pen;
    this.taken = [];
    this.paintChosen();
    for (const name of this.names) this.paintName(name);
    this.paintObjects();
    this.paintMarks(width, height);
  }

  ink(isQuiet = false) {
    if (this.live.isDark) return [isQuiet ? "#9aa8b6" : "#e6edf3", "#12181f"];
    return [isQuiet ? "#5b6876" : "#1b2733", "#ffffff"];
  }

  // Write a text unless it would stand on another one.
  write(text, x, y, { size = 11, weight = 500, isQuiet = false, over = false } = {}) {
    if (!text) return;
    const { pen } = this;
    pen.font = `${weight} ${size}px ${FONT}`;
    const half = pen.measureText(text).width / 2 + 2;
    const box = [x - half, y - size * 0.7, x + half, y + size * 0.7];
    const meets = (other) =>
      box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3];
    if (!over && this.taken.some(meets)) return;
    this.taken.push(box);
    const [fill, halo] = this.ink(isQuiet);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 3;
    pen.strokeStyle = halo;
    pen.strokeText(text, x, y);
    pen.fillStyle = fill;
    pen.fillText(text, x, y);
    this.painted.push(text);
  }

  onScreen(track, slot, now) {
    const at = track.at(slot, now);
    if (!at) return null;
    const { world } = track;
    const [x, y] = world.fromMercator(at[0] + world.origin[0], at[1] + world.origin[1]);
    return this.scene.map.project(world.toLngLat(x, y));
  }

  paintChosen() {
    const { chosen } = this.scene;
    const track = chosen && this.live.tracks.get(chosen.stream);
    const at = track && this.onScreen(track, chosen.slot, performance.now());
    if (at) this.write(shorten(chosen.text), at.x, at.y - 24, { size: 13, weight: 700, over: true });
  }

  paintName({ text, at, strong }) {
    const { x, y } = this.scene.map.project(this.live.world.toLngLat(...at));
    this.write(shorten(text), x, y - 9, { size: strong ? 13 : 11, weight: strong ? 700 : 600 });
  }

  paintObjects() {
    if (!this.column) return;
    const now = performance.now();
    for (const [index, texts] of this.texts) {
      const track = this.live.tracks.get(index);
      if (!track) continue;
      for (const [slot, text] of texts) {
        if (this.scene.chosen?.stream === index && this.scene.chosen.slot === slot) continue;
        const at = this.onScreen(track, slot, now);
        if (at) this.write(text, at.x, at.y + 15);
      }
    }
  }

  paintMarks(width, height) {
    const { map } = this.scene;
    const { world } = this.live;
    const [mx, my] = world.fromLngLat(map.getCenter());
    for (const { x, y, text } of this.marks) {
      const at = map.project(world.toLngLat(x ?? mx, y ?? my));
      if (x !== undefined && at.x > 30 && at.x < width - 60) {
        this.write(text, at.x, 9, { size: 10, isQuiet: true });
      } else if (y !== undefined && at.y > 24 && at.y < height - 12) {
        this.pen.font = `500 10px ${FONT}`;
        this.write(text, this.pen.measureText(text).width / 2 + 5, at.y,
          { size: 10, isQuiet: true });
      }
    }
  }
}
