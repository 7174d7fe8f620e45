// What the custom layers have in common: programs, and the matrix of the moment.

export function makeProgram(gl, vertex, fragment) {
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, `#version 300 es\nprecision highp float;\n${text}`);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) {
      throw new Error(gl.getShaderInfoLog(shader) ?? "a shader does not compile");
    }
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) {
    throw new Error(gl.getProgramInfoLog(program) ?? "a program does not link");
  }
  const places = { program };
  const count = gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS);
  for (let i = 0; i < count; i++) {
    const name = gl.getActiveUniform(program, i).name.replace("[0]", "");
    places[name] = gl.getUniformLocation(program, name);
  }
  return places;
}

// Positions are told less an origin, so that 32 bits are enough for them; the matrix, which is of
// 64 bits until here, takes the origin in.
export function matrixFrom(args, [ox, oy]) {
  const matrix = Float64Array.from(args.defaultProjectionData.mainMatrix);
  for (let row = 0; row < 4; row++) {
    matrix[12 + row] += matrix[row] * ox + matrix[4 + row] * oy;
  }
  return new Float32Array(matrix);
}

export function rgba(colour, alpha = 1) {
  const number = parseInt(colour.slice(1), 16);
  return [(number >> 16) / 255, ((number >> 8) & 255) / 255, (number & 255) / 255, alpha];
}

export const seconds = () => performance.now() / 1000;
