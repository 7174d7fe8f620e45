// The past on the map: a slider over what the archives have. Objects and their labels, the answers of
// queries on the map and in lists, how many rows they have, alerts, and the card and trail of the
// chosen object are shown as they were; live frames wait until one comes back.

import { call, describeError } from "./api.js";
import { byId } from "./dom.js";
import { PastAlerts } from "./past_alerts.js";
import { keyLiteral, quoteName, quoteText } from "./sql.js";
import { notBefore, textOf, toSecond } from "./times.js";

const RANGES = 5000;
const STEP = 500;
const TRAIL = 3600e3;
const OTHER = 255;
const MOST_FOUND = 20;
const MOST_SIZED = 50;
const METRES = 111195;

const askSql = (sql, at) => call("/sql", { method: "POST", body: at ? { sql, at } : { sql } });

const thenAt = (time) =>
  ({ time, text: toSecond(time), answers: new Map(), sizes: new Map() });

// `work` for whoever asks; what is asked for while it is done is done afterwards, once.
function whenFree(work) {
  let isDue = false;
  let isBusy = false;
  return async () => {
    isDue = true;
    if (isBusy) return;
    isBusy = true;
    try {
      while (isDue) {
        isDue = false;
        await work();
      }
    } finally {
      isBusy = false;
    }
  };
}

export class Past {
  constructor(live, scene, alerts, say) {
    Object.assign(this, { live, scene, alerts, say });
    this.alertsOf = new PastAlerts(live, this, say);
    this.listed = []; // the queries that the operator sees
    this.show = whenFree(() => this.showPicture());
    this.complete = whenFree(() => this.completePicture());
    this.ranges = new Map();
    this.slots = new Map();
    this.labels = new Map();
    this.time = null;
    this.isPlaying = false;
    byId("past-time").addEventListener("input", ({ target }) => this.go(Number(target.value)));
    byId("past-rewind").addEventListener("click", () => this.go(this.begin));
    byId("past-play").addEventListener("click", () => this.play(!this.isPlaying));
    byId("past-live").addEventListener("click", () => this.leave());
    live.on("about", () => this.look());
    live.on("world", () => this.isOn && this.show());
    live.on("marked", () => this.isOn && this.show());
    live.on("chosen", () => this.isOn && this.show());
    live.on("queries", () => this.isOn && this.complete());
    live.on("listed", (queries) => {
      this.listed = queries;
      if (this.isOn) this.complete();
    });
    setInterval(() => this.look(), RANGES);
    setInterval(() => this.isPlaying && this.step(), STEP);
  }

  get isOn() {
    return this.live.past === this;
  }

  // From when to when the past of the drawn streams can be asked about.
  async look() {
    let found = [];
    try {
      found = await call("/past");
    } catch {
      return; // it is asked again
    }
    this.ranges = new Map(found.filter(({ begin }) => begin).map(({ stream, begin, end }) =>
      [stream, [notBefore(begin), Date.parse(end)]]));
    const drawn = this.live.drawnTracks().map(({ stream }) => this.ranges.get(stream.name))
      .filter(Boolean);
    byId("past").hidden = !drawn.length;
    if (!drawn.length) return;
    this.begin = Math.min(...drawn.map(([begin]) => begin));
    this.end = Math.max(...drawn.map(([, end]) => end));
    this.showBar();
  }

  showBar() {
    const slider = byId("past-time");
    const time = this.time ?? this.end;
    slider.min = this.begin;
    slider.max = this.end;
    slider.value = time;
    slider.setAttribute("aria-valuetext", textOf(time));
    byId("past-now").textContent = this.isOn ? toSecond(time) : "now";
    byId("as-of").hidden = !this.isOn;
    byId("as-of-time").textContent = this.isOn ? toSecond(time) : "";
    byId("past-live").disabled = !this.isOn;
    const play = byId("past-play");
    play.textContent = this.isPlaying ? "Pause" : "Play";
    play.setAttribute("aria-pressed", String(this.isPlaying));
  }

  go(time) {
    this.time = Math.max(this.begin, Math.min(this.end, time));
    this.showBar();
    if (this.isOn) {
      this.show();
      return;
    }
    this.live.past = this;
    this.live.then = thenAt(this.time);
    this.showAlerts(this.time);
    this.live.tell("past", this.time);
    this.live.tell("then", null);
    this.live.choose(this.live.world.space, false); // slots are others from here on; it shows them
    this.showBar();
  }

  play(isPlaying) {
    this.isPlaying = isPlaying;
    if (isPlaying && (!this.isOn || this.time >= this.end)) this.go(this.begin);
    this.showBar();
  }

  step() {
    if (this.isBusy) return;
    this.go(this.time + STEP * Number(byId("past-speed").value));
    if (this.time >= this.end) this.play(false);
  }

