"""Sinks of answers against their real counterparts: PostgreSQL, and a broker of MQTT."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from place.runtime.durable.sinks import write_progress
from place.session import Session
from tests.harness import mosquitto, postgres
from tests.harness.mosquitto import Broker
from tests.harness.pipeline import opened, runtime_of
from tests.harness.postgres import Database
from tests.harness.server import wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING);
REGISTER QUERY near AS SELECT id, x, y, ts, kind, x > 2 AS far FROM Cars INSIDE (0, 0, 5, 5);
REGISTER QUERY kinds AS SELECT kind FROM Cars INSIDE (0, 0, 5, 5);
"""
START = 1_767_225_600  # 2026-01-01


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    if reason := postgres.unavailable():
        pytest.skip(reason)
    with postgres.database(tmp_path_factory.mktemp("postgres")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if reason := mosquitto.unavailable():
        pytest.skip(reason)
    with mosquitto.broker(tmp_path_factory.mktemp("mosquitto")) as running:
        yield running


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path / "home") as made:
        made.sql(SETUP)
        yield made


def push(session: Session, second: int, *cars: tuple[Any, ...]) -> None:
    rows = [(number, x, 1.0, START + second, kind) for number, x, kind in cars]
    session.push("Cars", rows, time=(START + second) * 1_000_000)


def rows_of(session: Session, query: str) -> Counter[Any]:
    return Counter(tuple(row) for row in session.answer(query))


# PostgreSQL


def test_a_table_is_the_answer(server: Database, session: Session) -> None:
    push(session, 0, (1, 1.0, "a"), (2, 2.5, 'it\'s, "odd"\n'), (3, 9.0, "c"))
    session.sql(
        f"CREATE SINK table FOR near TO POSTGRES ({server.options}, table = 'public.near');"
        f"CREATE SINK bag FOR kinds TO POSTGRES ({server.options}, table = 'Kinds')"
    )
    push(session, 1, (3, 3.0, ""), (4, 4.0, None), (5, 1.0, "a"))
    push(session, 2, (1, 9.0, "a"), (4, 4.5, None))
    runtime_of(session).deliveries.settle()

    def table() -> list[tuple[Any, ...]]:
        return server.ask(
            "SELECT id, x, y, extract(epoch FROM ts)::bigint, kind, far FROM near ORDER BY id"
        )

    assert table() == [
        (2, 2.5, 1.0, START, 'it\'s, "odd"\n', True),
        (3, 3.0, 1.0, START + 1, "", True),
        (4, 4.5, 1.0, START + 2, None, True),
        (5, 1.0, 1.0, START + 1, "a", False),
    ]
    bag = 'SELECT kind, place_copies FROM "Kinds" ORDER BY kind NULLS FIRST'
    assert server.ask(bag) == [(None, 1), ("", 1), ("a", 1), ('it\'s, "odd"\n', 1)]
    push(session, 3, (1, 1.0, "a"), (2, 1.0, "a"))
    runtime_of(session).deliveries.settle()
    assert server.ask(bag) == [(None, 1), ("", 1), ("a", 3)]
    # A tick that is delivered again changes nothing.
    runtime = runtime_of(session)
    before, tick = table(), runtime.last.tick if runtime.last else 0
    for delivery in runtime.deliveries._known.values():
        delivery.tick = 0
        write_progress(
            runtime.pipeline.storage, runtime.deliveries._file(delivery.sink), delivery.tick
        )
    push(session, 4, (9, 99.0, "z"))
    runtime.deliveries.settle()
    assert tick > 0
    assert table() == before


