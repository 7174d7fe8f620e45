"""The live map: what the server tells those who look, and the page in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websockets.sync.client as ws

from place.server.frames import HEADER
from tests.harness.server import Running, bearer, serving, wait_for

pytestmark = pytest.mark.xdist_group("spark")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING)
  WITH (bounds = '0 0 100 100');
CREATE STREAM Ships (name STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  WITH (space = 'wgs84', bounds = '9 53 11 55');
REGISTER QUERY corner AS SELECT id, type FROM Cars INSIDE (0, 0, 20, 20);
REGISTER QUERY around AS SELECT id FROM Cars INSIDE ('M', 1, 30);
REGISTER QUERY census AS SELECT type, COUNT(*) AS many FROM Cars GROUP BY type;
"""
PICTURES = os.environ.get("PLACE_PICTURES")
"""Where to keep pictures of the views; docs/images has them from here."""


class Town:
    """Cars whose places the test decides; each push is a second later."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.second = 0

    def push(self, **cars: tuple[float, float]) -> None:
        """Cars by their numbers: `c1=(x, y)`; odd ones are cabs."""
        self.second += 1
        at = f"2026-01-01 12:{self.second // 60:02d}:{self.second % 60:02d}"
        rows = []
        for name, (x, y) in cars.items():
            number = int(name[1:])
            rows.append([number, x, y, at, "cab" if number % 2 else "bus"])
        self.running.push("Cars", rows, time=at)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("map") / "home", SETUP) as found:
        yield found


@pytest.fixture(scope="module")
def town(running: Running) -> Town:
    made = Town(running)
    made.push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20), c5=(30, 12))
    wait_for(lambda: len(running.answer("corner")) == 2)
    return made


class Looking:
    """One who looks at the map, and what they were told so far."""

    def __init__(self, socket: ws.ClientConnection) -> None:
        self.socket = socket
        self.frames: dict[int, dict[int, tuple[float, float, int]]] = {}
        self.told: dict[str, Any] = {}
        self.answers: dict[str, dict[str, list[int]]] = {}

    def say(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def until(self, is_so: Callable[[], Any], seconds: float = 15) -> Any:
        """Listen until something is so."""
        deadline = time.monotonic() + seconds
        while not (found := is_so()):
            assert time.monotonic() < deadline, (self.told, self.frames)
            with contextlib.suppress(TimeoutError):
                self._take(self.socket.recv(timeout=1))
        return found

    def _take(self, data: str | bytes) -> None:
        if isinstance(data, bytes):
            self._take_frame(data)
            return
        message = json.loads(data)
        self.told[message["type"]] = message
        if message["type"] == "answer":
            self.answers[message["query"]] = message["slots"]

    def _take_frame(self, data: bytes) -> None:
        _, _, index, _, count, _ = HEADER.unpack_from(data)
        slots = np.frombuffer(data, "<u4", count, 24).tolist()
        places = np.frombuffer(data, "<f4", 2 * count, 24 + 4 * count).reshape(-1, 2).tolist()
        codes = np.frombuffer(data, "u1", count, 24 + 12 * count).tolist()
        assert len(data) == 24 + 13 * count
        self.frames[index] = {
            slot: (*place, code) for slot, place, code in zip(slots, places, codes, strict=True)
        }

    def places(self, index: int) -> set[tuple[float, float]]:
        return {(x, y) for x, y, _ in self.frames.get(index, {}).values()}


@contextlib.contextmanager
def looking(running: Running, streams: str = "", token: str | None = None) -> Iterator[Looking]:
    url = running.url.replace("http", "ws", 1) + f"/map?streams={streams}"
    with ws.connect(url, additional_headers=bearer(token), max_size=None) as socket:
        yield Looking(socket)


def index_of(running: Running, stream: str, token: str | None = None) -> int:
    about = running.http.get("/map/about", headers=bearer(token)).json()
    return next(each["index"] for each in about["streams"] if each["name"] == stream)


# What the server tells


def test_what_there_is_to_see(running: Running, town: Town) -> None:
    about = running.http.get("/map/about").json()
    cars, ships = about["streams"]
    assert (cars["name"], cars["space"], cars["bounds"]) == ("Cars", "planar", [0, 0, 100, 100])
    assert (cars["key_column"], cars["class_column"]) == ("id", "type")
    assert sorted(cars["classes"]) == ["bus", "cab"]
    assert (ships["space"], ships["class_column"], ships["roads"]) == ("wgs84", None, False)
    assert about["you"] == {"name": "local", "role": "admin"}
    assert running.http.get("/map/roads/Cars").status_code == 404


def test_who_looks_is_told_where_all_objects_are(running: Running, town: Town) -> None:
    cars = index_of(running, "Cars")
    with looking(running, "cars") as view:
        view.until(lambda: (10, 10) in view.places(cars))
        slot = next(s for s, (x, y, _) in view.frames[cars].items() if (x, y) == (80, 80))
        town.push(c3=(81, 82))
        view.until(lambda: (81, 82) in view.places(cars))
        assert view.frames[cars][slot][:2] == (81, 82), "an object keeps its slot"
        assert (10, 10) in view.places(cars), "frames are whole"
        assert set(view.frames) == {cars}, "only what was asked for"


def test_who_looks_is_told_of_queries_and_figures(running: Running, town: Town) -> None:
    with looking(running) as view:
        view.until(lambda: {"queries", "stats", "sizes", "focals"} <= set(view.told))
        queries = {query["name"]: query for query in view.told["queries"]["queries"]}
        assert queries["corner"]["region"]["coordinates"] == [0, 0, 20, 20]
        assert queries["around"]["focal"]["key"] == 1
        index, slot = view.told["focals"]["focals"]["around"]
        view.until(lambda: index in view.frames)
        assert view.frames[index][slot][:2] == (10, 10)
        stats = view.told["stats"]
        assert stats["objects"] == 5
        assert stats["queries"] == len(running.http.get("/queries").json())
        view.until(lambda: view.told["sizes"]["sizes"].get("corner") == 2)


def test_a_highlighted_answer_follows_its_query(running: Running, town: Town) -> None:
    cars = index_of(running, "Cars")
    with looking(running) as view:
        view.say(type="highlight", queries=["corner", "census"])
        view.until(lambda: "corner" in view.answers and cars in view.frames)

        def where() -> set[tuple[float, ...]]:
            slots = view.answers["corner"][str(cars)]
            return {view.frames[cars][slot][:2] for slot in slots if slot in view.frames[cars]}

        assert where() == {(10, 10), (15, 15)}
        town.push(c2=(50, 50))
        view.until(lambda: where() == {(10, 10)})
        town.push(c2=(15, 15))
        view.until(lambda: where() == {(10, 10), (15, 15)})
        assert view.answers["census"] == {}, "rows without a key are nowhere on the map"


def test_a_point_is_told_by_its_key(running: Running, town: Town) -> None:
    cars = index_of(running, "Cars")
    with looking(running) as view:
        view.until(lambda: cars in view.frames)
        slot = next(s for s, (x, y, _) in view.frames[cars].items() if (x, y) == (90, 20))
        view.say(type="identify", stream=cars, slot=slot)
        view.until(lambda: "object" in view.told)
        assert view.told["object"]["key"] == 4
        assert view.told["object"]["row"]["type"] == "bus"
        view.say(type="identify", stream=cars, slot=12345)
        view.until(lambda: view.told["object"]["slot"] == 12345)
        assert view.told["object"]["key"] is None


def test_what_is_not_understood_ends_the_connection(running: Running, town: Town) -> None:
    for wrong in ("[1]", "{", '{"type":"identify"}', '{"type":"identify","stream":"x","slot":1}'):
        with looking(running) as view:
            view.socket.send(wrong)
            with contextlib.suppress(Exception):
                while True:
                    view.socket.recv(timeout=5)
            assert view.socket.close_code == 1003, wrong


def test_a_client_sees_only_what_its_queries_hold(tmp_path: Path) -> None:
    with serving(tmp_path / "home", SETUP) as running:
        store = running.server.store
        ada, bob = (store.create_token(name, "client") for name in ("ada", "bob"))
        operator = store.create_token("op", "admin")
        assert running.http.get("/map/about").status_code == 401
        running.http.headers.update(bearer(operator))
        town = Town(running)
        town.push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20))
        running.sql("REGISTER QUERY mine AS SELECT id FROM Cars INSIDE (70, 70, 99, 99)", ada)
        running.sql("REGISTER QUERY led AS SELECT type FROM Cars INSIDE ('M', 4, 1)", ada)
        cars = index_of(running, "Cars")
        wait_for(lambda: running.answer("mine") == [[3]])
        with looking(running, token=ada) as view:
            view.until(lambda: view.places(cars) == {(80, 80), (90, 20)})
            names = {query["name"] for query in view.told["queries"]["queries"]}
            assert names == {"mine", "led"}
            view.until(lambda: "stats" in view.told)
            assert view.told["stats"]["readings_per_s"] is None
            for slot in range(8):
                view.told.pop("object", None)
                view.say(type="identify", stream=cars, slot=slot)
                view.until(lambda: "object" in view.told)
                is_seen = slot in view.frames[cars]
                assert (view.told["object"]["key"] is not None) == is_seen
            view.say(type="highlight", queries=["corner"])
            town.push(c1=(75, 75))
            view.until(lambda: view.places(cars) == {(75, 75), (80, 80), (90, 20)})
            town.push(c1=(10, 10), c3=(1, 1))
            view.until(lambda: view.places(cars) == {(90, 20)})
            assert view.answers == {}, "another's query cannot be highlighted"
            store.revoke_token(next(each.id for each in store.tokens() if each.name == "ada"))
            with contextlib.suppress(Exception):
                while True:
                    view.socket.recv(timeout=10)
            assert view.socket.close_code == 4401
        with looking(running, token=bob) as view:
            view.until(lambda: cars in view.frames)
            assert view.places(cars) == set()


# The page in a browser

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
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

    def until(self, script: str, argument: Any = None, seconds: float = 20) -> Any:
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

    def drop(self, name: str) -> None:
        self.page.click(f'.mine-query[data-query="{name}"] .drop')
        self.until(f"!document.querySelector('.mine-query[data-query=\"{name}\"]')")

    def picture(self, name: str) -> None:
        if PICTURES:
            self.page.screenshot(path=str(Path(PICTURES) / name))


@pytest.fixture
def page(browser: Any, running: Running, town: Town) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1180, "height": 760})
    made = Page(context.new_page(), running.url)
    yield made
    context.close()
    assert made.wrong == []


@needs_browser
def test_a_drawn_rectangle_is_a_query_whose_list_is_its_answer(
    page: Page, running: Running, town: Town
) -> None:
    town.push(c3=(80, 80), c4=(90, 20), c5=(30, 12))
    page.open("client")
    page.page.click("#draw")
    page.drag((70, 10), (95, 90))
    page.until("document.querySelector('#sql').value.includes('INSIDE')")
    sql = page.page.input_value("#sql")
    numbers = [float(n) for n in sql.split("INSIDE (")[1].rstrip(")").split(",")]
    assert numbers == pytest.approx([70, 10, 95, 90], abs=0.5)
    page.register("drawn")
    wait_for(lambda: page.rows("drawn") == [[3, "cab"], [4, "bus"]])
    assert page.rows("drawn") == sorted(running.answer("drawn"))
    marks = "[...place.live.tracks.values()][0].marks.filter(mark => mark).length"
    page.until(f"{marks} === 2")
    town.push(c3=(40, 80))
    wait_for(lambda: page.rows("drawn") == [[4, "bus"]])
    assert running.answer("drawn") == [[4, "bus"]]
    page.until(f"{marks} === 1")
    town.push(c3=(80, 80))
    wait_for(lambda: page.rows("drawn") == [[3, "cab"], [4, "bus"]])
    page.drop("drawn")
    assert running.http.get("/queries/drawn").status_code == 404


@needs_browser
def test_circles_and_polygons_can_be_drawn(page: Page, running: Running, town: Town) -> None:
    page.open("client")
    page.choose(shape="circle")
    page.drag((80, 80), (90, 80))
    page.register("round")
    region = running.http.get("/queries/round").json()["region"]
    assert region["type"] == "Circle"
    assert region["radius"] == pytest.approx(10, abs=0.5)
    page.choose(shape="polygon")
    for corner in ((5, 5), (40, 5), (40, 40)):
        page.page.mouse.click(*page.on_screen(*corner))
    page.page.keyboard.press("Enter")
    page.register("cornered")
    region = running.http.get("/queries/cornered").json()["region"]
    assert len(region["coordinates"][0]) == 4
    wait_for(lambda: page.rows("cornered") == sorted(running.answer("cornered")))
    for name in ("round", "cornered"):
        page.drop(name)


@needs_browser
def test_a_moving_nearest_query_follows_its_object(
    page: Page, running: Running, town: Town
) -> None:
    town.push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20), c5=(30, 12))
    page.open("client")
    page.choose(kind="knn", moving="true")
    page.page.fill("#field-k", "1")
    page.until("place.live.drawnTracks()[0].progress(performance.now()) === 1")
    page.page.mouse.click(*page.on_screen(90, 20))
    page.until("document.querySelector('#focal').value === '4'")
    assert "kNN ('M', 1, 4)" in page.page.input_value("#sql")
    page.register("nearest_to_4")
    wait_for(lambda: page.rows("nearest_to_4") == [[5, "cab"]] == running.answer("nearest_to_4"))
    town.push(c4=(82, 78))
    wait_for(lambda: page.rows("nearest_to_4") == [[3, "cab"]] == running.answer("nearest_to_4"))
    town.push(c4=(12, 14))
    wait_for(lambda: page.rows("nearest_to_4") == [[2, "bus"]] == running.answer("nearest_to_4"))
    town.push(c4=(90, 20))
    page.drop("nearest_to_4")


@needs_browser
def test_sql_can_be_edited_and_its_errors_are_told(
    page: Page, running: Running, town: Town
) -> None:
    page.open("client")
    page.page.fill("#sql", "REGISTER QUERY edited AS SELECT id FROM Carz INSIDE (0, 0, 20, 20)")
    page.page.click("#register")
    page.page.wait_for_selector("#sql-error:not([hidden])")
    said = page.page.inner_text("#sql-error")
    assert "Carz" in said
    assert "line 1" in said
    assert "Cars" in said
    page.wrong.clear()  # the browser tells of the refusal in its own words
    page.page.fill("#sql", "REGISTER QUERY edited AS SELECT id FROM Cars INSIDE (0, 0, 20, 20)")
    page.page.click("#register")
    wait_for(lambda: page.rows("edited") == [[1], [2]] == running.answer("edited"))
    page.drop("edited")


@needs_browser
def test_a_query_can_be_made_with_the_keyboard_alone(
    page: Page, running: Running, town: Town
) -> None:
    page.open("client")
    for number, value in enumerate(("0", "0", "20", "20")):
        page.page.focus(f"#field-n{number}")
        page.page.keyboard.type(value)
    page.page.focus("#register")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector(".mine-query")
    name = page.evaluate("document.querySelector('.mine-query').dataset.query")
    wait_for(lambda: page.rows(name) == [[1, "cab"], [2, "bus"]])
    page.page.focus(f'.mine-query[data-query="{name}"] .drop')
    page.page.keyboard.press("Enter")
    page.until("!document.querySelector('.mine-query')")


@needs_browser
def test_the_operator_sees_all_queries_and_their_sizes(
    page: Page, running: Running, town: Town
) -> None:
    page.open("operator")
    page.until("document.querySelectorAll('#query-list li').length === 3")
    counts = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#kinds li')]"
        ".map(item => [item.dataset.kind, Number(item.dataset.count)]))"
    )
    assert counts == {"range": 1, "moving range": 1, "knn": 0, "moving knn": 0, "other": 1}
    size = "document.querySelector('[data-query=\"{}\"] .size').textContent === '{}'"
    for name in ("corner", "around", "census"):
        page.until(size.format(name, len(running.answer(name))))
    page.until("document.querySelector('#figure-objects').textContent === '5'")
    page.until("document.querySelector('#figure-queries').textContent === '3'")
    page.page.click('[data-query="corner"] button')
    page.until("place.live.drawnTracks()[0].marks.filter(mark => mark).length === 2")
    page.page.click('[data-query="corner"] button')
    page.until("place.live.drawnTracks()[0].marks.filter(mark => mark).length === 0")


@needs_browser
def test_objects_move_between_frames_and_stop_when_paused(
    page: Page, running: Running, town: Town
) -> None:
    place_of = """(key) => {
      const track = place.live.drawnTracks()[0];
      const [slot] = [...track.slots].filter((slot) => track.classOf[slot] !== undefined)
        .sort((a, b) => track.path(b)[2] - track.path(a)[2]);
      const at = track.at(slot, performance.now());
      return track.world.fromMercator(at[0] + track.world.origin[0], at[1] + track.world.origin[1]);
    }"""
    town.push(c4=(90, 20))
    page.open("operator")
    page.until(f"Math.abs(({place_of})()[0] - 90) < 0.01")
    town.push(c4=(96, 20))
    seen = set[float]()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and 96 not in {round(x, 2) for x in seen}:
        seen.add(page.evaluate(place_of)[0])
    assert any(90.2 < x < 95.8 for x in seen), "it jumps"
    page.page.click("#pause")
    town.push(c4=(90, 20))
    time.sleep(2)
    assert page.evaluate(place_of)[0] == pytest.approx(96, abs=0.01)
    page.page.click("#pause")
    town.push(c4=(90, 20.01))
    page.until(f"Math.abs(({place_of})()[0] - 90) < 0.01")


@needs_browser
def test_light_and_dark_and_a_small_screen(browser: Any, running: Running, town: Town) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page = Page(context.new_page(), running.url)
    page.open("client")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.page.click("#theme")
    assert page.evaluate(ground) != dark
    page.page.reload()
    assert page.evaluate(ground) != dark, "the choice is kept"
    page.until("place.live.drawnTracks()[0]?.count")
    assert page.evaluate("document.querySelector('#register').getBoundingClientRect().width") > 200
    context.close()
    assert page.wrong == []


@needs_browser
def test_a_stream_on_the_globe(page: Page, running: Running, town: Town) -> None:
    running.push(
        "Ships",
        [["Cap San Diego", 9.97, 53.54, "2026-01-01"], ["Rickmer", 9.98, 53.545, "2026-01-01"]],
        time="2026-01-01",
    )
    page.open("client")
    page.page.select_option("#world", "wgs84")
    page.until("place.live.world.space === 'wgs84' && place.live.drawnTracks()[0].count")
    page.choose(kind="knn", moving="true")
    page.page.fill("#field-k", "1")
    page.evaluate("place.scene.map.jumpTo({center: [9.97, 53.54], zoom: 12})")
    page.until("place.live.drawnTracks()[0].progress(performance.now()) === 1")
    page.page.mouse.click(*page.on_screen(9.97, 53.54))
    page.until("document.querySelector('#focal').value === 'Cap San Diego'")
    page.register("beside")
    assert "'Cap San Diego'" in running.http.get("/queries/beside").json()["sql"]
    wait_for(lambda: page.rows("beside") == [["Rickmer"]])
    page.choose(moving="false", kind="range", shape="circle")
    page.drag((9.97, 53.54), (9.99, 53.54))
    page.register("port")
    region = running.http.get("/queries/port").json()["region"]
    assert region["radius"] == pytest.approx(1321, rel=0.05), "metres on the sphere"
    wait_for(lambda: len(page.rows("port")) == 2)
    for name in ("beside", "port"):
        page.drop(name)


@needs_browser
def test_signing_in(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path / "home", SETUP) as running:
        token = running.server.store.create_token("ada", "client")
        context = browser.new_context(viewport={"width": 1000, "height": 700})
        page = Page(context.new_page(), running.url)
        page.page.goto(running.url)
        page.page.wait_for_selector("#login[open]")
        page.page.fill("#token", "wrong")
        page.page.click("#login button")
        page.page.wait_for_selector("#login-error:not([hidden])")
        page.page.fill("#token", token)
        page.page.click("#login button")
        page.until("place.live.about?.you.name === 'ada'")
        page.until("document.querySelector('#connection').dataset.state === 'live'")
        assert page.evaluate("!document.querySelector('#client').hidden"), "its view comes first"
        context.close()


@needs_browser
def test_the_page_says_that_the_server_is_away(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    with serving(tmp_path / "home", SETUP) as running:
        Town(running).push(c1=(1, 1))
        page = Page(context.new_page(), running.url)
        page.open("operator")
    page.until("document.querySelector('#connection').textContent.startsWith('offline')")
    context.close()
