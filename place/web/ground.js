// Where one is: lines of longitude and latitude or of the plane, as many as the view needs, and a bar
// that says how long things are.

import { byId } from "./dom.js";

const APART = 110;
const MOST_LINES = 60;
const WIDEST = 110;
const empty = { type: "FeatureCollection", features: [] };

// The smallest of 1, 2 and 5 (and 3 for large angles) times a power of ten that is no smaller.
function niceStep(least, isAngle) {
  if (isAngle && least > 10) return [15, 30, 45, 90].find((step) => step >= least) ?? 90;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.9999);
}

// The corners of what is to be seen, in the coordinates of the world.
export function viewOf(map, world) {
  const box = map.getBounds();
  const plain = ({ lng, lat }) => (world.isPlanar ? world.fromLngLat({ lng, lat }) : [lng, lat]);
  const [x1, y1] = plain(box.getSouthWest());
  const [x2, y2] = plain(box.getNorthEast());
  if (world.isPlanar) return [x1, y1, x2, y2];
  return [Math.max(-180, x1), Math.max(-85, y1), Math.min(180, x2), Math.min(85, y2)];
}

function multiplesOf(step, low, high) {
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high && found.length < MOST_LINES; i++) {
    found.push(i * step);
  }
  return found;
}

// The lines of the view, and marks for their ends: {text, x or y}.
export function showGrid(map, world) {
  const [x1, y1, x2, y2] = viewOf(map, world);
  const { clientWidth } = map.getContainer();
  const marks = [];
  if (!(x2 > x1 && y2 > y1)) {
    map.getSource("grid").setData(empty);
    return marks;
  }
  const step = niceStep(((x2 - x1) / clientWidth) * APART, !world.isPlanar);
  const lines = [];
  for (const x of multiplesOf(step, x1, x2)) {
    lines.push([world.toLngLat(x, y1), world.toLngLat(x, y2)]);
    marks.push({ x, text: nameOf(x, step, world.isPlanar, "EW") });
  }
  for (const y of multiplesOf(step, y1, y2)) {
    lines.push([world.toLngLat(x1, y), world.toLngLat(x2, y)]);
    marks.push({ y, text: nameOf(y, step, world.isPlanar, "NS") });
  }
  const geometry = { type: "MultiLineString", coordinates: lines };
  map.getSource("grid").setData({ type: "Feature", properties: {}, geometry });
  return marks;
}

function nameOf(value, step, isPlanar, letters) {
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  const number = Math.abs(value) < step / 2 ? 0 : value;
  if (isPlanar) return number.toFixed(digits);
  const letter = number === 0 ? "" : number > 0 ? letters[0] : letters[1];
  return `${Math.abs(number).toFixed(digits)}°${letter}`;
}

// How long a piece of the middle of the screen is, in metres or in units of the plane.
export function showScale(map, world) {
  const box = map.getContainer();
  const middle = [box.clientWidth / 2, box.clientHeight / 2];
  const ends = [middle[0] - WIDEST / 2, middle[0] + WIDEST / 2].map((x) => {
    const { lng, lat } = map.unproject([x, middle[1]]);
    return world.isPlanar ? world.fromLngLat({ lng, lat }) : [lng, lat];
  });
  const whole = world.distance(...ends);
  const scale = byId("scale");
  scale.hidden = !(whole > 0);
  if (scale.hidden) return;
  const power = 10 ** Math.floor(Math.log10(whole));
  const length = [5, 2, 1].map((factor) => factor * power).find((each) => each <= whole);
  const text = world.isPlanar ? String(Number(length.toPrecision(2)))
    : length >= 1000 ? `${(length / 1000).toLocaleString("en")} km` : `${length} m`;
  scale.style.width = `${Math.round((WIDEST * length) / whole)}px`;
  scale.textContent = text;
}
