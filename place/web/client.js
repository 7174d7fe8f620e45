// The client's view: compose a query by drawing and choosing, see its SQL, register it, follow its
// answer, drop it. Several at once, each in a colour of its own.

import { ApiError, call, describeError, runSql } from "./api.js";
import { AnswerList } from "./answers.js";
import { ALERT, MARK_COLOURS } from "./colours.js";
import { Composer } from "./composer.js";
import { byId } from "./dom.js";
import { readQuery } from "./queries.js";
import { quoteName, registeredName } from "./sql.js";

const KEPT = "place.mine";

export class ClientView {
  constructor(live, scene, alerts, say) {
    this.live = live;
    this.scene = scene;
    this.alerts = alerts;
    this.say = say;
    this.lists = new Map();
    this.kept = new Set(JSON.parse(localStorage.getItem(KEPT) ?? "[]"));
    this.composer = new Composer(byId("composer"), live, scene, say, (sql) => this.submit(sql));
    live.on("queries", () => this.follow());
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
    return this.live.about.you.role === "client" || this.kept.has(query.name);
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
    const next = (free < 0 ? this.lists.size % MARK_COLOURS.length : free) + 1;
    const mark = isTrigger ? 0 : next;
    const list = new AnswerList(query, isTrigger ? ALERT : MARK_COLOURS[mark - 1], {
      onDrop: () => this.drop(query),
      onGo: () => (isTrigger ? this.alerts.goToLast(query.name) : this.scene.zoomTo(query)),
      onLost: () => this.forget(query.name, list),
    });
    list.mark = mark;
    this.lists.set(query.name, list);
    byId("mine").prepend(list.element);
    if (this.isShown) this.scene.showQueries();
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

  async drop({ name, kind }) {
    try {
      const word = kind === "trigger" ? "TRIGGER" : "QUERY";
      const result = await runSql(`DROP ${word} ${quoteName(name)}`);
      this.say(result.message);
      this.live.queries.delete(name);
      this.follow();
      this.scene.showQueries();
    } catch (error) {
      this.say(describeError(error), true);
    }
  }

  forget(name, list) {
    list.close();
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
