// Fields of the form that several kinds of queries have.

import { make } from "./dom.js";

export function choices(name, values, label, chosen, onChoose) {
  const options = values.map(([value, text]) => make("label", {},
    make("input", { type: "radio", name, value, checked: value === chosen,
      onchange: () => onChoose(value) }), text));
  return make("fieldset", { class: "choices" }, make("legend", {}, label), ...options);
}

export function numberField(id, label, text, take, step = "any") {
  const input = make("input", { id, type: "number", step, inputmode: "decimal", value: text,
    oninput: () => take(input.value === "" ? NaN : Number(input.value)) });
  return make("label", {}, label, input);
}

// The corners of a polygon, as WKT writes them.
export function cornersField(world, corners, take) {
  const text = corners.map(([x, y]) => `${world.format(x)} ${world.format(y)}`).join(", ");
  const input = make("input", { id: "corners", value: text, placeholder: "x y, x y, x y",
    oninput: () => take(readCorners(input.value)) });
  return make("label", { class: "wide" }, "Corners", input);
}

function readCorners(text) {
  const pairs = text.split(",").map((pair) => pair.trim().split(/\s+/).map(Number));
  return pairs.filter((pair) => pair.length === 2 && pair.every(Number.isFinite));
}
