// The client's view: compose a query by drawing and choosing, see its SQL, register it, follow its
// answer, drop it. Several at once, each in a colour of its own.

import { ApiError, call, describeError, dropQuery, runSql } from "./api.js";
import { AnswerList } from "./answers.js";
import { ALERT, LAST_MARK, MARK_COLOURS, markColour } from "./colours.js";
import { Composer } from "./composer.js";
import { byId, make } from "./dom.js";
import { graphOf } from "./graph.js";
import { readQuery } from "./queries.js";
import { freeName, registeredName, writeSql } from "./sql.js";

const KEPT = "place.mine";

export class ClientView {
  constructor(live, scene, alerts, objects, say) {
    Object.assign(this, { live, scene, alerts, objects, say });
    this.lists = new Map();
    this.kept = new Set(JSON.parse(localStorage.getItem(KEPT) ?? "[]"));
    this.composer = new Composer(byId("composer"), live, scene, say, (sql) => this.submit(sql));
    live.on("queries", () => this.follow());
    live.on("focals", () => this.lists.forEach((list) => list.show()));
    live.on("then", () => this.lists.forEach((list) => list.show()));
    live.on("about", () => this.composer.setStreams());
    live.on("world", () => this.composer.setStreams());
  }

  enter() {
    this.isShown = true;
    this.scene.setLook((query) => this.lookOf(query));
    this.mark();
    this.composer.show();
  }

  leave() {
    this.isShown = false;
    this.composer.pause();
  }

  lookOf(query) {
    if (query.kind === "trigger") return null; // its alerts are drawn, and they are nobody's answer
    const list = this.lists.get(query.name);
    return list ? { colour: list.colour, strong: true } : null;
  }

  mark() {
    if (!this.isShown) return;
    const marked = [...this.lists].filter(([, list]) => list.mark);
    this.live.highlight(marked.map(([name, list]) => ({ name, mark: list.mark })));
  }

  // A client sees only its own queries; an operator those that this browser has registered.
  isMine(query) {
    return this.live.about.you.role !== "admin" || this.kept.has(query.name);
  }

  follow() {
    for (const [name, list] of this.lists) {
      if (!this.live.queries.has(name)) this.forget(name, list);
    }
    for (const query of this.live.queries.values()) {
      if (this.isMine(query) && !this.lists.has(query.name)) this.add(query);
    }
    this.mark();
    this.showCount();
  }

  add(query) {
    const used = new Set([...this.lists.values()].map((list) => list.mark));
    const free = MARK_COLOURS.findIndex((_, i) => !used.has(i + 1));
    const isTrigger = query.kind === "trigger";
    const mark = isTrigger ? 0 : free < 0 ? LAST_MARK : free + 1;
    const size = make("b", { class: "size",
      title: isTrigger ? "alerts since this page is open" : "rows in the answer" }, "…");
    const list = new AnswerList(query, {
      onRow: (stream, key) => this.objects.chooseKey(stream, key),
      onLost: () => this.forget(query.name, list),
      onSize: (total) => (size.textContent = total?.toLocaleString("en") ?? "–"),
      goneLeader: () => this.live.goneLeader(query),
      thenOf: () => this.live.then,
    });
    list.mark = mark;
    list.colour = isTrigger ? ALERT : markColour(mark);
    list.card = this.card(query, list, size);
    this.lists.set(query.name, list);
    byId("mine").prepend(list.card);
    if (this.isShown) this.scene.showQueries();
  }

  card(query, list, size) {
    const isTrigger = query.kind === "trigger";
    const go = () => (isTrigger ? this.alerts.goToLast(query.name) : this.scene.zoomTo(query));
    return make("article", { class: "mine-query", colour: list.colour, "data-query": query.name },
      make("header", {}, make("i", { class: "swatch" }), make("h3", {}, query.name), size,
        make("button", { type: "button", "aria-label": `Go to ${query.name} on the map`,
          onclick: go }, "Go there"),
        make("button", { type: "button", class: "drop", "aria-label": `Drop ${query.name}`,
          onclick: () => this.drop(query) }, "Drop")),
      make("details", {}, make("summary", {}, isTrigger ? "SQL and constraints" : "SQL"),
        isTrigger ? graphOf(query) : null, make("pre", {}, query.sql)),
      list.element);
  }

  // Ask about an object: the nearest to it, or what is around it. The name of the query, if it was
  // registered.
  async askAround({ kind, stream, focal, k }) {
    const size = this.composer.length(10);
    const spec = { kind, moving: true, shape: "circle", numbers: [size], corners: [], classes: [],
      where: "", focal, k, stream,
      columns: [stream.key_column, stream.class_column].filter(Boolean) };
    const word = kind === "knn" ? "nearest_to" : "around";
    spec.name = freeName(`${word}_${focal.replace(/\W+/g, "_")}`, this.live.queries.keys());
    const { sql, missing } = writeSql(spec, this.live.world);
    const trouble = missing ?? (await this.submit(sql));
    if (trouble) this.say(trouble, true);
    return trouble ? null : spec.name;
  }

  async submit(sql) {
    const name = registeredName(sql);
    try {
      const result = await runSql(sql);
      if (name) this.keep(name);
      this.say(result.message);
      await this.refresh(name);
      return null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return describeError(error);
    }
  }

  // The new query, as soon as it can be had: the map's own news of it may take a moment longer.
  async refresh(name) {
    if (!name || this.lists.has(name)) return;
    const query = readQuery(await call(`/queries/${encodeURIComponent(name)}`));
    this.keep(query.name);
    if (!this.lists.has(query.name)) {
      this.live.queries.set(query.name, query);
      this.follow();
    }
  }

  keep(name) {
    this.kept.add(name);
    localStorage.setItem(KEPT, JSON.stringify([...this.kept]));
  }

  async drop(query) {
    try {
      this.say(await dropQuery(this.live, query));
    } catch (error) {
      this.say(describeError(error), true);
    }
  }

  forget(name, list) {
    list.close();
    list.card.remove();
    this.lists.delete(name);
    this.kept.delete(name);
    localStorage.setItem(KEPT, JSON.stringify([...this.kept]));
    this.mark();
    this.showCount();
  }

  showCount() {
    byId("mine-count").textContent = this.lists.size ? String(this.lists.size) : "";
    byId("mine-empty").hidden = this.lists.size > 0;
  }
}
