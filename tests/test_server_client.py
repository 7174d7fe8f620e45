"""One protocol: what a session in this process does, a client of a server does alike."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import place
from place.client import Client, ServerError
from place.connection import Connection
from place.errors import ConfigurationError, ReadingError, StatementError
from place.model.result import DeltaList
from place.model.types import Type
from tests.harness.server import Running, serving, wait_for

CARS = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING)"
NEAR = "REGISTER QUERY near AS SELECT id, kind FROM Cars INSIDE (0, 0, 5, 5)"
START = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("client") / "home", f"{CARS}; {NEAR}") as running:
        yield running


@pytest.fixture
def client(served: Running) -> Iterator[Client]:
    with place.connect(served.url, token=None) as found:
        yield found


class Town:
    """A connection with a stream and a query of its own: many tests share one server."""

    def __init__(self, connection: Connection) -> None:
        number = next(NUMBERS)
        self.connection = connection
        self.stream, self.query = f"Cars{number}", f"near{number}"
        connection.sql(CARS.replace("Cars", self.stream))
        connection.sql(
            f"REGISTER QUERY {self.query} AS SELECT id, kind, ts FROM {self.stream}"
            " INSIDE (0, 0, 5, 5)"
        )

    def push(self, rows: Any, time: Any = None) -> Any:
        return self.connection.push(self.stream, rows, time)

    def ids(self) -> list[Any]:
        return [row.id for row in self.connection.answer(self.query)]

    def has(self, *ids: int) -> bool:
        """A server's answer is right again after the next tick."""
        return bool(wait_for(lambda: self.ids() == list(ids)))


@pytest.fixture(params=["session", "client"])
def town(request: pytest.FixtureRequest) -> Iterator[Town]:
    if request.param == "session":
        with place.connect() as session:
            yield Town(session)
    else:
        running: Running = request.getfixturevalue("served")
        with place.connect(running.url, token=None) as client:
            yield Town(client)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def moment(second: int) -> str:
    return f"2026-01-01 00:00:{second:02d}"


# Both alike: readings


def columns(second: int) -> dict[str, list[Any]]:
    stamps: list[Any] = [at(second)] * 2
    return {"id": [1, 2], "x": [1.0, 9.0], "y": [1.0, 9.0], "ts": stamps, "kind": ["a", "b"]}


def tuples(second: int) -> list[Any]:
    return list(zip(*columns(second).values(), strict=True))


FORMS: list[Callable[[int], Any]] = [
    tuples,
    lambda second: iter(tuples(second)),
    lambda second: [dict(zip(columns(0), row, strict=True)) for row in tuples(second)],
    lambda second: [{"ID": np.int64(1), "x": Decimal("1.0"), "Y": np.float32(1), "kind": "a"}],
    lambda second: [(1, 1, 1, np.datetime64(moment(second)), b"a")],
    lambda second: [(1, 1, 1, pandas.Timestamp(at(second)), "a"), (2, 9, 9, at(second), None)],
    lambda second: [(1, 1, 1, moment(second), "a"), (2, 9, 9, pandas.Timestamp(at(9)), pandas.NA)],
    lambda second: pa.table(columns(second)),
    lambda second: pa.table(columns(second)).to_batches()[0],
    lambda second: pandas.DataFrame(columns(second)),
    lambda second: pandas.DataFrame(
        {**columns(second), "ts": pandas.Series([at(second), moment(second)], dtype=object)}
    ),
    lambda second: polars.DataFrame(columns(second)),
]


def test_readings_of_every_form(town: Town) -> None:
    for number, form in enumerate(FORMS):
        second = 10 + number
        pushed = town.push(form(second), time=at(second))
        assert pushed.taken + pushed.late in (1, 2)
        expected = [(1, "a", 1_767_225_600_000_000 + second * 1_000_000)]
        wait_for(lambda expected=expected: town.connection.answer(town.query) == expected)  # type: ignore[misc]


@pytest.mark.parametrize(
    "time", [at(2), moment(2), 1_767_225_602_000_000, np.datetime64(moment(2), "ns")]
)
def test_times_of_every_form(town: Town, time: Any) -> None:
    town.push([(1, 1, 1, at(1), "a"), (2, 1, 1, at(1), "b")], time=at(1))
    assert town.connection.disappear(town.stream, np.int64(1), time).taken == 1
    assert town.has(1, 2)
    assert town.push([], time=time).taken == 0
    assert town.has(2)
    town.push([(3, 1, 1, time, "c")])
    assert town.connection.advance(time).taken == 0
    town.connection.advance(pandas.Timestamp(at(3)))
    assert town.has(2)  # the stream had reached that time before


def test_late_readings_are_counted(town: Town) -> None:
    town.push([(1, 1, 1, at(9), "a")], time=at(9))
    assert town.has(1)
    pushed = town.push([(1, 9, 9, at(1), "a"), (2, 1, 1, at(10), "b")], time=at(10))
    assert (pushed.taken, pushed.late) == (1, 1)
    assert town.has(1, 2)


