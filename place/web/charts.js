// Small charts over time, drawn on canvases in the colours of the page.

const LONGEST = 300;
const SHORTEST = 60;

export function shortNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(size >= 1e7 ? 0 : 1)}M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(0)}k`;
  if (size >= 1e3) return `${(value / 1e3).toFixed(1)}k`;
  return size >= 10 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

export class Chart {
  constructor(parent, title, format = shortNumber) {
    this.format = format;
    this.values = [];
    this.figure = document.createElement("figure");
    this.figure.className = "chart";
    const caption = document.createElement("figcaption");
    this.caption = caption;
    this.title = title;
    this.name = document.createElement("span");
    this.name.textContent = title;
    this.value = document.createElement("output");
    caption.append(this.name, this.value);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.figure.append(caption, this.canvas);
    parent.append(this.figure);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  add(value, at = Date.now() / 1000) {
    this.values.push([at, value]);
    while (this.values.length && this.values[0][0] < at - LONGEST) this.values.shift();
    this.value.textContent = this.format(value);
    this.canvas.setAttribute("aria-label",
      `${this.title} over the last minutes, now ${this.format(value)}`);
    this.draw();
  }

  draw() {
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const [first, last] = [this.values[0]?.[0] ?? 0, this.values.at(-1)?.[0] ?? 0];
    this.span = Math.min(LONGEST, Math.max(SHORTEST, last - first));
    const known = this.values.filter(([, value]) => value !== null);
    const top = niceTop(Math.max(1e-9, ...known.map(([, value]) => value)));
    this.axes(pen, width, height, top, style);
    if (known.length) this.line(pen, known, width, height, top, style);
  }

  axes(pen, width, height, top, style) {
    pen.strokeStyle = style.getPropertyValue("--line");
    pen.fillStyle = style.getPropertyValue("--quiet");
    pen.font = "10px system-ui, sans-serif";
    pen.lineWidth = 1;
    pen.beginPath();
    for (const part of [0, 0.5, 1]) {
      const y = Math.round(height - 12 - part * (height - 24)) + 0.5;
      pen.moveTo(0, y);
      pen.lineTo(width, y);
    }
    pen.stroke();
    pen.fillText(this.format(top), 0, 9);
    const { span } = this;
    const since = span < 120 ? `−${Math.round(span)} s` : `−${Math.round(span / 60)} min`;
    pen.fillText(since, 0, height - 1);
    pen.textAlign = "right";
    pen.fillText("now", width, height - 1);
  }

  line(pen, known, width, height, top, style) {
    const end = this.values.at(-1)[0];
    const x = (at) => width - ((end - at) / this.span) * width;
    const y = (value) => height - 12 - (value / top) * (height - 24);
    pen.beginPath();
    known.forEach(([at, value], i) => pen[i ? "lineTo" : "moveTo"](x(at), y(value)));
    pen.strokeStyle = style.getPropertyValue("--accent");
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    pen.stroke();
    pen.lineTo(x(known.at(-1)[0]), height - 12);
    pen.lineTo(x(known[0][0]), height - 12);
    pen.globalAlpha = 0.12;
    pen.fillStyle = style.getPropertyValue("--accent");
    pen.fill();
  }
}

function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value);
}