  async leave() {
    this.isPlaying = false;
    this.time = this.shownAt = null;
    this.live.past = this.live.then = null;
    this.alerts.showThen(null);
    this.live.tell("past", null);
    this.live.tell("then", null);
    this.showBar();
    await this.live.reload();
  }

  // Show the time that was asked for last.
  async showPicture() {
    if (!this.isOn) return;
    this.isBusy = true;
    try {
      const { time } = this;
      this.live.then.text = toSecond(time); // cards are of the frame that comes now
      for (const track of this.live.drawnTracks()) await this.showObjects(track.stream, time);
      await this.showAnswers(time);
      await this.showTrail(time);
      if (this.isOn) this.complete();
    } catch (error) {
      this.isPlaying = false;
      this.showBar();
      this.say(describeError(error), true);
    } finally {
      this.isBusy = false;
    }
  }

  // What takes longer, or is not needed while one plays: the alerts that are not known yet, and how
  // many rows the queries have that are only listed. A time that is asked for meanwhile ends it.
  async completePicture() {
    const { time } = this;
    const isWanted = () => this.isOn && this.time === time && this.live.then.time === time;
    if (!isWanted()) return;
    await this.alertsOf.ask(time, isWanted);
    if (!isWanted()) return;
    this.showAlerts(time);
    this.live.tell("then", null);
    for (const { name, kind, streams } of this.listed.slice(0, MOST_SIZED)) {
      if (!isWanted() || this.isPlaying) return;
      const { answers, sizes } = this.live.then;
      const isKnown = answers.has(name) || sizes.has(name) || kind === "trigger";
      if (isKnown || !this.covers(streams, time)) continue;
      sizes.set(name, null);
      const size = await this.answerAt(name, time).then((rows) => rows.length, () => null);
      sizes.set(name, size); // null of one that cannot be had, such as too large an answer
      if (isWanted()) this.live.tell("then", null);
    }
  }

  showAlerts(time) {
    const { then } = this.live;
    for (const query of this.alertsOf.triggers()) {
      const found = this.alertsOf.until(query, time);
      if (found !== undefined) then.answers.set(query.name, found && found.map(({ row }) => row));
    }
    const since = this.isPlaying ? this.shownAt : null;
    const isWhole = this.alertsOf.isKnown(time);
    this.alerts.showThen(this.alertsOf.all(time), { time, since, isWhole });
    this.shownAt = time;
  }

  // From when to when all of some streams have a past; nothing if one of them has none.
  rangeOf(names) {
    const ranges = names.map((name) => this.ranges.get(name) ?? [Infinity, -Infinity]);
    return [Math.max(...ranges.map(([begin]) => begin)), Math.min(...ranges.map(([, end]) => end))];
  }

  covers(names, time) {
    const [begin, end] = this.rangeOf(names);
    return begin <= time && time <= end;
  }

  async answerAt(name, time) {
    const sql = `SELECT * FROM QUERY ${quoteName(name)} AS OF ${quoteText(textOf(time))}`;
    return (await askSql(sql)).rows;
  }

  async showObjects(stream, time) {
    const { index, key_column: key, class_column: kind, classes } = stream;
    const { column } = this.scene.labels;
    const isLabelled = stream.columns.some(({ name }) => name === column);
    let rows = [];
    if (key && this.covers([stream.name], time)) {
      const columns = [quoteName(key), "x", "y", ...[kind, isLabelled && column].filter(Boolean)
        .map(quoteName)];
      const sql = `SELECT ${columns.join(", ")} FROM ${quoteName(stream.name)}`;
      rows = (await askSql(sql, textOf(time))).rows;
    }
    if (!this.isOn) return;
    if (!this.slots.has(index)) this.slots.set(index, new Map());
    const known = this.slots.get(index);
    const frame = { stream: index, tick: 0, instant: time, count: rows.length,
      slots: new Uint32Array(rows.length), places: new Float32Array(2 * rows.length),
      classes: new Uint8Array(rows.length) };
    const texts = new Map();
    rows.forEach((row, i) => {
      const [name, x, y, value] = row;
      const text = String(name);
      if (!known.has(text)) known.set(text, known.size);
      frame.slots[i] = known.get(text);
      texts.set(frame.slots[i], row.at(-1));
      frame.places.set([x, y], 2 * i);
      const code = kind ? classes.indexOf(value) : -1;
      frame.classes[i] = code < 0 ? OTHER : code;
    });
    this.labels.set(index, { column: isLabelled ? column : "", texts });
    this.live.takeFrame(frame);
    this.placeFocals();
  }

