// The alerts of then: what triggers told in the ten minutes before the time that is shown, as the
// archive knows it. What is asked for reaches as far again beyond it, so that playing on need not
// ask at every step.

import { KEPT } from "./alerts.js";
import { call, describeError } from "./api.js";
import { quoteName, quoteText } from "./sql.js";
import { textOf } from "./times.js";

const MOST_TRIGGERS = 100;
const MICROSECONDS = 1000;

export class PastAlerts {
  constructor(live, past, say) {
    Object.assign(this, { live, past, say });
    this.known = new Map(); // by trigger: the query, from when to when, and the alerts of that time
  }

  triggers() {
    return [...this.live.queries.values()].filter(({ kind }) => kind === "trigger")
      .slice(0, MOST_TRIGGERS);
  }

  // What has to be known of a trigger to show a time; null if the archive does not have that.
  wanted(query, time) {
    const [begin, end] = this.past.rangeOf(query.streams);
    return begin <= time && time <= end ? [Math.max(begin, time - KEPT), time, end] : null;
  }

  // The alerts of a trigger until a time, the oldest first; null if they cannot be known, and
  // undefined if they have not been asked for yet.
  until(query, time) {
    const wanted = this.wanted(query, time);
    if (!wanted) return null;
    const known = this.known.get(query.name);
    if (known?.query !== query || known.begin > wanted[0] || known.end < time) return undefined;
    return known.alerts && known.alerts.filter(({ at }) => time - KEPT <= at && at <= time);
  }

  isKnown(time) {
    return this.triggers().every((query) => this.until(query, time) !== undefined);
  }

  // Ask about the triggers that are not known yet; `isWanted` says whether somebody still waits.
  async ask(time, isWanted) {
    for (const query of this.triggers()) {
      if (!isWanted()) return;
      if (this.until(query, time) !== undefined) continue;
      const [begin, , last] = this.wanted(query, time);
      const end = Math.min(last, time + KEPT);
      const sql = `SELECT * FROM TRIGGER ${quoteName(query.name)} BETWEEN
        ${quoteText(textOf(begin))} AND ${quoteText(textOf(end))}`;
      let alerts = null;
      try {
        const { rows } = await call("/sql", { method: "POST", body: { sql } });
        alerts = rows.map((row, i) => this.read(query, row, i)).sort((a, b) => a.at - b.at);
      } catch (error) {
        this.say(`The alerts of ${query.name} are not known: ${describeError(error)}`, true);
      }
      this.known.set(query.name, { query, begin, end, alerts });
    }
  }

  // An alert as the server tells one that comes now; where it is depends on what is shown.
  read(query, row, i) {
    const instant = row.at(-1);
    const at = instant / MICROSECONDS;
    const space = this.live.streamOf(query.streams[0])?.space;
    return { id: `${query.name} ${instant} ${i}`, trigger: query.name, space, at, shownAt: null,
      instant: new Date(at).toISOString(), row: row.slice(0, -1), places: [] };
  }

  // All alerts that are known of the ten minutes until a time, the newest first.
  all(time) {
    const found = this.triggers().flatMap((query) => (this.until(query, time) ?? [])
      .map((alert) => Object.assign(alert, { places: this.placesOf(query, alert.row) })));
    return found.sort((a, b) => b.at - a.at);
  }

  // Where its readings are: as the alert tells it, or where their objects were then.
  placesOf(query, row) {
    return query.places.map(({ name, stream, key, x, y }) => {
      const index = this.live.streamOf(stream)?.index;
      const slot = key === null ? null : this.past.slotOf(index, row[key]) ?? null;
      const hasPlace = x !== null && y !== null && row[x] !== null && row[y] !== null;
      return { name, stream: index, slot, x: hasPlace ? row[x] : null, y: hasPlace ? row[y] : null };
    });
  }
}
