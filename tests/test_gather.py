"""Values taken from places and put into places, on one thread and on several: as NumPy does it."""

from __future__ import annotations

import numpy as np
import pytest

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
