"""Streams without KEY: what they keep, how their readings are numbered, and who leaves them out."""

import numpy as np
import pyarrow as pa
import pytest

import place
from place.engine.checkpoint import save_worker
from place.engine.history import HISTORY
from place.engine.objects import Objects
from place.engine.slices import Segment
from place.engine.worker import Worker
from place.errors import ReadingError
from place.model.reading import Advance
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import Session

TICKS, EACH = 200, 1_000


def told(session: Session, number: int, count: int) -> Segment:
    """The readings of a tick: `count` of them within its second."""
    start = number * SECOND
    times = start + np.arange(count) * (SECOND // count)
    stream = session.catalog.streams["packets"]
    arrays = [np.arange(count) % 7, np.ones(count), times, times, np.zeros(count, np.bool_)]
    names = [*(column.name for column in stream.columns), "time", "gone"]
    return Segment(stream.name, pa.table(dict(zip(names, arrays, strict=True))))


def opened(cells: str, *statements: str) -> tuple[Session, LocalRuntime]:
    session = place.connect(cells=cells)
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    session.sql("CREATE STREAM Packets (src BIGINT, bytes DOUBLE, ts TIMESTAMP)")
    for statement in statements:
        session.sql(statement)
    return session, runtime


def stores(worker: Worker) -> list[Objects]:
    """All stores of objects that a worker has, those of its histories among them."""
    found = [history.base for history in worker.histories.values()]
    for line in worker.timelines.values():
        held = line.cell.stores
        for kind in (held.subjects, held.others, held.region_rows):
            found += kind.values()
    return found


@pytest.mark.parametrize("cells", ["1x1", "2x2"])
@pytest.mark.parametrize("is_read", [False, True])
def test_no_store_grows_with_the_readings(cells: str, is_read: bool) -> None:
    window = "REGISTER QUERY w AS SELECT src, COUNT(*) FROM Packets WINDOW 2 SECONDS GROUP BY src"
    session, runtime = opened(cells, *([window] if is_read else []))
    for number in range(TICKS):
        runtime.take([told(session, number, EACH), Advance((number + 1) * SECOND - 1)])
    assert runtime.statistics("Packets") == {
        "objects": 0,
        "on_disk": 0,
        "readings": TICKS * EACH,
        "late": 0,
    }
    for worker in runtime.workers:
        assert [store.size for store in stores(worker)] == [0] * len(stores(worker))
        assert max(len(store.keys) for store in stores(worker)) <= 64
        assert len(worker.histories["Packets"]) <= HISTORY + HISTORY // 4 + EACH
        saved = {name: table.num_rows for name, table in save_worker(worker).items()}
        history = saved.pop("history/recent/Packets")
        assert sum(saved.values()) + history <= 2 * HISTORY
    if is_read:
        assert sum(count for _, count in session.answer("w")) == 2 * EACH
    session.sql("REGISTER QUERY later AS SELECT COUNT(*) FROM Packets WINDOW 1 HOUR")
    assert session.answer("later") == [(HISTORY,)]


def test_readings_are_numbered_alike_in_all_cells_and_batches() -> None:
    numbered = []
    for cells, size in (("1x1", 60), ("2x2", 7), ("3x1", 1)):
        session, runtime = opened(cells)
        table = told(session, 0, 60).table
        for start in range(0, 60, size):
            runtime.take([Segment("Packets", table.slice(start, size))])
        for worker in runtime.workers:
            history = worker.histories["Packets"]
            keys = [key for part in (*history.recent, *history.fresh) for key in part.keys.tolist()]
            numbered.append(keys)
    assert numbered == [list(range(60))] * len(numbered)


def test_disappear_is_refused() -> None:
    session, _ = opened("1x1")
    with pytest.raises(ReadingError, match='stream "Packets" has no objects'):
        session.disappear("Packets", 1, "2026-01-31")
    assert session.sql("SHOW STREAMS").rows == (("Packets", 0, 0, 0, None),)
