// PMTiles, version 3: one file of tiles, read by parts. The archive's root directory says where a
// tile is, or which leaf directory knows.

const HEADER = 127;
const VECTOR = 1;
const GZIP = 2;

export async function registerPmtiles(url) {
  const archive = await Archive.open(url);
  maplibregl.addProtocol("place-pmtiles", async ({ url: asked }) => {
    const [z, x, y] = asked.split("://")[1].split("/").map(Number);
    return { data: (await archive.tile(z, x, y)) ?? new ArrayBuffer(0) };
  });
  return {
    template: "place-pmtiles://{z}/{x}/{y}",
    isVector: archive.kind === VECTOR,
    maxZoom: archive.maxZoom,
    layers: archive.layers,
  };
}

class Archive {
  static async open(url) {
    const archive = new Archive();
    archive.url = new URL(url, location.href);
    const view = new DataView(await archive.part(0, HEADER));
    if (new TextDecoder().decode(view.buffer.slice(0, 7)) !== "PMTiles" || view.getUint8(7) !== 3) {
      throw new Error(`${url} is no PMTiles archive of version 3`);
    }
    const number = (at) => Number(view.getBigUint64(at, true));
    archive.leaves = number(40);
    archive.data = number(56);
    archive.packed = view.getUint8(97) === GZIP;
    archive.packedTiles = view.getUint8(98) === GZIP;
    archive.kind = view.getUint8(99);
    archive.maxZoom = view.getUint8(101);
    archive.root = await archive.directory(number(8), number(16));
    const about = await archive.unpacked(await archive.part(number(24), number(32)));
    const facts = JSON.parse(new TextDecoder().decode(about) || "{}");
    archive.layers = (facts.vector_layers ?? []).map(({ id }) => id);
    archive.known = new Map();
    return archive;
  }

  async part(offset, length) {
    const headers = { Range: `bytes=${offset}-${offset + length - 1}` };
    const response = await fetch(this.url, { headers });
    if (!response.ok) throw new Error(`the base map answers ${response.status}`);
    const found = await response.arrayBuffer();
    return response.status === 206 ? found : found.slice(offset, offset + length);
  }

  async unpacked(buffer, isPacked = this.packed) {
    if (!isPacked) return buffer;
    const stream = new Blob([buffer]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  }

  async directory(offset, length) {
    const read = varints(new Uint8Array(await this.unpacked(await this.part(offset, length))));
    const entries = Array.from({ length: read() }, () => ({}));
    let id = 0;
    for (const entry of entries) entry.id = id += read();
    for (const entry of entries) entry.run = read();
    for (const entry of entries) entry.length = read();
    entries.forEach((entry, i) => {
      const told = read();
      entry.offset = told ? told - 1 : entries[i - 1].offset + entries[i - 1].length;
    });
    return entries;
  }

  async tile(z, x, y) {
    const id = tileId(z, x, y);
    let entries = this.root;
    for (let depth = 0; depth < 4; depth++) {
      const entry = entries.findLast((each) => each.id <= id);
      if (!entry || (entry.run && id >= entry.id + entry.run)) return null;
      if (entry.run) {
        const found = await this.part(this.data + entry.offset, entry.length);
        return this.unpacked(found, this.packedTiles);
      }
      if (!this.known.has(entry.offset)) {
        this.known.set(entry.offset, this.directory(this.leaves + entry.offset, entry.length));
      }
      entries = await this.known.get(entry.offset);
    }
    return null;
  }
}

function varints(bytes) {
  let at = 0;
  return () => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
}

// The number of a tile: those of all lower zooms, then its place along Hilbert's curve.
function tileId(z, x, y) {
  let id = (4 ** z - 1) / 3;
  for (let side = 2 ** (z - 1); side >= 1; side /= 2) {
    const right = x & side ? 1 : 0;
    const down = y & side ? 1 : 0;
    id += side * side * ((3 * right) ^ down);
    if (!down) {
      if (right) [x, y] = [2 ** z - 1 - x, 2 ** z - 1 - y];
      [x, y] = [y, x];
    }
  }
  return id;
}
