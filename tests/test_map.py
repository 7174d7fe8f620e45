"""The live map: what the server tells those who look, and what it keeps from clients."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.server import Running, bearer, serving, wait_for
from tests.harness.town import SETUP, Town, index_of, looking


@pytest.fixture(scope="module")
def running(town: Town) -> Running:
    return town.running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that wants tokens; the harness has an operator's."""
    with serving(tmp_path_factory.mktemp("guarded") / "home", SETUP) as found:
        operator = found.server.store.create_token("op", "admin")
        assert found.http.get("/map/about").status_code == 401
        found.http.headers.update(bearer(operator))
        yield found


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
        [[index, slot]] = view.told["focals"]["focals"]["around"]
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


def test_queries_that_come_and_go_and_the_regions_of_a_query_table(
    running: Running, town: Town
) -> None:
    with looking(running) as view:
        view.until(lambda: "queries" in view.told)
        assert view.told["queries"]["whole"]
        assert view.told["queries"]["kinds"] == {"range": 1, "moving range": 1, "filter": 1}
        running.sql(
            """CREATE TABLE Fences (ID BIGINT, x DOUBLE, y DOUBLE, r DOUBLE)
                 AS VALUES (1, 50, 50, 5), (2, 60, 60, NULL);
               CREATE TABLE Led (ID BIGINT, focal BIGINT, r DOUBLE)
                 AS VALUES (1, 4, 5), (2, 999, 5);
               REGISTER QUERY fences AS SELECT Q.ID, O.id FROM Fences Q, Cars O WHERE O INSIDE Q;
               REGISTER QUERY led AS SELECT Q.ID, O.id FROM Led Q, Cars O WHERE O INSIDE Q"""
        )
        view.until(lambda: view.told["queries"]["kinds"].get("table") == 2)
        assert not view.told["queries"]["whole"]
        view.until(lambda: view.told.get("regions", {}).get("query") == "led")
        [[slot, *there], gone] = view.told["regions"]["moving"]
        assert view.frames[view.told["regions"]["stream"]][slot][:2] == (90, 20)
        assert (there, gone) == ([4, 5], [None, 999, 5]), "it may have been there before"
        running.sql("DROP QUERY led")
        view.until(lambda: view.told["queries"]["gone"] == ["led"])
        assert view.told["queries"]["queries"] == []
    with looking(running) as view:
        view.until(lambda: "regions" in view.told)
        circle = {"type": "Circle", "coordinates": [50, 50], "radius": 5}
        assert view.told["regions"]["shapes"] == [circle]
    running.sql("DROP QUERY fences; DROP TABLE Fences; DROP TABLE Led")


def test_streams_without_objects_or_places_are_not_on_the_map(running: Running, town: Town) -> None:
    before = running.http.get("/map/about").json()["streams"]
    running.sql(
        """CREATE STREAM Strikes (x DOUBLE, y DOUBLE, ts TIMESTAMP);
           CREATE STREAM Meters (id STRING KEY, level DOUBLE, ts TIMESTAMP);
           REGISTER QUERY struck AS SELECT x, y FROM Strikes INSIDE (0, 0, 9) WINDOW 2 ROWS;
           REGISTER QUERY high AS SELECT id FROM Meters WHERE level > 5"""
    )
    at = "2026-01-01 12:00:00"
    running.push("Strikes", [[1, 2, at], [1, 2, at], {"x": 3, "y": 4, "ts": at}], time=at)
    running.push("Meters", [["a", 9, at]], time=at)
    wait_for(lambda: running.answer("high") == [["a"]])
    wait_for(lambda: running.answer("struck") == [[1, 2], [3, 4]])
    assert [s["name"] for s in running.http.get("/map/about").json()["streams"]] == [
        stream["name"] for stream in before
    ]
    told = {stream["name"]: stream for stream in running.http.get("/streams").json()}
    assert (told["Strikes"]["key"], told["Meters"]["key"]) == (None, "id")
    assert (told["Strikes"]["objects"], told["Strikes"]["readings"]) == (0, 3)
    refused = running.http.post("/streams/Strikes/disappear", params={"time": at}, json={"key": 1})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == 'stream "Strikes" has no objects'
    with looking(running) as view:
        view.say(type="highlight", queries=["struck", "high"])
        view.until(lambda: {"struck", "high"} <= set(view.answers))
        assert view.answers == {"struck": {}, "high": {}}
    running.sql("DROP QUERY struck; DROP QUERY high; DROP STREAM Strikes; DROP STREAM Meters")


