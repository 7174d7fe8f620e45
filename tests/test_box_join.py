"""The join of points and boxes: one contract for all ways, held against looking at every pair."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from place.kernels import box_clusters, box_join, box_pairs
from place.kernels.box_choice import METHODS
from place.kernels.box_join import BoxIndex, BoxPairs, join_boxes
from tests.harness.examples import examples

Floats = NDArray[np.float64]
World = tuple[Floats, Floats, Floats]
"""Points, and low and high bounds of boxes."""
INF, NAN = np.inf, np.nan
WAYS = (None, *METHODS)


def looked_at(points: Floats, low: Floats, high: Floats) -> set[tuple[int, int]]:
    """All pairs, by looking at each."""
    holds = np.ones((len(points), len(low)), np.bool_)
    for axis in range(points.shape[1]):
        value = points[:, axis, None]
        holds &= (low[None, :, axis] <= value) & (value <= high[None, :, axis])
    return set(zip(*(found.tolist() for found in np.nonzero(holds)), strict=True))


def check(found: BoxPairs, points: Floats, low: Floats, high: Floats) -> None:
    assert found.points.dtype == found.boxes.dtype == np.int32
    pairs = list(zip(found.points.tolist(), found.boxes.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == looked_at(points, low, high)
    assert found.method in METHODS
    assert found.reason


def narrow(chance: np.random.Generator, axes: int) -> World:
    low = chance.random((350, axes))
    return chance.random((450, axes)), low, low + chance.random((350, axes)) / 4


def half_lines(chance: np.random.Generator, axes: int) -> World:
    """Conditions as people write them: no bound, one, or two."""
    bounds = np.sort(chance.random((2, 300, axes)), axis=0)
    open_low = chance.random((300, axes)) < 0.5
    open_high = chance.random((300, axes)) < 0.5
    low, high = np.where(open_low, -INF, bounds[0]), np.where(open_high, INF, bounds[1])
    return chance.random((260, axes)), low, high


def on_borders(chance: np.random.Generator, axes: int) -> World:
    """Few values, which are bounds, too; many boxes have no width, and many points are equal."""
    bounds = np.sort(chance.integers(-2, 3, (2, 300, axes)), axis=0).astype(float)
    points = chance.integers(-2, 3, (300, axes)).astype(float)
    points[::7] *= -0.0
    return points, bounds[0], bounds[1]


def equalities(chance: np.random.Generator, axes: int) -> World:
    points, low, high = half_lines(chance, axes)
    points[:, 0], low[:, 0] = chance.integers(0, 9, 260), chance.integers(0, 9, 300)
    high[:, 0] = low[:, 0]
    points[:5, 0], low[:5, 0] = -0.0, 0.0
    return points, low, high


def skewed(chance: np.random.Generator, axes: int) -> World:
    points, low, high = narrow(chance, axes)
    points[:400] = 0.3 + points[:400] / 1e6
    low[:300] = 0.3 + low[:300] / 1e6
    high[:300] = low[:300] + 1e-7
    points[0], high[0] = 1e300, 1e308
    return points, low, high


def nothing_there(chance: np.random.Generator, axes: int) -> World:
    """NaN on both sides, infinite values, boxes the wrong way round."""
    points, low, high = half_lines(chance, axes)
    places = chance.integers(0, 6, points.shape)
    points = np.where(places == 0, NAN, np.where(places == 1, INF, points))
    points = np.where(places == 2, -INF, points)
    wrong = chance.integers(0, 20, low.shape)
    low = np.where(wrong == 0, NAN, np.where(wrong == 1, INF, low))
    high = np.where(wrong == 2, NAN, np.where(wrong == 3, -INF, high))
    low, high = np.where(wrong == 4, 2.0, low), np.where(wrong == 4, 1.0, high)
    return points, low, high


def unbounded(chance: np.random.Generator, axes: int) -> World:
    return chance.random((50, axes)), np.full((40, axes), -INF), np.full((40, axes), INF)


WORLDS: list[Callable[[np.random.Generator, int], World]] = [
    narrow, half_lines, on_borders, equalities, skewed, nothing_there, unbounded,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axes", [1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("world", WORLDS)
def test_every_way_finds_the_pairs_that_looking_at_each_finds(
    world: Callable[[np.random.Generator, int], World], axes: int, way: str | None
) -> None:
    points, low, high = world(np.random.default_rng(axes), axes)
    check(join_boxes(points, low, high, way), points, low, high)
    check(join_boxes(points, low, high, way, threads=2), points, low, high)


@pytest.mark.parametrize("way", WAYS)
def test_boxes_that_stand_are_asked_again(way: str | None) -> None:
    points, low, high = half_lines(np.random.default_rng(1), 4)
    index = BoxIndex(low, high, way)
    for begin, end in ((0, 1), (1, 2), (2, 30), (30, 30), (0, 260), (7, 8)):
        some = points[begin:end]
        check(index.find(some), some, low, high)


@pytest.mark.parametrize("way", WAYS)
def test_pieces_are_the_same_pairs(way: str | None) -> None:
    points, low, high = half_lines(np.random.default_rng(4), 3)
    found = list(BoxIndex(low, high, way).pieces(points, most=500))
    assert len(found) > 2
    columns = (np.concatenate([piece[side] for piece in found]) for side in (0, 1))
    check(BoxPairs(*columns, found[0].method, found[0].reason), points, low, high)
    assert [len(piece.points) for piece in BoxIndex(low, high, way).pieces(points[:0])] == [0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("points", "boxes"), [(0, 5), (5, 0), (0, 0), (1, 1), (3, 2)])
@pytest.mark.parametrize("axes", [0, 1, 4])
def test_small_sides(axes: int, points: int, boxes: int, way: str | None) -> None:
    some, low, high = np.ones((points, axes)), np.zeros((boxes, axes)), np.ones((boxes, axes))
    found = join_boxes(some, low, high, way)
    check(found, some, low, high)
    assert len(found.points) == points * boxes


@pytest.mark.parametrize("way", WAYS)
def test_more_pairs_than_a_piece_holds(way: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_pairs, "PIECE", 64)
    monkeypatch.setattr(box_clusters, "SIZES", (8,))
    points, low, high = half_lines(np.random.default_rng(2), 2)
    check(join_boxes(points, low, high, way), points, low, high)


@pytest.mark.parametrize("way", WAYS)
def test_the_order_of_pairs_and_other_layouts(way: str | None) -> None:
    points, low, high = narrow(np.random.default_rng(3), 3)
    first, again = (join_boxes(points, low, high, way) for _ in range(2))
    assert np.array_equal(first.points, again.points)
    assert np.array_equal(first.boxes, again.boxes)
    points.setflags(write=False)
    found = join_boxes(np.asfortranarray(points), low[::-1], high[::-1], way)
    check(found, points, low[::-1], high[::-1])


def test_a_way_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="none of scan, hash"):
        BoxIndex(np.zeros((1, 1)), np.ones((1, 1)), "magic")


def test_what_cannot_be_done_is_done_otherwise() -> None:
    points, low, high = unbounded(np.random.default_rng(1), 2)
    for way in ("hash", "bitmaps"):
        found = join_boxes(points, low, high, way)
        assert found.method == "scan"
        assert way in found.reason


value = st.sampled_from([-INF, -1.0, -0.0, 0.0, 0.5, 1.0, 5e-324, 1e308, INF, NAN])
number = st.one_of(value, st.floats(width=64))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    axes = draw(st.integers(0, 5))
    sizes = draw(st.tuples(st.integers(0, 12), st.integers(0, 80)))

    def rows(count: int) -> Floats:
        one = st.lists(number, min_size=axes, max_size=axes)
        found = draw(st.lists(one, min_size=count, max_size=count))
        return np.array(found, np.float64).reshape(count, axes)

    points, low, high = rows(sizes[0]), rows(sizes[1]), rows(sizes[1])
    if draw(st.booleans()):
        low, high = np.fmin(low, high), np.fmax(low, high)
    for axis in draw(st.sets(st.integers(0, axes - 1))) if axes else ():
        high[:, axis] = low[:, axis]
    return points, low, high


@given(worlds(), st.sampled_from(WAYS))
@settings(max_examples=examples(100), deadline=None)
def test_random_worlds(world: World, way: str | None) -> None:
    check(join_boxes(*world, way), *world)
    assert box_join.METHODS == METHODS
