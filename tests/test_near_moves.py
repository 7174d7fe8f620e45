"""Objects that only move: who is near whom, by comparing places before and after an instant."""

from __future__ import annotations

import operator
from pathlib import Path

import numpy as np
import pytest

import place
from place.engine.operators import stream_join
from place.kernels.inside import unit_vectors
from place.kernels.near_changes import near_changes, reach_of
from place.kernels.version_links import link_moves, put_in_order, times_within
from place.model.reading import Advance, Reading
from place.model.space import Space, distance
from place.script.blocks import read_script
from place.script.command import opener
from place.script.runner import Batching, ScriptRunner

SCRIPTS = Path(__file__).parent / "scripts"
SECOND = 1_000_000
PAIRS = "SELECT a.id, b.id FROM Ships a, Ships b WHERE DISTANCE(a, b) <= {} AND a.id < b.id"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few objects move, their places are compared, at each instant of a tick."""
    monkeypatch.setattr(stream_join, "MANY_MOVES", 0)
    monkeypatch.setattr(stream_join, "FEW", 1)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("batching", ["each", "one"])
@pytest.mark.parametrize("room", ["meet", "distance"])
def test_scripts_hold_where_places_are_compared(room: str, batching: str) -> None:
    for path in sorted((SCRIPTS / room).glob("*.cq")):
        ScriptRunner(read_script(path), opener("local", "1x1"), Batching.parse(batching)).run()


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("is_self", [True, False])
@pytest.mark.parametrize(("step", "share"), [(20, 0.9), (20, 0.3), (2, 0.9), (2, 0.3)])
@pytest.mark.parametrize("space", list(Space))
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_changes_are_those_of_all_pairs(
    space: Space, step: int, share: float, is_self: bool, closed: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    low, high = (np.array([-180, -90]), np.array([180, 90]))
    before = [rng.uniform(low, high, (80, 2)).round() for _ in range(2)]
    after = []
    for places in before:
        moves = rng.integers(-step, step + 1, places.shape) * (rng.random((80, 1)) < share)
        after.append(np.clip(places + moves, low, high).astype(float))
    for places in (*before, *after):
        places[rng.random(80) < 0.1] = np.nan
    length = 25.0 if space is Space.PLANAR else 3_000_000.0
    reach = reach_of(length, closed=closed, sphere=space is Space.WGS84)
    points = [
        np.hstack([_points(space, now), _points(space, then)]).T.copy()
        for now, then in zip(after, before, strict=True)
    ]
    if is_self:
        before[1], after[1], points[1] = before[0], after[0], points[0]
    found = near_changes(points[0], points[1], reach, threads=2)
    was, now = (_near(space, *state, length, closed=closed) for state in (before, after))
    if is_self:
        was, now = ({(i, j) for i, j in pairs if i < j} for pairs in (was, now))
    for pairs, expected in ((found.came, now - was), (found.left, was - now)):
        told = list(zip(*(part.tolist() for part in pairs), strict=True))
        if is_self:
            told = [(min(pair), max(pair)) for pair in told]
        assert len(told) == len(expected)
        assert set(told) == expected
        assert expected


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_points_have_few_changes(count: int) -> None:
    points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])[:, :count].copy()
    found = near_changes(points, points, reach_of(1.0, closed=True, sphere=False))
    assert len(found.came[0]) == (count == 2)
    assert not len(found.left[0])


def test_nothing_is_near_where_all_is_nowhere() -> None:
    points = np.full((4, 10), np.nan)
    found = near_changes(points, points, reach_of(0.0, closed=True, sphere=False))
    assert not len(found.came[0])
    assert not len(found.left[0])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e6])
def test_changes_are_those_of_a_tree(spread: float, threads: int) -> None:
    tree = pytest.importorskip("scipy.spatial").cKDTree
    rng = np.random.default_rng(4)
    count, reach = 3_000, 0.01
    before = rng.random((count, 2)) * [1.0, spread] + [1e3, -1e3]
    after = before + rng.normal(0, 0.001, before.shape)
    after[:20] = rng.random((20, 2))  # some jump, so that one walk is not enough
    for start in (0, 20):
        now, then = after[start:], before[start:]
        points = np.hstack([now, then]).T.copy()
        found = near_changes(points, points, reach_of(reach, closed=True, sphere=False), threads)
        pairs = [
            {
                tuple(pair)
                for pair in tree(places).query_pairs(reach, output_type="ndarray").tolist()
            }
            for places in (then, now)
        ]
        for told, expected in zip(
            (found.left, found.came), (pairs[0] - pairs[1], pairs[1] - pairs[0]), strict=True
        ):
            ordered = np.sort(np.stack(told), axis=0).T.tolist()
            assert {tuple(pair) for pair in ordered} == expected
            assert len(ordered) == len(expected)


@pytest.mark.parametrize("seed", range(10))
def test_moves_are_linked_by_names(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at, count = 5, 40
    spans = [sorted(rng.choice(9, 2, replace=False).tolist()) for _ in range(count)]
    starts, ends = np.array(spans, np.int64).T.copy()
    before = (starts < at) & (ends == at)
    names = np.arange(count)
    begins = np.flatnonzero(starts == at)
    chosen = rng.permutation(np.flatnonzero(before))[: len(begins) // 2]
    names[begins[: len(chosen)]] = names[chosen]
    from_, to, stays, moved, others = link_moves(names, starts, ends, at, int(names.max()))
    linked = {(i, j) for i in np.flatnonzero(before) for j in begins if names[i] == names[j]}
    assert set(zip(from_.tolist(), to.tolist(), strict=True)) == linked
    assert stays.tolist() == np.flatnonzero((starts < at) & (ends > at)).tolist()
    assert set(np.flatnonzero(moved).tolist()) == {i for pair in linked for i in pair}
    assert others == before.sum() + len(begins) - 2 * len(linked)


def test_bounds_of_what_happens_within_a_tick() -> None:
    starts, ends = np.array([-9, 3, 5, 2]), np.array([4, 99, 7, 6])
    assert times_within(starts, ends, 2, 6) == (3, 6)
    assert times_within(starts, ends, 4, 5) == (5, 5)
    first, last = times_within(starts, ends, 7, 50)
    assert first > last


def test_the_lesser_of_a_pair_comes_first() -> None:
    values, nulls = np.array([3, 1, 1, 7]), np.array([False, False, False, True])
    first, second = np.array([0, 1, 1, 3], np.int32), np.array([1, 0, 2, 0], np.int32)
    lesser, greater = put_in_order(first, second, values, nulls)
    assert lesser.tolist() == [1, 1]
    assert greater.tolist() == [0, 0]


def _points(space: Space, places: np.ndarray) -> np.ndarray:
    if space is Space.WGS84:
        points = unit_vectors(places[:, 0].copy(), places[:, 1].copy())
        points[np.isnan(places[:, 0])] = np.nan
        return points
    return places


def _near(
    space: Space, one: np.ndarray, other: np.ndarray, length: float, *, closed: bool
) -> set[tuple[int, int]]:
    is_near = operator.le if closed else operator.lt
    return {
        (i, j)
        for i, a in enumerate(one.tolist())
        for j, b in enumerate(other.tolist())
        if not np.isnan([*a, *b]).any() and is_near(distance(space, *a, *b), length)
    }


@pytest.mark.usefixtures("always")
def test_pairs_are_those_of_a_tree_at_every_instant() -> None:
    tree = pytest.importorskip("scipy.spatial").cKDTree
    rng = np.random.default_rng(3)
    count, reach = 400, 40.0
    session = place.connect()
    session.sql("CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE)")
    session.sql("REGISTER QUERY pairs AS " + PAIRS.format(reach))
    places = rng.uniform(0, 1000, (count, 2))
    for second in range(1, 101):
        chosen = np.flatnonzero(rng.random(count) < (1.0 if second == 1 else 0.7))
        places[chosen] += rng.normal(0, 8, (len(chosen), 2))
        rows = [(int(i), *places[i].tolist()) for i in chosen]
        session.push("Ships", rows, time=second * 1_000_000)
        answer = {tuple(row) for row in session.answer("pairs")}
        assert answer == tree(places).query_pairs(reach)
    session.close()


def test_instants_of_one_tick_tell_what_ticks_of_their_own_tell() -> None:
    told = []
    for ticks in ([[2, 3, 4]], [[2], [3], [4]]):
        rng = np.random.default_rng(5)
        count = 1500
        session = place.connect()
        session.sql("CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE)")
        session.sql("REGISTER QUERY pairs AS " + PAIRS.format(3.0))
        places = rng.uniform(0, 100, (count, 2))
        few = np.arange(count) < 20
        moving = {1: few | ~few, 2: few, 3: ~few, 4: few | ~few}
        readings: dict[int, list[Reading]] = {}
        for second, moved in moving.items():
            places = places + rng.uniform(-2, 2, places.shape) * moved[:, None]
            readings[second] = [
                Reading("Ships", i, second * SECOND, (i, *places[i].tolist()))
                for i in np.flatnonzero(moved).tolist()
            ]
        deltas = []
        for seconds in [[1], *ticks]:
            some = [reading for second in seconds for reading in readings[second]]
            deltas += session.feed([*some, Advance(seconds[-1] * SECOND)])
        told.append(sorted(deltas, key=lambda d: (d.instant, d.sign, d.row)))
        session.close()
    assert told[0] == told[1]
    assert len(told[0]) > 1000