def test_arrivals_are_told_and_answers_are_asked_for(running: Running, town: Town) -> None:
    cars = index_of(running, "Cars")
    running.sql("REGISTER QUERY came EMIT ARRIVALS AS SELECT id FROM Cars INSIDE (0, 0, 20, 20)")
    assert running.http.get("/queries/came").json()["arrivals"]
    told: list[tuple[int, int]] = []

    def take(socket: Any, many: int) -> None:
        while len(told) < many:
            deltas = json.loads(socket.recv(timeout=15))
            told.extend((delta["sign"], delta["row"][0]) for delta in deltas)

    with running.listen("came") as socket, looking(running) as view:
        take(socket, 2)
        assert sorted(told) == [(1, 1), (1, 2)]
        view.say(type="highlight", queries=["came"])
        view.until(lambda: len(view.answers.get("came", {}).get(str(cars), [])) == 2)
        wait_for(lambda: running.http.get("/queries/came").json()["size"] == 2)
        town.push(c2=(50, 50))
        wait_for(lambda: running.answer("came") == [[1]])
        view.until(lambda: len(view.answers["came"][str(cars)]) == 1)
        wait_for(lambda: running.http.get("/queries/came").json()["size"] == 1)
        town.push(c3=(5, 5), c1=(60, 60))
        take(socket, 3)
        town.push(c1=(10, 10), c2=(15, 15), c3=(81, 82))
        take(socket, 5)
        assert sorted(told[2:]) == [(1, 1), (1, 2), (1, 3)]
        wait_for(lambda: running.answer("came") == [[1], [2]])
        running.sql("DROP QUERY came")
        assert json.loads(socket.recv(timeout=15))["error"]["code"] == "query_dropped"


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


def test_a_client_sees_only_what_its_queries_hold(guarded: Running) -> None:
    store = guarded.server.store
    ada, bob = (store.create_token(name, "client") for name in ("ada", "bob"))
    town = Town(guarded)
    town.push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20))
    guarded.sql("REGISTER QUERY mine AS SELECT id FROM Cars INSIDE (70, 70, 99, 99)", ada)
    guarded.sql("REGISTER QUERY led AS SELECT type FROM Cars INSIDE ('M', 4, 1)", ada)
    cars = index_of(guarded, "Cars")
    wait_for(lambda: guarded.answer("mine") == [[3]])
    with looking(guarded, token=ada) as view:
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
    with looking(guarded, token=bob) as view:
        view.until(lambda: cars in view.frames)
        assert view.places(cars) == set()


def test_where_an_object_is_which_keys_hold_a_text_and_what_is_in_a_column(
    running: Running, town: Town
) -> None:
    town.push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20), c5=(30, 12), c33=(5, 90))
    cars = index_of(running, "Cars")
    with looking(running, "cars") as view:
        view.until(lambda: (5, 90) in view.places(cars))

        def ask(kind: str, **message: Any) -> dict[str, Any]:
            view.told.pop(kind, None)
            view.say(**message)
            return view.until(lambda: view.told.get(kind))  # type: ignore[no-any-return]

        for key in (33, "33"):
            told = ask("located", type="locate", stream="cars", key=key)
            assert view.frames[cars][told["slot"]][:2] == (5, 90)
        for stream, key in (("cars", 999), ("cars", "x"), ("cars", [1]), ("none", 1)):
            assert ask("located", type="locate", stream=stream, key=key)["slot"] is None
        found = ask("found", type="find", text="3")["objects"]
        assert [each["key"] for each in found] == [3, 33], "the same first, then what begins so"
        assert ask("found", type="find", text=" ")["objects"] == []
        slots = [each["slot"] for each in found]
        told = ask("labels", type="labels", stream=cars, column="TYPE", slots=[*slots, 999])
        assert dict(zip(told["slots"], told["texts"], strict=True)) == dict.fromkeys(slots, "cab")
        assert ask("labels", type="labels", stream=cars, column="no", slots=slots)["texts"] == []
    tile = running.http.get("/map/land/3/4/2")
    assert (tile.status_code, tile.headers["content-type"]) == (
        200,
        "application/vnd.mapbox-vector-tile",
    )
    assert running.http.get("/map/land/9/0/0").status_code == 404


def test_a_client_finds_only_what_it_sees(guarded: Running) -> None:
    eve = guarded.server.store.create_token("eve", "client")
    guarded.sql("REGISTER QUERY eves AS SELECT id FROM Cars INSIDE (85, 15, 95, 25)", eve)
    cars = index_of(guarded, "Cars")
    with looking(guarded, token=eve) as view:
        view.until(lambda: view.places(cars) == {(90, 20)})
        view.say(type="find", text="2")
        view.until(lambda: "found" in view.told)
        assert view.told["found"]["objects"] == []
        for key, is_seen in ((2, False), (4, True)):
            view.told.pop("located", None)
            view.say(type="locate", stream="Cars", key=key)
            view.until(lambda: "located" in view.told)
            assert (view.told["located"]["slot"] is not None) == is_seen
        view.say(type="labels", stream=cars, column="id", slots=list(range(10)))
        view.until(lambda: "labels" in view.told)
        assert view.told["labels"]["texts"] == [4]