WRONG: list[tuple[Any, Any, str]] = [
    ([(1, 1, 1, at(1), "a"), (2, "far", 1, at(1), "a")], None, "row 2, column \"x\": 'far' is not"),
    ([{"id": None, "x": 1, "y": 1, "ts": at(1)}], None, 'row 1, column "id": the key is missing'),
    (pa.table({"id": [1], "x": [1.0]}), at(1), 'no column "y"'),
    ([(object(), 1.0, 1.0, at(1), "a")], None, "<object object at"),
    ([(1, 1, 1, at(1), "a")], "soon", "'soon' is not a"),
]


@pytest.mark.parametrize(("rows", "time", "words"), WRONG)
def test_if_one_reading_is_wrong_none_is_taken(
    town: Town, rows: Any, time: Any, words: str
) -> None:
    with pytest.raises(ReadingError) as wrong:
        town.push(rows, time)
    assert words in str(wrong.value)
    town.push([(7, 1, 1, at(1), "a")], time=at(1))
    assert town.has(7)


@pytest.mark.parametrize("rows", [5, "abc", {"id": 1}, [5], ["abc"]])
def test_what_holds_no_readings(town: Town, rows: Any) -> None:
    with pytest.raises((ReadingError, ServerError)):
        town.push(rows, at(1))


def test_times_and_keys_that_are_none(town: Town) -> None:
    connection = town.connection
    calls: list[Callable[[], Any]] = [
        lambda: connection.advance("soon"),
        lambda: connection.advance(pandas.NaT),  # type: ignore[arg-type]
        lambda: connection.disappear(town.stream, 1, "soon"),
        lambda: connection.disappear(town.stream, "one", at(1)),
        lambda: connection.disappear(town.stream, None, at(1)),
    ]
    for call in calls:
        with pytest.raises(ReadingError):
            call()
    with pytest.raises(ReadingError, match=r"^column .id.: 'one' is not a BIGINT; a BIGINT is"):
        connection.disappear(town.stream, "one", at(1))


# Both alike: statements and answers


def test_errors_of_statements_and_names(town: Town) -> None:
    connection = town.connection
    with pytest.raises(StatementError, match=r'"Cabs" does not exist \(line 1, column 16'):
        connection.sql("SELECT id FROM Cabs")
    with pytest.raises(StatementError, match=r"expected .* \(line 1"):
        connection.sql("SELECT id FROM")
    calls: list[tuple[str, Callable[[], Any]]] = [
        ('query "no" does not exist', lambda: connection.answer("no")),
        ('query "no" does not exist', lambda: connection.subscribe("no")),
        ('stream "no" does not exist', lambda: connection.push("no", [(1,)])),
        ('stream "no" does not exist', lambda: connection.disappear("no", 1, at(1))),
    ]
    for words, call in calls:
        with pytest.raises(ConfigurationError) as wrong:
            call()
        assert wrong.value.message == words


def test_answers_have_names(town: Town) -> None:
    town.push([(1, 1, 1, at(1.5), "a"), (2, 1, 1, at(1.5), None)], time=at(1.5))
    assert town.has(1, 2)
    answer = town.connection.answer(town.query)
    first, second = answer
    assert answer == [(1, "a", 1_767_225_601_500_000), (2, None, 1_767_225_601_500_000)]
    assert first.ts == first["ts"] == first.TS == at(1.5)
    assert (first.id, second["kind"], first[0], first[2]) == (1, None, 1, 1_767_225_601_500_000)
    assert first.as_dict() == {"id": 1, "kind": "a", "ts": at(1.5)}
    assert (answer.columns, answer.types[2]) == (("id", "kind", "ts"), Type.TIMESTAMP)
    assert answer.to_arrow().schema.field("ts").type == pa.timestamp("us", "UTC")
    assert answer.to_pandas()["ts"].tolist() == [at(1.5)] * 2
    assert answer.to_polars()["kind"].to_list() == ["a", None]
    selected = town.connection.sql(f"SELECT id, ts - ts AS age, ts FROM {town.stream}")
    assert selected.rows[0].age == timedelta(0)  # type: ignore[attr-defined]
    assert selected.to_pandas()["ts"].tolist() == [at(1.5)] * 2
    assert "<th>age</th>" in selected._repr_html_()


def test_statements_answer_alike(client: Client, served: Running) -> None:
    towns = [Town(place.connect()), Town(client)]
    for town in towns:
        town.push(tuples(1), time=at(1))
        assert town.has(1)
    for statement in ("SELECT id, x, ts FROM {0}", "DESCRIBE {1}", "EXPLAIN QUERY {1}"):
        here, there = (
            town.connection.sql(statement.format(town.stream, town.query)) for town in towns
        )
        shown = json.dumps(there.rows).replace(towns[1].stream, towns[0].stream)
        assert (there.columns, there.types) == (here.columns, here.types)
        assert shown == json.dumps(here.rows)
    assert towns[1].query in {query["name"] for query in client.queries()}


