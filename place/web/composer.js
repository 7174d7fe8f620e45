// The form that makes a query: what it chooses is drawn on the map and written as SQL, and what is
// drawn on the map stands in its fields.

import { Pen } from "./draw.js";
import { make } from "./dom.js";
import { choices, cornersField, numberField } from "./fields.js";
import { freeName, writeSql } from "./sql.js";

const SHAPES = ["rectangle", "circle", "polygon"];
const HINTS = {
  rectangle: "Drag a rectangle on the map.",
  circle: "Drag from the middle of the circle outwards.",
  polygon: "Choose corner after corner; a double click, Enter or the first corner again ends it.",
  point: "Choose the place on the map.",
  object: "Choose the object to follow on the map.",
};
const BLANK = { numbers: [], corners: [] };

export class Composer {
  constructor(form, live, scene, say, onSubmit) {
    Object.assign(this, { form, live, scene, say, onSubmit });
    this.spec = {
      kind: "range", moving: false, shape: "rectangle", k: 3, focal: "", classes: [], where: "",
      name: "", columns: [], stream: null, far: NaN, span: 10, ...BLANK,
    };
    this.isEdited = false;
    this.isNamed = false;
    this.build();
    scene.ready.then(() => {
      this.pen = new Pen(scene.map, live, {
        onChange: (mode, shape) => this.takeShape(mode, shape),
        onHover: (corners) => this.scene.showDrawing({ type: "polygon", rings: [corners] }),
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
    const pick = (name, values, label) =>
      choices(name, values, label, String(this.spec[name]), (value) => this.chosen(name, value));
    const button = (id, text, onclick) => make("button", { type: "button", id, onclick }, text);
    this.stream = make("select", { id: "stream",
      onchange: () => this.setStream(this.stream.value) });
    this.shapes = pick("shape", SHAPES.map((shape) => [shape, shape]), "Shape");
    this.fields = make("div", { class: "fields" });
    this.draw = button("draw", "Draw", () => this.pressDraw());
    this.pick = button("pick", "Pick on the map", () => this.start("object"));
    this.classes = make("div", { class: "classes" });
    this.where = make("input", { id: "where", placeholder: "speed > 20", spellcheck: "false",
      oninput: () => this.edit({ where: this.where.value.trim() }) });
    this.name = make("input", { id: "name", required: true, spellcheck: "false",
      oninput: () => this.rename(this.name.value.trim()) });
    this.sql = make("textarea", { id: "sql", rows: 5, spellcheck: "false",
      "aria-describedby": "sql-state", oninput: () => this.setEdited(true) });
    this.state = make("p", { id: "sql-state", class: "quiet", role: "status" });
    this.error = make("p", { id: "sql-error", class: "error", role: "alert", hidden: true });
    this.reset = button("reset", "Write it from the form again", () => this.setEdited(false));
    this.register = make("button", { type: "submit", class: "primary", id: "register" },
      "Register");
    this.form.replaceChildren(
      make("h2", {}, "New query"),
      make("label", { class: "row stream" }, "Stream", this.stream),
      make("div", { class: "pair" },
        pick("kind", [["range", "Range"], ["knn", "Nearest"], ["together", "Together"]], "Ask for"),
        this.around = pick("moving", [["false", "a place"], ["true", "an object"]], "Around")),
      this.shapes, this.fields, this.classes,
      make("label", { class: "row" }, "Where", this.where),
      make("label", { class: "row" }, "Name", this.name),
      make("label", { class: "sql" }, "SQL", this.sql),
      this.state, this.reset, this.error, this.register);
  }

  // What is chosen

  setStreams() {
    const streams = this.live.drawnTracks().map((track) => track.stream);
    const options = streams.map(({ name }) => make("option", { value: name }, name));
    this.stream.replaceChildren(...options);
    this.stream.closest("label").hidden = streams.length < 2;
    const kept = streams.find(({ name }) => name === this.spec.stream?.name);
    this.setStream((kept ?? streams[0])?.name);
  }

  setStream(name) {
    const stream = this.live.streams.find((each) => each.name === name) ?? null;
    const columns = stream ? [stream.key_column, stream.class_column].filter(Boolean) : [];
    const isOther = this.spec.stream?.name !== name;
    if (name) this.stream.value = name;
    this.edit({ stream, columns, ...(isOther ? { ...BLANK, focal: "", classes: [] } : {}) });
    this.showFields();
    this.showClasses();
  }

  chosen(name, value) {
    const change = { ...BLANK, [name]: name === "moving" ? value === "true" : value };
    if (change.kind === "together" && !(this.spec.far > 0)) change.far = this.length(500);
    if (change.moving && this.spec.shape === "polygon") change.shape = "rectangle";
    this.pen?.stop();
    this.edit(change);
    this.suggestSize();
    this.showFields();
    this.startDrawing();
  }

  // A moving region has a size and no place: begin with one that can be seen.
  suggestSize() {
    const { spec } = this;
    if (!spec.moving || spec.kind !== "range") return;
    const side = this.length(10);
    this.edit({ numbers: spec.shape === "circle" ? [side / 2] : [side, side] });
  }

  // A part of the width of what is to be seen, as a round number.
  length(part) {
    const { world } = this.live;
    const [x, y, wide] = this.scene.where();
    const piece = Math.min(wide, world.isPlanar ? wide : 360) / part;
    const length = world.distance([x, y], [x + piece, y]);
    return Number(world.formatLength(Number(length.toPrecision(1))));
  }

  rename(name) {
    this.isNamed = name !== "";
    this.edit({ name });
  }

  setEdited(isEdited) {
    this.isEdited = isEdited;
    this.showSql();
  }

  edit(change) {
    Object.assign(this.spec, change);
    if (!this.isNamed) {
      const { moving, kind, shape } = this.spec;
      const asked = { knn: "nearest", together: "together" }[kind] ?? shape;
      const base = `${moving && kind !== "together" ? "moving_" : ""}${asked}`;
      this.spec.name = freeName(base, this.live.queries.keys());
      this.name.value = this.spec.name;
    }
    this.showDrawing();
    this.showSql();
  }

  // What is shown

  showFields() {
    const { spec } = this;
    const isKnn = spec.kind === "knn";
    const isTogether = spec.kind === "together";
    this.shapes.hidden = spec.kind !== "range";
    this.around.hidden = isTogether;
    this.where.placeholder = isTogether ? "V.speed > 20" : "speed > 20";
    for (const input of this.form.elements.shape) {
      input.checked = input.value === spec.shape;
      input.disabled = spec.moving && input.value === "polygon";
    }
    if (isTogether) {
      this.fields.replaceChildren(...this.togetherFields());
      return;
    }
    const fields = [];
    if (isKnn) {
      const take = (k) => this.edit({ k: Math.max(1, Math.round(k) || 1) });
      fields.push(numberField("field-k", "How many", String(spec.k), take, 1));
    }
    if (spec.moving) fields.push(...this.focalFields());
    if (!isKnn && spec.shape === "polygon") {
      fields.push(cornersField(this.live.world, spec.corners, (corners) => this.edit({ corners })));
    } else fields.push(...this.labels().map((label, i) => this.numberField(label, i)));
    if (!spec.moving) fields.push(this.draw);
    this.showDraw();
    this.fields.replaceChildren(...fields);
  }

  // The button that begins to draw also ends a polygon.
  showDraw() {
    const { kind, shape } = this.spec;
    const isOpen = this.pen?.mode === "polygon" && this.pen.corners.length >= 3;
    this.draw.textContent = isOpen ? `Finish the polygon of ${this.pen.corners.length} corners`
      : kind === "knn" ? "Choose the place on the map" : `Draw the ${shape}`;
    this.draw.setAttribute("aria-pressed", String(Boolean(this.pen?.mode) && !isOpen));
  }

  togetherFields() {
    const { spec } = this;
    const unit = this.live.world?.isPlanar === false ? " (m)" : "";
    const whole = (k) => this.edit({ k: Math.round(k) });
    const near = Number.isFinite(spec.far) ? this.live.world.formatLength(spec.far) : "";
    return [
      numberField("field-k", "How many objects", String(spec.k), whole, 1),
      numberField("field-far", `At most apart${unit}`, near, (far) => this.edit({ far })),
      numberField("field-span", "Within (seconds)", String(spec.span),
        (span) => this.edit({ span })),
    ];
  }

  focalFields() {
    this.focal = make("input", { id: "focal", value: this.spec.focal, spellcheck: "false",
      oninput: () => this.edit({ focal: this.focal.value.trim() }) });
    return [make("label", {}, "Key of the object", this.focal), this.pick];
  }

  labels() {
    const { kind, moving, shape } = this.spec;
    const unit = this.live.world?.isPlanar === false ? " (m)" : "";
    const [x, y] = unit ? ["longitude", "latitude"] : ["x", "y"];
    if (kind === "knn") return moving ? [] : [x, y];
    if (moving) return shape === "circle" ? [`radius${unit}`] : [`width${unit}`, `height${unit}`];
    return shape === "circle" ? [x, y, `radius${unit}`] : [`${x} 1`, `${y} 1`, `${x} 2`, `${y} 2`];
  }

  numberField(label, i) {
    const { spec, live: { world } } = this;
    const value = spec.numbers[i];
    const isLength = spec.kind === "range" && (spec.moving || (spec.shape === "circle" && i === 2));
    const shown = isLength ? (n) => world.formatLength(n) : (n) => world.format(n);
    const take = (number) =>
      this.edit({ numbers: Object.assign([...spec.numbers], { [i]: number }) });
    return numberField(`field-n${i}`, label, Number.isFinite(value) ? shown(value) : "", take);
  }

  showClasses() {
    const { stream } = this.spec;
    const names = stream?.class_column ? stream.classes : [];
    const take = () => {
      const checked = [...this.classes.querySelectorAll(":checked")];
      this.edit({ classes: checked.map((box) => box.value) });
    };
    const boxes = names.map((name) => make("label", {}, make("input", { type: "checkbox",
      value: name, checked: this.spec.classes.includes(name), onchange: take }), name));
    if (boxes.length) boxes.unshift(make("span", {}, `Only ${stream.class_column}`));
    this.classes.replaceChildren(...boxes);
  }

  showSql() {
    if (!this.live.world) return;
    const { sql, missing } = writeSql(this.spec, this.live.world);
    if (!this.isEdited) this.sql.value = sql ?? "";
    this.sql.placeholder = missing ?? "";
    this.state.textContent = this.isEdited ? "Edited by hand: the form no longer changes it." : "";
    this.reset.hidden = !this.isEdited;
    this.register.disabled = !this.sql.value.trim();
    this.error.hidden = true;
  }

  showDrawing() {
    if (this.isShown && this.live.world) this.scene.showDrawing(this.drawing());
  }

  // The shape that is drawn on the map, if it is whole.
  drawing() {
    const { kind, moving, shape, numbers, corners } = this.spec;
    if (kind === "together") return null;
    const isPolygon = kind === "range" && shape === "polygon";
    const wanted = kind === "knn" ? 2 : shape === "circle" ? 3 : 4;
    const given = numbers.slice(0, wanted).filter(Number.isFinite).length;
    if (moving || (isPolygon ? !corners.length : given < wanted)) return null;
    if (isPolygon) return { type: "polygon", rings: [corners] };
    const [x, y, third, fourth] = numbers;
    if (kind === "knn") return { type: "point", x, y };
    if (shape === "circle") return { type: "circle", x, y, r: third };
    return { type: "rectangle", x1: x, y1: y, x2: third, y2: fourth };
  }

  // What is drawn

  pressDraw() {
    if (this.pen?.mode === "polygon" && this.pen.corners.length >= 3) this.pen.close();
    else this.startDrawing();
  }

  startDrawing() {
    const { kind, moving, shape } = this.spec;
    if (kind === "together") return;
    this.start(moving ? "object" : kind === "knn" ? "point" : shape);
  }

  start(mode) {
    this.pen?.start(mode);
    this.say(HINTS[mode]);
    this.showDraw();
  }

  takeShape(mode, shape) {
    this.edit(mode === "polygon" ? { corners: shape } : { numbers: [...shape] });
    if (mode === "polygon") this.showDraw();
  }

  drawn(mode, shape) {
    if (mode) this.takeShape(mode, shape);
    this.say("");
    this.showFields();
  }

  async picked(found, isWanted) {
    if (!isWanted) {
      this.onInspect?.(found);
      return;
    }
    if (!found) {
      this.say("No object there; click closer to one.");
      return;
    }
    const object = await this.live.identify(found.track.stream.index, found.slot);
    if (!object) {
      this.say("That object is gone; pick another.");
      return;
    }
    this.pen.stop();
    this.edit({ focal: String(object.key) });
    this.showFields();
    this.say(`Following ${object.key}`);
  }

  show() {
    this.isShown = true;
    this.showDrawing();
  }

  pause() {
    this.isShown = false;
    this.pen?.stop();
    this.say("");
    this.scene.showDrawing(null);
  }

  async submit() {
    this.register.disabled = true;
    if (this.pen?.corners.length) this.pen.stop(); // a polygon is what it is by now
    const { numbers, corners } = this.spec;
    const trouble = await this.onSubmit(this.sql.value);
    this.register.disabled = false;
    if (trouble) {
      this.error.textContent = trouble;
      this.error.hidden = false;
      return;
    }
    this.isEdited = this.isNamed = false;
    // Whoever has begun to draw the next one meanwhile goes on with it.
    const isSame = this.spec.numbers === numbers && this.spec.corners === corners;
    this.edit(isSame && !this.spec.moving ? BLANK : {});
    this.showFields();
  }
}
