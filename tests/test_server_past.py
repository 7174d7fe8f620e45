"""The past over HTTP: the same answers as in the process, as GeoJSON, and when it is damaged."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from deltalake import DeltaTable

import place
from place.cli import main
from place.client import Client, ServerError
from place.errors import PlaceError, StatementError
from place.model import deadline
from place.operate.status import read_status
from place.plan.past import Question
from place.runtime.interface import Recalled
from place.runtime.repository.repository import MARK, Pace
from tests.harness.browser import Page, browsing, needs_browser
from tests.harness.pipeline import runtime_of
from tests.harness.server import Running, serving, wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING)
  WITH (archive = 'all', bounds = '0 0 60 60');
CREATE STREAM Bikes (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP);
REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5)
"""
BEGIN = datetime(2026, 1, 1, 14, tzinfo=UTC)
END = "2026-01-01T14:00:40"


def moment(seconds: float) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("past") / "home", SETUP, idle=0) as running:
        for second, x in ((0, 1), (10, 2), (20, 2.5), (30, 50)):
            running.push(
                "Cars", [[7, x, 1, moment(second), "cab"], [8, 20, x, moment(second), "bus"]]
            )
        running.http.post("/advance", params={"time": moment(40)}).raise_for_status()
        wait_for(lambda: (running.http.get("/past").json()[0]["end"] or "") >= END)
        yield running


@pytest.fixture
def client(served: Running) -> Iterator[Client]:
    with place.connect(served.url, token=None) as found:
        yield found


def test_a_client_of_the_past_is_as_a_session_of_it(served: Running, client: Client) -> None:
    for at in (moment(15), BEGIN + timedelta(seconds=15), "2026-01-01T14:00:15Z"):
        then, here = client.at(at), served.session.at(at)
        for select in ("SELECT id, x FROM Cars", "SELECT id FROM Cars INSIDE (0, 0, 5)"):
            assert then.sql(select).rows == here.sql(select).rows
        assert then.answer("near") == here.answer("near") == [(7,)]
    assert client.at(moment(35)).answer("near") == []
    assert "read of the past" in str(client.at(moment(15)).sql("EXPLAIN SELECT id FROM Cars").rows)
    with pytest.raises(StatementError, match="can only be read"):
        client.at(moment(15)).sql("DROP QUERY near")
    with pytest.raises(StatementError, match="is before the past of Cars"):
        client.at("2020-01-01").sql("SELECT id FROM Cars")
    with pytest.raises(StatementError, match="of another time"):
        client.at(moment(15)).sql(f"SELECT id FROM Cars AS OF '{moment(1)}'")
    with pytest.raises(PlaceError):
        client.at("yesterday").sql("SELECT id FROM Cars")
    with pytest.raises((StatementError, ServerError)):
        client.at("it's").answer("near")


