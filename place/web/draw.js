// Drawing on the map with a pointer: a rectangle or circle by dragging, a polygon by its corners, a
// place by a click, an object by a click near it. The form has fields for the same numbers, so
// nothing needs a pointer.

const NEAR = 14;

export class Pen {
  constructor(map, live, { onChange, onDone, onPick }) {
    Object.assign(this, { map, live, onChange, onDone, onPick });
    this.mode = null;
    this.corners = [];
    const canvas = map.getCanvasContainer();
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    window.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("dblclick", (event) => this.doubled(event));
    window.addEventListener("keydown", (event) => this.key(event));
  }

  start(mode) {
    this.mode = mode;
    this.corners = [];
    this.from = null;
    const drags = mode === "rectangle" || mode === "circle";
    this.map.dragPan[mode && drags ? "disable" : "enable"]();
    this.map.touchZoomRotate[mode && drags ? "disable" : "enable"]();
    this.map.doubleClickZoom[mode === "polygon" ? "disable" : "enable"]();
    this.map.getCanvas().style.cursor = mode ? "crosshair" : "";
  }

  stop() {
    this.start(null);
  }

  place(event) {
    const box = this.map.getCanvasContainer().getBoundingClientRect();
    const point = [event.clientX - box.left, event.clientY - box.top];
    return { point, at: this.live.world.fromLngLat(this.map.unproject(point)) };
  }

  down(event) {
    if (event.button) return;
    this.pressed = [event.clientX, event.clientY];
    if (this.mode !== "rectangle" && this.mode !== "circle") return;
    event.preventDefault();
    this.from = this.place(event).at;
  }

  moved(event) {
    if (this.from) this.onChange(this.mode, this.shapeTo(this.place(event).at));
    else if (this.mode === "polygon" && this.corners.length) {
      this.onChange("polygon", [...this.corners, this.place(event).at]);
    }
  }

  shapeTo(at) {
    const [ax, ay] = this.from;
    if (this.mode === "circle") return [ax, ay, this.live.world.distance(this.from, at)];
    return [Math.min(ax, at[0]), Math.min(ay, at[1]), Math.max(ax, at[0]), Math.max(ay, at[1])];
  }

  up(event) {
    const pressed = this.pressed;
    this.pressed = null;
    if (!pressed) return;
    const far = Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]);
    if (this.from) {
      const shape = this.shapeTo(this.place(event).at);
      this.from = null;
      if (far > 3) this.finish(shape);
    } else if (far <= 5) this.clicked(event);
  }

  clicked(event) {
    const { point, at } = this.place(event);
    if (this.mode === "point") this.finish(at);
    else if (this.mode === "polygon") this.addCorner(point, at);
    else this.onPick(this.objectAt(point), this.mode === "object");
  }

  addCorner(point, at) {
    const first = this.corners[0];
    if (this.corners.length >= 3) {
      const start = this.map.project(this.live.world.toLngLat(...first));
      if (Math.hypot(start.x - point[0], start.y - point[1]) < NEAR) {
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

  key(event) {
    if (!this.mode) return;
    const isElsewhere = event.target.closest?.("input, textarea, select, aside");
    if (event.key === "Escape") {
      this.stop();
      this.onDone(null, null);
    } else if (this.mode === "polygon" && !isElsewhere) {
      if (event.key === "Enter" && this.corners.length >= 3) this.finish(this.corners);
      if (event.key === "Backspace") this.removeCorner();
    }
  }

  finish(shape) {
    const { mode } = this;
    this.stop();
    this.onDone(mode, shape);
  }

  // The object that is drawn nearest to a point of the screen, if one is near.
  objectAt(point) {
    const { map, live } = this;
    const merc = (at) => {
      const { x, y } = maplibregl.MercatorCoordinate.fromLngLat(map.unproject(at));
      return [x, y];
    };
    const [x, y] = merc(point);
    const [edge] = merc([point[0] + NEAR, point[1]]);
    const now = performance.now();
    for (const track of live.drawnTracks()) {
      const [ox, oy] = track.world.origin;
      const slot = track.nearest(x - ox, y - oy, Math.abs(edge - x), now);
      if (slot !== null) return { track, slot };
    }
    return null;
  }
}
