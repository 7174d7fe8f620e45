// What the server tells of the map, and who wants to hear of it: streams, frames, queries, sizes,
// answers, alerts and figures.

import { call } from "./api.js";
import { Track, decode } from "./frames.js";
import { seconds } from "./gl.js";
import { readQuery, readShape } from "./queries.js";
import { Socket } from "./socket.js";
import { boundsOf, worldsOf } from "./space.js";

const ANSWERING = 5000;
const ANSWERS = { identify: "object", locate: "located", find: "found" };

// What a question and its answer have in common.
function askedKey({ type, stream, slot, key, text }) {
  const answer = ANSWERS[type] ?? type;
  return JSON.stringify([answer, stream, answer === "located" ? key : slot, text]);
}

export class Live extends EventTarget {
  constructor() {
    super();
    this.tracks = new Map();
    this.queries = new Map();
    this.kinds = {};
    this.focals = new Map();
    this.sizes = new Map();
    this.tables = new Map();
    this.answers = new Map();
    this.marked = [];
    this.asked = new Map();
    this.isPaused = false;
    this.past = null; // who shows the past instead of what comes, and answers for it
    this.then = null; // the past that is shown: its time as a text, answers and sizes by query
    this.isMarking = false;
    this.markedAt = -10;
    this.isDark = false;
    this.fitZoom = 0;
  }

  tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  on(type, listener) {
    this.addEventListener(type, (event) => listener(event.detail));
  }

  async load() {
    this.about = await call("/map/about");
    this.streams = this.about.streams;
    this.worlds = worldsOf(this.streams);
    const first = this.worlds.keys().next().value ?? "planar";
    this.choose(this.worlds.has(this.world?.space) ? this.world.space : first, false);
    this.tell("about", this.about);
  }

  choose(space, connects = true) {
    this.world = this.worlds.get(space) ?? worldsOf([{ space: "planar" }]).get("planar");
    this.tracks.clear();
    for (const stream of this.streams.filter((each) => each.space === space)) {
      this.tracks.set(stream.index, new Track(stream, this.world));
    }
    this.tell("world", this.world);
    if (connects) this.connect();
  }

  drawnTracks() {
    return [...this.tracks.values()];
  }

  streamOf(name) {
    return this.streams.find((stream) => stream.name.toLowerCase() === name.toLowerCase());
  }

  connect() {
    this.socket?.close();
    const names = this.drawnTracks().map((track) => encodeURIComponent(track.stream.name));
    this.socket = new Socket(() => `/map?streams=${names.join(",")}`, {
      onMessage: (data) => this.take(data),
      onState: (state, pause) => {
        this.tell("state", { state, pause });
        if (state !== "live") return;
        this.sendMarked();
        for (const { message } of this.asked.values()) this.send(message); // asked meanwhile
      },
      before: () => this.load(),
    });
  }

  // Something in what there is to see has changed: a stream came or went, or who is looking.
  async reload() {
    try {
      await this.load();
      this.connect();
    } catch (error) {
      this.tell("trouble", error);
    }
  }

  take(data) {
    if (typeof data !== "string") {
      if (!this.isPaused && !this.past) this.takeFrame(decode(data));
      return;
    }
    const message = JSON.parse(data);
    const takes = {
      queries: () => this.takeQueries(message),
      focals: () => !this.past && this.takeFocals(message.focals),
      regions: () => this.takeRegions(message),
      sizes: () => !this.past && this.takeSizes(message.sizes),
      stats: () => !this.isPaused && this.tell("stats", (this.stats = message)),
      answer: () => this.takeAnswer(message),
      object: () => this.asked.get(askedKey(message))?.settle(message),
      located: () => this.asked.get(askedKey(message))?.settle(message),
      found: () => this.asked.get(askedKey(message))?.settle(message),
      labels: () => this.tell("labels", message),
      classes: () => this.takeClasses(message),
      alerts: () => this.tell("alerts", message),
      streams: () => this.reload(),
      error: () => this.tell("trouble", message.error),
    };
    takes[message.type ?? (message.error ? "error" : "")]?.();
  }

  takeFrame(frame) {
    if (!this.tracks.has(frame.stream)) return;
    if (!this.tracks.get(frame.stream).stream.bounds && frame.count) this.measure(frame);
    const track = this.tracks.get(frame.stream);
    track.take(frame, performance.now());
    this.remark();
    this.tell("frame", track);
  }

