"""The kernels of the matcher: one contract, held against a comparison of every pair.

A kernel is right if it reports what looking at all pairs reports, whatever the coordinates, the
modes and the shares that changed.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from place.kernels import bulk, order
from place.kernels.bulk import SIMPLE, TOUCHED, WATCHED, BulkMatcher, Pairs, match_bulk
from place.kernels.grid import choose_grid, squares_of
from place.kernels.progressive import SHIFTS, STAYS, match_progressive

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
World = tuple[Floats, Floats]
"""Positions (n × 2) and boxes (m × 4)."""

INF, NAN = np.inf, np.nan


def uniform(chance: np.random.Generator) -> World:
    centres, half = chance.random((90, 2)), chance.random((90, 2)) / 8
    return chance.random((110, 2)), np.hstack([centres - half, centres + half])


def coincident(chance: np.random.Generator) -> World:
    """Many points in few places, boxes whose edges and corners are such places, some of size 0."""
    corners = np.sort(chance.integers(0, 4, (70, 2, 2)), axis=1).astype(float)
    return chance.integers(0, 4, (120, 2)).astype(float), corners.reshape(70, 4)


def all_equal(chance: np.random.Generator) -> World:
    return np.full((60, 2), 0.5), np.tile([0.5, 0.5, 0.5, 0.5], (40, 1)) + np.outer(
        chance.integers(0, 2, 40), [-0.1, 0, 0.1, 0]
    )


def sizes_of_all_scales(chance: np.random.Generator) -> World:
    half = 10.0 ** chance.uniform(-9, 3, (120, 2))
    centres = chance.random((120, 2))
    return chance.random((150, 2)), np.hstack([centres - half, centres + half])


def outliers(chance: np.random.Generator) -> World:
    points, boxes = uniform(chance)
    points[:6] = [[1e9, 0], [1e300, -1e300], [-1e308, 1e308], [0.5, 1e9], [-1e9, -1e9], [0, 1e300]]
    boxes[:4] = [
        [-1e300, -1e300, 1e300, 1e300],
        [1e9, -1, 1e9, 1],
        [-1.7e308, 0, 1.7e308, 1.7e308],
        [0.4, 0.4, 2e9, 2e9],
    ]
    return points, boxes


def infinities(chance: np.random.Generator) -> World:
    points, boxes = uniform(chance)
    points[:3] = [[INF, 0.5], [-INF, INF], [0.5, -INF]]
    boxes[:30][chance.random((30, 4)) < 0.4] = INF
    boxes[:30, :2] *= np.where(np.isinf(boxes[:30, :2]), -1, 1)
    boxes[0] = [-INF, -INF, INF, INF]
    boxes[1] = [INF, INF, INF, INF]
    return points, boxes


def zeros(chance: np.random.Generator) -> World:
    points = chance.choice([-0.0, 0.0, 1e-310, -1e-310, 1.0], (40, 2))
    corners = np.sort(chance.choice([-0.0, 0.0, 1e-310, 1.0], (40, 2, 2)), axis=1)
    return points, corners.reshape(40, 4)


def far_clusters(chance: np.random.Generator) -> World:
    """Paris and Sydney."""
    cities = np.array([[2.35, 48.86], [151.2, -33.87]])
    points = cities[chance.integers(0, 2, 200)] + chance.normal(0, 0.05, (200, 2))
    centres = cities[chance.integers(0, 2, 150)] + chance.normal(0, 0.05, (150, 2))
    return points, np.hstack([centres - 0.01, centres + 0.01])


def crosses(chance: np.random.Generator) -> World:
    """Boxes that are far longer than wide, lying and standing."""
    centres, half = chance.random((80, 2)), np.array([[1e-3, 0.6], [0.6, 1e-3]])
    half = half[chance.integers(0, 2, 80)]
    return chance.random((200, 2)), np.hstack([centres - half, centres + half])


def inverted(chance: np.random.Generator) -> World:
    """Boxes whose corners are the wrong way round hold nothing."""
    points, boxes = uniform(chance)
    boxes[:40] = boxes[:40][:, [2, 1, 0, 3]]
    return points, boxes


def one_point(chance: np.random.Generator) -> World:
    return uniform(chance)[0][:1], uniform(chance)[1]


def one_box(chance: np.random.Generator) -> World:
    return uniform(chance)[0], np.array([[0.2, 0.2, 0.8, 0.9]])


def no_points(chance: np.random.Generator) -> World:
    return np.empty((0, 2)), uniform(chance)[1]


def no_boxes(chance: np.random.Generator) -> World:
    return uniform(chance)[0], np.empty((0, 4))


WORLDS: list[Callable[[np.random.Generator], World]] = [
    uniform,
    coincident,
    all_equal,
    sizes_of_all_scales,
    outliers,
    infinities,
    zeros,
    far_clusters,
    crosses,
    inverted,
    one_point,
    one_box,
    no_points,
    no_boxes,
]


def moved(rows: Floats, pool: Floats, share: float, chance: np.random.Generator) -> Floats:
    """The rows, a share of them changed: a little, to another's place, or to nowhere."""
    changed = rows.copy()
    which = np.flatnonzero(chance.random(len(rows)) < share)
    for row in which:
        kind = chance.integers(0, 4)
        if kind == 0 or len(pool) == 0:
            changed[row] = NAN
        elif kind == 1:
            changed[row] = pool[chance.integers(0, len(pool))]
        else:
            step = chance.normal(0, 0.02, 2)
            changed[row] += np.tile(step, rows.shape[1] // 2)
    return changed


def flags(before: Floats, now: Floats, share: float, chance: np.random.Generator) -> Bools:
    """What changed, and a few that are said to have changed and did not."""
    same = ((before == now) | (np.isnan(before) & np.isnan(now))).all(axis=1)
    return ~same | (chance.random(len(now)) < share / 4)


def compared(points: Floats, boxes: Floats, modes: NDArray[np.uint8], cp: Bools, cb: Bools):
    """What `match_bulk` means: every pair is looked at."""

    def within(offset: int) -> Bools:
        x, y = points[None, :, offset], points[None, :, offset + 1]
        x1, y1, x2, y2 = (boxes[:, None, 2 * offset + i] for i in range(4))
        return (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)

    now, was = within(0), within(2)
    reported = now != was
    reported |= now & was & ((modes == TOUCHED)[:, None] | ((modes == WATCHED)[:, None] & cp))
    reported &= cp[None, :] | cb[:, None]
    found = np.argwhere(reported)
    return {(b, p, now[b, p] + 2 * was[b, p]) for b, p in found.tolist()}


def as_set(pairs: Pairs) -> set[tuple[int, int, int]]:
    listed = list(
        zip(pairs.boxes.tolist(), pairs.points.tolist(), pairs.codes.tolist(), strict=True)
    )
    assert len(set(listed)) == len(listed), "a pair is reported twice"
    return set(listed)


@pytest.fixture(params=["few pairs are compared", "every pair is joined"])
def joins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds are small: the joins have to be told that they are worth it."""
    if request.param == "every pair is joined":
        monkeypatch.setattr(bulk, "FEW", 0)
        monkeypatch.setattr(bulk, "FEW_EACH", 0)
        monkeypatch.setattr(order, "SERIAL", 9)


SHARES = [(1.0, 1.0), (0.1, 0.1), (0.0, 0.1), (0.1, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.9)]


@pytest.mark.usefixtures("joins")
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.__name__)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_bulk_join_reports_what_comparing_every_pair_reports(
    world: Callable[[np.random.Generator], World], threads: int
) -> None:
    for seed, (point_share, box_share) in enumerate(SHARES * 4):
        chance = np.random.default_rng(seed)
        positions, regions = world(chance)
        positions = moved(positions, positions, 0.1, chance)
        regions = moved(regions, regions, 0.1, chance)
        points = np.hstack([moved(positions, positions, point_share, chance), positions])
        boxes = np.hstack([moved(regions, regions, box_share, chance), regions])
        modes = chance.choice([SIMPLE, WATCHED, TOUCHED], len(boxes)).astype(np.uint8)
        cp = flags(points[:, 2:], points[:, :2], point_share, chance)
        cb = flags(boxes[:, 4:], boxes[:, :4], box_share, chance)
        found = as_set(match_bulk(points, boxes, modes, cp, cb, threads=threads))
        assert found == compared(points, boxes, modes, cp, cb)


@pytest.mark.usefixtures("joins")
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.__name__)
def test_a_matcher_keeps_right_what_stands_still(
    world: Callable[[np.random.Generator], World],
) -> None:
    """The movers change from instant to instant, elements are appended, leave and come back."""
    for seed in range(4):
        chance = np.random.default_rng(seed)
        pool_points, pool_boxes = world(chance)
        positions, regions = pool_points[: len(pool_points) // 2], pool_boxes[::2]
        matcher = BulkMatcher()
        for tick in range(25):
            share = chance.choice([0.0, 0.03, 0.2, 1.0], 2, p=[0.2, 0.45, 0.25, 0.1])
            now = moved(positions, pool_points, share[0], chance)
            regions_now = moved(regions, pool_boxes, share[1], chance)
            points, boxes = np.hstack([now, positions]), np.hstack([regions_now, regions])
            cp = flags(positions, now, share[0], chance)
            cb = flags(regions, regions_now, share[1], chance)
            modes = chance.choice([SIMPLE, WATCHED, TOUCHED], len(boxes)).astype(np.uint8)
            found = as_set(matcher.match(points, boxes, modes, cp, cb))
            assert found == compared(points, boxes, modes, cp, cb)
            positions, regions = now, regions_now
            if tick % 5 == 4:
                positions = np.vstack([positions, np.full((3, 2), NAN)])
                regions = np.vstack([regions, np.full((2, 4), NAN)])


def test_coordinates_far_away_do_not_spoil_the_grid() -> None:
    """An outlier, or two far cities, must not put everything into one cell."""
    chance = np.random.default_rng(0)
    cities = np.array([[2.35, 48.86], [151.2, -33.87]])
    scales = 10.0 ** chance.uniform(-6, 9, (20_000, 1))
    for places in (
        np.vstack([chance.random((20_000, 2)), [[1e300, -1e300]]]),
        cities[chance.integers(0, 2, 20_000)] + chance.normal(0, 0.05, (20_000, 2)),
        scales * chance.random((20_000, 2)),
    ):
        chosen = choose_grid(places[:2048], 1e-3, 1e-3, len(places))
        squares = squares_of(places, chosen)
        assert squares.min() >= 0
        assert squares.max() < chosen.squares
        assert np.bincount(squares).max() < len(places) / 50


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.__name__)
@pytest.mark.parametrize("readings", [3, 400])
def test_the_progressive_join_reports_what_each_reading_changes(
    world: Callable[[np.random.Generator], World], readings: int
) -> None:
    for seed in range(3):
        chance = np.random.default_rng(seed)
        pool_points, pool_boxes = world(chance)
        positions = moved(pool_points, pool_points, 0.2, chance)
        regions = moved(pool_boxes, pool_boxes, 0.2, chance)
        modes = chance.choice([SIMPLE, WATCHED, TOUCHED], len(regions)).astype(np.uint8)
        slots = chance.integers(-1, len(positions), readings).astype(np.int32)
        counts = np.minimum(chance.choice([0, 0, 1, 4], readings), len(regions))
        moves = [chance.permutation(len(regions))[:count] for count in counts]
        starts = np.concatenate([[0], np.cumsum([len(move) for move in moves])]).astype(np.int64)
        boxes = np.concatenate(moves).astype(np.int32)
        before, regions_before = positions.copy(), regions.copy()
        expected, to, move_to = set(), np.full((readings, 2), NAN), np.full((len(boxes), 4), NAN)
        for i, slot in enumerate(slots):
            now, regions_now = before.copy(), regions_before.copy()
            cp, cb = np.zeros(len(now), np.bool_), np.zeros(len(regions), np.bool_)
            if slot >= 0:
                to[i] = moved(before[[slot]], pool_points, 0.9, chance)[0]
                now[slot], cp[slot] = to[i], True
            mine = slice(starts[i], starts[i + 1])
            move_to[mine] = moved(regions_before[boxes[mine]], pool_boxes, 0.9, chance)
            regions_now[boxes[mine]], cb[boxes[mine]] = move_to[mine], True
            points, rows = np.hstack([now, before]), np.hstack([regions_now, regions_before])
            expected |= {(i, *pair) for pair in compared(points, rows, modes, cp, cb)}
            before, regions_before = now, regions_now
        asked = np.array([0, STAYS, STAYS | SHIFTS], np.uint8)[modes]
        found = match_progressive(positions, regions, asked, slots, to, starts, boxes, move_to)
        listed = list(zip(*(column.tolist() for column in found), strict=True))
        assert len(set(listed)) == len(listed), "a pair is reported twice"
        assert (np.diff(found.reading) >= 0).all()
        assert set(listed) == expected
        np.testing.assert_array_equal(positions, before)
        np.testing.assert_array_equal(regions, regions_before)
