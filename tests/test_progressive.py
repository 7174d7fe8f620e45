"""Exact shapes in the kernels: laid out, tested pair by pair, and met by readings one by one.

The model says what is in a shape. Positions and corners lie on a coarse lattice, so that points
are often on an edge, a corner or a circle, on the antimeridian and at the poles.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from place.engine.layout import Polygons, lay_out
from place.kernels import moving_regions, progressive
from place.kernels.inside import CIRCLE, NONE, inside_pairs, inside_shapes, unit_vectors
from place.kernels.moving_regions import lay_around_sphere, lay_rectangles_sphere
from place.kernels.progressive import SHIFTS, STAYS, Events, Shapes, match_progressive
from place.model import space as model
from place.model.shape import Circle, Polygon, Rectangle, Shape, contains, rectangle_around
from place.model.space import Space

Floats = NDArray[np.float64]
INF, NAN = np.inf, np.nan
LONGITUDES = [-180.0, 180.0, 179.9999, -179.9999, 0.0, -0.0, 90.0, 179.99999999, 12.5]
LATITUDES = [-90.0, 90.0, 89.9999, -89.9999, 0.0, -0.0, 60.0, 89.999999999999, -45.0]
LENGTHS = [0.0, 1e-6, 1.0, 1e3, 1e5, 5e6, 1e7, 1.00075e7, 2e7, 2.0015e7, 2.0016e7, 4.1e7, 1e12, INF]


def a_point(space: Space, chance: np.random.Generator) -> tuple[float, float]:
    """A point of the lattice."""
    if space is Space.PLANAR:
        return float(chance.integers(0, 9)), float(chance.integers(0, 9))
    x = chance.choice([-180.0, -177.0, -175.0, 0.0, 2.0, 5.0, 175.0, 177.0, 180.0])
    return float(x), float(chance.choice([-90.0, -5.0, 0.0, 5.0, 80.0, 90.0]))


def a_shape(space: Space, chance: np.random.Generator) -> Shape | None:
    """A shape whose corners, or centre and a point of its edge, are on the lattice; or none."""
    kind = chance.integers(0, 8)
    (x, y), (u, v) = a_point(space, chance), a_point(space, chance)
    if kind == 0:
        return None
    if kind < 3:
        if space is Space.PLANAR:
            return Rectangle(min(x, u), min(y, v), max(x, u), max(y, v))
        if kind == 1:
            return rectangle_around(space, x, y, *chance.choice([0.0, 5e5, 1e6, 3e7], 2))
        return Rectangle(x, min(y, v), u, max(y, v))
    if kind < 5:
        degree = 1.0 if space is Space.PLANAR else model.METRES_PER_DEGREE
        return Circle(x, y, float(chance.choice([0.0, 1.0, 2.0, 3.0, 5.0, 100.0, 200.0])) * degree)
    return a_polygon(space, chance)


def a_polygon(space: Space, chance: np.random.Generator) -> Polygon:
    """A triangle, or a square that has one or two holes; on the sphere it may pass 180."""
    x, y = float(chance.integers(0, 5)), float(chance.integers(0, 5))
    if space is Space.WGS84:
        x, y = float(chance.choice([-182.0, -2.0, 172.0, 175.0, 180.0, 355.0])), y - 5.0
    if chance.random() < 0.4:
        return Polygon((((x, y), (x + 6, y + 1), (x + 3, y + 5)),))
    rings = [((x, y), (x + 8, y), (x + 8, y + 8), (x, y + 8))]
    rings.append(((x + 1, y + 1), (x + 2, y + 4), (x + 5, y + 1)))
    if chance.random() < 0.5:
        rings.append(((x + 6, y + 6), (x + 6, y + 7), (x + 7, y + 7), (x + 7, y + 6)))
    return Polygon(tuple(rings))


def test_regions_on_the_sphere_are_laid_out_as_the_model_says() -> None:
    """To the last bit: regions around points, which fixed circles are too, and rectangles."""
    assert moving_regions.EARTH_RADIUS == model.EARTH_RADIUS
    assert moving_regions.METRES_PER_DEGREE == model.METRES_PER_DEGREE
    chance, count = np.random.default_rng(0), 20_000
    rows = chance.permutation(count)
    centers = np.stack([chance.uniform(-180, 180, count), chance.uniform(-90, 90, count)], axis=1)
    special = chance.random((count, 2)) < 0.4
    centers[special[:, 0], 0] = chance.choice(LONGITUDES, special[:, 0].sum())
    centers[special[:, 1], 1] = chance.choice(LATITUDES, special[:, 1].sum())
    extents = 10.0 ** chance.uniform(-3, 7.6, (count, 2))
    special = chance.random((count, 2)) < 0.3
    extents[special] = chance.choice(LENGTHS, special.sum())
    extents[chance.random(count) < 0.5, 1] = NAN
    extents[:50, 0] = centers[50:100] = NAN
    chosen = np.where(chance.random(count) < 0.1, -1, rows)
    kinds, params, boxes = np.empty(count, np.uint8), np.empty((count, 4)), np.empty((count, 2, 4))
    lay_around_sphere(rows, chosen, centers, extents, boxes, kinds, params)
    centers[rows[chosen < 0]] = NAN
    shapes = [_around(*row) for row in np.hstack([centers, extents]).tolist()]
    _assert_same(lay_out(shapes, Space.WGS84, Polygons()), (kinds, params, boxes))
    assert (~np.isnan(boxes[:, 1])).all(axis=1).sum() > count / 20
    corners = np.hstack([centers, centers[rows]])
    corners[:, [1, 3]] = np.sort(corners[:, [1, 3]], axis=1)
    lay_rectangles_sphere(np.arange(count), corners, boxes, kinds, params)
    shapes = [None if np.isnan(row).any() else Rectangle(*row) for row in corners]
    _assert_same(lay_out(shapes, Space.WGS84, Polygons()), (kinds, params, boxes))


def _around(x: float, y: float, one: float, other: float) -> Shape | None:
    if np.isnan(x) or np.isnan(one):
        return None
    return Circle(x, y, one) if np.isnan(other) else rectangle_around(Space.WGS84, x, y, one, other)


def _assert_same(expected: tuple[NDArray, ...], found: tuple[NDArray, ...]) -> None:
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


@pytest.mark.parametrize("space", Space)
def test_pairs_are_decided_as_the_model_says(space: Space) -> None:
    chance, polygons = np.random.default_rng(1), Polygons()
    shapes = [a_shape(space, chance) for _ in range(300)]
    xy = np.array([a_point(space, chance) for _ in range(200)])
    xy[::17] = NAN
    kinds, params, _ = lay_out(shapes, space, polygons)
    boxes, points = chance.integers(0, 300, 20_000), chance.integers(0, 200, 20_000)
    expected = np.array(
        [
            shapes[b] is not None and p % 17 != 0 and contains(shapes[b], space, *xy[p].tolist())
            for b, p in zip(boxes.tolist(), points.tolist(), strict=True)
        ]
    )
    assert 0.1 < expected.mean() < 0.9
    every = inside_shapes(
        xy[points, 0], xy[points, 1], kinds[boxes], params[boxes], *polygons.arrays()
    )
    np.testing.assert_array_equal(every, expected)
    vectors = unit_vectors(xy[:, 0], xy[:, 1])
    for index in (np.int32, np.int64):
        for given in (vectors, np.empty((0, 3))):
            out = np.empty(len(boxes), np.bool_)
            rows, whose = boxes.astype(index), points.astype(index)
            inside_pairs(rows, whose, xy, given, kinds, params, *polygons.arrays(), out)
            np.testing.assert_array_equal(out, expected)
    kinds[:] = NONE
    inside_pairs(boxes, points, xy, vectors, kinds, params, *polygons.arrays(), out)
    np.testing.assert_array_equal(out, points % 17 != 0)


@dataclass(frozen=True)
class Row:
    """A box with its exact shape, as arrays and as the model say it (None: the box decides)."""

    box: tuple[float, ...]
    kind: int
    params: tuple[float, ...]
    shape: Shape | None


Place = tuple[float, float]


def some_rows(
    space: Space, count: int, polygons: Polygons, chance: np.random.Generator, *, exact: bool
) -> list[Row]:
    """Rows of shapes: of those with two boxes one of both, some nowhere, some of kind NONE; all of
    that kind where none is to be exact."""
    shapes = [a_shape(space, chance) for _ in range(count)]
    kinds, params, boxes = lay_out(shapes, space, polygons)
    rows = []
    for i, shape in enumerate(shapes):
        box = boxes[i, chance.integers(0, 4) % boxes.shape[1]]
        fate = chance.random()
        if fate < 0.1:
            box = np.full(4, NAN)
        if 0.1 < fate < 0.2 or not exact:
            rows.append(Row(tuple(box.tolist()), NONE, (NAN,) * 4, None))
            continue
        rows.append(Row(tuple(box.tolist()), int(kinds[i]), tuple(params[i].tolist()), shape))
    return rows


@cache
def holds(row: Row, space: Space, place: Place) -> bool:
    (x1, y1, x2, y2), (x, y) = row.box, place
    if not (x1 <= x <= x2 and y1 <= y <= y2):
        return False
    if row.kind == NONE:
        return True
    return row.shape is not None and contains(row.shape, space, x, y)


@dataclass
class Story:
    """Where points and boxes are at first, and what readings do to them."""

    space: Space
    polygons: Polygons
    positions: list[Place]
    rows: list[Row]
    flags: list[int]
    readings: list[tuple[int, Place, list[tuple[int, Row]]]]

    def take(self, *, exact: bool, visiting: bool) -> Events:
        """What the kernel says; it has to leave all arrays as the last reading does."""
        moves = [move for _, _, some in self.readings for move in some]
        counts = [len(some) for _, _, some in self.readings]
        boxes, kinds, params = _arrays(self.rows)
        move_to, move_kinds, move_params = _arrays([row for _, row in moves])
        positions = np.array(self.positions if not visiting else [], np.float64).reshape(-1, 2)
        shapes = Shapes(kinds, params, move_kinds, move_params, *self.polygons.arrays())
        events = match_progressive(
            positions,
            boxes,
            np.array(self.flags, np.uint8),
            np.array([slot for slot, _, _ in self.readings], np.int32),
            np.array([to for _, to, _ in self.readings], np.float64).reshape(-1, 2),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.array([number for number, _ in moves], np.int32),
            move_to,
            shapes if exact else None,
            visiting=visiting,
        )
        last, rows = self.positions.copy(), self.rows.copy()
        for slot, to, some in self.readings:
            if slot >= 0:
                last[slot] = to
            for number, row in some:
                rows[number] = row
        left = (positions, boxes, kinds, params)
        for found, expected in zip(left, (np.array(last), *_arrays(rows)), strict=True):
            if len(found):
                np.testing.assert_array_equal(found, expected)
        return events

    def told(self) -> Iterator[tuple[int, int, int, int]]:
        """What all pairs say, looked at after each reading."""
        positions, rows = self.positions.copy(), self.rows.copy()
        before = self._truth(rows, positions)
        for i, (slot, to, moves) in enumerate(self.readings):
            if slot >= 0:
                positions[slot] = to
            for number, row in moves:
                rows[number] = row
            named = {number for number, _ in moves}
            now = self._truth(rows, positions)
            for number, point in np.argwhere(now | before).tolist():
                flags, code = self.flags[number], now[number, point] + 2 * before[number, point]
                stays = point == slot and flags & STAYS
                if code != 3 or stays or (number in named and flags & SHIFTS):
                    yield i, number, point, code
            before = now

    def told_visitors(self) -> Iterator[tuple[int, int, int, int]]:
        """The same where each point comes and vanishes."""
        rows = self.rows.copy()
        for i, (slot, to, moves) in enumerate(self.readings):
            for number, row in moves:
                rows[number] = row
            for number in np.flatnonzero(self._truth(rows, [to])[:, 0] & (slot >= 0)).tolist():
                yield i, number, slot, 1

    def _truth(self, rows: list[Row], positions: list[Place]) -> NDArray[np.bool_]:
        return np.array([[holds(row, self.space, place) for place in positions] for row in rows])


def _arrays(rows: list[Row]) -> tuple[Floats, NDArray[np.uint8], Floats]:
    boxes = np.array([row.box for row in rows], np.float64).reshape(-1, 4)
    params = np.array([row.params for row in rows], np.float64).reshape(-1, 4)
    return boxes, np.array([row.kind for row in rows], np.uint8), params


def a_story(space: Space, readings: int, chance: np.random.Generator, *, exact: bool) -> Story:
    """Points go, come and stay; boxes move alone, some twice at once, or all together."""
    polygons = Polygons()

    def place() -> Place:
        return (NAN, NAN) if chance.random() < 0.1 else a_point(space, chance)

    positions = [place() for _ in range(40)]
    rows = some_rows(space, 60, polygons, chance, exact=exact)
    told = []
    for _ in range(readings):
        moved = chance.integers(0, 60, chance.choice([0, 0, 0, 1, 2, 60])).tolist()
        taken = some_rows(space, len(moved), polygons, chance, exact=exact)
        moves = list(zip(moved, taken, strict=True))
        told.append((int(chance.integers(-1, 40)), place(), moves))
    return Story(space, polygons, positions, rows, chance.integers(0, 4, 60).tolist(), told)


@pytest.fixture(params=["one square, one chunk", "a grid, many chunks"])
def _grids(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds are small: the join has to be told that a grid is worth it."""
    if request.param == "a grid, many chunks":
        monkeypatch.setattr(progressive, "FEW", 0)
        monkeypatch.setattr(progressive, "CHUNK", 1)