  // Where the objects were that lead queries, if they were there.
  placeFocals() {
    for (const { name, leaders } of this.live.queries.values()) {
      this.live.focals.set(name, leaders.map(({ stream, key }) => {
        const index = this.live.streamOf(stream)?.index ?? null;
        return [index, this.lives(index, key) ? this.slotOf(index, key) : null];
      }));
    }
    this.live.tell("focals", this.live.focals);
  }

  slotOf(index, key) {
    return this.slots.get(index)?.get(String(key));
  }

  // What the server would be told: of labels, those of then; others choose what is shown anyway.
  send({ type, stream, column, slots }) {
    if (type !== "labels") return;
    const known = this.labels.get(stream);
    if (known?.column !== column) {
      this.show(); // objects come with their labels
      return;
    }
    const texts = slots.map((slot) => known.texts.get(slot) ?? null);
    this.live.tell("labels", { stream, column, slots, texts });
  }

  // The answers of the queries that are shown, as they were, on the map and in the lists.
  async showAnswers(time) {
    const then = thenAt(time);
    const isSame = this.live.then.time === time;
    if (isSame) then.sizes = this.live.then.sizes;
    for (const { name } of this.live.marked) {
      const query = this.live.queries.get(name);
      if (query?.kind === "trigger") continue; // its alerts come with those of all others
      const isKept = query && this.covers(query.streams, time);
      const rows = isKept ? await this.answerAt(name, time) : [];
      if (!this.isOn) return;
      const slots = {};
      for (const { stream, column } of query?.keys ?? []) {
        const index = this.live.streamOf(stream)?.index;
        slots[index] = rows.map((row) => this.slotOf(index, row[column]))
          .filter((slot) => slot !== undefined);
      }
      this.live.answers.set(name, slots);
      then.answers.set(name, isKept ? rows : null);
    }
    this.live.then = then;
    this.showAlerts(time);
    this.live.tell("then", null);
    this.live.remark();
    this.live.tell("answer", null);
  }

  // Where the chosen object came from, as the archive knows it.
  async showTrail(time) {
    const { chosen } = this.scene;
    const stream = chosen && this.live.tracks.get(chosen.stream)?.stream;
    if (!stream || !this.covers([stream.name], time)) return;
    const begin = Math.max(this.ranges.get(stream.name)[0], time - TRAIL);
    const key = quoteName(stream.key_column);
    const { rows } = await askSql(`SELECT TRAJECTORY(${key}, ${this.tolerance()})
      FROM ${quoteName(stream.name)} BETWEEN ${quoteText(textOf(begin))}
      AND ${quoteText(textOf(time))} WHERE ${key} = ${keyLiteral(stream, chosen.key)}`);
    if (!this.isOn || this.scene.chosen !== chosen) return;
    const { world } = this.live;
    const points = rows.flatMap(([, x, y]) => {
      const [mx, my] = world.toMercator(x, y);
      return [mx - world.origin[0], my - world.origin[1]];
    });
    this.scene.trails.keep(chosen, points);
  }

  // About a pixel of the map, in the lengths of its world.
  tolerance() {
    const wide = this.scene.where()[2] / this.scene.map.getContainer().clientWidth;
    return Math.max(0, this.live.world.isPlanar ? wide : wide * METRES).toFixed(6);
  }

  // What the server answers of live objects, of those of then.
  async answer(message) {
    const stream = this.live.streams.find(({ index, name }) =>
      index === message.stream || name === message.stream);
    if (message.type === "identify") return this.identify(stream, message.slot);
    if (message.type === "locate") {
      return { index: stream?.index, slot: this.slotOf(stream?.index, message.key) ?? null };
    }
    const wanted = message.text.toLowerCase();
    const objects = [...this.slots].flatMap(([index, known]) => [...known.keys()]
      .filter((key) => key.toLowerCase().includes(wanted) && this.lives(index, key))
      .map((key) => ({ stream: index, key, slot: known.get(key) })));
    objects.sort((a, b) => a.key.length - b.key.length);
    return { objects: objects.slice(0, MOST_FOUND) };
  }

  lives(index, key) {
    return Boolean(this.live.tracks.get(index)?.lives(this.slotOf(index, key)));
  }

  async identify(stream, slot) {
    const [key] = [...(this.slots.get(stream.index) ?? [])].find(([, each]) => each === slot) ?? [];
    if (key === undefined) return null;
    const found = await askSql(`SELECT * FROM ${quoteName(stream.name)}
      WHERE ${quoteName(stream.key_column)} = ${keyLiteral(stream, key)}`, textOf(this.time));
    if (!found.rows.length) return null;
    const row = Object.fromEntries(found.columns.map((name, i) => [name, found.rows[0][i]]));
    return { key: row[stream.key_column], row };
  }
}
