"""What a stream remembers for windows that begin later, however its readings came."""

import pytest

import place
from place.model.time import SECOND
from place.session import Session

Rows = list[tuple[int, float, float, int]]


@pytest.fixture(autouse=True)
def short_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty readings are a history."""
    monkeypatch.setattr("place.engine.history.HISTORY", 20)


def driven(rows: Rows, batch: int, options: str = "", cells: str = "1x1") -> Session:
    """A session whose cars have driven, pushed some readings at a time."""
    session = place.connect(cells=cells)
    columns = "id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP"
    given = ", ".join(["timestamps = 'microseconds'", *([options] if options else [])])
    session.sql(f"CREATE STREAM Cars ({columns}) WITH ({given})")
    for start in range(0, len(rows), batch):
        session.push("Cars", rows[start : start + batch])
    session.advance(rows[-1][3])
    return session


def three_cars(seconds: int) -> Rows:
    return [(car, float(t), 0.0, t * SECOND) for t in range(seconds) for car in (1, 2, 3)]


@pytest.mark.parametrize("cells", ["1x1", "2x2"])
@pytest.mark.parametrize("batch", [3, 7, 600])
def test_a_window_sees_the_last_readings(batch: int, cells: str) -> None:
    session = driven(three_cars(200), batch, cells=cells)
    session.sql("REGISTER QUERY w AS SELECT id, x FROM Cars WINDOW 1 HOUR")
    # Whole instants, and no more than twenty readings of them.
    kept = [(car, float(t)) for car in (1, 2, 3) for t in range(194, 200)]
    assert session.answer("w") == kept
    assert len(session.sql("SELECT id FROM Cars WINDOW 3 SECONDS").rows) == 9


@pytest.mark.parametrize("batch", [3, 100, 600])
def test_the_option_history_keeps_more(batch: int) -> None:
    session = driven(three_cars(200), batch, "history = '1 minute'")
    session.sql("REGISTER QUERY w AS SELECT DISTINCT x FROM Cars WINDOW 1 HOUR")
    assert [x for (x,) in session.answer("w")] == [float(t) for t in range(140, 200)]


@pytest.mark.parametrize("batch", [1, 13, 100])
def test_a_moving_region_counts_where_it_was(batch: int) -> None:
    """Car 3 led the region since before the readings that are kept."""
    rows = [(3, 5.0, 0.0, 0)]
    rows += [(1, float(t % 10), 0.0, t * SECOND) for t in range(1, 61)]
    rows += [(3, 50.0, 0.0, 61 * SECOND)]
    session = driven(rows, batch)
    session.sql("REGISTER QUERY w AS SELECT x FROM Cars INSIDE ('M', 3, 1) WINDOW 15 SECONDS")
    assert session.answer("w") == [(4.0,), (5.0,), (6.0,)]


@pytest.mark.parametrize("batch", [1, 13, 100])
def test_an_object_that_has_timed_out_was_there(batch: int) -> None:
    """Car 9 spoke before the readings that are kept, and led the region until it timed out."""
    rows = [(9, 0.0, 0.0, 0)]
    rows += [(2, 99.0, 0.0, t * SECOND // 10) for t in range(1, 51)]
    rows += [(1, float(t) / 100, 0.0, t * SECOND) for t in range(6, 15)]
    session = driven(rows, batch, "timeout = '10 seconds'")
    session.sql("REGISTER QUERY w AS SELECT x FROM Cars INSIDE ('M', 9, 1) WINDOW 1 HOUR")
    assert session.answer("w") == [(0.06,), (0.07,), (0.08,), (0.09,)]


@pytest.mark.parametrize("batch", [1, 13, 200])
def test_the_reading_before_a_pair(batch: int) -> None:
    session = driven(three_cars(40), batch)
    session.sql(
        "REGISTER QUERY p AS SELECT a.id, b.x FROM Cars a, Cars b WHERE a.id = b.id WINDOW PREVIOUS"
    )
    assert session.answer("p") == [(1, 38.0), (2, 38.0), (3, 38.0)]
