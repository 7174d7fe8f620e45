// The answer of a query as a list that follows its deltas: rows come and go, and a row whose values
// change stays where it is and shows which. Of a query that tells arrivals only it is what came
// last, and of a trigger the last alerts. Where the map shows the past, the answer is that of then.

import { call } from "./api.js";
import { make, showValue } from "./dom.js";
import { Socket } from "./socket.js";

const MOST_SHOWN = 200;
const MOST_SORTED = 10000;
const LEAVING = 1100;
const GONE = 4410;

const compare = new Intl.Collator("en", { numeric: true }).compare;

export class AnswerList {
  // `onRow(stream, key)` is called with the object of a row that is chosen, `goneLeader()`
  // gives an object that leads the query and is gone, and `thenOf()` the past that is shown.
  constructor(query, { onRow, onLost, onSize = () => {}, goneLeader = () => null,
    thenOf = () => null }) {
    Object.assign(this, { query, onRow, onLost, onSize, goneLeader, thenOf });
    this.isTrigger = query.kind === "trigger";
    this.rows = new Map();
    this.after = null;
    this.body = make("ul", { class: "rows",
      "aria-label": `${this.isTrigger ? "Alerts" : "Answer"} of ${query.name}` });
    this.state = make("p", { class: "quiet state", role: "status" }, "Asking for the answer…");
    this.element = make("div", { class: "answer" },
      make("p", { class: "columns" }, query.columns.join("  ·  ")), this.state, this.body);
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
    const left = new Map();
    const came = [];
    for (const { id, sign, row } of message) {
      this.change(row, sign, left, came);
      this.after = id;
    }
    this.pair(left, came);
    for (const some of left.values()) some.forEach((item) => this.remove(item));
    this.show();
  }

  clear() {
    this.rows.clear();
    this.body.replaceChildren();
    this.total = 0;
  }

  // What a row is called while its other values change.
  nameOf(row) {
    const { identity } = this.query;
    return JSON.stringify(identity ? identity.map((i) => row[i]) : row);
  }

  // An answer is a bag: a row may be in it several times.
  change(row, sign, left, came) {
    this.total += sign;
    const key = JSON.stringify(row);
    const held = this.rows.get(key);
    const count = (held?.count ?? 0) + sign;
    if (held && this.isTrigger) this.rows.delete(key); // told again: it is the last one now
    if (held && this.isTrigger) this.rows.set(key, held);
    if (count > 0 && held) held.count = count;
    else if (count > 0) {
      const made = { row, count, item: null };
      this.rows.set(key, made);
      came.push(made);
    } else if (held) {
      this.rows.delete(key);
      const name = this.nameOf(row);
      if (held.item) left.set(name, [...(left.get(name) ?? []), held.item]);
    }
    if (this.query.arrivals && this.rows.size > MOST_SHOWN) {
      const [oldest, { item }] = this.rows.entries().next().value;
      this.rows.delete(oldest);
      this.remove(item);
    }
  }

  // A row that left and one of the same name that came at once are one row that changed.
  pair(left, came) {
    for (const held of came) {
      const item = left.get(this.nameOf(held.row))?.pop();
      if (!item) continue;
      if (this.rows.get(JSON.stringify(held.row)) !== held) {
        this.remove(item); // it is gone again by now
        continue;
      }
      held.item = item;
      this.fill(item, held.row);
    }
  }

  fill(item, row) {
    const texts = row.map((value, i) => showValue(value, this.query.types[i]));
    const cells = [...item.querySelectorAll(".cell")];
    if (!cells.length) {
      const made = texts.map((text) => make("span", { class: "cell" }, text));
      const target = this.objectOf(row) ? make("button", { type: "button",
        title: "Show it on the map", onclick: () => this.onRow(...this.objectOf(item.row)) },
      ...made) : make("span", { class: "line" }, ...made);
      item.append(target);
    }
    texts.forEach((text, i) => {
      if (!cells[i] || cells[i].textContent === text) return;
      const changed = make("span", { class: "cell changed" }, text);
      cells[i].replaceWith(changed);
    });
    item.row = row;
    item.dataset.row = JSON.stringify(row);
  }

  objectOf(row) {
    const place = this.query.keys?.find(({ column }) => row[column] !== null);
    return place && this.onRow ? [place.stream, row[place.column]] : null;
  }

  remove(item) {
    if (!item) return;
    item.removeAttribute("data-row");
    item.className = "leaving";
    item.querySelector("button")?.setAttribute("disabled", "");
    setTimeout(() => item.remove(), LEAVING);
  }

  show() {
    const then = this.thenOf();
    if (then || this.isThen) {
      this.body.replaceChildren(); // rows of another time: each is made anew
      for (const held of this.rows.values()) held.item = null;
    }
    this.isThen = Boolean(then);
    this.element.classList.toggle("then", this.isThen);
    if (then) this.showThen(then);
    else this.showRows([...this.rows.values()], this.total);
  }

  showThen({ text, answers }) {
    const rows = answers.get(this.query.name);
    const held = (rows ?? []).map((row) => ({ row, count: 1, item: null }));
    this.showRows(held, rows?.length ?? null);
    const what = rows === undefined ? "Asking for the answer"
      : !rows ? "The past of what it reads is not known"
        : this.isTrigger ? `${rows.length ? "Alerts" : "No alert"} of the ten minutes before,`
          : rows.length > MOST_SHOWN ? `The first ${MOST_SHOWN} of ${rows.length}`
            : rows.length ? "The answer" : "Nothing was in the answer";
    this.say(`${what} as of ${text}.`);
  }

  showRows(sorted, total) {
    const order = (held) => (held.name ??= this.nameOf(held.row));
    if (this.isTrigger) sorted.reverse();
    else if (sorted.length <= MOST_SORTED) sorted.sort((a, b) => compare(order(a), order(b)));
    for (const held of sorted.slice(MOST_SHOWN)) {
      held.item?.remove();
      held.item = null;
    }
    let before = null;
    for (const held of sorted.slice(0, MOST_SHOWN).reverse()) {
      if (!held.item) {
        held.item = make("li", { class: "entering" });
        this.fill(held.item, held.row);
      }
      if (!held.item.isConnected) this.body.insertBefore(held.item, before);
      before = held.item;
    }
    this.onSize(total === undefined ? 0 : total);
    if (this.isThen) return;
    const more = sorted.length - MOST_SHOWN;
    this.say(total === undefined ? "Asking for the answer…"
      : !sorted.length ? this.nothing()
        : more > 0 ? `The first ${MOST_SHOWN}; ${more.toLocaleString("en")} more.` : "");
  }

  say(text) {
    const gone = this.goneLeader();
    const then = this.isThen && this.thenOf();
    const said = !gone ? text
      : then ? `${gone.stream} ${gone.key} is not there as of ${then.text}.`
        : `${gone.stream} ${gone.key} is gone: this goes on when it comes back.`;
    this.element.classList.toggle("gone", Boolean(gone));
    if (this.state.textContent !== said) this.state.textContent = said;
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
