"""What joins hold is counted: readings in their windows, and combinations to choose from."""

from datetime import UTC, datetime

import pytest

import place
from place.engine.join_counts import JoinCounts, join_counts
from place.runtime.durable.state_figures import JOIN_FIGURES, TRIGGER_FIGURES, counts_since, named
from place.runtime.local import LocalRuntime
from place.session import Session

SETUP = """
CREATE STREAM Radar (id BIGINT KEY, x DOUBLE, y DOUBLE);
CREATE STREAM Packets (src BIGINT, bytes DOUBLE);
"""
ECHO = "SELECT r.id FROM Radar r WINDOW 5 ROWS, Packets p WINDOW 10 SECONDS WHERE r.id = p.src"


def counts_of(session: Session) -> dict[str, dict[str, int]]:
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    return named(JOIN_FIGURES, counts_since(JOIN_FIGURES, {}, map(join_counts, runtime.workers)))


def push(session: Session, second: int, count: int) -> None:
    at = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    session.push("Radar", [(i, float(i), 0.0) for i in range(count)], time=at)
    session.push("Packets", [(i, 1.0) for i in range(count)], time=at)


def test_the_figures_are_those_that_are_counted() -> None:
    assert tuple(JOIN_FIGURES) == JoinCounts._fields


@pytest.mark.parametrize("cells", ["1x1", "1x2"])
def test_windows_of_time_and_rows(cells: str) -> None:
    with place.connect(cells=cells) as session:
        session.sql(SETUP)
        session.sql(f"REGISTER QUERY echo AS {ECHO} AND p.bytes > 0")
        assert counts_of(session)["echo"] == {"kept": 0, "combinations": 0, "queries": 1}
        push(session, 1, 3)
        assert counts_of(session)["echo"]["kept"] == 6
        push(session, 2, 3)
        assert counts_of(session)["echo"]["kept"] == 5 + 6
        push(session, 15, 1)
        assert counts_of(session)["echo"]["kept"] == 5 + 1
        session.sql("DROP QUERY echo")
        assert counts_of(session) == {}


def test_rows_of_cells_add_up() -> None:
    """A source that is spread over rows is counted once, another in each of them."""
    with place.connect(cells="2x1") as session:
        session.sql(SETUP)
        session.sql(f"REGISTER QUERY echo AS {ECHO}")
        push(session, 1, 4)
        assert counts_of(session)["echo"] == {"kept": 4 + 2 * 4, "combinations": 0, "queries": 1}


def test_queries_of_one_shape_are_counted_together() -> None:
    with place.connect() as session:
        session.sql(SETUP)
        for name, least in (("first", 0), ("second", 1), ("third", 2)):
            session.sql(f"REGISTER QUERY {name} AS {ECHO} AND p.bytes > {least}")
        push(session, 1, 2)
        assert counts_of(session) == {"first": {"kept": 4, "combinations": 0, "queries": 3}}
        session.sql("DROP QUERY first")
        assert counts_of(session) == {"second": {"kept": 4, "combinations": 0, "queries": 2}}


def test_combinations_to_choose_from() -> None:
    with place.connect() as session:
        session.sql(SETUP)
        session.sql(
            "REGISTER QUERY nearest AS SELECT a.id, b.id AS other"
            " FROM Radar a, Radar b WHERE a.id < b.id kNN (1, a)"
        )
        push(session, 1, 4)
        assert counts_of(session)["nearest"]["combinations"] == 6
        at = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)
        session.disappear("Radar", 3, time=at)
        session.advance(at)
        assert counts_of(session)["nearest"]["combinations"] == 3


def test_what_is_held_adds_up_and_what_came_goes_on() -> None:
    before = {"near": [5, 1, 2, 3], "gone": [1, 1, 1, 1]}
    found = counts_since(TRIGGER_FIGURES, before, [{"near": (4, 1, 1, 1)}, {"new": (1, 0, 0, 2)}])
    assert found == {"near": [4, 2, 3, 4], "new": [1, 0, 0, 2]}
    assert counts_since(JOIN_FIGURES, {}, [{"echo": (3, 1, 2)}, {"echo": (4, 2, 0)}]) == {
        "echo": [7, 3, 2]
    }
