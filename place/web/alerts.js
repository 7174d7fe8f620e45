// Alerts of triggers: each flashes on the map, where lines join its readings for a while, and stays
// in a list, from which a click leads there again. Where the map shows the past, the list is that of
// then; what comes meanwhile is listed when one comes back.

import { ALERT } from "./colours.js";
import { byId, make, showValue } from "./dom.js";
import { MoversLayer } from "./movers.js";

const MOST_KEPT = 100;
export const KEPT = 10 * 60 * 1000;
const MOST_DRAWN = 30;
const SHOWN = 12000;
const FADING = 3000;
const PULSE = 900;
const PULSES = 3;
const FEW = 4;
const RING = 9;
const CORNERS = 18;
const QUICK = 40;
const SLOW = 250;
const NEWS = 5000;

const still = matchMedia("(prefers-reduced-motion: reduce)");
const timeOf = (instant) => instant.slice(11, 19);

export class Alerts {
  constructor(live, scene) {
    Object.assign(this, { live, scene });
    this.kept = [];
    this.then = null; // the alerts of the past that is shown
    this.told = 0;
    this.layer = new MoversLayer(live, "alerts");
    scene.map.addLayer(this.layer);
    live.on("alerts", (message) => this.take(message));
    live.on("queries", () => this.show());
    live.on("frame", () => this.frame());
    setInterval(() => this.forget(), 5000);
  }

  take({ alerts, left_out: leftOut }) {
    const now = performance.now();
    const isHeld = this.live.isPaused || this.live.past;
    for (const alert of alerts) {
      this.kept.unshift({ ...alert, at: now, shownAt: isHeld ? null : now });
    }
    this.kept.length = Math.min(this.kept.length, MOST_KEPT);
    this.told += alerts.length + leftOut;
    if (this.live.past) return;
    this.show(alerts.length);
    this.announce(alerts.at(-1));
    this.draw();
  }

  // Show the alerts of then, the newest first, or again those of now. One that is new in the list
  // flashes if it came at the end of its time: within what was played since, or as long as a live
  // one is drawn.
  showThen(found, { time, since, isWhole } = {}) {
    const before = new Set(this.then);
    this.then = found && found.slice(0, MOST_KEPT);
    this.isWhole = isWhole ?? true;
    const fresh = (this.then ?? []).filter((alert) => !before.has(alert));
    const from = Math.min(since ?? time, time - SHOWN);
    for (const alert of fresh) alert.shownAt = alert.at > from ? performance.now() : null;
    this.total = found?.length;
    this.show();
    this.draw();
  }

  get listed() {
    return this.then ?? this.kept;
  }

  // Whoever does not see the list is told of the last one, and not of each of many.
  announce(last) {
    const now = performance.now();
    if (!last || now < (this.announced ?? -NEWS) + NEWS) return;
    this.announced = now;
    byId("alert-news").textContent =
      `Alert of ${last.trigger}: ${last.row.map((value) => showValue(value)).join(", ")}`;
  }

  forget() {
    const now = performance.now();
    const kept = this.kept.filter((alert) => now - alert.at < KEPT
      && this.live.queries.has(alert.trigger));
    if (kept.length === this.kept.length) return;
    this.kept = kept;
    if (!this.then) this.show();
  }

  // The list

  show(fresh = 0) {
    const hasTriggers = [...this.live.queries.values()].some(({ kind }) => kind === "trigger");
    byId("alerts").hidden = !hasTriggers && !this.listed.length;
    const count = this.then ? this.total : this.told;
    byId("alert-count").textContent = count ? count.toLocaleString("en") : "";
    byId("alert-empty").hidden = this.listed.length > 0;
    byId("alert-empty").textContent = !this.then ? "None since this page is open."
      : this.isWhole ? "None in the ten minutes before." : "Asking for those of then…";
    const items = this.listed.map((alert) => (alert.item ??= this.item(alert)));
    for (const [i, item] of items.entries()) item.classList.toggle("entering", i < fresh);
    byId("alert-list").replaceChildren(...items);
  }

  item(alert) {
    const { columns = [], types = [] } = this.live.queries.get(alert.trigger) ?? {};
    const values = alert.row.map((value, i) =>
      `${columns[i] ?? ""} ${shortValue(value, types[i])}`.trim());
    const hasPlace = alert.places.length > 0;
    return make("li", { "data-alert": alert.id, "data-trigger": alert.trigger },
      make("button", { type: "button", disabled: !hasPlace, colour: ALERT,
        title: hasPlace ? "Go there" : "Its columns do not say where it is",
        onclick: () => this.goTo(alert) },
      make("b", {}, alert.trigger),
      make("time", { datetime: alert.instant }, timeOf(alert.instant)),
      make("span", {}, values.join("  ·  "))));
  }

  // The map

