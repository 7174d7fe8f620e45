// Where objects came from: the last few minutes of each, in thin lines that fade. Of very many objects
// only the chosen one has a trail.

import { MoversLayer } from "./movers.js";

const MOST_KEPT = 2000;
const MOST_DRAWN = 300;
const LONGEST = 180;
const APART = 1000;
const FINE = 60;

export class Trails {
  constructor(live, scene) {
    Object.assign(this, { live, scene });
    this.isOn = false;
    this.kept = new Map();
    this.layer = new MoversLayer(live, "trails");
    scene.map.addLayer(this.layer, "objects");
    live.on("world", () => this.kept.clear());
    live.on("frame", (track) => {
      this.remember(track);
      this.draw();
    });
  }

  show(isOn) {
    this.isOn = isOn;
    this.draw();
  }

  // What is known of an object's way from elsewhere: places one after the other, x and y each.
  keep({ stream, slot }, points) {
    this.kept.set(stream, new Map([[slot, { at: performance.now(), points }]]));
    this.draw();
  }

  // One place a second at most; what an object's slot was before is not its trail.
  remember(track) {
    if (this.live.past) return; // its trails are those of the archive
    const now = performance.now();
    const { index } = track.stream;
    if (!this.kept.has(index)) this.kept.set(index, new Map());
    const trails = this.kept.get(index);
    for (const slot of trails.keys()) if (!track.lives(slot)) trails.delete(slot);
    const chosen = this.scene.chosen;
    const slots = track.count <= MOST_KEPT ? track.slots
      : chosen?.stream === index ? [chosen.slot] : [];
    for (const slot of slots) {
      if (!track.lives(slot)) continue;
      const [, , x, y] = track.path(slot);
      const trail = trails.get(slot) ?? { at: -APART, points: [] };
      const [lastX, lastY] = trail.points.slice(-2);
      if (now < trail.at + APART || (lastX === x && lastY === y)) continue;
      trail.at = now;
      trail.points.push(x, y);
      if (trail.points.length > 2 * LONGEST) trail.points.splice(0, 2);
      trails.set(slot, trail);
    }
  }

  draw() {
    const links = [];
    const chosen = this.scene.chosen;
    const colour = this.live.isDark ? "#c3ccd6" : "#33414f";
    for (const [index, trails] of this.kept) {
      const track = this.live.tracks.get(index);
      if (!track) continue;
      const slots = this.isOn ? [...trails.keys()].slice(0, MOST_DRAWN) : [];
      if (chosen?.stream === index && !slots.includes(chosen.slot)) slots.push(chosen.slot);
      const every = slots.length > 100 ? Math.ceil(LONGEST / FINE) : 1;
      for (const slot of slots) {
        const points = trails.get(slot)?.points;
        if (!points || !track.lives(slot) || track.hidden.has(track.classOf[slot])) continue;
        const isChosen = chosen?.stream === index && chosen.slot === slot;
        links.push(...this.lines(points, track.path(slot), every, colour, isChosen));
      }
    }
    this.layer.set(this.live.world, [], links);
  }

  lines(points, path, every, colour, isChosen) {
    const found = [];
    // The newest place is where the object is going to, not where it has been.
    const isAhead = points.at(-2) === path[2] && points.at(-1) === path[3];
    const count = points.length / 2 - (isAhead ? 1 : 0);
    const [strength, width] = isChosen ? [0.95, 2.4] : [0.55, 1.4];
    for (let i = 0; i < count; i += every) {
      const from = [points[2 * i], points[2 * i + 1], points[2 * i], points[2 * i + 1]];
      const j = i + every;
      // The last piece ends where the object is drawn, which moves between two frames.
      const to = j < count ? [points[2 * j], points[2 * j + 1], points[2 * j], points[2 * j + 1]]
        : [...path];
      if (Math.abs(to[2] - from[2]) > 0.5) continue; // around the globe
      found.push({ from, to, colour, width, alpha: strength * (0.15 + (0.85 * (i + 1)) / count) });
    }
    return found;
  }
}
