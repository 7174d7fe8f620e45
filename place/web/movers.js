// What moves with objects: the regions of moving queries, rings around focal objects, and the lines
// from a focal object to its nearest. Each end of a line moves from where it was to where it is, as
// points do, so everything stays together between frames.

import { makeProgram, matrixFrom, rgba } from "./gl.js";

const FLOATS = 13; // two ends (from x, y, to x, y), a colour, a width
const LINK = 1.3;

const LINE_VERTEX = `
uniform mat4 matrix;
uniform float done;
uniform vec2 viewport;
in vec4 one, other, tint;
in float width;
out vec4 colour;
void main() {
  vec4 a = matrix * vec4(mix(one.xy, one.zw, done), 0.0, 1.0);
  vec4 b = matrix * vec4(mix(other.xy, other.zw, done), 0.0, 1.0);
  vec2 across = (b.xy / b.w - a.xy / a.w) * viewport;
  float reach = length(across);
  vec2 normal = reach > 0.0 ? vec2(-across.y, across.x) / reach : vec2(0.0);
  bool first = gl_VertexID < 2;
  float side = (gl_VertexID & 1) == 0 ? 1.0 : -1.0;
  vec4 end = first ? a : b;
  gl_Position = end + vec4(normal * side * width / viewport * end.w, 0.0, 0.0);
  colour = tint;
}`;

const FRAGMENT = `
in vec4 colour;
out vec4 pixel;
void main() { pixel = vec4(colour.rgb * colour.a, colour.a); }`;

const FILL_VERTEX = `
uniform mat4 matrix;
uniform float done;
in vec4 one, tint;
out vec4 colour;
void main() {
  gl_Position = matrix * vec4(mix(one.xy, one.zw, done), 0.0, 1.0);
  colour = tint;
}`;

export class MoversLayer {
  constructor(live, id = "movers") {
    this.id = id;
    this.type = "custom";
    this.live = live;
    this.lines = new Growing();
    this.fills = new Growing();
    this.dirty = true;
  }

  onAdd(map, gl) {
    this.map = map;
    this.line = makeProgram(gl, LINE_VERTEX, FRAGMENT);
    this.fill = makeProgram(gl, FILL_VERTEX, FRAGMENT);
    this.lineState = layOut(gl, this.line.program, FLOATS, 1,
      [["one", 4, 0], ["other", 4, 4], ["tint", 4, 8], ["width", 1, 12]]);
    this.fillState = layOut(gl, this.fill.program, 8, 0, [["one", 4, 0], ["tint", 4, 4]]);
  }

  // Draw all anew: `regions` of {path, ring of offsets, colour, strong, filled}, which go along a
  // path, and `links` of {from, to, colour} between two paths; both may have a width and an alpha.
  set(world, regions, links) {
    this.world = world;
    this.lines.clear();
    this.fills.clear();
    for (const region of regions) this.addRegion(region);
    for (const link of links) {
      const { from, to, colour, alpha = 0.7, width = LINK } = link;
      this.lines.add([...from, ...to, ...rgba(colour, alpha), width]);
    }
    this.dirty = true;
    this.map?.triggerRepaint();
  }

  addRegion({ path, ring, colour, strong, filled, alpha, width }) {
    const [fx, fy, tx, ty] = path;
    const corners = ring.map(([dx, dy]) => [fx + dx, fy + dy, tx + dx, ty + dy]);
    const line = rgba(colour, alpha ?? (strong ? 1 : 0.8));
    const tint = rgba(colour, strong ? 0.22 : 0.1);
    const middle = [fx, fy, tx, ty];
    corners.forEach((corner, i) => {
      const next = corners[(i + 1) % corners.length];
      this.lines.add([...corner, ...next, ...line, width ?? (strong ? 2.4 : 1.4)]);
      if (filled) for (const end of [middle, corner, next]) this.fills.add([...end, ...tint]);
    });
  }

  render(gl, args) {
    if (!this.world || (!this.lines.size && !this.fills.size)) return;
    const track = this.live.drawnTracks()[0];
    const done = track ? track.progress(performance.now()) : 1;
    const matrix = matrixFrom(args, this.world.origin);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.disable(gl.DEPTH_TEST);
    gl.disable(gl.STENCIL_TEST);
    gl.disable(gl.CULL_FACE);
    if (this.dirty) {
      for (const [state, held] of [[this.lineState, this.lines], [this.fillState, this.fills]]) {
        gl.bindBuffer(gl.ARRAY_BUFFER, state.buffer);
        gl.bufferData(gl.ARRAY_BUFFER, held.array.subarray(0, held.size), gl.DYNAMIC_DRAW);
      }
      this.dirty = false;
    }
    const begin = (uniforms, state) => {
      gl.useProgram(uniforms.program);
      gl.bindVertexArray(state.array);
      gl.uniform1f(uniforms.done, done);
      gl.uniformMatrix4fv(uniforms.matrix, false, matrix);
    };
    begin(this.fill, this.fillState);
    gl.drawArrays(gl.TRIANGLES, 0, this.fills.size / 8);
    begin(this.line, this.lineState);
    const ratio = this.map.getPixelRatio();
    gl.uniform2f(this.line.viewport, gl.drawingBufferWidth / ratio, gl.drawingBufferHeight / ratio);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.lines.size / FLOATS);
    gl.bindVertexArray(null);
  }
}

function layOut(gl, program, floats, divisor, parts) {
  const state = { array: gl.createVertexArray(), buffer: gl.createBuffer() };
  gl.bindVertexArray(state.array);
  gl.bindBuffer(gl.ARRAY_BUFFER, state.buffer);
  for (const [name, size, offset] of parts) {
    const place = gl.getAttribLocation(program, name);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, gl.FLOAT, false, floats * 4, offset * 4);
    gl.vertexAttribDivisor(place, divisor);
  }
  gl.bindVertexArray(null);
  return state;
}

class Growing {
  constructor() {
    this.array = new Float32Array(4096);
    this.size = 0;
  }

  clear() {
    this.size = 0;
  }

  add(values) {
    if (this.size + values.length > this.array.length) {
      const wider = new Float32Array(this.array.length * 2);
      wider.set(this.array);
      this.array = wider;
    }
    this.array.set(values, this.size);
    this.size += values.length;
  }
}
