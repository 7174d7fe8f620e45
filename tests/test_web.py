"""The page in a real browser: both views, drawing, following, signing in."""

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import place.web
from tests.harness.browser import (
    PICTURE,
    TILE_AT,
    Page,
    archive_served,
    browsing,
    make_archive,
    needs_browser,
)
from tests.harness.server import Running, bearer, serving, wait_for
from tests.harness.town import SETUP, SHIPS, Town

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def running(town: Town) -> Running:
    return town.running


@pytest.fixture
def page(browser: Any, running: Running, town: Town) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1180, "height": 760})
    made = Page(context.new_page(), running.url)
    yield made
    context.close()
    assert made.wrong == []


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


@pytest.mark.long
def test_circles_and_polygons_can_be_drawn(page: Page, running: Running, town: Town) -> None:
    page.open("client")
    page.choose(shape="circle")
    page.drag((80, 80), (90, 80))
    page.register("round")
    region = running.http.get("/queries/round").json()["region"]
    assert region["type"] == "Circle"
    assert region["radius"] == pytest.approx(10, abs=0.5)
    page.choose(shape="polygon")
    for corner in ((27, 8), (60, 8), (40, 45)):
        page.page.mouse.click(*page.on_screen(*corner))
    page.page.keyboard.press("Enter")
    page.register("cornered")
    region = running.http.get("/queries/cornered").json()["region"]
    assert len(region["coordinates"][0]) == 4
    wait_for(lambda: page.rows("cornered") == sorted(running.answer("cornered")))
    for name in ("round", "cornered"):
        page.drop(name)


@pytest.mark.long
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


@pytest.mark.long
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


def test_the_operator_sees_all_queries_and_their_sizes(
    page: Page, running: Running, town: Town
) -> None:
    page.open("operator")
    page.until("document.querySelectorAll('#query-list li').length === 3")
    counts = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#kinds li')]"
        ".map(item => [item.dataset.kind, Number(item.dataset.count)]))"
    )
    kinds = {"range": 1, "moving range": 1, "knn": 0, "moving knn": 0, "trigger": 0, "other": 1}
    assert counts == kinds
    size = "document.querySelector('[data-query=\"{}\"] .size').textContent === '{}'"
    for name in ("corner", "around", "census"):
        page.until(size.format(name, len(running.answer(name))))
    page.until("document.querySelector('#figure-objects').textContent === '5'")
    page.until("document.querySelector('#figure-queries').textContent === '3'")
    page.page.click('[data-query="corner"] button')
    page.until("place.live.drawnTracks()[0].marks.filter(mark => mark).length === 2")
    page.page.click('[data-query="corner"] button')
    page.until("place.live.drawnTracks()[0].marks.filter(mark => mark).length === 0")


def test_objects_move_between_frames_and_stop_when_paused(
    page: Page, running: Running, town: Town
) -> None:
    # The object that is farthest to the east is the one that moves.
    page_script = """
      window.whereAt = (now) => {
        const track = place.live.drawnTracks()[0];
        const [slot] = [...track.slots].filter((slot) => track.classOf[slot] !== undefined)
          .sort((a, b) => track.path(b)[2] - track.path(a)[2]);
        const [x, y] = track.at(slot, now(track));
        const [ox, oy] = track.world.origin;
        return track.world.fromMercator(x + ox, y + oy)[0];
      };
      window.whereNow = () => whereAt(() => performance.now());
    """
    # Each frame says where its object is half way: a slow machine may draw no picture in between.
    page_watch = """
      const track = place.live.drawnTracks()[0];
      const take = track.take;
      window.halfWays = [];
      track.take = function (frame, now) {
        take.call(this, frame, now);
        halfWays.push(whereAt(({ since, duration }) => since + duration / 2));
      };
    """
    town.push(c4=(90, 20))
    page.open("operator")
    page.until("place.live.drawnTracks()[0]?.count")
    page.evaluate(f"() => {{ {page_script} }}")
    page.until("Math.abs(whereNow() - 90) < 0.01")
    page.evaluate(f"() => {{ {page_watch} }}")
    town.push(c4=(96, 20))
    page.until("Math.abs(whereNow() - 96) < 0.01")
    assert any(90.2 < x < 95.8 for x in page.evaluate("halfWays")), "it jumps"
    page.page.click("#pause")
    town.push(c4=(90, 20))
    time.sleep(2)
    assert page.evaluate("whereNow()") == pytest.approx(96, abs=0.01)
    page.page.click("#pause")
    town.push(c4=(90, 20.01))
    page.until("Math.abs(whereNow() - 90) < 0.01")


