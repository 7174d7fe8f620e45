"""The page on a phone: what a finger draws is what is registered, all that can be pressed is large
enough, and a client first sees its own data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.browser import (
    PHONE,
    Finger,
    Page,
    archive_served,
    browsing,
    needs_browser,
)
from tests.harness.server import Running, serving, wait_for
from tests.harness.town import SETUP, Town

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def running(town: Town) -> Running:
    return town.running


@pytest.fixture
def phone(browser: Any, running: Running) -> Iterator[Page]:
    context = browser.new_context(**PHONE)
    made = Page(context.new_page(), running.url)
    made.open("client")
    yield made
    context.close()
    assert made.wrong == []


def tap_register(phone: Page, name: str) -> None:
    phone.page.fill("#name", name)
    phone.page.tap("#register")
    phone.page.wait_for_selector(f'.mine-query[data-query="{name}"]')


def test_a_finger_draws_the_circle_that_is_registered(phone: Page, running: Running) -> None:
    finger = Finger(phone)
    phone.page.tap("#composer label:has([value=circle])")
    finger.drag((50, 50), (50, 70))
    shown = phone.until("place.scene.drawing")
    assert (shown["type"], round(shown["r"])) == ("circle", 20)
    tap_register(phone, "by_finger")
    region = running.http.get("/queries/by_finger").json()["region"]
    assert region["coordinates"] == pytest.approx([shown["x"], shown["y"]], abs=0.01)
    assert region["radius"] == pytest.approx(shown["r"], abs=0.01)
    phone.drop("by_finger")


def test_two_fingers_do_not_draw_and_taps_are_corners(phone: Page, running: Running) -> None:
    finger = Finger(phone)
    phone.page.tap("#composer label:has([value=polygon])")
    for corner in ((30, 30), (70, 30), (50, 60)):
        finger.tap(*corner)
    phone.until("place.scene.drawing?.rings[0].length === 3")
    assert "3 corners" in phone.page.inner_text("#draw")
    phone.page.tap("#draw")
    phone.until("document.querySelector('#draw').textContent === 'Draw the polygon'")
    shown = phone.evaluate("place.scene.drawing.rings[0]")
    tap_register(phone, "tapped")
    ring = running.http.get("/queries/tapped").json()["region"]["coordinates"][0]
    assert ring[:-1] == [pytest.approx(corner, abs=0.01) for corner in shown]
    phone.drop("tapped")
    phone.page.tap("#composer label:has([value=rectangle])")
    one, two = phone.on_screen(30, 30), phone.on_screen(60, 60)
    finger._touch("touchStart", one)
    finger._touch("touchStart", one, two)
    finger._touch("touchMove", (one[0] - 20, one[1]), (two[0] + 20, two[1]))
    finger._touch("touchEnd")
    assert phone.evaluate("place.scene.drawing") is None
    assert phone.page.is_disabled("#register")


TARGETS = """() => {
  const found = [];
  const all = "button, a[href], input, select, textarea, summary, [role=option]";
  for (const element of document.querySelectorAll(all)) {
    if (element.closest("dialog, .skip, .unseen") || element.matches(".skip")) continue;
    const target = element.matches("[type=radio], [type=checkbox]") ? element.closest("label")
      : element;
    const box = target.getBoundingClientRect();
    if (!box.width || getComputedStyle(target).visibility === "hidden") continue;
    if (box.width < 43.5 || box.height < 43.5) {
      found.push([element.id || element.className || element.outerHTML.slice(0, 60),
        Math.round(box.width), Math.round(box.height)]);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("view", ["client", pytest.param("operator", marks=pytest.mark.long)])
def test_all_that_can_be_pressed_is_large_enough(phone: Page, running: Running, view: str) -> None:
    phone.page.tap(f"#tab-{view}")
    phone.page.tap("#legend-box summary")
    phone.page.fill("#find", "1")
    phone.page.tap("#found li")
    phone.page.wait_for_selector("#card:not([hidden])")
    assert phone.evaluate(TARGETS) == []
    phone.page.tap("#card-close")
    if view == "operator":
        phone.page.tap('[data-query="corner"] button')
        phone.page.wait_for_selector("#query-list .rows li")
        assert phone.evaluate(TARGETS) == []
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_first_view_of_a_client_is_where_its_data_is(browser: Any, tmp_path: Path) -> None:
    with (
        archive_served() as (url, asked),
        serving(
            tmp_path / "home", SETUP, basemap=url.replace("world.pmtiles", "{z}/{x}/{y}.png")
        ) as running,
    ):
        Town(running).push(c1=(10, 10), c3=(80, 80))
        token = running.server.store.create_token("ada", "client")
        running.http.headers["Authorization"] = f"Bearer {token}"
        running.sql("REGISTER QUERY mine AS SELECT id FROM Cars INSIDE (75, 75, 85, 85)")
        wait_for(lambda: running.answer("mine") == [[3]])
        context = browser.new_context(**PHONE)
        context.add_cookies([{"name": "place_token", "value": token, "url": running.url}])
        page = Page(context.new_page(), running.url)
        page.open("client")
        x, y, wide = page.until("!place.scene.begins && place.scene.where()")
        assert (x, y) == pytest.approx((80, 80), abs=1)
        assert 10 < wide < 30, "as large as its region, not as the whole stream"
        page.evaluate("place.live.choose('wgs84')")
        wait_for(lambda: any(path.endswith(".png") for path in asked))  # the tiles of a base map
        context.close()