# Both alike: subscriptions


def test_subscriptions_begin_with_the_answer(town: Town) -> None:
    town.push([(1, 1, 1, at(1), "a")], time=at(1))
    assert town.has(1)
    with town.connection.subscribe(town.query.upper()) as subscription:
        assert subscription.query == town.query
        (first,) = subscription
        assert (first.query, first.sign, first.row) == (
            *(town.query, 1),
            (1, "a", 1_767_225_601_000_000),
        )
        assert (first.time, first.row["kind"]) == (at(1), "a")  # type: ignore[call-overload]
        assert first.as_dict()["ts"] == at(1)
        assert (list(subscription), subscription.next(0)) == ([], None)
        town.push([(1, 9, 9, at(2), "a")], time=at(2))
        gone = subscription.next(20)
        assert gone is not None
        assert (gone.sign, gone.row[0], gone.time) == (-1, 1, at(2))
    assert subscription.next(0) is None


def test_follow_waits_for_what_comes(town: Town) -> None:
    def drive() -> None:
        for number in range(1, 6):
            time.sleep(0.02)
            town.push([(number, 1, 1, at(number), "a")], time=at(number))

    with town.connection.subscribe(town.query) as subscription:
        driver = threading.Thread(target=drive)
        driver.start()
        ids = []
        for delta in subscription.follow(20):
            ids.append(delta.row[0])
            if len(ids) == 5:
                break
        driver.join()
    assert ids == [1, 2, 3, 4, 5]


def test_a_query_that_is_dropped_says_so(town: Town) -> None:
    town.push([(1, 1, 1, at(1), "a")], time=at(1))
    assert town.has(1)
    with town.connection.subscribe(town.query) as subscription:
        assert subscription.next(20) is not None
        town.connection.sql(f"DROP QUERY {town.query}")
        gone = subscription.next(20)
        assert gone is not None
        assert (gone.sign, gone.row.id) == (-1, 1)  # type: ignore[attr-defined]
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=f'^query "{town.query}" was dropped'):
                subscription.next(20)


# What only a client has


def test_addresses_and_tokens_that_are_wrong() -> None:
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


def test_names_that_have_no_place_in_a_path(client: Client) -> None:
    with pytest.raises(ServerError, match="does not exist") as missing:
        client.subscribe("a?b#c")
    assert (missing.value.status, missing.value.code) == (404, "unknown_query")


def test_a_subscription_has_at_once_what_is_there(client: Client) -> None:
    rows = [(number, 1.0, 1.0, moment(30), "e") for number in range(100, 120)]
    client.push("Cars", rows, time=moment(30))
    wait_for(lambda: len(client.answer("near")) >= 20)
    for _ in range(20):
        with client.subscribe("near") as subscription:
            assert len(DeltaList(subscription)) >= 20
    client.sql("REGISTER QUERY nobody AS SELECT id FROM Cars INSIDE (90, 90, 91, 91)")
    began = time.monotonic()
    with client.subscribe("nobody") as subscription:
        assert list(subscription) == []
    assert time.monotonic() - began < 30, "an empty answer is known to be empty"


def test_the_http_example_of_the_python_page_works(served: Running) -> None:
    page = (Path(__file__).parent.parent / "docs" / "python.md").read_text("utf-8")
    _, _, text = page.partition("## The same over HTTP")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(
        code.replace("http://localhost:8765", served.url),
        {"noon": datetime(2026, 1, 31, 12, tzinfo=UTC)},
    )


def test_a_subscription_survives_a_restart_of_the_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("away") / "home"
    with serving(home, f"{CARS}; {NEAR}") as running:
        client = Client(running.url)
        client.push("Cars", [(1, 1, 1, moment(1), "a")], time=moment(1))
        wait_for(lambda: client.answer("near") == [(1, "a")])
        subscription = client.subscribe("near")
        taken = [delta.row for delta in subscription]
    assert subscription.next(0.2) is None, "the server is away, which is no error"
    again = threading.Event()

    def restart() -> None:
        time.sleep(0.5)
        with serving(home, f"{CARS}; {NEAR}", port=int(running.url.rpartition(":")[2])):
            client.push("Cars", [(2, 1, 1, moment(2), "b")], time=moment(2))
            wait_for(lambda: len(client.answer("near")) == 2)
            again.wait(60)

    server = threading.Thread(target=restart)
    server.start()
    while len(taken) < 2:
        for delta in subscription:
            taken.append(delta.row)
    assert taken == [(1, "a"), (2, "b")]
    assert list(subscription) == []
    last = subscription.last_id
    with client.subscribe("near", after=last) as resumed:
        assert list(resumed) == [], "nothing is new after the last id"
    again.set()
    server.join(60)
    assert not server.is_alive()
    subscription.close()
