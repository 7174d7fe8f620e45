"""A budget of time: what takes too long is left, and nothing of it stays."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import place
from place.engine import matching, timeline
from place.engine.operators import table_join
from place.errors import LimitError
from place.model import deadline
from place.runtime.durable.local_log import LocalLog
from place.session import Session
from place.sql.limits import CLIENTS, EMBEDDED, within
from tests.harness.server import Running, bearer, opened, serving

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING) WITH (history = '1 hour');
CREATE STREAM Vans (id BIGINT KEY, x DOUBLE, y DOUBLE);
CREATE TABLE Names (id BIGINT KEY, name STRING) AS VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
REGISTER QUERY boxed AS SELECT id, kind FROM Cars INSIDE (0, 0, 20, 20);
REGISTER QUERY late AS SELECT kind, COUNT(*) FROM Cars WINDOW 20 SECONDS GROUP BY kind;
REGISTER QUERY near AS SELECT id FROM Cars kNN (3, 2, 3);
REGISTER QUERY kinds AS SELECT DISTINCT kind FROM Cars;
REGISTER QUERY past AS SELECT id FROM Cars WINDOW 3 ROWS;
"""
JOINED = "SELECT Cars.id, Names.name FROM Cars, Names, Names n WHERE Names.id < n.id"
ASKED = {
    "join": JOINED,
    "polygon": "SELECT id FROM Cars INSIDE POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))",
    "window": "SELECT kind, COUNT(*) FROM Cars WINDOW 1 MINUTES GROUP BY kind",
    "nearest": "SELECT id FROM Cars kNN (4, 1, 1)",
    "groups": "SELECT kind, MAX(x) FROM Cars GROUP BY kind",
    "streams": "SELECT Cars.id FROM Cars INSIDE ('M', 1 OF Vans, 10)",
}
CHANGED = {
    **{name: f"REGISTER QUERY new AS {sql}" for name, sql in ASKED.items() if name != "streams"},
    "two": f"REGISTER QUERY new AS {JOINED}; REGISTER QUERY newer AS SELECT id FROM Cars",
    "anew": f"DROP QUERY late; DROP QUERY past; REGISTER QUERY new AS {JOINED}",
    "stream": "CREATE STREAM Bikes (id BIGINT KEY, x DOUBLE, y DOUBLE);"
    " REGISTER QUERY new AS SELECT id FROM Bikes INSIDE (0, 0, 5, 5)",
}


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second whenever somebody looks at it."""
    monkeypatch.setattr(deadline, "clock", count().__next__)
    monkeypatch.setattr(table_join, "MOST_AT_ONCE", 16)
    monkeypatch.setattr(timeline, "PIECE", 4)


def cars(second: int) -> list[tuple[Any, ...]]:
    return [(i, (i * second) % 11, i, "abc"[(i + second) % 3]) for i in range(12)]


def begun(cells: str = "1x1", home: Path | None = None) -> Session:
    session = place.connect(home, cells=cells)
    session.sql(SETUP)
    for second in range(4):
        session.push("Cars", cars(second), time=f"2026-01-01 12:00:0{second}")
    return session


def told(session: Session) -> list[Any]:
    """What a session says from now on."""
    said: list[Any] = []
    for second in (4, 30, 50):
        said.append(session.push("Cars", cars(second), time=f"2026-01-01 12:00:{second:02d}"))
    session.push("Vans", [(1, 3, 4)], time="2026-01-01 12:00:05")
    said += [session.sql(sql).rows for name, sql in ASKED.items() if name != "streams"]
    said += [sorted(q.name for q in session.catalog.queries.values())]
    return [*said, sorted(session.catalog.streams)]


def tries(session: Session, sql: str) -> Iterator[bool]:
    """Try a statement with one second more each time: does it come to its end?"""
    for seconds in range(1, 400):
        try:
            with within(replace(EMBEDDED, seconds=seconds)):
                session.sql(sql)
        except LimitError as error:
            if error.limit != "seconds":
                raise
            yield False
        else:
            yield True
            return
    raise AssertionError("it takes too long, whatever it may take")


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("cells", ["1x1", pytest.param("2x2", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", [name for name in ASKED if name != "streams"])
def test_a_select_is_left_between_any_two_pieces(name: str, cells: str) -> None:
    session = begun(cells)
    ended = list(tries(session, ASKED[name]))
    assert len(ended) > 2, "it is looked at more than once"
    assert told(session) == told(begun(cells))
    explained = list(tries(session, f"EXPLAIN ANALYZE {ASKED[name]}"))
    assert len(explained) > 2


@pytest.mark.parametrize(
    ("module", "piece", "name"),
    [
        (table_join, "MOST_AT_ONCE", "join"),
        (timeline, "PIECE", "window"),
        (matching, "PIECE", "polygon"),
    ],
)
def test_long_work_is_done_in_pieces(
    module: Any, piece: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, looks = begun(), []
    for size in (getattr(module, piece), 2):
        monkeypatch.setattr(module, piece, size)
        clock = count()
        monkeypatch.setattr(deadline, "clock", clock.__next__)
        session.sql(ASKED[name])
        looks.append(next(clock))
    assert looks[1] > looks[0] + 2


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("cells", ["1x1", pytest.param("2x2", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CHANGED)
def test_a_registration_leaves_nothing_behind(name: str, cells: str) -> None:
    session = begun(cells)
    fine = begun(cells)
    fine.sql(CHANGED[name])
    ended = 0
    for is_done in tries(session, CHANGED[name]):
        ended += 1
        if not is_done:
            queries = {query.name for query in session.catalog.queries.values()}
            assert "new" not in queries
            if name == "anew":  # what stands before the queries takes effect
                assert not queries & {"late", "past"}
                break
            if name == "stream":
                assert "bikes" in session.catalog.streams
                session.sql("DROP STREAM Bikes")
    assert ended > 1 or name == "anew"
    if name == "anew":
        session.sql(f"REGISTER QUERY new AS {JOINED}")
    assert told(session) == told(fine)


@pytest.mark.usefixtures("ticking")
def test_windows_that_end_in_the_same_tick_are_there_again() -> None:
    session, whole = begun(), begun()
    before = session.catalog
    session.sql(CHANGED["anew"])
    after = session.catalog
    other = begun()
    with within(replace(EMBEDDED, seconds=2)), pytest.raises(deadline.OutOfTime):
        other.runtime.change(after)
    assert other.catalog.queries.keys() == before.queries.keys()
    assert told(other) == told(whole)


@pytest.mark.usefixtures("ticking")
def test_a_stream_that_has_said_nothing_has_still_said_nothing() -> None:
    session = begun()
    moving = "REGISTER QUERY new AS SELECT Cars.id FROM Cars INSIDE ('M', 1 OF Vans, 10)"
    with within(replace(EMBEDDED, seconds=1)), pytest.raises(LimitError, match="longer than 1"):
        session.sql(moving)
    pushed = session.push("Vans", [(1, 3, 4)], time="2026-01-01 11:00:00")
    assert pushed.late == 0


@pytest.mark.usefixtures("ticking")
def test_a_home_does_not_know_what_took_too_long(tmp_path: Path) -> None:
    with begun(home=tmp_path / "home") as session:
        with within(replace(EMBEDDED, seconds=2)), pytest.raises(LimitError):
            session.sql(CHANGED["two"])
        session.push("Cars", cars(4), time="2026-01-01 12:00:04")
        session.sql("REGISTER QUERY third AS SELECT id FROM Cars")
        answers = {name: session.answer(name) for name in ("boxed", "late", "third")}
    log = LocalLog(tmp_path / "home", "1x1")
    versions = [tick.catalog for tick in log.since() if not tick.told]
    assert len(versions) == 2, "those of the setup, and of the third query"
    with place.connect(tmp_path / "home") as session, within(replace(EMBEDDED, seconds=0)):
        assert {name: session.answer(name) for name in answers} == answers
        assert "new" not in session.catalog.queries


def test_what_is_said_of_it() -> None:
    session = begun()
    with within(replace(EMBEDDED, seconds=0)):
        with pytest.raises(LimitError) as alone:
            session.sql("REGISTER QUERY new AS SELECT id FROM Cars")
        with pytest.raises(LimitError) as together:
            session.sql(CHANGED["two"])
        with pytest.raises(LimitError) as asked:
            session.sql("SELECT id FROM Cars")
        session.sql("DROP QUERY near")  # and a statement that begins nothing takes what it takes
        session.sql("SHOW QUERIES")
    assert str(alone.value) == (
        'the first answer of query "new" takes longer than 0 seconds (the limit "seconds") (line 1,'
        " column 16); ask for fewer objects by WHERE or INSIDE, join fewer rows, or take a shorter"
        " WINDOW"
    )
    assert "the first answers of 2 queries take longer" in str(together.value)
    assert "none of them is registered" in str(together.value)
    assert "register fewer of them at a time" in str(together.value)
    assert "the answer takes longer than 0 seconds" in str(asked.value)


# On Spark, and over HTTP


def test_a_tick_that_took_too_long_is_none(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(SETUP)
        session.push("Cars", cars(1), time="2026-01-01 12:00:01")
        for sql in (JOINED, f"EXPLAIN ANALYZE {JOINED}", CHANGED["two"]):
            with within(replace(EMBEDDED, seconds=0)), pytest.raises(LimitError, match="0 seconds"):
                session.sql(sql)
        assert "new" not in session.catalog.queries
        fine = place.connect()
        fine.sql(SETUP)
        fine.push("Cars", cars(1), time="2026-01-01 12:00:01")
        assert told(session) == told(fine)
    with opened(tmp_path / "home") as session:
        assert "new" not in session.catalog.queries


def test_clients_have_some_seconds_and_operators_more(tmp_path: Path) -> None:
    limits = replace(CLIENTS, seconds=0)
    with serving(tmp_path / "home", SETUP, limits=limits) as served:
        ann = served.server.store.create_token("ann", "client")
        root = served.server.store.create_token("root", "admin")
        served.http.headers.update(bearer(root))
        served.push("Cars", [list(car) for car in cars(1)], time="2026-01-01T12:00:01Z")
        for sql in (JOINED, CHANGED["two"]):
            assert refused(served, sql, ann) == (400, "limit_exceeded")
        names = {query["name"] for query in served.http.get("/queries").json()}
        assert not names & {"new", "newer"}
        assert served.server.owners.keys().isdisjoint({"new", "newer"})
        assert served.sql("SELECT COUNT(*) FROM Cars", root)["rows"] == [[12]]
        served.sql(CHANGED["two"], root)
        assert {query["name"] for query in served.http.get("/queries").json()} >= {"new", "newer"}


def refused(served: Running, sql: str, token: str) -> tuple[int, str]:
    reply = served.http.post("/sql", json={"sql": sql}, headers=bearer(token))
    return reply.status_code, reply.json()["error"]["code"]