  goTo(alert) {
    const { live } = this;
    if (alert.space !== live.world.space && live.worlds.has(alert.space)) {
      this.wanted = alert; // as soon as there is something to see in the other space
      live.choose(alert.space);
      byId("world").value = alert.space;
      return;
    }
    const corners = this.paths(alert).map(({ path: [, , x, y] }) => this.toPlace(x, y));
    alert.shownAt = performance.now();
    const list = byId("alerts");
    if (corners.length) this.scene.goTo(corners, list.open ? list.offsetWidth : 0);
    this.draw();
  }

  goToLast(trigger) {
    const last = this.listed.find((alert) => alert.trigger === trigger && alert.places.length);
    if (last) this.goTo(last);
  }

  frame() {
    const wanted = this.wanted;
    if (!wanted || wanted.space !== this.live.world.space) return;
    this.wanted = null;
    this.goTo(wanted);
  }

  toPlace(x, y) {
    const { world } = this.live;
    return world.fromMercator(x + world.origin[0], y + world.origin[1]);
  }

  // Where its readings are: as the alert tells it, or where their objects are on the map.
  paths(alert) {
    const { live } = this;
    const found = [];
    for (const { name, stream, slot, x, y } of alert.places) {
      const track = live.tracks.get(stream);
      if (x !== null) {
        const [mx, my] = live.world.toMercator(x, y);
        const [ox, oy] = live.world.origin;
        found.push({ name, path: [mx - ox, my - oy, mx - ox, my - oy] });
      } else if (track?.lives(slot)) found.push({ name, path: [...track.path(slot)] });
    }
    return found;
  }

  drawn(now) {
    const { world } = this.live;
    return this.listed.filter((alert) => alert.shownAt !== null && now - alert.shownAt < SHOWN
      && alert.space === world?.space).slice(0, MOST_DRAWN);
  }

  draw() {
    clearTimeout(this.timer);
    const now = performance.now();
    const shown = this.drawn(now);
    const pixel = 1 / (512 * 2 ** this.scene.map.getZoom());
    const regions = [];
    const links = [];
    let pause = SLOW;
    for (const alert of shown.reverse()) {
      const age = now - alert.shownAt;
      const alpha = Math.min(1, (SHOWN - age) / FADING);
      const paths = this.paths(alert).map(({ path }) => path);
      links.push(...this.lines(paths, alpha));
      const isPulsing = age < PULSE * PULSES && !still.matches;
      if (isPulsing) pause = QUICK;
      for (const path of paths) {
        regions.push(...this.rings(path, pixel * RING, alpha));
        if (!isPulsing) continue;
        const phase = (age % PULSE) / PULSE;
        regions.push(this.ring(path, pixel * RING * (1 + 3 * phase), ALERT, 3, 1 - phase));
      }
    }
    this.layer.set(this.live.world, regions, links);
    if (shown.length) this.timer = setTimeout(() => this.draw(), pause);
  }

  ring(path, radius, colour, width, alpha) {
    const ring = Array.from({ length: CORNERS }, (_, i) => {
      const angle = (i * 2 * Math.PI) / CORNERS;
      return [Math.cos(angle) * radius, Math.sin(angle) * radius];
    });
    return { path, ring, colour, width, alpha, strong: true, filled: false };
  }

  // Bright on dark, so that it is seen on any ground and is no other colour of the map.
  rings(path, radius, alpha) {
    return [this.ring(path, radius, this.casing(), 5, alpha * 0.75),
      this.ring(path, radius, ALERT, 2.6, alpha)];
  }

  lines(paths, alpha) {
    const pairs = pairsOf(paths);
    return [[this.casing(), 5, 0.75], [ALERT, 2.6, 1]].flatMap(([colour, width, strength]) =>
      pairs.map(([from, to]) => ({ from, to: this.nearer(from, to), colour, width,
        alpha: alpha * strength })));
  }

  casing() {
    return this.live.isDark ? "#0b0f14" : "#1b2733";
  }

  // The shorter way round the globe: a line does not cross the whole map.
  nearer(from, to) {
    if (this.live.world.isPlanar || Math.abs(to[2] - from[2]) <= 0.5) return to;
    const turn = to[2] > from[2] ? -1 : 1;
    return [to[0] + turn, to[1], to[2] + turn, to[3]];
  }
}

// All pairs of a few readings; of more, those that are neighbours around their middle.
function pairsOf(paths) {
  if (paths.length <= FEW) {
    return paths.flatMap((one, i) => paths.slice(i + 1).map((other) => [one, other]));
  }
  const middle = [2, 3].map((i) => paths.reduce((sum, path) => sum + path[i], 0) / paths.length);
  const angle = (path) => Math.atan2(path[3] - middle[1], path[2] - middle[0]);
  const around = [...paths].sort((one, other) => angle(one) - angle(other));
  return around.map((path, i) => [path, around[(i + 1) % around.length]]);
}

// Times of the same day as a clock shows them.
function shortValue(value, type) {
  const isFraction = typeof value === "number" && !Number.isInteger(value);
  const text = showValue(isFraction ? Number(value.toPrecision(5)) : value, type);
  const isTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d/.test(text);
  return isTime ? text.slice(11).replace(/Z$/, "") : text;
}
