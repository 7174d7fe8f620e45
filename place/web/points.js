// All objects, straight from the arrays of their tracks: arrows that point where they are heading, and
// dots where that is not known or there is no room for more.

import { makeProgram, matrixFrom, rgba, seconds } from "./gl.js";
import { LAST_MARK, classColour, markColour } from "./colours.js";

const PULSE = 0.9;
const ARROW = 4.4; // pixels that a dot has to have before it becomes an arrow

const VERTEX = `
uniform mat4 matrix;
uniform float done, now, size, least, dim, pulse_time;
uniform vec4 classes[16], marks[16];
uniform vec4 leaving;
in vec4 move;
in vec2 look;
in float changed, heading;
out vec4 colour;
out float radius, is_marked;
out vec3 turn;
void main() {
  gl_Position = matrix * vec4(mix(move.xy, move.zw, done), 0.0, 1.0);
  int mark = int(look.y);
  float age = now - abs(changed);
  float beat = changed != 0.0 && age < pulse_time ? 1.0 - age / pulse_time : 0.0;
  is_marked = mark > 0 ? 1.0 : 0.0;
  vec4 plain = classes[min(int(look.x), 15)];
  plain.a *= mix(1.0, 0.45, dim);
  colour = mark > 0 ? marks[mark] : mix(plain, leaving, changed < 0.0 ? beat : 0.0);
  bool is_arrow = heading > -9.0 && size >= least;
  radius = size * (is_arrow ? 1.75 : 1.0) * (1.0 + 0.45 * is_marked + 1.5 * beat);
  turn = vec3(cos(heading), sin(heading), is_arrow ? 1.0 : 0.0);
  gl_PointSize = radius + 2.0;
}`;

const FRAGMENT = `
uniform vec4 rim;
in vec4 colour;
in float radius, is_marked;
in vec3 turn;
out vec4 pixel;
void main() {
  vec2 at = (gl_PointCoord - 0.5) * (radius + 2.0);
  float edge = radius * 0.5;
  float far = length(at);
  if (turn.z > 0.5) {
    // Along and across the heading; an arrow is between two sides and in front of a notch.
    float along = dot(at, vec2(turn.y, -turn.x)), across = abs(dot(at, turn.xy));
    float side = dot(vec2(across, along - edge), vec2(0.937, 0.35));
    float back = dot(vec2(across, -along - edge * 0.45), vec2(-0.5, 0.866));
    far = edge + max(side, back);
  }
  float cover = 1.0 - smoothstep(edge - 0.8, edge + 0.8, far);
  float inner = smoothstep(edge - 1.9, edge - 0.9, far) * is_marked;
  vec4 shade = mix(colour, vec4(rim.rgb, colour.a), inner * 0.9);
  pixel = vec4(shade.rgb, 1.0) * shade.a * cover;
}`;

export class PointsLayer {
  constructor(live) {
    this.id = "objects";
    this.type = "custom";
    this.live = live;
    this.buffers = new Map();
  }

  onAdd(map, gl) {
    this.map = map;
    this.gl = gl;
    this.uniforms = makeProgram(gl, VERTEX, FRAGMENT);
    const colours = Array.from({ length: 16 }, (_, code) => rgba(classColour(code), 0.92));
    this.colours = new Float32Array(colours.flat());
    const marks = Array.from({ length: 16 }, (_, i) => rgba(markColour(Math.min(i, LAST_MARK))));
    this.marks = new Float32Array(marks.flat());
  }

  onRemove(_, gl) {
    for (const buffer of this.buffers.values()) buffer.arrays.forEach((a) => gl.deleteBuffer(a));
    this.buffers.clear();
  }

  bufferOf(track) {
    const { gl } = this;
    let found = this.buffers.get(track);
    if (!found) {
      const arrays = [0, 1, 2, 3].map(() => gl.createBuffer());
      found = { version: 0, state: gl.createVertexArray(), arrays };
      this.buffers.set(track, found);
      gl.bindVertexArray(found.state);
      const parts = [["move", 4, gl.FLOAT], ["look", 2, gl.UNSIGNED_BYTE],
        ["changed", 1, gl.FLOAT], ["heading", 1, gl.FLOAT]];
      parts.forEach(([name, size, kind], i) => {
        const place = gl.getAttribLocation(this.uniforms.program, name);
        gl.bindBuffer(gl.ARRAY_BUFFER, found.arrays[i]);
        gl.enableVertexAttribArray(place);
        gl.vertexAttribPointer(place, size, kind, false, 0, 0);
      });
      gl.bindVertexArray(null);
    }
    if (found.version !== track.version) {
      found.version = track.version;
      const used = [[track.move, 4], [track.look, 2], [track.pulse, 1], [track.turn, 1]];
      used.forEach(([array, width], i) => {
        gl.bindBuffer(gl.ARRAY_BUFFER, found.arrays[i]);
        gl.bufferData(gl.ARRAY_BUFFER, array.subarray(0, track.drawn * width), gl.DYNAMIC_DRAW);
      });
    }
    return found;
  }

  render(gl, args) {
    const { uniforms, live } = this;
    const tracks = live.drawnTracks();
    const total = tracks.reduce((sum, track) => sum + track.drawn, 0);
    if (!total) return;
    const moment = performance.now();
    const ratio = this.map.getPixelRatio();
    gl.useProgram(uniforms.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.disable(gl.DEPTH_TEST);
    gl.disable(gl.STENCIL_TEST);
    const small = Math.min(1, this.map.getCanvas().clientWidth / 700);
    const size = pointSize(total, this.map.getZoom() - live.fitZoom) * Math.max(0.65, small);
    gl.uniform1f(uniforms.size, size * ratio);
    gl.uniform1f(uniforms.least, ARROW * ratio);
    gl.uniform1f(uniforms.now, seconds());
    gl.uniform1f(uniforms.pulse_time, PULSE);
    gl.uniform1f(uniforms.dim, live.isMarking ? 1 : 0);
    gl.uniform4fv(uniforms.classes, this.colours);
    gl.uniform4fv(uniforms.marks, this.marks);
    gl.uniform4fv(uniforms.leaving, rgba(live.isDark ? "#e6edf3" : "#1b2733"));
    gl.uniform4fv(uniforms.rim, rgba(live.isDark ? "#12181f" : "#ffffff"));
    let goesOn = seconds() - live.markedAt < PULSE;
    for (const track of tracks) {
      const buffer = this.bufferOf(track);
      const done = track.progress(moment);
      goesOn ||= done < 1;
      gl.bindVertexArray(buffer.state);
      gl.uniform1f(uniforms.done, done);
      gl.uniformMatrix4fv(uniforms.matrix, false, matrixFrom(args, track.world.origin));
      gl.drawArrays(gl.POINTS, 0, track.drawn);
    }
    gl.bindVertexArray(null);
    if (goesOn) this.map.triggerRepaint();
  }
}

// Few objects are large, many are small, and all grow as one comes nearer.
function pointSize(total, nearer) {
  const base = total > 50000 ? 2.6 : total > 10000 ? 3.6 : total > 1000 ? 5 : 8;
  return Math.min(16, base * 1.22 ** Math.max(0, nearer));
}