def test_trajectories_as_geojson(served: Running, client: Client) -> None:
    between = f"FROM Cars BETWEEN '{moment(0)}' AND '{moment(40)}' WHERE id = 7"
    select = f"SELECT TRAJECTORY(id) {between}"
    reply = served.http.post("/sql", params={"format": "geojson"}, json={"sql": select})
    assert reply.headers["content-type"] == "application/geo+json"
    (line,) = reply.json()["features"]
    assert line["geometry"] == {
        "type": "LineString",
        "coordinates": [[1.0, 1.0], [2.0, 1.0], [2.5, 1.0], [50.0, 1.0]],
    }
    assert line["properties"]["id"] == 7
    assert line["properties"]["times"][1] == "2026-01-01T14:00:10Z"
    assert client.sql(select).to_geojson() == reply.json()
    assert client.sql(f"SELECT id, LENGTH(TRAJECTORY(id)) {between}").rows == ((7, 49.0),)
    body = {"sql": "SELECT id, x, y FROM Cars WHERE id = 7", "at": moment(12)}
    (point,) = served.http.post("/sql?format=geojson", json=body).json()["features"]
    assert point["geometry"] == {"type": "Point", "coordinates": [2.0, 1.0]}
    wrong = served.http.post("/sql?format=geojson", json={"sql": "SHOW STREAMS"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "no_position")
    assert served.http.post("/sql?format=svg", json={"sql": select}).status_code == 422


def test_a_client_that_hangs_up_gives_its_question_up(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question goes on until somebody has left; a second one, by somebody who stays, ends."""
    said: list[str] = []

    def recall(question: Question, most: int | None = None) -> Recalled:
        with deadline.at_most(None, can_be_given_up=True):
            try:
                for _ in range(3000):
                    deadline.check()
                    time.sleep(0.01)
            except deadline.GivenUp as error:
                said.append(str(error))
                raise
        raise AssertionError("it was not given up")

    select = f"SELECT id FROM Cars AS OF '{moment(15)}'"
    with monkeypatch.context() as patch:
        patch.setattr(served.session.runtime, "recall", recall)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{served.url}/sql", json={"sql": select}, timeout=0.5)
        wait_for(lambda: said)
    assert said == ["nobody waits for the answer any more"]
    assert served.sql(select)["rows"] == [[7], [8]]


def test_which_times_can_be_asked_about(served: Running) -> None:
    (past,) = served.http.get("/past").json()
    assert (past["stream"], past["begin"], past["fault"]) == ("Cars", "2026-01-01T14:00:00Z", None)
    assert past["end"].startswith("2026-01-01T14:00:40")


def test_spark_reads_the_files_of_the_table(served: Running) -> None:
    runtime = runtime_of(served.session)
    runtime.repository.catch_up()
    runtime.repository.archive()
    (table,) = (runtime.directory / "repository" / "Cars").iterdir()
    files = DeltaTable(table).file_uris()
    cars = runtime.spark.read.parquet(*files).where("snapshot IS NULL")
    assert cars.count() == 8
    rows = cars.where("id = 7").orderBy("ts").select("x").collect()
    assert [row.x for row in rows] == [1.0, 2.0, 2.5, 50.0]


@needs_browser
def test_the_slider_shows_the_map_as_it_was(served: Running) -> None:
    served.sql(LATER)
    gone = {"op": "disappear", "id": 7, "ts": moment(41)}
    served.push("Cars", [gone], time=moment(41))
    wait_for(lambda: (served.http.get("/past").json()[0]["end"] or "") >= "2026-01-01T14:00:41")
    with browsing() as browser:
        context = browser.new_context(viewport={"width": 1180, "height": 760})
        page = Page(context.new_page(), served.url)
        page.open("operator")
        page.until("!document.querySelector('#past').hidden")
        page.until("['near', 'far', 'led', 'middle'].every((name) => place.live.queries.has(name))")
        assert page.page.is_hidden("#as-of")
        # Now there is one object, nobody leads the queries, and no alert has come.
        page.until(f"{FIGURE} === '1' && {ALERTS} === ''")
        page.until(f"{SIZES} === 'Cars 7 is gone,0,0'")
        assert page.page.is_visible("#charts")
        assert page.evaluate(LED) == page.evaluate(CENTRES).removesuffix("40,40") == ""
        page.page.click("[data-query=near] button")
        page.page.select_option("#label-column", "x")
        page.until("document.querySelector('.answer .state').textContent.includes('now')")
        slide(page, 15)
        page.until(f"{PLACES} === '2,1;20,2'")
        page.until(f"{MARKED} === 1")
        assert page.evaluate("document.querySelector('#connection').textContent") == "past"
        assert page.page.text_content("#past-now") == moment(15)
        # The list of the chosen query, its size and the labels are those of then, and say so.
        page.until(f"{LISTED} === '[7]'")
        assert page.page.text_content(".answer .state") == f"The answer as of {moment(15)}."
        assert page.page.text_content("[data-query=near] .size") == "1"
        assert page.page.text_content("#as-of-time") == moment(15)
        page.until(f"{LABELS} === '2,20'")
        # So are the figures, the sizes of what is only listed, who leads queries, and alerts.
        page.until(f"{FIGURE} === '2' && {SIZES} === ',1,0'")
        assert page.page.is_hidden("#charts")
        assert page.page.is_hidden("#figure-lag")
        page.until(f"{LED} === '2,1' && {CENTRES} === '2,1;40,40'")
        assert page.page.text_content("#alert-empty") == "None in the ten minutes before."
        slide(page, 25)
        first = "a.id 7  ·  a.x 2.5  ·  a.ts 14:00:20"
        page.until(f"{ALERTS} === '{first}' && {SIZES} === ',1,1'")
        slide(page, 35)
        second = "a.id 7  ·  a.x 50  ·  a.ts 14:00:30"
        page.until(f"{ALERTS} === '{second};{first}' && {SIZES} === ',1,2'")
        page.until(f"{LISTED} === '' && {LABELS} === '20,50'")
        state = page.page.text_content(".answer .state")
        assert state == f"Nothing was in the answer as of {moment(35)}."
        page.until(f"{PLACES} === '20,50;50,1'")
        page.until(f"{MARKED} === 0")
        # The chosen object has what it said then, and the way that the archive knows.
        page.evaluate("place.objects.chooseKey('Cars', 7)")
        page.until("document.querySelector('#card').textContent.includes('50')")
        page.until(f"{TRAIL} >= 2")
        slide(page, 25)
        page.until(f"document.querySelector('#card').textContent.includes('As of {moment(25)}')")
        page.until("document.querySelector('#card').textContent.includes('2.5')")
        # To the beginning, and on at speed until the end.
        page.page.click("#past-rewind")
        page.until(f"{PLACES} === '1,1;20,1'")
        page.page.select_option("#past-speed", "10")
        page.page.click("#past-play")
        page.until("place.past.time > place.past.begin")
        page.page.click("#past-play")
        assert page.evaluate("place.past.isPlaying") is False
        page.page.select_option("#past-speed", "60")
        page.page.click("#past-play")
        page.until(f"!place.past.isPlaying && {PLACES} === '20,50'")
        page.until(f"{SIZES} === 'Cars 7 is not there,0,2'")
        page.page.click("#past-live")
        page.until("!place.live.past && [...place.live.tracks.values()].some(t => t.tick > 0)")
        assert page.page.is_disabled("#past-live")
        page.until("document.querySelector('.answer .state').textContent.includes('now')")
        assert page.page.is_hidden("#as-of")
        page.until(f"{FIGURE} === '1' && {ALERTS} === '' && {SIZES} === 'Cars 7 is gone,0,0'")
        assert page.page.is_visible("#charts")
        assert page.wrong == []
        context.close()


LATER = """
CREATE TABLE Guards (id BIGINT, focal BIGINT, r DOUBLE) AS VALUES (1, 7, 5);
REGISTER QUERY led AS SELECT G.id, C.id FROM Guards G, Cars C WHERE C INSIDE G;
REGISTER QUERY middle AS SELECT id FROM Cars kNN (1, SUM OF (FOCAL 7, POINT (40, 40)));
CREATE TRIGGER far FOR Cars AS a WHEN a.x > 2.2 AND a.type = 'cab' ALERT a.id, a.x, a.ts
"""
"""What is asked after all that the test looks back at; car 7 has gone by then."""
FIGURE = "document.querySelector('#figure-objects').textContent"
ALERTS = "[...document.querySelectorAll('#alert-list li span')].map((i) => i.textContent).join(';')"
SIZES = """['middle .trouble', 'middle .size', 'far .size']
  .map((part) => document.querySelector(`#query-list [data-query=${part.replace(" ", "] ")}`)
    .textContent).join()"""
"""Whether an object that leads a query is gone, and how many rows and alerts there are."""
AROUND = """.map((each) => place.scene.placeOf([...(each.path ?? each)].slice(2))
  .map(Math.round).join()).join(';')"""
LED = f"place.scene.tableRegions(place.live.queries.get('led'), {{}}){AROUND}"
CENTRES = f"place.scene.centrePaths(place.live.queries.get('middle')){AROUND}"
"""What the regions of a table that move, and the nearest of a group, are drawn around."""
PLACES = """(() => {
  const track = [...place.live.tracks.values()].find((each) => each.count);
  return track ? [...track.slots].map((slot) => place.scene.placeOf(track.path(slot).subarray(2))
    .map(Math.round).join()).sort().join(";") : "";
})()"""
"""Where the objects on the map are."""
LISTED = "[...document.querySelectorAll('.answer li[data-row]')].map(i => i.dataset.row).join()"
"""The rows of the answer in the panel."""
LABELS = """[...place.scene.labels.texts.values()].flatMap((texts) => [...texts.values()])
  .sort().join()"""
MARKED = "[...place.live.tracks.values()].flatMap(t => [...t.marks]).filter(mark => mark).length"
TRAIL = """((place.scene.trails.kept.get(place.scene.chosen?.stream)
  ?.get(place.scene.chosen?.slot)?.points.length ?? 0) / 2)"""


def slide(page: Page, seconds: int) -> None:
    at = (BEGIN + timedelta(seconds=seconds)).timestamp() * 1000
    page.evaluate(
        """(at) => {
          const slider = document.querySelector("#past-time");
          slider.value = at;
          slider.dispatchEvent(new Event("input"));
        }""",
        at,
    )


def test_a_repository_that_vanishes_stops_no_live_query(
    served: Running, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = runtime_of(served.session)
    home: Path = runtime.directory
    runtime.repository.pace = Pace(seconds=0.1, retry=0.1)
    assert served.http.get("/health").json()["status"] == "ok"
    assert read_status(home)["past_faults"] == {}
    # Before its first commit, a repository that is gone is made again from the log: no fault.
    wait_for((home / MARK).exists)
    (home / "repository").rename(home / "elsewhere")  # also while somebody writes into it
    # Later than all readings of the other tests here: these are not late, in whatever order.
    served.push("Cars", [[9, 1, 1, moment(51), "cab"]])
    served.http.post("/advance", params={"time": moment(52)}).raise_for_status()
    wait_for(lambda: [9] in served.answer("near"))
    found = wait_for(lambda: _degraded(served))
    assert (found["status"], found["past_faults"]) == ("degraded", 1)
    (past,) = served.http.get("/past").json()
    assert "Cars" in past["stream"]
    assert past["fault"]
    with pytest.raises(PlaceError, match="past"):
        client.at(moment(15)).sql("SELECT id FROM Cars")
    served.push("Cars", [[10, 1, 1, moment(53), "cab"]])
    served.http.post("/advance", params={"time": moment(54)}).raise_for_status()
    wait_for(lambda: [10] in served.answer("near"))
    wait_for(lambda: "Cars" in read_status(home)["past_faults"])
    said = "the past of Cars cannot be asked about"
    wait_for(lambda: main(["status", "--home", str(home)]) or said in capsys.readouterr().out)


def _degraded(served: Running) -> dict[str, object] | None:
    found: dict[str, object] = served.http.get("/health").json()
    return found if found["status"] == "degraded" else None
