// Binary frames, and the tracks of objects between them. A track keeps what is known of each slot
// in typed arrays, which go to the graphics card as they are.

const MAGIC = 0x45434c50;
const HEADER = 24;
const SLOWEST = 5000;
const FASTEST = 200;
export const NO_HEADING = -10;

export function decode(buffer) {
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC || view.getUint16(4, true) !== 1) {
    throw new Error("this is not a frame that this page knows; reload it");
  }
  const count = view.getUint32(12, true);
  const places = HEADER + 4 * count;
  return {
    stream: view.getUint16(6, true),
    tick: view.getUint32(8, true),
    instant: view.getFloat64(16, true),
    count,
    slots: new Uint32Array(buffer, HEADER, count),
    places: new Float32Array(buffer, places, 2 * count),
    classes: new Uint8Array(buffer, places + 8 * count, count),
  };
}

export class Track {
  constructor(stream, world) {
    this.stream = stream;
    this.world = world;
    this.count = 0;
    this.number = 1;
    this.since = 0;
    this.duration = 1000;
    this.hidden = new Set();
    this.grow(1024);
    this.move = new Float32Array(0);
    this.look = new Uint8Array(0);
    this.pulse = new Float32Array(0);
    this.turn = new Float32Array(0);
    this.slots = new Uint32Array(0);
    this.version = 0;
    this.drawn = 0;
  }

  // By slot: from and to (x, y each), the last frame it was in, its mark and when that changed, and
  // where it is heading: clockwise from north in radians, or NO_HEADING until it has moved.
  grow(capacity) {
    const wider = (old, kind, width) => {
      const made = new kind(capacity * width);
      if (old) made.set(old);
      return made;
    };
    this.paths = wider(this.paths, Float32Array, 4);
    this.seen = wider(this.seen, Uint32Array, 1);
    this.classOf = wider(this.classOf, Uint8Array, 1);
    this.marks = wider(this.marks, Uint8Array, 1);
    this.changed = wider(this.changed, Float32Array, 1);
    this.headings = wider(this.headings, Float32Array, 1);
    this.capacity = capacity;
  }

  progress(now) {
    return Math.max(0, Math.min(1, (now - this.since) / this.duration));
  }

  take(frame, now) {
    const { slots, places, classes, count } = frame;
    let top = 0;
    for (let i = 0; i < count; i++) if (slots[i] > top) top = slots[i];
    if (top >= this.capacity) this.grow(Math.max(top + 1, this.capacity * 2));
    if (this.since) {
      const gap = Math.max(FASTEST, Math.min(SLOWEST, now - this.since));
      this.duration = this.duration * 0.6 + gap * 0.4;
    }
    const done = this.progress(now);
    const last = this.number++;
    const [ox, oy] = this.world.origin;
    const { paths, seen } = this;
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      const at = slot * 4;
      const [mx, my] = this.world.toMercator(places[2 * i], places[2 * i + 1]);
      const x = mx - ox;
      const y = my - oy;
      const stayed = seen[slot] === last;
      const [dx, dy] = [x - paths[at + 2], y - paths[at + 3]];
      if (!stayed) this.headings[slot] = NO_HEADING;
      else if (dx || dy) this.headings[slot] = Math.atan2(dx, -dy);
      paths[at] = stayed ? paths[at] + (paths[at + 2] - paths[at]) * done : x;
      paths[at + 1] = stayed ? paths[at + 1] + (paths[at + 3] - paths[at + 1]) * done : y;
      paths[at + 2] = x;
      paths[at + 3] = y;
      if (!stayed) this.marks[slot] = this.changed[slot] = 0;
      seen[slot] = this.number;
      this.classOf[slot] = classes[i];
    }
    this.count = count;
    this.slots = slots;
    this.tick = frame.tick;
    this.instant = frame.instant;
    this.since = now;
  }

  // The arrays to draw, in the order of the frame.
  lay() {
    if (this.move.length < this.count * 4) {
      const room = Math.ceil(this.count * 1.25) + 16;
      this.move = new Float32Array(room * 4);
      this.look = new Uint8Array(room * 2);
      this.pulse = new Float32Array(room);
      this.turn = new Float32Array(room);
    }
    const { slots, paths, move, look, pulse, turn, marks, classOf, changed, headings } = this;
    let drawn = 0;
    for (let i = 0; i < this.count; i++) {
      const slot = slots[i];
      if (this.hidden.size && this.hidden.has(classOf[slot]) && !marks[slot]) continue;
      for (let j = 0; j < 4; j++) move[drawn * 4 + j] = paths[slot * 4 + j];
      look[drawn * 2] = classOf[slot];
      look[drawn * 2 + 1] = marks[slot];
      pulse[drawn] = changed[slot];
      turn[drawn] = headings[slot];
      drawn++;
    }
    this.drawn = drawn;
    this.version++;
  }

  lives(slot) {
    return slot < this.capacity && this.seen[slot] === this.number;
  }

  // Where an object is drawn now, in Mercator less the origin; and from where to where it moves.
  at(slot, now) {
    if (!this.lives(slot)) return null;
    const [fx, fy, tx, ty] = this.path(slot);
    const done = this.progress(now);
    return [fx + (tx - fx) * done, fy + (ty - fy) * done];
  }

  path(slot) {
    return this.paths.subarray(slot * 4, slot * 4 + 4);
  }

  // The object nearest to a place within a reach, both in Mercator less the origin.
  nearest(x, y, reach, now) {
    let best = reach * reach;
    let found = null;
    const done = this.progress(now);
    for (let i = 0; i < this.count; i++) {
      const at = this.slots[i] * 4;
      const dx = this.paths[at] + (this.paths[at + 2] - this.paths[at]) * done - x;
      const dy = this.paths[at + 1] + (this.paths[at + 3] - this.paths[at + 1]) * done - y;
      const far = dx * dx + dy * dy;
      if (far < best && !this.hidden.has(this.classOf[this.slots[i]])) {
        best = far;
        found = this.slots[i];
      }
    }
    return found;
  }

  // Marks are the numbers of the queries whose answers hold the objects; a change of one is told
  // to the shader with its time, negative where an object has left. Tells whether any has changed.
  mark(bySlot, seconds) {
    let isChanged = false;
    for (let i = 0; i < this.count; i++) {
      const slot = this.slots[i];
      const mark = bySlot.get(slot) ?? 0;
      if (this.marks[slot] === mark) continue;
      this.changed[slot] = mark ? seconds : -seconds;
      this.marks[slot] = mark;
      isChanged = true;
    }
    this.lay();
    return isChanged;
  }

  byClass() {
    const counts = new Map();
    for (let i = 0; i < this.count; i++) {
      const code = this.classOf[this.slots[i]];
      counts.set(code, (counts.get(code) ?? 0) + 1);
    }
    return counts;
  }
}
