// Elements by name, and elements made.

export const byId = (id) => document.getElementById(id);

// make("li", {class: "row", onclick: f}, "text", child): text is always text, never markup.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "colour") element.style.setProperty("--colour", value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A value of a row; times of rows are microseconds since 1970.
export function showValue(value, type) {
  if (value === null) return "NULL";
  if (type === "TIMESTAMP" && typeof value === "number") {
    return new Date(value / 1000).toISOString().replace("T", " ").replace(/\.?0*Z$/, "");
  }
  const isFraction = typeof value === "number" && !Number.isInteger(value);
  return String(isFraction ? Number(value.toPrecision(7)) : value);
}
