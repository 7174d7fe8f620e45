// The colours of classes of objects, of kinds of queries, of the answers of chosen queries, and of
// triggers with their alerts.

export const CLASS_COLOURS = [
  "#3d7fd9", "#e0883a", "#3fa66b", "#a678c8", "#d9a520", "#2aa5a0", "#d9667b", "#8a6a55",
  "#7f8fd9", "#8fb339", "#c95fae", "#5f9ea0", "#b5895a", "#6b7fa3", "#c4714f",
];
export const OTHER_COLOUR = "#8793a3";
export const MARK_COLOURS = [
  "#e03168", "#12a886", "#f08c00", "#7f56f0", "#1798c9", "#d9480f", "#5f9f1f", "#c136c1",
  "#b08900", "#4263eb", "#0c8599", "#e8590c", "#ae3ec9", "#2f9e44", "#f03e6e",
];
export const LEAVING = "#f03e3e";
export const ALERT = "#ffd60a";
export const KINDS = {
  range: { label: "range", colour: "#1c7ed6" },
  "moving range": { label: "moving range", colour: "#7048e8" },
  knn: { label: "kNN", colour: "#e67700" },
  "moving knn": { label: "moving kNN", colour: "#d6336c" },
  trigger: { label: "trigger", colour: ALERT },
  other: { label: "other", colour: "#748091" },
};

export const classColour = (code) =>
  code === 255 ? OTHER_COLOUR : CLASS_COLOURS[code % CLASS_COLOURS.length];
