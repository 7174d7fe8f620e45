"""The Python client: the calls of a session, on a server."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import place
from place.client import Client, ServerError
from place.errors import ConfigurationError, ReadingError, StatementError
from place.model.types import Type
from tests.harness.server import Running, serving, wait_for

CARS = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING)"
NEAR = "REGISTER QUERY near AS SELECT id, kind FROM Cars INSIDE (0, 0, 5, 5)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("client") / "home"


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Running]:
    with serving(home, f"{CARS}; {NEAR}") as running:
        yield running


@pytest.fixture
def client(served: Running) -> Iterator[Client]:
    with place.connect(served.url, token=None) as found:
        yield found


def moment(second: int) -> str:
    return f"2026-01-01 00:00:{second:02d}"


def test_statements_and_answers_are_those_of_a_session(client: Client) -> None:
    local = place.connect()
    local.sql(CARS)
    for session in (client, local):
        rows: list[Any] = [(1, 1, 1, moment(1), "a"), (2, 9, 9, moment(1), "b")]
        session.push("Cars", rows, time=moment(1))
    local.sql(NEAR)
    wait_for(lambda: client.answer("near") == local.answer("near") == [(1, "a")])
    for statement in ("SELECT id, x, ts FROM Cars", "SHOW STREAMS", "DESCRIBE near"):
        there, here = client.sql(statement), local.sql(statement)
        assert (there.columns, there.types, there.rows) == (here.columns, here.types, here.rows)
    assert client.sql("SELECT ts FROM Cars").types == (Type.TIMESTAMP,)
    assert {query["name"] for query in client.queries()} == {"near"}


def test_tables_and_disappearances(client: Client) -> None:
    columns = {"id": [5, 6], "x": [1.0, 2.0], "y": [1.0, 2.0], "kind": ["c", "d"]}
    table = pa.table({**columns, "ts": [moment(10)] * 2})
    assert client.push("cars", table, time=moment(10)).taken == 2
    wait_for(lambda: {(5, "c"), (6, "d")} <= set(client.answer("near")))
    client.disappear("cars", 5, moment(11))
    wait_for(lambda: (5, "c") not in client.answer("near"))


def test_what_is_wrong_is_said_as_in_a_session(client: Client) -> None:
    with pytest.raises(StatementError) as wrong:
        client.sql("SELECT id FROM Cabs")
    assert (wrong.value.line, wrong.value.column) == (1, 16)
    with pytest.raises(ServerError, match="does not exist") as missing:
        client.answer("nosuch")
    assert (missing.value.status, missing.value.code) == (404, "unknown_query")
    with pytest.raises(ReadingError, match="not a DOUBLE"):
        client.push("Cars", [(1, "far", 1, moment(1), "a")])
    with pytest.raises(ServerError, match="does not exist"):
        client.subscribe("a?b#c")
    with pytest.raises(ConfigurationError, match="does not answer"):
        place.connect("http://127.0.0.1:1", token=None).sql("SHOW STREAMS")
    with pytest.raises(ConfigurationError, match="for a server"):
        place.connect("home", token="place_…")
    for token in ("place_…", ""):
        with pytest.raises(ConfigurationError, match="the token is not one"):
            place.connect("http://127.0.0.1:1", token=token)
    for address in ("localhost:8765", "ftp://localhost/"):
        with pytest.raises(ConfigurationError, match="neither a directory nor an address"):
            place.connect(address)


def test_a_subscription_has_at_once_what_is_there(client: Client) -> None:
    rows = [(number, 1.0, 1.0, moment(30), "e") for number in range(100, 120)]
    client.push("Cars", rows, time=moment(30))
    wait_for(lambda: len(client.answer("near")) >= 20)
    for _ in range(20):
        with client.subscribe("near") as subscription:
            assert len(list(subscription)) >= 20
    client.sql("REGISTER QUERY nobody AS SELECT id FROM Cars INSIDE (90, 90, 91, 91)")
    began = time.monotonic()
    with client.subscribe("nobody") as subscription:
        assert list(subscription) == []
    assert time.monotonic() - began < 30, "an empty answer is known to be empty"


def test_values_of_other_libraries_are_readings(client: Client) -> None:
    at = datetime(2026, 1, 1, 0, 0, 40, tzinfo=UTC)
    client.push("Cars", [(np.int64(7), np.float32(1.5), np.float64(1), at, "np")], time=moment(40))
    wait_for(lambda: (7, "np") in client.answer("near"))
    with pytest.raises(ReadingError, match="of no type"):
        client.push("Cars", [(object(), 1.0, 1.0, moment(41), "a")])


def test_a_subscription_goes_on_when_the_server_was_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("away") / "home"
    with serving(home, f"{CARS}; {NEAR}") as running:
        client = Client(running.url)
        client.push("Cars", [(1, 1, 1, moment(1), "a")], time=moment(1))
        wait_for(lambda: client.answer("near") == [(1, "a")])
        subscription = client.subscribe("near")
        first = subscription.next(20)
        assert first is not None
        assert (first.sign, first.row, list(subscription)) == (1, (1, "a"), [])
    with serving(home, f"{CARS}; {NEAR}") as running:
        client = Client(running.url)
        client.push("Cars", [(2, 1, 1, moment(2), "b")], time=moment(2))
        wait_for(lambda: len(client.answer("near")) == 2)
        resumed = client.subscribe("near", after=subscription.last_id)
        second = resumed.next(20)
        assert second is not None
        assert (second.sign, second.row, second.instant) == (1, (2, "b"), 1_767_225_602_000_000)
        resumed.close()
    subscription.close()