@pytest.mark.long
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


@pytest.mark.long
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


def test_a_client_signs_in_and_sees_its_own(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 1180, "height": 760})
    archive = tmp_path / "world.pmtiles"
    archive.write_bytes(make_archive())
    with serving(tmp_path / "home", SETUP, basemap=str(archive)) as running:
        Town(running).push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20))
        token = running.server.store.create_token("grace", "client")
        page = Page(context.new_page(), running.url)
        page.page.goto(running.url)
        page.page.wait_for_selector("#login[open]")
        page.page.fill("#token", "wrong")
        page.page.click("#login button")
        page.page.wait_for_selector("#login-error:not([hidden])")
        page.page.fill("#token", token)
        page.page.click("#login button")
        page.until("place.live.about?.you.name === 'grace'")
        page.until("document.querySelector('#connection').dataset.state === 'live'")
        assert page.evaluate("!document.querySelector('#client').hidden"), "its view comes first"
        page.page.click("#draw")
        page.drag((70, 70), (95, 90))
        page.register("hers")
        wait_for(lambda: page.rows("hers") == [[3, "cab"]])
        page.until("place.live.drawnTracks()[0].count === 1")
        assert page.evaluate("[...place.live.queries.keys()]") == ["hers"]
        # A base map in a file of the server is there for those who may see the map.
        part = {"Range": "bytes=0-7"}
        assert running.http.get("/map/basemap.pmtiles", headers=part).status_code == 401
        part |= bearer(token)
        found = running.http.get("/map/basemap.pmtiles", headers=part)
        assert (found.status_code, found.content) == (206, b"PMTiles\x03")
        assert running.http.get("/map/about", headers=part).json()["basemap"].startswith("/map/")
    context.close()


@pytest.mark.long
def test_a_base_map_and_a_server_that_goes_away(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    with (
        archive_served() as (url, asked),
        serving(tmp_path / "home", SHIPS, basemap=url) as running,
    ):
        running.push("Ships", [["Rickmer", 9.98, 53.545, "2026-01-01"]], time="2026-01-01")
        page = Page(context.new_page(), running.url)
        page.open("operator")
        wait_for(lambda: f"bytes={TILE_AT}-{TILE_AT + len(PICTURE) - 1}" in asked)
        page.until("place.scene.map.isSourceLoaded('base')")
        assert page.wrong == []
    page.until("document.querySelector('#connection').textContent.startsWith('offline')")
    context.close()


def test_the_api_has_a_page_on_which_it_can_be_tried(page: Page, running: Running) -> None:
    page.page.goto(f"{running.url}/docs")
    wanted = page.until(
        """async () => {
          const { paths } = await (await fetch("/openapi.json")).json();
          const count = Object.values(paths).flatMap((verbs) => Object.keys(verbs)).length;
          return document.querySelectorAll(".route").length === count && count;
        }"""
    )
    assert wanted > 10
    route = page.page.locator(".route", has_text="POST/sql").first
    route.locator("summary").click()
    route.locator("textarea").fill('{"sql": "SHOW STREAMS"}')
    route.get_by_role("button", name="Send").click()
    shown = page.until(
        "[...document.querySelectorAll('form pre')].map(p => p.textContent).find(t => t.length > 1)"
    )
    assert shown.startswith("200")
    assert '"columns":["stream","objects","readings","late","lastreason"]' in shown.replace(" ", "")
    assert page.wrong == []


def lab(colour: str) -> tuple[float, float, float]:
    """A colour in the space where distances are what people see (CIE 1976)."""

    def linear(value: int) -> float:
        part = value / 255
        return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)

    r, g, b = (linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    )
    x, y, z = (n ** (1 / 3) if n > 0.008856 else 7.787 * n + 16 / 116 for n in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_no_colour_of_the_map_has_two_meanings() -> None:
    text = (Path(place.web.__path__[0]) / "colours.js").read_text()
    colours = re.findall(r"#[0-9a-f]{6}", text)
    assert len(colours) == 10 + 1 + 8 + 1 + 1 + 1, "classes, other, marks, queries, drawing, alerts"
    for i, one in enumerate(colours):
        for other in colours[i + 1 :]:
            assert math.dist(lab(one), lab(other)) > 20, (one, other)
