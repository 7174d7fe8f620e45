// The constraints of a trigger as a small graph: variables are nodes, what two of them must be to
// each other is an edge, and an edge that follows from others is dashed.

import { call, describeError } from "./api.js";
import { make } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 320;
const MOST_LABELLED = 5;
const LINE = 13;
let count = 0;

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// A place for the graph of a trigger, which is asked for when it is made.
export function graphOf(query) {
  const figure = make("figure", { class: "graph" }, make("p", { class: "quiet" }, "…"));
  call(`/queries/${encodeURIComponent(query.name)}/constraints`)
    .then((graph) => figure.replaceChildren(...drawGraph(query, graph)))
    .catch((error) => figure.replaceChildren(
      make("p", { class: "error" }, describeError(error))));
  return figure;
}

function drawGraph(query, graph) {
  const inferred = graph.edges.filter(isInferred).length;
  const notes = [];
  if (inferred) notes.push("Dashed: follows from other conditions.");
  if (!graph.has_numbers) notes.push("The bounds depend on rows of tables.");
  for (const condition of graph.more) notes.push(`Asked last: ${condition}.`);
  return [picture(query, graph), notes.length ? make("figcaption", {}, notes.join(" ")) : ""];
}

const bounds = (edge) => [edge.time, edge.distance].filter(Boolean);
const isInferred = (edge) => bounds(edge).length > 0 && !edge.compares.length
  && bounds(edge).every(({ inferred }) => inferred);

function picture(query, graph) {
  const { nodes, edges } = graph;
  const places = layOut(nodes, edges);
  const height = Math.max(...places.map(([, y]) => y)) + (hasLoop(edges) ? 58 : 30);
  const id = `later-${++count}`;
  const isLabelled = nodes.length <= MOST_LABELLED;
  const said = [...nodes.map(nodeWords), ...edges.map((edge) => edgeWords(nodes, edge))];
  return draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img",
    "aria-label": `Constraints of ${query.name}: ${said.join("; ")}` },
  draw("defs", {}, draw("marker", { id, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7,
    markerHeight: 7, orient: "auto" }, draw("path", { d: "M0 0L8 4L0 8z", class: "tip" }))),
  ...edges.map((edge) => line(edge, nodes, places, id)),
  ...nodes.map((node, i) => box(node, places[i])),
  ...(isLabelled ? edges.map((edge) => label(edge, places)) : []));
}

const hasLoop = (edges) => edges.some(({ first, second }) => first === second);

// One node stands in the middle, two beside each other, more around a circle.
function layOut(nodes, edges) {
  const top = 24;
  if (nodes.length === 1) return [[WIDTH / 2, top]];
  if (nodes.length === 2) return [[62, top], [WIDTH - 62, top]];
  const radius = nodes.length > 4 ? 104 : hasLoop(edges) ? 88 : 80;
  const across = WIDTH / 2 - 30;
  const angles = nodes.map((_, i) => (i * 2 * Math.PI) / nodes.length - Math.PI / 2);
  const widest = Math.max(...angles.map((angle) => Math.abs(Math.cos(angle))));
  return angles.map((angle) => [WIDTH / 2 + (Math.cos(angle) / widest) * across,
    top + radius + Math.sin(angle) * radius]);
}

const nodeName = ({ name, count: size, absent }) =>
  `${absent ? "no " : ""}${name}${size > 1 ? ` × ${size}` : ""}`;

function nodeWords(node) {
  return `${nodeName(node)} of ${node.stream}${node.asks ? `, ${node.asks}` : ""}`;
}

function boundWords({ time, distance, compares }) {
  const told = [];
  if (time) told.push(time.text);
  if (distance) told.push(`distance ${distance.text}`);
  return [...told, ...compares];
}

function edgeWords(nodes, edge) {
  const [one, other] = [nodes[edge.first], nodes[edge.second]].map(nodeName);
  const ends = edge.first === edge.second ? `between any two of ${one}` : `${one} to ${other}`;
  return `${ends}: ${boundWords(edge).join(", ")}${isInferred(edge) ? " (inferred)" : ""}`;
}

const widthOf = (node) => Math.max(44, 7.4 * Math.max(nodeName(node).length, 4) + 16);

function box(node, [x, y]) {
  const width = widthOf(node);
  const words = draw("title", {}, nodeWords(node));
  return draw("g", { class: node.absent ? "node absent" : "node" }, words,
    draw("rect", { x: x - width / 2, y: y - 14, width, height: 28, rx: 8 }),
    draw("text", { x, y: y + 4.5 }, nodeName(node)));
}

function line(edge, nodes, places, marker) {
  const [ax, ay] = places[edge.first];
  const [bx, by] = places[edge.second];
  const style = `edge${isInferred(edge) ? " inferred" : ""}`;
  const words = draw("title", {}, edgeWords(nodes, edge));
  if (edge.first === edge.second) {
    const [top, low] = [ay + 13, ay + 40];
    const path = `M${ax - 14} ${top}C${ax - 30} ${low} ${ax + 30} ${low} ${ax + 14} ${top}`;
    return draw("path", { d: path, class: style }, words);
  }
  const end = borderOf(nodes[edge.second], [bx, by], [ax, ay]);
  const isLater = edge.time?.text.endsWith("later");
  return draw("path", { d: `M${ax} ${ay}L${end[0]} ${end[1]}`, class: style,
    "marker-end": isLater ? `url(#${marker})` : null }, words);
}

// Where a line towards a node meets its border.
function borderOf(node, [x, y], [fromX, fromY]) {
  const [dx, dy] = [fromX - x, fromY - y];
  const share = Math.min(1, (widthOf(node) / 2) / Math.abs(dx || 1e-9), 14 / Math.abs(dy || 1e-9));
  return [x + dx * share, y + dy * share];
}

function label(edge, places) {
  const [ax, ay] = places[edge.first];
  const [bx, by] = places[edge.second];
  const isLoop = edge.first === edge.second;
  const lines = boundWords(isLoop ? edge : { ...edge, compares: [] });
  const x = (ax + bx) / 2;
  const y = isLoop ? ay + 44 : (ay + by) / 2 + 4 - ((lines.length - 1) * LINE) / 2;
  const isWritten = (text) => !bounds(edge).some((bound) => bound.inferred
    && text.endsWith(bound.text));
  const shown = isLoop ? [lines.join(" · ")] : lines;
  return draw("text", { class: "bound" }, ...shown.map((text, i) =>
    draw("tspan", { x, y: y + i * LINE, class: isWritten(text) ? null : "inferred" }, text)));
}
