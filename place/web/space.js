// The two spaces on one map. Positions become Mercator's unit square: wgs84 by its projection,
// the plane by a linear map of its bounds to a small square around longitude and latitude 0,
// where Mercator bends nothing.

const SIDE = 0.01;
const EARTH_RADIUS = 6371008.8;
const DEGREES = 180 / Math.PI;
const STEPS = 64;

const mercatorX = (longitude) => (longitude + 180) / 360;
const mercatorY = (latitude) => {
  const bounded = Math.max(-85.05, Math.min(85.05, latitude));
  return 0.5 - Math.log(Math.tan(Math.PI / 4 + bounded / DEGREES / 2)) / (2 * Math.PI);
};
const longitudeOf = (x) => x * 360 - 180;
const latitudeOf = (y) => DEGREES * 2 * Math.atan(Math.exp((0.5 - y) * 2 * Math.PI)) - 90;

export class World {
  constructor(space, bounds) {
    this.space = space;
    this.isPlanar = space === "planar";
    const [x1, y1, x2, y2] = bounds ?? (this.isPlanar ? [0, 0, 1, 1] : [-170, -60, 170, 75]);
    this.bounds = [x1, y1, x2, y2];
    this.center = [(x1 + x2) / 2, (y1 + y2) / 2];
    this.size = Math.max(x2 - x1, y2 - y1) || 1;
    this.scale = SIDE / this.size;
    this.origin = this.isPlanar ? [0.5, 0.5] : this.toMercator(...this.center);
  }

  toMercator(x, y) {
    if (!this.isPlanar) return [mercatorX(x), mercatorY(y)];
    return [0.5 + (x - this.center[0]) * this.scale, 0.5 - (y - this.center[1]) * this.scale];
  }

  fromMercator(mx, my) {
    if (!this.isPlanar) return [longitudeOf(mx), latitudeOf(my)];
    return [this.center[0] + (mx - 0.5) / this.scale, this.center[1] - (my - 0.5) / this.scale];
  }

  toLngLat(x, y) {
    if (!this.isPlanar) return [x, y];
    const [mx, my] = this.toMercator(x, y);
    return [longitudeOf(mx), latitudeOf(my)];
  }

  fromLngLat({ lng, lat }) {
    if (!this.isPlanar) return [((((lng + 180) % 360) + 360) % 360) - 180, lat];
    return this.fromMercator(mercatorX(lng), mercatorY(lat));
  }

  // The length of this space between two points: Euclid's, or metres on the sphere.
  distance([ax, ay], [bx, by]) {
    if (this.isPlanar) return Math.hypot(ax - bx, ay - by);
    const half = (degrees) => Math.sin(degrees / DEGREES / 2) ** 2;
    const h = half(by - ay) + Math.cos(ay / DEGREES) * Math.cos(by / DEGREES) * half(bx - ax);
    return 2 * EARTH_RADIUS * Math.asin(Math.min(1, Math.sqrt(h)));
  }

  // The corners of a shape in the coordinates of this space, without repeating the first.
  rings(shape) {
    if (shape.type === "polygon") return shape.rings;
    if (shape.type === "circle") return [this.circle(shape.x, shape.y, shape.r)];
    const { x1, y1, y2 } = shape;
    const x2 = !this.isPlanar && shape.x2 < x1 ? shape.x2 + 360 : shape.x2;
    return [[[x1, y1], [x2, y1], [x2, y2], [x1, y2]]];
  }

  circle(x, y, r, steps = STEPS) {
    return Array.from({ length: steps }, (_, i) => {
      const angle = (2 * Math.PI * i) / steps;
      return this.isPlanar ? [x + r * Math.cos(angle), y + r * Math.sin(angle)]
        : destination(x, y, r, angle);
    });
  }

  // The shape that a moving query has around a place: a circle of one extent, a rectangle of two.
  around([x, y], extents, steps = STEPS) {
    if (extents.length === 1) return this.circle(x, y, extents[0], steps);
    let [width, height] = extents.map((side) => side / 2);
    if (!this.isPlanar) {
      height = (height / EARTH_RADIUS) * DEGREES;
      width = ((width / EARTH_RADIUS) * DEGREES) / Math.max(Math.cos(y / DEGREES), 1e-6);
    }
    return [[x - width, y - height], [x + width, y - height],
      [x + width, y + height], [x - width, y + height]];
  }

  // A number as it is shown and written in SQL: as many digits as can be told apart on the map.
  format(value) {
    const digits = this.isPlanar ? Math.max(0, Math.ceil(4 - Math.log10(this.size))) : 6;
    return String(Number(value.toFixed(Math.min(digits, 12))));
  }

  formatLength(value) {
    return this.isPlanar ? this.format(value) : String(Math.max(1, Math.round(value)));
  }
}

function destination(x, y, metres, angle) {
  const far = metres / EARTH_RADIUS;
  const lat = y / DEGREES;
  const sine = Math.sin(lat) * Math.cos(far) + Math.cos(lat) * Math.sin(far) * Math.cos(angle);
  const turn = Math.atan2(Math.sin(angle) * Math.sin(far) * Math.cos(lat),
    Math.cos(far) - Math.sin(lat) * sine);
  return [x + turn * DEGREES, Math.asin(Math.max(-1, Math.min(1, sine))) * DEGREES];
}

// One world for all planar streams, one for all on the globe.
export function worldsOf(streams) {
  const found = new Map();
  for (const space of new Set(streams.map((stream) => stream.space))) {
    const members = streams.filter((stream) => stream.space === space);
    const boxes = members.map((stream) => stream.bounds).filter(Boolean);
    found.set(space, new World(space, boxes.length ? union(boxes) : null));
  }
  return found;
}

// The box around places (x, y, x, y …), a little wider than they are.
export function boundsOf(places) {
  let [x1, y1, x2, y2] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < places.length; i += 2) {
    [x1, x2] = [Math.min(x1, places[i]), Math.max(x2, places[i])];
    [y1, y2] = [Math.min(y1, places[i + 1]), Math.max(y2, places[i + 1])];
  }
  const more = Math.max(x2 - x1, y2 - y1) * 0.1 || 0.01;
  return [x1 - more, y1 - more, x2 + more, y2 + more];
}

function union(boxes) {
  const column = (i) => boxes.map((box) => box[i]);
  return [Math.min(...column(0)), Math.min(...column(1)),
    Math.max(...column(2)), Math.max(...column(3))];
}
