"""Changes of many queries at once: taken apart, settled, written and read again."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import place
from place.engine.changes import Change, settle
from place.model.delta import FEW, Delta, Sign
from place.model.reading import Advance
from place.model.segment import read_segment
from place.plan.query import Query
from place.runtime.durable.deltas import TickDeltas
from place.runtime.durable.outbox import changes_of, post, read_outbox, write_outbox
from place.runtime.durable.storage import Storage
from place.runtime.intake.pushed import segment_of
from place.runtime.local import LocalRuntime, told_of
from place.runtime.tables import TableLoader
from place.session import Session


@pytest.fixture(scope="module")
def queries() -> tuple[Query, ...]:
    with place.connect() as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)")
        for n in range(5):
            session.sql(f"REGISTER QUERY q{n} AS SELECT id FROM Cars INSIDE (0, 0, {n + 1}, 9)")
        return tuple(session.catalog.queries.values())


def change(
    queries: tuple[Query, ...], sign: Sign, rows: range, *, settled: bool = True, seed: int = 1
) -> Change:
    """Rows of queries chosen by chance, each at one of three instants."""
    chance = np.random.default_rng(seed)
    owners = chance.integers(0, len(queries), len(rows)).astype(np.int32)
    instants = np.sort(chance.integers(0, 3, len(rows)))
    return Change(queries, sign, instants, (pa.array(rows, pa.int64()),), settled, owners)


def counted(changes: list[Change]) -> Counter[Delta]:
    return Counter(delta for each in changes for delta in each.deltas())


def test_each_query_gets_its_own_rows_in_their_order(queries: tuple[Query, ...]) -> None:
    whole = change(queries, 1, range(200))
    parts = whole.by_query()
    assert [part.queries[0].name for part in parts] == [f"q{n}" for n in range(5)]
    assert counted(parts) == counted([whole])
    for part in parts:
        mine = [delta for delta in whole.deltas() if delta.query == part.queries[0].name]
        assert part.deltas() == mine
        assert part.by_query() == [part]


def test_settled_changes_stay_whole_when_there_are_many(queries: tuple[Query, ...]) -> None:
    gone, come = change(queries, -1, range(FEW)), change(queries, 1, range(FEW, 2 * FEW))
    assert settle([gone, come]) == [gone, come]


def test_what_may_cancel_does_whoever_shares_the_change(queries: tuple[Query, ...]) -> None:
    """Two cells tell of the same rows; of q4 nothing has to be settled, in a change of its own."""
    first = change(queries[:4], -1, range(2 * FEW), settled=False)
    again = change(queries[:4], 1, range(2 * FEW), settled=False)
    alone = change(queries[4:], 1, range(FEW))
    assert counted(settle([first, alone, again])) == counted([alone])
    more = change(queries[:4], 1, range(2 * FEW, 3 * FEW), settled=False, seed=2)
    assert counted(settle([first, again, more])) == counted([more])


def test_one_loose_change_makes_its_queries_loose(queries: tuple[Query, ...]) -> None:
    sure, loose = change(queries, 1, range(2 * FEW)), change(queries, -1, range(2 * FEW))
    loose = Change(loose.queries, -1, loose.instants, loose.columns, False, loose.owners)
    assert settle([sure, loose]) == []


def test_an_outbox_keeps_whose_rows_they_are(queries: tuple[Query, ...], tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    given = [change(queries, -1, range(300)), change(queries[1:3], 1, range(300, 500), seed=3)]
    given += given[0].by_query()[:1]
    posted, pack = post(storage, "outbox/1.arrow", given, 0)
    assert (posted.file, posted.deltas, pack) == ("outbox/1.arrow", sum(map(len, given)), None)
    found = TickDeltas.of(1, read_outbox(storage, "outbox/1.arrow")).deltas()
    expected = [delta for each in given for delta in each.deltas()]
    assert found == sorted(expected, key=lambda delta: (delta.instant, delta.sign))
    (piece,) = read_outbox(storage, "outbox/1.arrow")
    assert counted(changes_of(piece, {q.name: q for q in queries}.__getitem__)) == counted(given)


def test_whoever_applies_the_deltas_of_a_long_tick_in_order_never_misses_a_row(
    tmp_path: Path,
) -> None:
    """Many instants of few readings each, in one tick; cars come and go again and again."""
    chance = np.random.default_rng(5)
    runtime = LocalRuntime()
    with Session(runtime, TableLoader()) as session:
        columns = "id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP"
        session.sql(f"CREATE STREAM Cars ({columns}) WITH (timestamps = 'microseconds')")
        for n in range(4):
            session.sql(f"REGISTER QUERY q{n} AS SELECT id FROM Cars INSIDE (0, 0, {n + 3}, 9)")
        rows = [
            (int(car), float(x), 1.0, instant * 1000)
            for instant in range(800)
            for car, x in zip(chance.integers(0, 9, 3), chance.uniform(0, 10, 3), strict=True)
        ]
        stream = session.stream("Cars")
        readings = read_segment(stream, segment_of(stream, rows, None))
        told = told_of(session.catalog, [*readings, Advance(800_000, "Cars")])
        changes = runtime.take(told)
    assert sum(map(len, changes)) > FEW
    storage = Storage(str(tmp_path))
    write_outbox(storage, "1.arrow", changes)
    held: Counter[tuple[str, Any]] = Counter()
    for delta in TickDeltas.of(1, read_outbox(storage, "1.arrow")).deltas():
        held[delta.query, delta.row] += delta.sign
        assert held[delta.query, delta.row] in (0, 1), delta
