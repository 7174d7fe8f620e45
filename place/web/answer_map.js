// The map of one answer where there is no server to ask: in a notebook, which hands it frames. The
// objects, the grid and the colours are those of the page.

import { paintBasemap, emptyStyle } from "./basemap.js";
import { MARK_COLOURS } from "./colours.js";
import { make } from "./dom.js";
import { Track, decode } from "./frames.js";
import { showGrid } from "./ground.js";
import { PointsLayer } from "./points.js";
import { World } from "./space.js";

const REACH = 12;

export class AnswerMap {
  // `about` has the space, the bounds to begin with and the shapes of the query's regions.
  constructor(element, about) {
    this.world = new World(about.space, about.bounds);
    this.track = new Track({ name: about.query, index: 0 }, this.world);
    this.regions = about.regions ?? [];
    this.fitZoom = 0;
    this.isMarking = false;
    this.markedAt = -10;
    this.isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.labels = [];
    this.map = new maplibregl.Map({
      container: element,
      style: emptyStyle(),
      dragRotate: false,
      pitchWithRotate: false,
      attributionControl: false,
      renderWorldCopies: false,
      fadeDuration: 0,
    });
    this.map.touchZoomRotate.disableRotation();
    this.map.addControl(new maplibregl.NavigationControl({ showCompass: false }), "top-right");
    this.ready = new Promise((resolve) => this.map.once("load", resolve)).then(() => this.begin());
  }

  drawnTracks() {
    return [this.track];
  }

  begin() {
    const { map, world } = this;
    map.addLayer(new PointsLayer(this), "regions-line");
    const [colour] = MARK_COLOURS;
    const features = this.regions.map((shape) => ({
      type: "Feature",
      properties: { colour, strong: true },
      geometry: { type: "Polygon", coordinates: world.rings(shape).map((ring) =>
        [...ring, ring[0]].map(([x, y]) => world.toLngLat(x, y))) },
    }));
    map.getSource("regions").setData({ type: "FeatureCollection", features });
    map.on("moveend", () => showGrid(map, world));
    map.on("click", ({ lngLat }) => this.tell(lngLat));
    paintBasemap(map, this.isDark, world.isPlanar);
    this.fit();
    showGrid(map, world);
  }

  fit() {
    const [x1, y1, x2, y2] = this.world.bounds;
    const box = [this.world.toLngLat(x1, y1), this.world.toLngLat(x2, y2)];
    const camera = this.map.cameraForBounds(box, { padding: 24, maxZoom: 22 });
    if (!camera) return;
    this.fitZoom = camera.zoom;
    this.map.jumpTo(camera);
  }

  // A frame in the form of the page's, and what to say of each object in it.
  async take(buffer, labels) {
    await this.ready;
    this.labels = labels;
    this.track.take(decode(buffer), performance.now());
    this.track.lay();
    this.map.triggerRepaint();
  }

  // Say which object is near a place.
  tell({ lng, lat }) {
    const { world, track, map } = this;
    const place = maplibregl.MercatorCoordinate.fromLngLat({ lng, lat });
    const reach = REACH / (512 * 2 ** map.getZoom());
    const [ox, oy] = world.origin;
    const slot = track.nearest(place.x - ox, place.y - oy, reach, performance.now());
    if (slot === null) return;
    const text = this.labels[track.slots.indexOf(slot)] ?? "";
    const shown = make("span", {}, text);
    new maplibregl.Popup({ closeButton: false }).setLngLat({ lng, lat })
      .setDOMContent(shown).addTo(map);
  }

  remove() {
    this.map.remove();
  }
}
