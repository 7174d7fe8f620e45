// Drawing on the map with a pointer: a rectangle or circle by dragging, a polygon by its corners, a
// place by a click, an object by a click near it. The form has fields for the same numbers, so
// nothing needs a pointer.

const NEAR = 14;
const NEAR_FINGER = 26;
const STILL = 5;
const STILL_FINGER = 12;

export class Pen {
  constructor(map, live, { onChange, onHover, onDone, onPick }) {
    Object.assign(this, { map, live, onChange, onHover, onDone, onPick });
    this.mode = null;
    this.corners = [];
    this.stroke = null;
    this.canvas = map.getCanvasContainer();
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.moved(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("pointercancel", (event) => this.cancelled(event));
    this.canvas.addEventListener("dblclick", (event) => this.doubled(event));
    window.addEventListener("keydown", (event) => this.key(event));
  }

  // While something is dragged, the map and the browser leave the finger alone: a style of ours
  // keeps `touch-action` as it is, which MapLibre gives back when it does not drag itself.
  start(mode) {
    this.mode = mode;
    this.corners = [];
    this.stroke = null;
    const drags = this.drags;
    this.canvas.classList.toggle("drawing", Boolean(mode));
    this.map.dragPan[drags ? "disable" : "enable"]();
    this.map.touchZoomRotate[drags ? "disable" : "enable"]();
    if (!drags) this.map.touchZoomRotate.disableRotation();
    this.map.doubleClickZoom[mode === "polygon" ? "disable" : "enable"]();
    this.map.getCanvas().style.cursor = mode ? "crosshair" : "";
  }

  get drags() {
    return this.mode === "rectangle" || this.mode === "circle";
  }

  stop() {
    this.start(null);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const point = [event.clientX - box.left, event.clientY - box.top];
    return { point, at: this.live.world.fromLngLat(this.map.unproject(point)) };
  }

  // A stroke is of one pointer from where it is pressed to where it is released. A second finger
  // ends it, and what was drawn before is as it was.
  down(event) {
    if (event.button) return;
    if (this.stroke) {
      this.stroke = null;
      if (this.drags) this.onDone(null, null);
      return;
    }
    this.stroke = { id: event.pointerId, pressed: [event.clientX, event.clientY], far: 0 };
    if (!this.drags) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.stroke.from = this.place(event).at;
  }

  moved(event) {
    const { stroke } = this;
    if (stroke && stroke.id === event.pointerId) {
      const [x, y] = stroke.pressed;
      stroke.far = Math.max(stroke.far, Math.hypot(event.clientX - x, event.clientY - y));
      if (stroke.from) this.onChange(this.mode, this.shapeTo(stroke.from, this.place(event).at));
    } else if (this.mode === "polygon" && event.pointerType === "mouse") {
      this.onHover(this.corners.length ? [...this.corners, this.place(event).at] : []);
    }
  }

  shapeTo([ax, ay], at) {
    if (this.mode === "circle") return [ax, ay, this.live.world.distance([ax, ay], at)];
    return [Math.min(ax, at[0]), Math.min(ay, at[1]), Math.max(ax, at[0]), Math.max(ay, at[1])];
  }

  up(event) {
    const { stroke } = this;
    if (!stroke || stroke.id !== event.pointerId) return;
    this.stroke = null;
    const still = event.pointerType === "touch" ? STILL_FINGER : STILL;
    if (stroke.from) {
      if (stroke.far > 3) this.finish(this.shapeTo(stroke.from, this.place(event).at));
    } else if (stroke.far <= still) this.clicked(event);
  }

  cancelled(event) {
    if (this.stroke?.id === event.pointerId) this.stroke = null;
  }

  clicked(event) {
    const { point, at } = this.place(event);
    const near = event.pointerType === "touch" ? NEAR_FINGER : NEAR;
    if (this.mode === "point") this.finish(at);
    else if (this.mode === "polygon") this.addCorner(point, at, near);
    else this.onPick(this.objectAt(point, near), this.mode === "object");
  }

  addCorner(point, at, near) {
    const first = this.corners[0];
    if (this.corners.length >= 3) {
      const start = this.map.project(this.live.world.toLngLat(...first));
      if (Math.hypot(start.x - point[0], start.y - point[1]) < near) {
        this.finish(this.corners);
        return;
      }
    }
    this.corners = [...this.corners, at];
    this.onChange("polygon", this.corners);
  }

  removeCorner() {
    this.corners = this.corners.slice(0, -1);
    this.onChange("polygon", this.corners);
  }

  doubled(event) {
    if (this.mode !== "polygon") return;
    event.preventDefault();
    // The second click of the two has added the last corner once more.
    const corners = this.corners.slice(0, -1);
    if (corners.length >= 3) this.finish(corners);
  }

  // End a polygon as it is, for those who have neither a double click nor Enter.
  close() {
    if (this.mode === "polygon" && this.corners.length >= 3) this.finish(this.corners);
  }

  key(event) {
    if (!this.mode) return;
    const isElsewhere = event.target.closest?.("input, textarea, select, aside");
    if (event.key === "Escape") {
      this.stop();
      this.onDone(null, null);
    } else if (this.mode === "polygon" && !isElsewhere) {
      if (event.key === "Enter") this.close();
      if (event.key === "Backspace") this.removeCorner();
    }
  }

  finish(shape) {
    const { mode } = this;
    this.stop();
    this.onDone(mode, shape);
  }

  // The object that is drawn nearest to a point of the screen, if one is near.
  objectAt(point, near = NEAR) {
    const { map, live } = this;
    const merc = (at) => {
      const { x, y } = maplibregl.MercatorCoordinate.fromLngLat(map.unproject(at));
      return [x, y];
    };
    const [x, y] = merc(point);
    const [edge] = merc([point[0] + near, point[1]]);
    const now = performance.now();
    for (const track of live.drawnTracks()) {
      const [ox, oy] = track.world.origin;
      const slot = track.nearest(x - ox, y - oy, Math.abs(edge - x), now);
      if (slot !== null) return { track, slot };
    }
    return null;
  }
}
