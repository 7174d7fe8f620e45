"""Notebooks: the examples run as they stand, and the map draws in a browser what it is handed."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import place
from place.errors import ConfigurationError
from place.notebook import AnswerMap, Held, live_map, modules
from place.session import Session
from place.web import module_text
from tests.harness.browser import browsing, needs_browser

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_example_runs_as_it_stands(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # kept without them
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    assert outputs
    if path.stem == "live_map":
        kinds = {kind for out in outputs for kind in out.get("data", {})}
        assert "application/vnd.jupyter.widget-view+json" in kinds


@pytest.fixture
def session() -> Iterator[Session]:
    with place.connect() as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING)")
        session.sql("REGISTER QUERY near AS SELECT id, x, y, kind FROM Cars INSIDE (0, 0, 10, 10)")
        session.push("Cars", [(1, 2.0, 2.0, "a"), (2, 8.0, 8.0, "b")], time=1_767_225_600_000_000)
        yield session


def frame_of(shown: AnswerMap) -> dict[int, tuple[float, float]]:
    """Where a frame has which slots."""
    count = int.from_bytes(shown.frame[12:16], "little")
    slots = np.frombuffer(shown.frame, np.uint32, count, 24)
    places = np.frombuffer(shown.frame, np.float32, 2 * count, 24 + 4 * count).reshape(-1, 2)
    return {int(slot): (float(x), float(y)) for slot, (x, y) in zip(slots, places, strict=True)}


def test_a_map_follows_its_query(session: Session) -> None:
    shown = live_map(session, "near", live=False)
    assert frame_of(shown) == {0: (2.0, 2.0), 1: (8.0, 8.0)}
    assert shown.about["space"] == "planar"
    assert shown.about["regions"][0]["type"] == "rectangle"
    assert shown.labels == ["id 1, x 2.0, y 2.0, kind a", "id 2, x 8.0, y 8.0, kind b"]
    session.push("Cars", [(1, 3.0, 2.0, "a"), (2, 80.0, 8.0, "b")], time=1_767_225_601_000_000)
    assert shown.refresh() == 3
    assert frame_of(shown) == {0: (3.0, 2.0)}
    session.push("Cars", [(3, 5.0, 5.0, "c")], time=1_767_225_602_000_000)
    assert shown.refresh() == 1
    assert frame_of(shown) == {0: (3.0, 2.0), 1: (5.0, 5.0)}  # whose place had become free
    assert shown.refresh() == 0
    shown.close()


def test_a_map_follows_by_itself(session: Session) -> None:
    shown = live_map(session, "near")
    drawn = threading.Event()
    shown.observe(lambda _: drawn.set(), "frame")
    session.push("Cars", [(1, 3.0, 2.0, "a")], time=1_767_225_601_000_000)
    assert drawn.wait(30)
    assert frame_of(shown)[0] == (3.0, 2.0)
    shown.close()


def test_columns_that_are_missing_are_named(session: Session) -> None:
    session.sql("REGISTER QUERY bare AS SELECT id, kind, x AS easting FROM Cars")
    with pytest.raises(ConfigurationError, match=r"no column x or lon .* columns: id, kind"):
        live_map(session, "bare")
    with pytest.raises(ConfigurationError, match='no column "northing"'):
        live_map(session, "bare", x="easting", y="northing")


def test_rows_come_and_go_in_any_order() -> None:
    held = Held(0, 1, 2)
    held.take(1, (1, 0.0, 0.0))
    held.take(1, (1, 5.0, 5.0))  # the new row before the old one has left
    held.take(-1, (1, 0.0, 0.0))
    assert held.placed() == [(1, 5.0, 5.0)]
    held.take(1, (2, None, 1.0))
    assert held.placed() == [(1, 5.0, 5.0)]
    assert held.bounds() == [5.0, 5.0, 5.0, 5.0]


def test_modules_are_those_of_the_page() -> None:
    found = modules()
    assert {"answer_map.js", "points.js", "frames.js", "space.js"} <= set(found)
    assert all(text == module_text(name) for name, text in found.items())


HOST = """<!doctype html><meta charset="utf-8"><div id="cell" style="width: 600px"></div>
<script type="module">
import widget from "/notebook.js";
const state = await (await fetch("/state")).json();
const listeners = new Set();
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
state.frame = bytes(state.frame);
const model = { get: (name) => state[name], on: (_, f) => listeners.add(f),
  off: (_, f) => listeners.delete(f) };
window.change = (frame, labels) => {
  Object.assign(state, { frame: bytes(frame), labels });
  listeners.forEach((listener) => listener());
};
window.leave = await widget.render({ model, el: document.getElementById("cell") });
window.map = document.getElementById("cell").placeMap;
</script>"""
"""A page that does what a notebook does with a widget: give it its state, and an element."""


@contextmanager
def hosting(shown: AnswerMap) -> Iterator[str]:
    state = {name: shown.get_state()[name] for name in ("_modules", "_library", "_style", "about")}
    state |= {"height": shown.height, "labels": shown.labels, "frame": text_of(shown.frame)}
    pages = {
        "/": ("text/html", HOST),
        "/notebook.js": ("text/javascript", module_text("notebook.js")),
        "/state": ("application/json", json.dumps(state)),
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, text = pages.get(self.path, ("text/plain", ""))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def text_of(frame: bytes) -> str:
    return base64.b64encode(frame).decode()


@needs_browser
def test_a_browser_draws_the_answer_and_moves_it(session: Session) -> None:
    shown = live_map(session, "near", live=False)
    wrong: list[str] = []
    with hosting(shown) as url, browsing() as browser:
        page = browser.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(url)
        page.wait_for_function("window.map?.track.count === 2")
        page.wait_for_selector("#cell canvas")
        region = "map.map.getSource('regions')._data"
        page.wait_for_function("map.map.isStyleLoaded()")
        assert page.evaluate(f"JSON.stringify({region})").count("Polygon") == 1
        page.wait_for_function(f"{PAINTED} > 40")
        session.push("Cars", [(1, 5.0, 5.0, "a"), (2, 80.0, 1.0, "b")], time=1_767_225_601_000_000)
        shown.refresh()
        page.evaluate("([f, l]) => change(f, l)", [text_of(shown.frame), shown.labels])
        page.wait_for_function("map.track.count === 1")
        place = "map.world.fromMercator(map.track.path(0)[2] + .5, map.track.path(0)[3] + .5)"
        assert page.evaluate(place) == pytest.approx([5.0, 5.0], abs=1e-3)
        box = page.locator("#cell canvas").bounding_box()
        page.wait_for_timeout(1200)  # until it has moved there
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector(".maplibregl-popup")
        assert page.inner_text(".maplibregl-popup") == "id 1, x 5.0, y 5.0, kind a"
        page.evaluate("leave()")
    assert wrong == []
    shown.close()


PAINTED = """(() => {
  map.map.triggerRepaint(); map.map._render?.(performance.now());
  const gl = map.map.painter.context.gl;
  const { drawingBufferWidth: w, drawingBufferHeight: h } = gl;
  const pixels = new Uint8Array(w * h * 4);
  gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
  const colours = new Set();
  let strong = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    const [r, g, b] = pixels.subarray(i, i + 3);
    if (Math.max(r, g, b) - Math.min(r, g, b) > 60) strong++;
  }
  return strong;
})()"""
"""Pixels of a strong colour, as only objects and regions have it."""
