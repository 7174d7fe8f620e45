// The operator's view: figures and charts over time, all queries, the answer of a chosen one.

import { Chart, shortNumber } from "./charts.js";
import { describeError, dropQuery } from "./api.js";
import { AnswerList } from "./answers.js";
import { ALERT, KINDS, QUERY_COLOUR, markColour } from "./colours.js";
import { byId, make } from "./dom.js";
import { graphOf } from "./graph.js";
import { aboutQuery, kindOf } from "./queries.js";

const MOST_LISTED = 200;
const CHOSEN_MARK = 1;
const DOUBTING = 5000;

const milliseconds = (value) => (value === null || value === undefined ? "–"
  : value >= 10000 ? `${(value / 1000).toFixed(0)} s`
    : value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${Math.round(value)} ms`);

export class OperatorView {
  constructor(live, scene, alerts, objects, say) {
    Object.assign(this, { live, scene, alerts, objects, say });
    this.chosen = null;
    this.figures = {};
    for (const [key, label] of [["objects", "objects"], ["queries", "queries"],
      ["readings", "readings/s"], ["deltas", "deltas/s"], ["lag", "lag"]]) {
      this.figures[key] = make("dd", { id: `figure-${key}` }, "–");
      byId("figures").append(make("div", {}, make("dt", {}, label), this.figures[key]));
    }
    const charts = byId("charts");
    this.readings = new Chart(charts, "Readings per second");
    this.deltas = new Chart(charts, "Deltas per second");
    this.lag = new Chart(charts, "Lag", milliseconds);
    byId("filter").addEventListener("input", () => this.list());
    live.on("stats", (stats) => this.takeStats(stats));
    live.on("queries", () => this.showQueries());
    live.on("sizes", () => this.showSizes());
    live.on("world", () => this.showQueries());
    for (const event of ["then", "focals"]) {
      live.on(event, () => {
        this.answer?.show();
        this.showSizes();
      });
    }
    for (const event of ["then", "frame"]) live.on(event, () => this.showFigures());
  }

  enter() {
    this.isShown = true;
    this.scene.setLook((query) => this.lookOf(query));
    this.live.highlight(this.chosen ? [{ name: this.chosen, mark: CHOSEN_MARK }] : []);
    for (const chart of [this.readings, this.deltas, this.lag]) chart.draw();
  }

  leave() {
    this.isShown = false;
  }

  lookOf(query) {
    const strong = query.name === this.chosen;
    if (query.kind === "trigger") return { colour: ALERT, strong };
    return { colour: strong ? markColour(CHOSEN_MARK) : QUERY_COLOUR, strong };
  }

  takeStats(stats) {
    const { figures } = this;
    figures.queries.textContent = shortNumber(stats.queries);
    figures.readings.textContent = shortNumber(stats.readings_per_s);
    figures.deltas.textContent = shortNumber(stats.deltas_per_s);
    figures.lag.textContent = milliseconds(stats.lag_ms);
    this.readings.add(stats.readings_per_s);
    this.deltas.add(stats.deltas_per_s);
    this.lag.add(stats.lag_ms);
    this.showFigures();
  }

  // Of the past it is known how many objects there were; how fast the server was is not kept.
  showFigures() {
    const { figures, live } = this;
    const isThen = Boolean(live.then);
    const objects = isThen ? live.drawnTracks().reduce((sum, { count }) => sum + count, 0)
      : live.stats?.objects;
    figures.objects.textContent = shortNumber(objects);
    figures.objects.title = objects?.toLocaleString("en") ?? "";
    for (const key of ["readings", "deltas", "lag"]) figures[key].parentElement.hidden = isThen;
    byId("charts").hidden = isThen;
  }

  showQueries() {
    const counts = new Map(Object.keys(KINDS).map((kind) => [kind, 0]));
    let total = 0;
    for (const [kind, count] of Object.entries(this.live.kinds)) {
      const known = counts.has(kind) ? kind : "other";
      counts.set(known, counts.get(known) + count);
      total += count;
    }
    const most = Math.max(1, ...counts.values());
    byId("kinds").replaceChildren(...[...counts].map(([kind, count]) => make("li",
      { "data-kind": kind, "data-count": count },
      make("span", {}, KINDS[kind]),
      make("meter", { min: 0, max: most, value: count, "aria-label": KINDS[kind] }),
      make("b", {}, count.toLocaleString("en")))));
    byId("query-count").textContent = total.toLocaleString("en");
    if (this.chosen && !this.live.queries.has(this.chosen)) this.choose(null);
    this.list();
  }

  list() {
    const wanted = byId("filter").value.trim().toLowerCase();
    const found = [...this.live.queries.values()].filter((query) => !wanted
      || `${query.name} ${kindOf(query)} ${query.sql}`.toLowerCase().includes(wanted));
    const listed = found.slice(0, MOST_LISTED);
    const scrolled = this.answer?.body.scrollTop ?? 0;
    byId("query-list").replaceChildren(...listed.map((query) => this.item(query)));
    if (this.answer) this.answer.body.scrollTop = scrolled;
    this.live.tell("listed", listed);
    const more = found.length - MOST_LISTED;
    byId("query-more").textContent = more > 0
      ? `${more.toLocaleString("en")} more; find them by name.`
      : found.length ? ""
        : this.live.queries.size ? "No query fits."
          : "No query is registered yet. The client view makes one.";
  }

  item(query) {
    const isChosen = query.name === this.chosen;
    return make("li", { colour: this.lookOf(query).colour, "data-query": query.name },
      make("button", { type: "button", "aria-pressed": String(isChosen),
        onclick: () => this.choose(isChosen ? null : query.name) },
      make("span", { class: "name" }, query.name),
      make("span", { class: "kind" }, KINDS[kindOf(query)]),
      make("span", { class: "about" }, aboutQuery(query)),
      make("span", { class: "trouble" }, this.troubleOf(query)),
      make("b", { class: "size", title: this.sizeTitle(query) }, this.sizeOf(query))),
      isChosen ? this.details(query) : null);
  }

  details(query) {
    const of = query.owner ? `, of ${query.owner}` : "";
    return make("div", { class: "details" },
      make("p", { class: "quiet" }, `on ${query.streams.join(", ")}${of}`),
      make("div", { class: "pair" },
        make("button", { type: "button", onclick: () => this.goTo(query) }, "Go there"),
        make("button", { type: "button", onclick: () => this.choose(null) }, "Show all again"),
        this.dropper(query)),
      this.graph(query),
      make("pre", {}, query.sql),
      this.answerOf(query).element);
  }

  // The list is made anew more often than the answer is asked for.
  answerOf(query) {
    if (this.answer?.query !== query) {
      this.answer?.close();
      this.answer = new AnswerList(query, {
        onRow: (stream, key) => this.objects.chooseKey(stream, key),
        onLost: () => this.choose(null),
        goneLeader: () => this.live.goneLeader(query),
        thenOf: () => this.live.then,
      });
    }
    return this.answer;
  }

  // It may be somebody else's, so it is asked for twice.
  dropper(query) {
    if (this.drops?.query === query) return this.drops.button;
    const button = make("button", { type: "button", class: "drop",
      "aria-label": `Drop ${query.name}` }, "Drop");
    let isCertain = false;
    button.addEventListener("click", async () => {
      if (!isCertain) {
        isCertain = true;
        button.textContent = "Really drop it?";
        button.setAttribute("aria-label", `Really drop ${query.name}?`);
        setTimeout(() => {
          isCertain = false;
          button.textContent = "Drop";
          button.setAttribute("aria-label", `Drop ${query.name}`);
        }, DOUBTING);
        return;
      }
      try {
        this.say(await dropQuery(this.live, query));
      } catch (error) {
        this.say(describeError(error), true);
      }
    });
    this.drops = { query, button };
    return button;
  }

  troubleOf(query) {
    const gone = this.live.goneLeader(query);
    return gone ? `${gone.stream} ${gone.key} is ${this.live.then ? "not there" : "gone"}` : "";
  }

  // What a trigger asks of readings; the list is made anew more often than that changes.
  graph(query) {
    if (query.kind !== "trigger") return null;
    if (this.drawn?.query !== query) this.drawn = { query, figure: graphOf(query) };
    return this.drawn.figure;
  }

  goTo(query) {
    if (query.kind === "trigger") this.alerts.goToLast(query.name);
    else this.scene.zoomTo(query);
  }

  sizeOf(query) {
    const { then, sizes } = this.live;
    const own = query.kind === "trigger" ? query.alerts : query.size;
    const size = then ? then.answers.get(query.name)?.length ?? then.sizes.get(query.name)
      : sizes.get(query.name) ?? own;
    return size === null || size === undefined ? "–" : size.toLocaleString("en");
  }

  sizeTitle(query) {
    if (query.kind !== "trigger") return "rows in the answer";
    return this.live.then ? "alerts of the ten minutes before" : "alerts so far";
  }

  showSizes() {
    for (const item of byId("query-list").children) {
      const query = this.live.queries.get(item.dataset.query);
      if (!query) continue;
      const size = item.querySelector(".size");
      size.textContent = this.sizeOf(query);
      size.title = this.sizeTitle(query);
      item.querySelector(".trouble").textContent = this.troubleOf(query);
    }
  }

  choose(name, focuses = true) {
    this.chosen = name;
    if (!name) {
      this.answer?.close();
      this.answer = null;
    }
    if (this.isShown) this.enter();
    this.list();
    this.live.tell("chosen", null);
    if (focuses) byId("query-list").querySelector("[aria-pressed=true]")?.focus();
  }
}
