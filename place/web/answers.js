// The answer of a query as a list that follows its deltas: rows flash as they come and go. Of a
// query that tells arrivals only it is what came last, and of a trigger the last alerts.

import { call } from "./api.js";
import { make, showValue } from "./dom.js";
import { graphOf } from "./graph.js";
import { Socket } from "./socket.js";

const MOST_SHOWN = 200;
const MOST_SORTED = 10000;
const LEAVING = 1100;
const GONE = 4410;

const compare = new Intl.Collator("en", { numeric: true }).compare;

export class AnswerList {
  constructor(query, colour, { onDrop, onGo, onLost }) {
    Object.assign(this, { query, colour, onLost });
    this.isTrigger = query.kind === "trigger";
    this.rows = new Map();
    this.after = null;
    this.body = make("ul", { class: "rows", "aria-label": `${this.isTrigger ? "Alerts" : "Answer"} of ${query.name}` });
    this.size = make("b", { class: "size",
      title: this.isTrigger ? "alerts since this page is open" : "rows in the answer" }, "…");
    this.state = make("p", { class: "quiet state", role: "status" }, "Asking for the answer…");
    this.element = make("article", { class: "mine-query", colour, "data-query": query.name },
      make("header", {}, make("i", { class: "swatch" }), make("h3", {}, query.name), this.size,
        make("button", { type: "button", "aria-label": `Go to ${query.name} on the map`,
          onclick: onGo }, "Go there"),
        make("button", { type: "button", class: "drop", "aria-label": `Drop ${query.name}`,
          onclick: onDrop }, "Drop")),
      make("details", {}, make("summary", {}, this.isTrigger ? "SQL and constraints" : "SQL"),
        this.isTrigger ? graphOf(query) : null, make("pre", {}, query.sql)),
      make("p", { class: "columns" }, query.columns.join("  ·  ")),
      this.state, this.body);
    this.open();
  }

  open() {
    const path = `/queries/${encodeURIComponent(this.query.name)}/updates`;
    this.socket = new Socket(
      () => (this.after === null ? path : `${path}?after=${encodeURIComponent(this.after)}`), {
        onMessage: (data) => this.take(JSON.parse(data)),
        onState: (state) => {
          if (state === "waiting") this.state.textContent = "Connection lost; trying again…";
          if (state !== "live") return;
          if (this.after === null) this.clear(); // an empty answer has nothing to send
          this.show();
        },
        onClose: ({ code }) => {
          if (code === GONE) this.after = null;
        },
        before: () => this.look(),
      });
  }

  // Is the query still there? One that was dropped elsewhere is not asked for again.
  async look() {
    try {
      await call(`/queries/${encodeURIComponent(this.query.name)}`);
    } catch (error) {
      if (error.status === 404) this.onLost();
      throw error;
    }
  }

  take(message) {
    if (!Array.isArray(message)) {
      if (message.error?.code === "gone") this.after = null;
      return;
    }
    if (this.after === null) this.clear();
    for (const { id, sign, row } of message) {
      this.change(row, sign);
      this.after = id;
    }
    this.show();
  }

  clear() {
    this.rows.clear();
    this.body.replaceChildren();
    this.total = 0;
  }

  // An answer is a bag: a row may be in it several times.
  change(row, sign) {
    this.total += sign;
    const key = JSON.stringify(row);
    const held = this.rows.get(key);
    const count = (held?.count ?? 0) + sign;
    if (held && this.isTrigger) this.rows.delete(key); // told again: it is the last one now
    if (held && this.isTrigger) this.rows.set(key, held);
    if (count > 0 && held) held.count = count;
    else if (count > 0) this.rows.set(key, { row, count, item: null });
    else if (held) {
      this.rows.delete(key);
      this.remove(held.item);
    }
    if (this.query.arrivals && this.rows.size > MOST_SHOWN) {
      const [oldest, { item }] = this.rows.entries().next().value;
      this.rows.delete(oldest);
      this.remove(item);
    }
  }

  remove(item) {
    if (!item) return;
    item.removeAttribute("data-row");
    item.className = "leaving";
    setTimeout(() => item.remove(), LEAVING);
  }

  show() {
    const sorted = [...this.rows.entries()];
    if (this.isTrigger) sorted.reverse();
    else if (sorted.length <= MOST_SORTED) sorted.sort((a, b) => compare(a[0], b[0]));
    for (const [, held] of sorted.slice(MOST_SHOWN)) {
      held.item?.remove();
      held.item = null;
    }
    let before = null;
    for (const [key, held] of sorted.slice(0, MOST_SHOWN).reverse()) {
      held.item ??= make("li", { "data-row": key, class: "entering" },
        held.row.map((value, i) => showValue(value, this.query.types[i])).join("  ·  "));
      if (!held.item.isConnected) this.body.insertBefore(held.item, before);
      before = held.item;
    }
    this.size.textContent = (this.total ?? 0).toLocaleString("en");
    const more = this.rows.size - MOST_SHOWN;
    this.state.textContent = this.total === undefined ? "Asking for the answer…"
      : !this.rows.size ? this.nothing()
        : more > 0 ? `The first ${MOST_SHOWN}; ${more.toLocaleString("en")} more.` : "";
  }

  nothing() {
    if (this.isTrigger) return "No alert yet.";
    return `Nothing ${this.query.arrivals ? "has come yet" : "is in the answer now"}.`;
  }

  close() {
    this.socket.close();
    this.element.remove();
  }
}
