// All colours that mean something on the map. No colour has two meanings: soft ones are classes of
// objects, strong ones are queries with a colour of their own, and the few others have one each.

export const CLASS_COLOURS = [
  "#00a8fc", "#b46c30", "#6cc078", "#a890e4", "#d86ca8", "#909030", "#00c0b4", "#fc8484",
  "#d8a890", "#6c8460",
];
// Objects without a class, and all classes beyond those that have a colour.
export const OTHER_COLOUR = "#8793a3";
export const MARK_COLOURS = [
  "#f0006c", "#240cfc", "#00a800", "#fc1800", "#6c24b4", "#fc0cf0", "#a80c24", "#006cf0",
];
// Queries without a colour of their own.
export const QUERY_COLOUR = "#4a5969";
// What is being drawn and is not registered yet.
export const DRAWING = "#0b7285";
// Triggers and their alerts.
export const ALERT = "#ffd60a";

// The number of the mark that stands for all queries without a colour of their own.
export const LAST_MARK = MARK_COLOURS.length + 1;

export const markColour = (mark) => MARK_COLOURS[mark - 1] ?? QUERY_COLOUR;
export const classColour = (code) => CLASS_COLOURS[code] ?? OTHER_COLOUR;

export const KINDS = {
  range: "range",
  "moving range": "moving range",
  knn: "kNN",
  "moving knn": "moving kNN",
  trigger: "trigger",
  other: "other",
};