def test_places_are_points_of_postgis(server: Database, session: Session) -> None:
    if not server.ask("SELECT 1 FROM pg_available_extensions WHERE name = 'postgis'"):
        pytest.skip("PostGIS is not installed")
    server.ask("CREATE EXTENSION postgis")
    session.sql(
        "CREATE STREAM Ships (id BIGINT KEY, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)"
        " WITH (space = 'wgs84');"
        "REGISTER QUERY bay AS SELECT id, lon, lat FROM Ships INSIDE (8, 54, 9, 55);"
        "REGISTER QUERY flat AS SELECT x, y FROM Cars INSIDE (0, 0, 5, 5);"
        "REGISTER QUERY half AS SELECT id, x FROM Cars INSIDE (0, 0, 5, 5);"
    )
    for name in ("bay", "flat", "half"):
        session.sql(
            f"CREATE SINK to_{name} FOR {name} TO POSTGRES ({server.options}, table = '{name}')"
        )
    push(session, 0, (1, 1.5, "a"))
    ship = (7, 8.25, 54.5, START)
    session.push("Ships", [ship], time=START * 1_000_000)
    session.push("Ships", [(7, 8.5, 54.5, START + 1)], time=(START + 1) * 1_000_000)
    runtime_of(session).deliveries.settle()
    shown = "SELECT ST_AsText(place_point), ST_SRID(place_point) FROM"
    assert server.ask(f"{shown} bay") == [("POINT(8.5 54.5)", 4326)]
    assert server.ask(f"{shown} flat") == [("POINT(1.5 1)", 0)]
    near = "ST_DWithin(place_point::geography, ST_MakePoint(8.5, 54.51)::geography, 1200)"
    assert server.ask(f"SELECT id FROM bay WHERE {near}") == [(7,)]
    columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'place_point'"
    assert server.ask(f"{columns} AND table_name = 'half'") == [(0,)]


def test_a_database_that_is_away_gets_all_of_it_later(tmp_path: Path, session: Session) -> None:
    if reason := postgres.unavailable():
        pytest.skip(reason)
    with postgres.database(tmp_path / "first") as running:
        options, port = running.options, running.port
    session.sql(f"CREATE SINK table FOR near TO POSTGRES ({options}, table = 'near')")
    push(session, 0, (1, 1.0, "a"))
    push(session, 1, (2, 1.0, "a"))
    delivery = runtime_of(session).deliveries._known["table"]
    wait_for(lambda: delivery.attempts.error)
    assert "PostgreSQL at 127.0.0.1: " in str(delivery.attempts.error)
    with postgres.database(tmp_path / "second", port) as again:

        def is_there() -> bool:
            session.runtime.tend()
            time.sleep(0.05)
            return not delivery.attempts.failures

        wait_for(is_there)
        assert again.ask("SELECT id FROM near ORDER BY id") == [(1,), (2,)]
        again.ask("DELETE FROM near WHERE id = 1")
        push(session, 2, (1, 9.0, "a"))
        wait_for(lambda: "removed by somebody else" in str(delivery.attempts.error))


# MQTT


def listen(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """The messages of a topic from now on, as they come."""
    heard: list[dict[str, Any]] = []
    client = broker.client("")
    client.on_message = lambda _, __, message: heard.append(
        {"topic": message.topic, "retained": message.retain, **json.loads(message.payload)}
    )
    done: list[bool] = []
    client.on_subscribe = lambda *_: done.append(True)
    client.subscribe(topic, 1)
    wait_for(lambda: done)
    return heard


def test_deltas_are_messages(broker: Broker, session: Session) -> None:
    heard = listen(broker, "place/#")
    session.sql(
        f"CREATE SINK told FOR near, kinds TO MQTT ({broker.options}, topic = 'place/deltas')"
    )
    push(session, 0, (1, 1.0, "a"))
    push(session, 1, (1, 9.0, "a"))
    runtime_of(session).deliveries.settle()
    wait_for(lambda: len(heard) == 4)
    assert {message["topic"] for message in heard} == {"place/deltas/near", "place/deltas/kinds"}
    near = [message for message in heard if message["query"] == "near"]
    assert [(message["sign"], message["row"][0]) for message in near] == [(1, 1), (-1, 1)]
    assert near[0]["instant"] == "2026-01-01T00:00:00+00:00"
    ids = [(message["tick"], message["position"]) for message in heard]
    assert ids == sorted(set(ids))


def test_answers_are_kept_for_those_who_come_later(broker: Broker, session: Session) -> None:
    push(session, 0, (1, 1.0, "a"), (2, 1.0, "b"))
    session.sql(
        f"CREATE SINK told FOR kinds TO MQTT ({broker.options}, topic = 'town', tells = 'answers')"
    )
    push(session, 1, (3, 1.0, "a"))
    push(session, 2, (2, 9.0, "b"))
    runtime_of(session).deliveries.settle()
    heard = listen(broker, "town/kinds")
    wait_for(lambda: heard)
    assert (heard[0]["rows"], heard[0]["retained"]) == ([["a"], ["a"]], True)
    push(session, 3, (3, 1.0, "c"))
    wait_for(lambda: len(heard) == 2)
    assert heard[1]["rows"] == [["a"], ["c"]]
    assert rows_of(session, "kinds") == Counter([("a",), ("c",)])
