"""The page in a real browser, and a base map for it."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.server
import json
import shutil
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.server import WAIT, wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@contextlib.contextmanager
def browsing() -> Iterator[Any]:
    """The Chromium of this machine, without a screen."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        yield opened
        opened.close()


class Page:
    """The page, and whatever went wrong in it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.wrong: list[str] = []
        page.set_default_timeout(WAIT * 1000)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def open(self, view: str) -> None:
        self.page.goto(f"{self.url}/#{view}")
        self.until("window.place?.live.world && [...place.live.tracks.values()].some(t => t.count)")

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def fragment(self) -> str:
        """The address of what is to be seen, as far as this page knows it."""
        return str(self.evaluate("location.hash"))

    def until(self, script: str, argument: Any = None, seconds: float = WAIT) -> Any:
        """Wait until a script gives something; the page's policy allows no other way."""
        return wait_for(lambda: self.evaluate(script, argument), seconds)

    def on_screen(self, x: float, y: float) -> tuple[float, float]:
        found = self.evaluate(
            """([x, y]) => {
              const { map } = place.scene;
              const at = map.project(place.live.world.toLngLat(x, y));
              const box = map.getCanvas().getBoundingClientRect();
              return [at.x + box.left, at.y + box.top];
            }""",
            [x, y],
        )
        return found[0], found[1]

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag on the map, between places of the stream."""
        mouse = self.page.mouse
        mouse.move(*self.on_screen(*start))
        mouse.down()
        mouse.move(*self.on_screen((start[0] + end[0]) / 2, (start[1] + end[1]) / 2))
        mouse.move(*self.on_screen(*end))
        mouse.up()

    def choose(self, **choices: str) -> None:
        for name, value in choices.items():
            self.page.check(f"#composer input[name={name}][value={value}]")

    def rows(self, query: str) -> list[Any]:
        texts = self.evaluate(
            """(name) => [...document.querySelectorAll('.mine-query .rows li[data-row]')]
              .filter((item) => item.closest("article").dataset.query === name)
              .map((item) => item.dataset.row)""",
            query,
        )
        return sorted(json.loads(text) for text in texts)

    def register(self, name: str) -> None:
        self.page.fill("#name", name)
        self.page.click("#register")
        self.page.wait_for_selector(f'.mine-query[data-query="{name}"]')
        self.until("(name) => document.querySelector('#name').value !== name", name)

    def drop(self, name: str) -> None:
        self.page.click(f'.mine-query[data-query="{name}"] .drop')
        self.until(f"!document.querySelector('.mine-query[data-query=\"{name}\"]')")


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
"""How a context of the browser becomes a phone."""


class Finger:
    """A finger on a phone, as the browser itself hears of it: what it does to the page, such as
    scrolling, happens as well."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._channel = page.page.context.new_cdp_session(page.page)

    def _touch(self, kind: str, *at: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(at)]
        self._channel.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 8) -> None:
        """Drag on the map, between places of the stream."""
        (x1, y1), (x2, y2) = self._page.on_screen(*start), self._page.on_screen(*end)
        self._touch("touchStart", (x1, y1))
        for i in range(1, steps + 1):
            part = i / steps
            self._touch("touchMove", (x1 + (x2 - x1) * part, y1 + (y2 - y1) * part))
        self._touch("touchEnd")

    def tap(self, x: float, y: float) -> None:
        at = self._page.on_screen(x, y)
        self._touch("touchStart", at)
        self._touch("touchEnd")


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DIRECTORY = gzip.compress(bytes([1, 0, 1, len(PICTURE), 1]))
ABOUT = gzip.compress(b"{}")
TILE_AT = 127 + len(DIRECTORY) + len(ABOUT)


def make_archive() -> bytes:
    """A PMTiles archive of one tile: the whole world, a picture of a pixel."""
    parts = [(127, len(DIRECTORY)), (127 + len(DIRECTORY), len(ABOUT)), (0, 0)]
    numbers = [n for part in parts for n in part] + [TILE_AT, len(PICTURE), 1, 1, 1]
    head = b"PMTiles\x03" + struct.pack("<11Q", *numbers) + bytes([1, 2, 1, 2, 0, 0])
    return head.ljust(127, b"\0") + DIRECTORY + ABOUT + PICTURE


@contextlib.contextmanager
def archive_served() -> Iterator[tuple[str, list[str]]]:
    """The archive at an address of another origin, and the ranges that were asked for. All paths
    that end with .png are the one tile, too."""
    content, asked = make_archive(), list[str]()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_OPTIONS(self) -> None:
            self._reply(204, b"")

        def do_GET(self) -> None:
            if self.path.endswith(".png"):
                asked.append(self.path)
                self._reply(200, PICTURE)
                return
            asked.append(self.headers["Range"])
            first, last = map(int, asked[-1].removeprefix("bytes=").split("-"))
            self._reply(206, content[first : last + 1])

        def _reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Headers", "Range")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_address[1]}/world.pmtiles", asked
        served.shutdown()