def as_set(events: Events) -> set[tuple[int, int, int, int]]:
    assert (np.diff(events.reading) >= 0).all()
    listed = list(zip(*(column.tolist() for column in events), strict=True))
    assert len(set(listed)) == len(listed), "a pair is reported twice"
    return set(listed)


@pytest.mark.usefixtures("_grids")
@pytest.mark.parametrize("visiting", [False, True])
@pytest.mark.parametrize(
    ("space", "exact"), [(Space.PLANAR, True), (Space.WGS84, True), (Space.WGS84, False)]
)
@pytest.mark.parametrize("readings", [1, 120])
def test_readings_meet_shapes_as_the_model_says(
    space: Space, visiting: bool, readings: int, exact: bool
) -> None:
    codes = set()
    for seed in range(3 if readings > 1 else 20):
        story = a_story(space, readings, np.random.default_rng(seed), exact=exact)
        found = as_set(story.take(exact=exact, visiting=visiting))
        expected = set(story.told_visitors() if visiting else story.told())
        assert found == expected
        codes |= {code for *_, code in found}
    assert codes == ({1} if visiting else {1, 2, 3})


@pytest.mark.parametrize("visiting", [False, True])
def test_a_reading_may_have_any_number_of_events(visiting: bool) -> None:
    """Thousands of circles come to where the points are, and go, at one reading each."""
    count, crowd = 5000, 20
    row = Row((-2.0, -2.0, 2.0, 2.0), CIRCLE, (0.0, 0.0, 1.0, 0.0), Circle(0, 0, 1))
    away = Row((8.0, -2.0, 12.0, 2.0), CIRCLE, (10.0, 0.0, 1.0, 0.0), Circle(10, 0, 1))
    readings = [
        (0, (0.0, 1.0), [(number, kept) for number in range(count)]) for kept in (away, row, away)
    ]
    positions = [(0.0, 0.0)] * crowd
    story = Story(Space.PLANAR, Polygons(), positions, [away] * count, [0] * count, readings)
    events = story.take(exact=True, visiting=visiting)
    assert len(as_set(events)) == (count if visiting else 2 * count * crowd)
    assert np.bincount(events.reading, minlength=3).tolist() == (
        [0, count, 0] if visiting else [0, count * crowd, count * crowd]
    )
