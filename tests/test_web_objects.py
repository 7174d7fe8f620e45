"""Objects in a real browser: found, chosen, followed and asked about; rows that change; a view as a
link; the operator's answers; and what a screen reader makes of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.browser import Page, browsing, needs_browser
from tests.harness.server import Running, wait_for
from tests.harness.town import Town

pytestmark = needs_browser

CARS = "place.live.drawnTracks()[0]"
CHOSEN = "place.scene.chosen && place.scene.chosen.text === '{}'"
PRESSED = "document.querySelector('#query-list [aria-pressed=true] .name')?.textContent"
RESTS = """() => {
  const told = new URLSearchParams(location.hash.split("?")[1]).get("at")?.split(",").map(Number);
  const isTold = told && place.scene.where().every((n, i) => Math.abs(n - told[i]) < 1e-3);
  return isTold && !place.scene.map.isMoving();
}"""
"""The camera has come to rest, and the address of the page says where."""

CARD = "document.querySelector('#card').innerText"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def running(town: Town) -> Running:
    return town.running


@pytest.fixture
def page(browser: Any, running: Running, town: Town) -> Iterator[Page]:
    town.push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20), c5=(30, 12))
    context = browser.new_context(viewport={"width": 1180, "height": 760})
    made = Page(context.new_page(), running.url)
    yield made
    context.close()
    assert made.wrong == []


def find(page: Page, text: str) -> None:
    page.page.fill("#find", text)
    page.page.wait_for_selector("#found li")
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")


def test_an_object_is_found_by_its_key_and_its_card_lives(
    page: Page, running: Running, town: Town
) -> None:
    page.open("operator")
    page.page.fill("#find", "nobody")
    page.page.wait_for_selector("#found-none:not([hidden])")
    find(page, "3")
    page.until(CHOSEN.format(3))
    assert page.evaluate("document.querySelector('#find').getAttribute('aria-expanded')") == "false"
    page.until(f"{CARD}.includes('cab')")
    middle = "place.scene.where().slice(0, 2).map(Math.round).join()"
    page.until(f"{middle} === '80,80'")
    town.push(c3=(61, 77))
    page.until(f"{CARD}.includes('61') && {CARD}.includes('77')")
    town.leave(3)
    page.until(f"{CARD}.includes('It is gone')")
    assert "61" in page.evaluate(CARD), "what it was last stays"
    page.page.click("#card-close")
    assert page.evaluate("document.querySelector('#card').hidden && !place.scene.chosen")


def test_the_camera_goes_with_an_object_until_one_drags_the_map(page: Page, town: Town) -> None:
    page.open("operator")
    find(page, "4")
    page.until(CHOSEN.format(4))
    page.page.click("#card-follow")
    town.push(c4=(60, 40))
    middle = "place.scene.where().slice(0, 2).map((n) => n.toFixed(1)).join()"
    page.until(f"{middle} === '60.0,40.0'")
    page.drag((60, 44), (52, 52))
    page.until("!place.objects.isFollowing")
    assert page.page.inner_text("#card-follow") == "Follow"


@pytest.mark.parametrize(
    ("button", "clause"),
    [
        ("#card-nearest", "kNN ('M', 5, 5)"),
        pytest.param("#card-around", "INSIDE ('M', 5", marks=pytest.mark.long),
    ],
)
def test_a_card_registers_what_it_offers(
    page: Page, running: Running, button: str, clause: str
) -> None:
    page.open("operator")
    before = {query["name"] for query in running.http.get("/queries").json()}
    find(page, "5")
    page.until(CHOSEN.format(5))
    page.page.click(button)
    new = wait_for(
        lambda: [q for q in running.http.get("/queries").json() if q["name"] not in before]
    )
    assert clause in new[0]["sql"]
    assert new[0]["moving"]
    name = new[0]["name"]
    page.until(f"{PRESSED} === '{name}'")
    # The operator's list has the answer, and drops the query when asked twice.
    expected = sorted(running.answer(name))
    rows = "[...document.querySelectorAll('#query-list .rows li[data-row]')].length"
    page.until(f"{rows} === {len(expected)}")
    page.page.click("#query-list .drop")
    assert running.http.get(f"/queries/{name}").status_code == 200, "asked once"
    page.page.click("#query-list .drop")
    wait_for(lambda: running.http.get(f"/queries/{name}").status_code == 404)
    page.until("!document.querySelector('#query-list .details')")


def test_a_row_that_changes_stays_and_leads_to_its_object(
    page: Page, running: Running, town: Town
) -> None:
    running.sql("REGISTER QUERY wide AS SELECT id, x FROM Cars INSIDE (0, 0, 60, 60)")
    page.open("operator")
    page.page.click('[data-query="wide"] button')
    row = "[...document.querySelectorAll('#query-list .rows li[data-row]')]"
    page.until(f"{row}.map((item) => item.dataset.row).join() === '[1,10],[2,15],[5,30]'")
    page.evaluate(f"{row}.forEach((item) => (item.wasThere = true))")
    town.push(c2=(25, 15))
    page.until(f"{row}.map((item) => item.dataset.row).join() === '[1,10],[2,25],[5,30]'")
    assert page.evaluate(f"{row}.every((item) => item.wasThere)"), "no row left and came"
    changed = "[...document.querySelectorAll('#query-list .changed')].map((c) => c.textContent)"
    assert page.evaluate(changed) == ["25"]
    assert page.evaluate("document.querySelectorAll('#query-list .leaving').length") == 0
    page.page.click("#query-list .rows li:nth-child(3) button")
    page.until(CHOSEN.format(5))
    running.sql("DROP QUERY wide")


@pytest.mark.long
def test_groups_are_rows_that_change(page: Page, running: Running, town: Town) -> None:
    page.open("operator")
    page.page.click('[data-query="census"] button')
    row = "[...document.querySelectorAll('#query-list .rows li[data-row]')]"
    before = dict(running.answer("census"))
    page.until(f"{row}.length === {len(before)}")
    page.evaluate(f"{row}.forEach((item) => (item.wasThere = true))")
    town.push(c77=(50, 50))
    wanted = f'["cab",{before["cab"] + 1}]'
    page.until(f"{row}.some((item) => item.dataset.row === '{wanted}')")
    assert page.evaluate(f"{row}.every((item) => item.wasThere)")


@pytest.mark.long
def test_a_query_whose_object_is_gone_says_so(page: Page, running: Running, town: Town) -> None:
    town.push(c8=(50, 50))
    page.open("client")
    page.page.fill("#sql", "REGISTER QUERY led AS SELECT id FROM Cars INSIDE ('M', 8, 45)")
    page.page.click("#register")
    state = "document.querySelector('.mine-query[data-query=led] .state')?.textContent"
    page.until(f"{state} === ''")
    town.leave(8)
    page.until(f"{state}.includes('Cars 8 is gone')")
    page.page.click("#tab-operator")
    trouble = "document.querySelector('#query-list [data-query=led] .trouble').textContent"
    page.until(f"{trouble} === 'Cars 8 is gone'")
    page.page.click("#tab-client")
    town.push(c8=(50, 50))
    page.until(f"{state} === ''")
    page.drop("led")


@pytest.mark.long
def test_headings_labels_trails_and_names(page: Page, running: Running, town: Town) -> None:
    page.open("operator")
    page.page.select_option("#label-column", "type")
    page.page.check("#trails")
    page.until("place.scene.labels.painted.filter((text) => text === 'bus').length >= 2")
    assert "corner" in page.evaluate("place.scene.labels.painted"), "the name of a region"
    assert "80" in page.evaluate("place.scene.labels.painted"), "a line of the grid"
    turn = f"{CARS}.headings[place.scene.chosen.slot]"
    find(page, "4")
    page.until(CHOSEN.format(4))
    for x, y, heading in ((95, 20, 90), (95, 10, 180), (85, 10, -90), (85, 30, 0)):
        town.push(c4=(x, y))
        page.until(f"Math.round({turn} * 180 / Math.PI) === {heading}")
        page.page.wait_for_timeout(1100)
    lines = "place.scene.trails.layer.lines.size / 13"
    page.until(f"{lines} >= 3")
    page.page.uncheck("#trails")
    page.page.click("#card-close")
    page.until(f"{lines} === 0")


@pytest.mark.long
def test_the_globe_has_land_a_graticule_and_a_scale(page: Page, running: Running) -> None:
    running.push("Ships", [["Rickmer", 9.98, 53.545, "2026-01-01"]], time="2026-01-01")
    page.open("operator?space=wgs84&at=1.2,50.9,6")
    page.until("place.scene.map.getLayer('land') && place.scene.map.isSourceLoaded('land')")
    on = (
        "place.scene.map.queryRenderedFeatures("
        "place.scene.map.project([{}, {}]), {{layers: ['land']}}).length"
    )
    page.until(f"{on.format(0.5, 51.2)} > 0")
    assert page.evaluate(on.format(0.5, 50.4)) == 0, "the Channel"
    painted = page.until("place.scene.labels.painted.length && place.scene.labels.painted")
    assert {"0°", "1°E", "51°N"} <= set(painted)
    assert page.page.inner_text("#scale").endswith("km")
    page.page.mouse.move(*page.on_screen(1.2, 50.9))
    page.until("document.querySelector('#readout').textContent.startsWith('lon 1.')")
    page.page.select_option("#world", "planar")
    page.until("place.scene.map.getLayoutProperty('land', 'visibility') === 'none'")
    page.until("place.scene.labels.painted.includes('100')")
    assert page.page.inner_text("#scale") in ("10", "20", "5")


@pytest.mark.long
def test_a_link_opens_the_same_view(page: Page, browser: Any, running: Running) -> None:
    page.open("operator")
    page.page.click('[data-query="corner"] button')
    find(page, "2")
    page.until(CHOSEN.format(2))
    page.page.select_option("#label-column", "id")
    page.until("location.hash.includes('object=Cars/2') && location.hash.includes('labels=id')")
    page.until(RESTS)
    fragment = page.fragment()
    assert "query=corner" in fragment
    where = page.evaluate("place.scene.where()")
    context = browser.new_context(viewport={"width": 900, "height": 700})
    other = Page(context.new_page(), running.url)
    other.open(fragment.removeprefix("#"))
    other.until(CHOSEN.format(2))
    other.until(f"{PRESSED} === 'corner'")
    assert other.evaluate("place.scene.where()") == pytest.approx(where, rel=1e-3)
    assert other.evaluate("place.scene.labels.column") == "id"
    other.page.goto(f"{running.url}/#client?at=1,2&object=%3Cb%3E/x&labels=none&query=none")
    other.page.reload()
    other.until("window.place?.live.world && !document.querySelector('#client').hidden")
    context.close()
    assert other.wrong == []


def test_what_others_wrote_is_text(page: Page, running: Running) -> None:
    evil = "<img src=x onerror=alert(1)>"
    running.sql(f'REGISTER QUERY "{evil}" AS SELECT name FROM Ships INSIDE (9, 53, 10, 54)')
    running.push("Ships", [[evil, 9.97, 53.54, "2026-01-02"]], time="2026-01-02")
    page.open("operator?space=wgs84")
    find(page, "<img")
    page.until("place.scene.chosen?.text.startsWith('<img')")
    page.page.click("#query-list li:last-child button")
    page.until("document.querySelector('#query-list .rows li')")
    assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
    assert evil in page.evaluate("place.scene.labels.painted.join()") or page.evaluate(
        "place.scene.labels.painted.some((text) => text.startsWith('<img'))"
    )
    running.sql(f'DROP QUERY "{evil}"')


@pytest.mark.parametrize("view", ["operator", pytest.param("client", marks=pytest.mark.long)])
def test_axe_finds_nothing_serious(browser: Any, running: Running, town: Town, view: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    town.push(c1=(10, 10), c2=(15, 15))
    # The page's policy forbids what the tool puts into it.
    context = browser.new_context(viewport={"width": 1180, "height": 760}, bypass_csp=True)
    page = Page(context.new_page(), running.url)
    page.open(view)
    find(page, "1")
    page.until(CHOSEN.format(1))
    if view == "operator":
        page.page.click('[data-query="corner"] button')
        page.until("document.querySelector('#query-list .rows li')")
    found = axe.Axe().run(page.page).response["violations"]
    context.close()
    bad = [each for each in found if each["impact"] in ("serious", "critical")]
    assert {each["id"]: each["nodes"][0]["target"] for each in bad} == {}


def test_a_view_that_was_just_pressed_is_not_taken_back_by_the_address(page: Page) -> None:
    """The address is written in the moment between a press and the page's hearing of it."""
    page.open("operator")
    page.page.wait_for_selector("#tab-operator[aria-selected=true]")
    page.evaluate(
        """() => {
          document.querySelector("#tab-client").addEventListener("click", (event) => {
            event.preventDefault();
            location.hash = "#client";
            place.link.write();
          });
        }"""
    )
    page.page.click("#tab-client")
    page.page.wait_for_selector("#tab-client[aria-selected=true]", timeout=20_000)
    page.until("location.hash.startsWith('#client?')")