  // A stream that does not say where its objects are is where they first are.
  measure({ stream, places }) {
    const found = this.streams.find((each) => each.index === stream);
    found.bounds = boundsOf(places);
    this.worlds = worldsOf(this.streams);
    this.choose(this.world.space, false);
  }

  // What is new or has changed, and what is gone; `whole` where nothing else is there.
  takeQueries({ queries, gone, whole, kinds }) {
    if (whole) this.queries.clear();
    for (const name of gone) this.queries.delete(name);
    for (const query of queries) this.queries.set(query.name, readQuery(query));
    for (const held of [this.sizes, this.focals, this.answers, this.tables]) {
      for (const name of held.keys()) if (!this.queries.has(name)) held.delete(name);
    }
    this.kinds = kinds;
    this.tell("queries", this.queries);
  }

  forget(name) {
    this.queries.delete(name);
    this.tell("queries", this.queries);
  }

  // The first of the objects that lead a query that is known to be gone, if any is.
  goneLeader(query) {
    const found = this.focals.get(query.name) ?? [];
    return query.leaders.find((_, i) => found[i] && found[i][0] !== null
      && (found[i][1] ?? null) === null);
  }

  takeFocals(focals) {
    for (const [name, found] of Object.entries(focals)) this.focals.set(name, found);
    this.tell("focals", this.focals);
  }

  // The regions of a query table: shapes that stay, and extents around objects.
  takeRegions({ query, shapes, stream, moving }) {
    this.tables.set(query, { shapes: shapes.map(readShape), stream, moving });
    this.tell("queries", this.queries);
  }

  takeSizes(sizes) {
    for (const [name, size] of Object.entries(sizes)) this.sizes.set(name, size);
    this.tell("sizes", this.sizes);
  }

  takeClasses({ stream, classes }) {
    const found = this.streams.find((each) => each.index === stream);
    if (found) found.classes = classes;
    this.tell("classes", found);
  }

  takeAnswer(message) {
    if (this.isPaused || this.past) return;
    this.answers.set(message.query, message.slots);
    this.remark();
    this.tell("answer", message.query);
  }

  // Which object a point is: its key and attributes, or null where it is gone by now.
  async identify(stream, slot) {
    const found = await this.ask({ type: "identify", stream, slot });
    return found?.key === undefined || found?.key === null ? null : found;
  }

  // A question and its answer; null where none comes in time.
  ask(message) {
    if (this.past) return this.past.answer(message);
    const key = askedKey(message);
    return new Promise((resolve) => {
      const settle = (found) => {
        clearTimeout(timer);
        this.asked.delete(key);
        before?.settle(found);
        resolve(found ?? null);
      };
      const before = this.asked.get(key); // who asked the same a moment ago hears of it as well
      const timer = setTimeout(settle, ANSWERING);
      this.asked.set(key, { settle, message });
      this.send(message);
    });
  }

  send(message) {
    if (this.past) this.past.send(message);
    else this.socket?.send(message);
  }

  next(type) {
    return new Promise((resolve) => {
      this.addEventListener(type, resolve, { once: true });
      setTimeout(resolve, ANSWERING);
    });
  }

  // Show the answers of these queries: [{name, mark}], where a mark is a number of a colour.
  highlight(marked) {
    this.marked = marked;
    const names = new Set(marked.map(({ name }) => name));
    for (const name of this.answers.keys()) if (!names.has(name)) this.answers.delete(name);
    this.isMarking = marked.length > 0;
    this.sendMarked();
    this.remark();
    this.tell("answer", null);
    this.tell("marked", marked);
  }

  sendMarked() {
    this.send({ type: "highlight", queries: this.marked.map(({ name }) => name) });
  }

  remark() {
    const bySlot = new Map([...this.tracks.keys()].map((index) => [index, new Map()]));
    for (const { name, mark } of this.marked) {
      for (const [index, slots] of Object.entries(this.answers.get(name) ?? {})) {
        const held = bySlot.get(Number(index));
        if (held) for (const slot of slots) held.set(slot, mark);
      }
    }
    for (const [index, track] of this.tracks) {
      if (track.mark(bySlot.get(index), seconds())) this.markedAt = seconds();
    }
  }

  setPaused(isPaused) {
    this.isPaused = isPaused;
    if (!isPaused) this.sendMarked();
    this.tell("paused", isPaused);
  }
}
