"""Alerts on the live map: where their readings are, who is told of them, and how they are drawn."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from place.plan.constraint_graph import constraint_graph
from place.runtime.interface import tick_of
from place.server.alerts import MOST_ALERTS, Alerts
from place.server.encode import Message
from place.server.query_info import spots_of
from place.session import Session, connect
from tests.harness.browser import Page, browsing, needs_browser
from tests.harness.server import Running, bearer, wait_for
from tests.harness.town import Town, founded, index_of, looking

CLOSE = """CREATE TRIGGER close FOR Cars AS V[2]
  WHEN V.type = 'bus' AND DISTANCE(V, V) <= 5 AND SPAN(V) <= '1 second' AND V.id <> V.id"""
PLACED = """CREATE TRIGGER placed FOR Cars AS a, Cars AS b
  WHEN a.type = 'bus' AND b.type = 'bus' AND a.id < b.id
   AND DISTANCE(a, b) <= 5 AND b.t - a.t IN [-1, 1]
  ALERT a.id, a.x, a.y, b.id"""


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with founded(tmp_path_factory.mktemp("alerts") / "home") as made:
        made.running.sql(f"{CLOSE}; {PLACED}")
        yield made


@pytest.fixture(scope="module")
def running(town: Town) -> Running:
    return town.running


def alert_of(view: Any, trigger: str) -> dict[str, Any]:
    """The last alert of a trigger that a viewer was told of."""

    def found() -> Any:
        told = view.told.get("alerts", {}).get("alerts", [])
        mine = [alert for alert in told if alert["trigger"] == trigger]
        return mine[-1] if mine else None

    alert: dict[str, Any] = view.until(found)
    return alert


def test_an_alert_tells_where_its_readings_are(running: Running, town: Town) -> None:
    cars = index_of(running, "Cars")
    with looking(running) as view:
        view.until(lambda: cars in view.frames and "queries" in view.told)
        wait_for(lambda: len(running.server.hub.subscribers()) >= 2)
        town.push(c2=(50, 50), c4=(52, 50))
        seen: dict[str, dict[str, Any]] = {}

        def both() -> bool:
            for alert in view.told.get("alerts", {}).get("alerts", []):
                seen[alert["trigger"]] = alert
            return {"close", "placed"} <= seen.keys()

        view.until(both)
        close, placed = seen["close"], seen["placed"]
        assert [place["name"] for place in close["places"]] == ["V[1]", "V[2]"]
        slots = [place["slot"] for place in close["places"]]
        assert [place["x"] for place in close["places"]] == [None, None], "where they are now"
        where = {view.frames[cars][slot][:2] for slot in slots}
        assert where == {(50, 50), (52, 50)}
        first, second = placed["places"]
        assert (first["x"], first["y"]) == (50, 50), "as of the alert"
        assert (second["x"], view.frames[cars][second["slot"]][:2]) == (None, (52, 50))
        assert placed["space"] == "planar"
        assert close["instant"].startswith("2026-01-01T12:")
        view.until(lambda: view.told["sizes"]["sizes"].get("close", 0) >= 1)
        kinds = view.told["queries"]["kinds"]
        assert kinds["trigger"] == 2
    town.push(c2=(15, 15), c4=(90, 20))


def test_clients_are_told_of_their_own_alerts_and_see_their_objects(tmp_path: Path) -> None:
    with founded(tmp_path / "home") as town:
        running = town.running
        store = running.server.store
        root, ann, bob = (
            store.create_token(name, role)
            for name, role in (("root", "admin"), ("ann", "client"), ("bob", "client"))
        )
        running.http.headers.update(bearer(root))
        running.sql(CLOSE, ann)
        cars = index_of(running, "Cars", ann)
        with looking(running, token=ann) as mine, looking(running, token=bob) as theirs:
            for view in (mine, theirs):
                view.until(lambda view=view: "queries" in view.told)  # type: ignore[misc]
            wait_for(lambda: len(running.server.hub.subscribers()) == 1)
            assert mine.places(cars) == set()
            town.push(c2=(50, 50), c4=(52, 50))
            alert = alert_of(mine, "close")
            assert alert["row"][::2] == [2, 4]
            assert alert["row"][1].startswith("2026-01-01T12:")
            mine.until(lambda: mine.places(cars) == {(50, 50), (52, 50)})
            theirs.until(
                lambda: (
                    theirs.told.get("stats", {}).get("tick", 0) >= tick_of(running.server.runtime)
                )
            )
            assert "alerts" not in theirs.told
            assert theirs.places(cars) == set()


# Where the places of readings stand in rows


@pytest.fixture
def session() -> Iterator[Session]:
    with connect(runtime="reference") as made:
        made.sql(
            """CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, p STRING);
               CREATE STREAM Strikes (x DOUBLE, y DOUBLE, force DOUBLE);
               CREATE STREAM Meters (id STRING KEY, level DOUBLE);
               CREATE TABLE Limits (far DOUBLE, seconds DOUBLE) AS VALUES (1, 2)"""
        )
        yield made


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("FOR Cars AS a, Cars AS b WHEN b.t - a.t IN [0, 5]", [("a", 0, None), ("b", 2, None)]),
        ("FOR Cars AS a WHEN a.p = 'x' ALERT a.p, a.y, a.x", [("a", None, 2)]),
        ("FOR Cars AS a WHEN a.p = 'x' ALERT a.x, a.id, a.y", [("a", 1, 0)]),
        ("FOR Cars AS a WHEN a.p = 'x' ALERT a.x, a.p", []),
        ("FOR Strikes AS s WHEN s.force > 1", []),
        ("FOR Strikes AS s WHEN s.force > 1 ALERT s.x, s.y", [("s", None, 0)]),
        ("FOR Meters AS m WHEN m.level > 1", []),
        ("FOR Cars AS a WHEN a.p = 'x' ALERT a.id + 1, a.x + 1, a.y", []),
    ],
)
def test_which_columns_say_where_a_reading_is(
    session: Session, statement: str, expected: list[tuple[str, int | None, int | None]]
) -> None:
    session.sql(f"CREATE TRIGGER t {statement}")
    (query,) = session.catalog.queries.values()
    assert [(spot.name, spot.key, spot.x) for spot in spots_of(query)] == expected


class _NoMap:
    """A map on which nothing is."""

    def layer(self, _: str) -> None:
        return None


def test_what_waits_for_a_viewer_is_bounded(session: Session) -> None:
    session.sql("CREATE TRIGGER t FOR Strikes AS s WHEN s.force > 1 ALERT s.x, s.y, s.force")
    (query,) = session.catalog.queries.values()
    alerts = Alerts(_NoMap())  # type: ignore[arg-type]
    one = '{"id":"3-%d","sign":1,"row":[1.5,null,%d],"instant":"2026-01-01T00:00:00Z"}'
    for start in (0, 200):
        text = ",".join(one % (i, i) for i in range(start, start + 150))
        alerts.take(query, spots_of(query), [Message(f"[{text}]", "", "")])
    told = alerts.due()
    assert told is not None
    assert (len(told["alerts"]), told["left_out"]) == (MOST_ALERTS, 200)
    assert told["alerts"][-1]["row"] == [1.5, None, 349]
    assert told["alerts"][-1]["places"] == [], "a NULL is nowhere"
    assert alerts.due() is None
    assert alerts.seen() == []


# The graph of constraints


def test_the_graph_of_constraints(session: Session) -> None:
    session.sql(
        """CREATE TRIGGER chain FOR Cars AS a, Cars AS b, Cars AS c
             WHEN a.p = 'A' AND DISTANCE(a, b) < 1 AND b.t - a.t IN [0, 5]
              AND DISTANCE(b, c) < 1 AND c.t - b.t IN [1, 5] AND c.id > a.id;
           CREATE TRIGGER crowd FOR Cars AS V[5]
             WHEN DISTANCE(V, V) <= 3 AND SPAN(V) <= 60 AND V.id <> V.id
             UNLESS Cars AS g WHEN DISTANCE(g, V) <= 2 AND g.t - V.t IN [-1, 3];
           CREATE TRIGGER uneven FOR Cars AS V[3] WHEN SPAN(V) <= 60 AND DISTANCE(V[1], V[3]) < 2;
           CREATE TRIGGER tabled FOR Cars AS V[2], Cars AS c, Limits AS p
             WHEN DISTANCE(V, V) <= p.far AND c.t - V.t IN [0, p.seconds] AND SPAN(V) <= 60
              AND c.x + V[1].x < V[2].x AND V[1].id < c.id WITHIN '1 minute'"""
    )
    chain, crowd, uneven, tabled = (constraint_graph(q) for q in session.catalog.queries.values())
    assert [node.asks for node in chain.nodes] == ["a.p = 'A'", None, None]
    told = {(edge.first, edge.second): edge for edge in chain.edges}
    time, distance = told[0, 2].time, told[0, 2].distance
    assert time is not None
    assert distance is not None
    assert (time.text, time.inferred) == ("1 s … 10 s later", True)
    assert (distance.text, distance.inferred) == ("≤ 2", True)
    assert told[0, 2].compares == ("c.id > a.id",)
    assert [(n.name, n.count, n.absent) for n in crowd.nodes] == [("V", 5, False), ("g", 1, True)]
    inner, outer = crowd.edges
    assert (inner.first, inner.second) == (0, 0)
    assert inner.time is not None
    assert (inner.time.text, inner.compares) == ("≤ 60 s apart", ("V.id <> V.id",))
    assert outer.time is not None
    assert outer.time.text == "-1 s … 3 s later"
    assert [node.name for node in uneven.nodes] == ["V[1]", "V[2]", "V[3]"]
    assert not tabled.has_numbers
    assert [node.count for node in tabled.nodes] == [2, 1]
    assert {(e.first, e.second): e.time is not None for e in tabled.edges} == {
        (0, 0): True,
        (0, 1): True,
    }
    assert tabled.more == ["(c.x + V[1].x) < V[2].x"]


# The page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture
def page(browser: Any, running: Running) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1180, "height": 760})
    made = Page(context.new_page(), running.url)
    yield made
    context.close()
    assert made.wrong == []


LISTED = """(name) => [...document.querySelectorAll('#alert-list li')]
  .filter((item) => item.dataset.trigger === name).map((item) => item.innerText)"""


@needs_browser
def test_an_alert_is_listed_drawn_and_led_to(page: Page, running: Running, town: Town) -> None:
    page.open("operator")
    page.until("place.live.queries.has('close')")
    assert page.page.is_visible("#alert-empty")
    wait_for(lambda: len(running.server.hub.subscribers()) >= 2)
    town.push(c2=(50, 50), c4=(52, 50))
    (text,) = page.until(LISTED, "close")
    assert "V[1].id 2" in text
    assert "V[2].id 4" in text
    lines = "place.scene.map.getLayer('alerts').implementation.lines.size"
    page.until(f"{lines} > 0")
    assert "Alert of" in page.page.inner_text("#alert-news")
    zoom = page.evaluate("place.scene.map.getZoom()")
    page.page.click("#alert-list li[data-trigger=close] button")
    page.until("(zoom) => place.scene.map.getZoom() > zoom + 1", zoom)
    page.until("!place.scene.map.isMoving()")
    for place in ((50, 50), (52, 50)):  # beside the list, not under it
        x, y = page.on_screen(*place)
        assert page.evaluate(
            "([x, y]) => !!document.elementFromPoint(x, y).closest('#map')", [x, y]
        )
    page.until(f"{lines} === 0", seconds=30)
    assert page.evaluate(LISTED, "close"), "it stays in the list"
    town.push(c2=(15, 15), c4=(90, 20))


@pytest.mark.long
@needs_browser
def test_the_operator_sees_the_constraints_of_a_trigger(page: Page, running: Running) -> None:
    running.sql(
        """CREATE TRIGGER chain FOR Cars AS a, Cars AS b, Cars AS c
             WHEN DISTANCE(a, b) < 1 AND b.t - a.t IN [0, 5]
              AND DISTANCE(b, c) < 1 AND c.t - b.t IN [1, 5]"""
    )
    page.open("operator")
    page.page.click("#query-list li[data-query=chain] button")
    page.page.wait_for_selector(".graph svg")
    assert page.evaluate("document.querySelectorAll('.graph .node').length") == 3
    assert page.evaluate("document.querySelectorAll('.graph .edge.inferred').length") == 1
    said = page.page.get_attribute(".graph svg", "aria-label") or ""
    assert "a to c: 1 s … 10 s later, distance ≤ 2 (inferred)" in said
    assert "Dashed" in page.page.inner_text(".graph figcaption")
    assert "trigger" in page.page.inner_text("#query-list li[data-query=chain] .kind")
    running.sql("DROP TRIGGER chain")


@needs_browser
@pytest.mark.parametrize("width", [pytest.param(1180, marks=pytest.mark.long), 390])
def test_a_trigger_is_composed_followed_and_dropped(
    browser: Any, running: Running, town: Town, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 760})
    page = Page(context.new_page(), running.url)
    page.open("client")
    page.choose(kind="together")
    assert not page.page.is_visible("input[name=moving]")
    page.page.fill("#field-k", "2")
    page.page.fill("#field-far", "4")
    page.page.fill("#field-span", "5")
    page.page.fill("#where", "V.type = 'cab'")
    sql = page.page.input_value("#sql")
    for part in ("FOR Cars AS V[2]", "DISTANCE(V, V) <= 4", "SPAN(V) <= '5 seconds'", "V.type ="):
        assert part in sql
    page.register("meet")
    assert running.http.get("/queries/meet").json()["kind"] == "trigger"
    page.until("place.live.queries.has('meet')")
    wait_for(lambda: len(running.server.hub.subscribers()) >= 4)
    height = width / 20  # where nobody was before
    town.push(c1=(20, height), c3=(22, height))
    page.until(LISTED, "meet")
    page.until("document.querySelector('.mine-query .rows li[data-row]')")
    assert len(page.rows("meet")) == 1
    page.page.fill("#field-k", "1")
    assert page.page.is_disabled("#register"), "one object is not together with any"
    wide = "document.documentElement.scrollWidth <= window.innerWidth"
    assert page.evaluate(wide)
    page.drop("meet")
    assert running.http.get("/queries/meet").status_code == 404
    page.until("(name) => !place.live.queries.has(name)", "meet")
    town.push(c1=(10, 10), c3=(80, 80))
    assert page.wrong == []
    context.close()
