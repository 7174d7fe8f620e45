// The form that makes a query: what it chooses is drawn on the map and written as SQL, and what is
// drawn on the map stands in its fields.

import { Pen } from "./draw.js";
import { make } from "./dom.js";
import { freeName, writeSql } from "./sql.js";

const SHAPES = ["rectangle", "circle", "polygon"];
const HINTS = {
  rectangle: "Drag a rectangle on the map. Esc ends.",
  circle: "Drag from the middle of the circle outwards. Esc ends.",
  polygon: "Click the corners; a double click, Enter or the first corner again ends it.",
  point: "Click the place on the map.",
  object: "Click the object to follow.",
};

export class Composer {
  constructor(form, live, scene, say, onSubmit) {
    Object.assign(this, { form, live, scene, say, onSubmit });
    this.spec = {
      kind: "range", moving: false, shape: "rectangle", k: 3, focal: "", numbers: [], corners: [],
      classes: [], where: "", name: "", columns: [], stream: null,
    };
    this.isEdited = false;
    this.isNamed = false;
    this.build();
    scene.ready.then(() => {
      this.pen = new Pen(scene.map, live, {
        onChange: (mode, shape) => this.takeShape(mode, shape),
        onDone: (mode, shape) => this.drawn(mode, shape),
        onPick: (found, wanted) => this.picked(found, wanted),
      });
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    live.on("classes", () => this.showClasses());
  }

  build() {
    const choices = (name, values, label) => make("fieldset", { class: "choices" },
      make("legend", {}, label), ...values.map(([value, text]) => make("label", {},
        make("input", { type: "radio", name, value, onchange: () => this.chosen(name, value),
          checked: String(this.spec[name]) === value }), text)));
    this.stream = make("select", { id: "stream", onchange: () => this.setStream(this.stream.value) });
    this.fields = make("div", { class: "fields" });
    this.shapes = choices("shape", SHAPES.map((shape) => [shape, shape]), "Shape");
    this.draw = make("button", { type: "button", id: "draw", onclick: () => this.startDrawing() }, "Draw");
    this.pick = make("button", { type: "button", id: "pick", onclick: () => this.start("object") }, "Pick on the map");
    this.classes = make("div", { class: "classes" });
    this.where = make("input", { id: "where", placeholder: "speed > 20", spellcheck: "false",
      oninput: () => this.edit({ where: this.where.value.trim() }) });
    this.name = make("input", { id: "name", required: true, spellcheck: "false", oninput: () => {
      this.isNamed = this.name.value.trim() !== "";
      this.edit({ name: this.name.value.trim() });
    } });
    this.sql = make("textarea", { id: "sql", rows: 5, spellcheck: "false", "aria-describedby": "sql-state",
      oninput: () => {
        this.isEdited = true;
        this.showSql();
      } });
    this.state = make("p", { id: "sql-state", class: "quiet", role: "status" });
    this.error = make("p", { id: "sql-error", class: "error", role: "alert", hidden: true });
    this.reset = make("button", { type: "button", class: "plain", hidden: true, onclick: () => {
      this.isEdited = false;
      this.showSql();
    } }, "Write it from the form again");
    this.register = make("button", { type: "submit", class: "primary", id: "register" }, "Register");
    this.form.replaceChildren(
      make("h2", {}, "New query"),
      make("label", { class: "row stream" }, "Stream", this.stream),
      make("div", { class: "pair" },
        choices("kind", [["range", "Range"], ["knn", "Nearest"]], "Ask for"),
        choices("moving", [["false", "a place"], ["true", "an object"]], "Around")),
      this.shapes, this.fields, this.classes,
      make("label", { class: "row" }, "Where", this.where),
      make("label", { class: "row" }, "Name", this.name),
      make("label", { class: "sql" }, "SQL", this.sql),
      this.state, this.reset, this.error, this.register);
  }

  setStreams() {
    const streams = this.live.drawnTracks().map((track) => track.stream);
    this.stream.replaceChildren(...streams.map(({ name }) => make("option", { value: name }, name)));
    this.stream.closest("label").hidden = streams.length < 2;
    const kept = streams.find(({ name }) => name === this.spec.stream?.name);
    this.setStream((kept ?? streams[0])?.name);
  }

  setStream(name) {
    const stream = this.live.streams.find((each) => each.name === name) ?? null;
    const columns = stream ? [stream.key_column, stream.class_column].filter(Boolean) : [];
    if (this.spec.stream?.name !== name) Object.assign(this.spec, { numbers: [], corners: [], focal: "", classes: [] });
    if (name) this.stream.value = name;
    this.edit({ stream, columns });
    this.showFields();
    this.showClasses();
  }

  chosen(name, value) {
    const change = { [name]: name === "moving" ? value === "true" : value };
    if (name !== "shape" || value !== this.spec.shape) Object.assign(change, { numbers: [], corners: [] });
    if (name === "moving" && change.moving && this.spec.shape === "polygon") change.shape = "rectangle";
    this.pen?.stop();
    this.edit(change);
    this.suggestSize();
    this.showFields();
    this.startDrawing();
  }

  // A moving region has a size and no place: begin with one that can be seen.
  suggestSize() {
    const { spec, live } = this;
    if (!spec.moving || spec.kind === "knn") return;
    const { world } = live;
    const whole = world.isPlanar ? world.size : world.distance(
      [world.bounds[0], world.center[1]], [world.bounds[2], world.center[1]]);
    const side = Number(world.formatLength(Number((whole / 10).toPrecision(1))));
    this.edit({ numbers: spec.shape === "circle" ? [side / 2] : [side, side] });
  }

  showFields() {
    const { spec } = this;
    const isKnn = spec.kind === "knn";
    this.shapes.hidden = isKnn;
    for (const input of this.form.elements.shape) {
      input.checked = input.value === spec.shape;
      input.disabled = spec.moving && input.value === "polygon";
    }
    const fields = [];
    if (isKnn) fields.push(this.number("k", "How many", spec.k, (k) => this.edit({ k: Math.max(1, Math.round(k) || 1) }), 1));
    if (spec.moving) {
      this.focal = make("input", { id: "focal", value: spec.focal, spellcheck: "false",
        oninput: () => this.edit({ focal: this.focal.value.trim() }) });
      fields.push(make("label", {}, "Key of the object", this.focal), this.pick);
    }
    if (!isKnn && spec.shape === "polygon") fields.push(this.cornersField());
    else this.labels().forEach((label, i) => fields.push(this.number(`n${i}`, label, spec.numbers[i],
      (value) => this.edit({ numbers: Object.assign([...spec.numbers], { [i]: value }) }))));
    if (!spec.moving) {
      this.draw.textContent = isKnn ? "Click the place on the map" : `Draw the ${spec.shape}`;
      fields.push(this.draw);
    }
    this.fields.replaceChildren(...fields);
  }

  labels() {
    const { kind, moving, shape } = this.spec;
    const unit = this.live.world?.isPlanar === false ? " (m)" : "";
    const [x, y] = unit ? ["longitude", "latitude"] : ["x", "y"];
    if (kind === "knn") return moving ? [] : [x, y];
    if (moving) return shape === "circle" ? [`radius${unit}`] : [`width${unit}`, `height${unit}`];
    return shape === "circle" ? [x, y, `radius${unit}`] : [`${x} 1`, `${y} 1`, `${x} 2`, `${y} 2`];
  }

  number(id, label, value, take, step = "any") {
    const input = make("input", { id: `field-${id}`, type: "number", step, inputmode: "decimal",
      value: Number.isFinite(value) ? this.shown(id, value) : "",
      oninput: () => take(input.value === "" ? NaN : Number(input.value)) });
    return make("label", {}, label, input);
  }

  shown(id, value) {
    const isLength = this.spec.kind === "range" && (this.spec.moving || (this.spec.shape === "circle" && id === "n2"));
    if (id === "k") return String(value);
    return isLength ? this.live.world.formatLength(value) : this.live.world.format(value);
  }

  cornersField() {
    const { world } = this.live;
    const text = this.spec.corners.map(([x, y]) => `${world.format(x)} ${world.format(y)}`).join(", ");
    const input = make("input", { id: "corners", value: text, placeholder: "x y, x y, x y", oninput: () => {
      const corners = input.value.split(",").map((pair) => pair.trim().split(/\s+/).map(Number));
      this.edit({ corners: corners.filter((pair) => pair.length === 2 && pair.every(Number.isFinite)) });
    } });
    return make("label", { class: "wide" }, "Corners", input);
  }

  showClasses() {
    const { stream } = this.spec;
    const names = stream?.class_column ? stream.classes : [];
    const boxes = names.map((name) => make("label", {}, make("input", { type: "checkbox", value: name,
      checked: this.spec.classes.includes(name),
      onchange: () => this.edit({ classes: [...this.classes.querySelectorAll(":checked")].map((b) => b.value) }) }), name));
    this.classes.replaceChildren(...(boxes.length ? [make("span", {}, `Only ${stream.class_column}`), ...boxes] : []));
  }

  edit(change) {
    Object.assign(this.spec, change);
    if (!this.isNamed) {
      const base = `${this.spec.moving ? "moving_" : ""}${this.spec.kind === "knn" ? "nearest" : this.spec.shape}`;
      this.spec.name = freeName(base, this.live.queries.keys());
      this.name.value = this.spec.name;
    }
    this.showDrawing();
    this.showSql();
  }

  showSql() {
    if (!this.live.world) return;
    const { sql, missing } = writeSql(this.spec, this.live.world);
    if (!this.isEdited) this.sql.value = sql ?? "";
    this.sql.placeholder = missing ?? "";
    this.state.textContent = this.isEdited ? "Edited by hand: the form no longer changes it." : (missing ?? "");
    this.reset.hidden = !this.isEdited;
    this.register.disabled = !this.sql.value.trim();
    this.error.hidden = true;
  }

  showDrawing() {
    if (!this.isShown || !this.live.world) return;
    const { kind, moving, shape, numbers, corners } = this.spec;
    const all = (count) => numbers.slice(0, count).filter(Number.isFinite).length === count;
    let drawn = null;
    if (!moving && kind === "knn" && all(2)) drawn = { type: "point", x: numbers[0], y: numbers[1] };
    else if (!moving && kind === "range") {
      if (shape === "polygon") drawn = corners.length ? { type: "polygon", rings: [corners] } : null;
      else if (shape === "circle" && all(3)) drawn = { type: "circle", x: numbers[0], y: numbers[1], r: numbers[2] };
      else if (shape === "rectangle" && all(4)) {
        const [x1, y1, x2, y2] = numbers;
        drawn = { type: "rectangle", x1, y1, x2, y2 };
      }
    }
    this.scene.showDrawing(drawn);
  }

  startDrawing() {
    const { kind, moving, shape } = this.spec;
    this.start(moving ? "object" : kind === "knn" ? "point" : shape);
  }

  start(mode) {
    this.pen?.start(mode);
    this.say(HINTS[mode]);
  }

  takeShape(mode, shape) {
    if (mode === "polygon") this.edit({ corners: shape });
    else this.edit({ numbers: [...shape] });
  }

  drawn(mode, shape) {
    if (mode) this.takeShape(mode, shape);
    this.say("");
    this.showFields();
  }

  async picked(found, isWanted) {
    if (!isWanted) return this.onInspect?.(found);
    if (!found) return this.say("No object there; click closer to one.");
    const object = await this.live.identify(found.track.stream.index, found.slot);
    if (!object) return this.say("That object is gone; pick another.");
    this.pen.stop();
    this.edit({ focal: String(object.key) });
    this.showFields();
    this.say(`Following ${object.key}`);
  }

  show() {
    this.isShown = true;
    this.showDrawing();
    if (!this.spec.numbers.length && !this.spec.corners.length) this.say("");
  }

  pause() {
    this.isShown = false;
    this.pen?.stop();
    this.say("");
    if (this.scene.map.getSource("drawing")) this.scene.showDrawing(null);
  }

  async submit() {
    this.register.disabled = true;
    const trouble = await this.onSubmit(this.sql.value);
    this.register.disabled = false;
    if (trouble) {
      this.error.textContent = trouble;
      this.error.hidden = false;
      return;
    }
    this.isEdited = this.isNamed = false;
    this.edit(this.spec.moving ? {} : { numbers: [], corners: [] });
    this.showFields();
  }
}
