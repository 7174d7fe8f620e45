"""Values taken from places and put into places, on one thread and on several: as NumPy does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import place
from place.kernels import gather, order
from place.kernels.key_index import empty_table, enter_slots, found_slots


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Some threads, each of which gets a piece also of few values."""
    monkeypatch.setattr(order, "PIECES", 2)
    monkeypatch.setattr(order, "SERIAL", 2)
    return int(request.param)


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_each_pass_does_what_numpy_does(size: int, threads: int) -> None:
    chance = np.random.default_rng(size)
    values, at = chance.random(200), chance.permutation(200)[:size]
    assert (gather.taken(values, at, threads) == values[at]).all()

    written, expected = values.copy(), values.copy()
    given = chance.random(size)
    gather.put(written, at, given, threads)
    expected[at] = given
    assert (written == expected).all()

    places, points = chance.random((200, 2)), chance.random((size, 2))
    wanted = places.copy()
    wanted[at] = points
    gather.put_places(places, at, points, threads)
    assert (places == wanted).all()

    moving = chance.random((200, 4))
    moved = moving.copy()
    moved[at, 2:], moved[at, :2] = moving[at, :2], points
    gather.move_places(moving, at, points, threads)
    assert (moving == moved).all()

    rows = chance.random(50)
    ids = np.where(chance.random(size) < 0.5, chance.integers(0, 50, size), ~at)
    found = gather.picked(rows, values, ids, threads)
    assert found.tolist() == [rows[i] if i >= 0 else values[~i] for i in ids.tolist()]

    boxes = chance.random((200, 8))
    expected_boxes = boxes.copy()
    expected_boxes[:size, 4:] = boxes[:size, :4]
    gather.copy_boxes(boxes, size, threads)
    assert (boxes == expected_boxes).all()


@pytest.mark.parametrize("size", [0, 1, 9, 100])
def test_pairs_are_parted_into_those_that_leave_and_those_that_enter(
    size: int, threads: int
) -> None:
    chance = np.random.default_rng(size)
    boxes = chance.integers(0, 1000, size).astype(np.int32)
    points = chance.integers(0, 1000, size).astype(np.int32)
    codes = chance.integers(1, 3, size).astype(np.uint8)
    rows, slots, was = gather.parted(boxes, points, codes, threads)
    order_of = np.argsort(codes != 2, kind="stable")
    assert (rows == boxes[order_of]).all()
    assert (slots == points[order_of]).all()
    assert (was == (codes[order_of] == 2)).all()


def test_rows_are_counted_by_query_and_weight() -> None:
    counts = gather.count_rows(np.array([2, 0, 2, 2]), np.array([-1, 1, 3, 0]), 3)
    assert counts.tolist() == [1, 0, 4]


def test_slots_are_found_by_several_threads(threads: int) -> None:
    keys = np.arange(0, 300, 3)
    table = empty_table(len(keys))
    enter_slots(table, keys, np.arange(len(keys)))
    slots, missing = found_slots(table, keys, np.arange(300), threads)
    assert missing == 200
    assert slots.tolist() == [k // 3 if k % 3 == 0 else -1 for k in range(300)]


@pytest.mark.parametrize("moving", [1.0, 0.2])
def test_a_cell_of_several_threads_tells_what_one_of_one_tells(
    moving: float, threads: int, tmp_path: Path
) -> None:
    """Squares around objects that walk, with objects that come and go on the way."""
    numbers, sides = np.arange(300), np.full(300, 0.1)
    names = ("id", "focal", "xdist", "ydist")
    fences = dict(zip(names, (numbers, numbers, sides, sides), strict=True))
    pq.write_table(pa.table(fences), tmp_path / "fences.parquet")
    told = []
    for count in (1, threads):
        chance = np.random.default_rng(3)
        session = place.connect(runtime="local", threads=count)
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            " WITH (evaluate = '1 second');"
            "CREATE TABLE Fences (id BIGINT KEY, focal BIGINT, xdist DOUBLE, ydist DOUBLE)"
            f" FROM '{tmp_path}/fences.parquet';"
            "REGISTER QUERY near AS SELECT F.id, C.id, C.x FROM Fences F, Cars C WHERE C INSIDE F;"
            "REGISTER QUERY met AS SELECT F.id, C.id FROM Fences F, Cars C WHERE C INSIDE F"
        )
        places = chance.random((400, 2))
        found = []
        for second in range(1, 8):
            cars = np.flatnonzero(chance.random(400) < moving)
            places[cars] += chance.uniform(-0.05, 0.05, (len(cars), 2))
            when = (1_767_225_600 + second) * 1_000_000
            table = pa.table(
                {
                    "id": cars,
                    "x": places[cars, 0],
                    "y": places[cars, 1],
                    "ts": pa.array(np.full(len(cars), when), pa.timestamp("us")),
                }
            )
            found += session.push("Cars", table)
            found += session.disappear("Cars", int(cars[0]), time=when + 500_000)
        assert len(found) > 500
        told.append(sorted(map(repr, found)))
    assert told[0] == told[1]
