"""Ways: kernels against their definition, and the definition against Shapely and brute force."""

from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray

from place.engine.area_table import Line, area_of, text_of
from place.engine.columns import Dictionary, Vector
from place.engine.vector_ways import Areas, closest, crossings, nears, sweeps
from place.engine.way_boxes import MARGIN, way_boxes_of
from place.kernels.paths import boxes_of_ways, places_ahead
from place.model.path import (
    closest_approach,
    edges_of_line,
    first_meeting,
    is_near,
    place_ahead,
    way_meets,
)
from place.model.shape import Circle, Polygon, Rectangle, Shape
from place.model.space import Space
from place.model.types import Type
from place.plan.expression import Column, Crossing, Expression, IsNull, Not, Sweeps

STAR = Polygon((((0.0, 0.0), (4.0, 1.0), (8.0, 0.0), (6.0, 4.0), (8.0, 8.0), (2.0, 6.0)),))
HOLED = Polygon((*STAR.rings, ((3.0, 3.0), (4.0, 3.0), (4.0, 4.0), (3.0, 4.0))))
SHAPES: list[Shape] = [Rectangle(2, 2, 5, 6), Circle(4, 4, 2.5), STAR, HOLED]
LINE = ((1.0, 1.0), (4.0, 6.0), (7.0, 1.0))


def column(index: int, kind: Type = Type.DOUBLE) -> Column:
    return Column(0, index, kind, f"c{index}")


PLACES = (column(0), column(1), column(2), column(3))


def some_ways(space: Space, count: int = 4000) -> NDArray[Any]:
    """Ways between places of a coarse grid, so that many end on edges, and between any places."""
    rng = np.random.default_rng(5)
    places = rng.uniform(-1, 9, (count, 4))
    places[::2] = np.round(places[::2])
    if space is Space.WGS84:
        places[:, ::2] = (places[:, ::2] + 176 + 180) % 360 - 180
    return places


def vectors(ways: NDArray[Any]) -> list[Vector]:
    no = np.zeros(len(ways), np.bool_)
    return [Vector(np.ascontiguousarray(ways[:, i]), no) for i in range(4)]


def one(area: Shape | Line, space: Space) -> Areas:
    """An area that all ways are asked about; others are known beside it."""
    dictionary = Dictionary()
    Areas.one(STAR, space, dictionary)
    return Areas.one(area_of(text_of(area, space))[0], space, dictionary)


def shown(shape: Shape) -> shapely.Geometry:
    if isinstance(shape, Rectangle):
        return shapely.box(shape.x1, shape.y1, shape.x2, shape.y2)
    if isinstance(shape, Circle):
        return shapely.Point(shape.x, shape.y)
    return shapely.Polygon(shape.rings[0], shape.rings[1:])


@pytest.mark.parametrize("shape", SHAPES, ids=["rectangle", "circle", "star", "hole"])
def test_a_way_meets_a_region_where_shapely_says_so(shape: Shape) -> None:
    ways = some_ways(Space.PLANAR)
    lines = shapely.linestrings(ways.reshape(-1, 2, 2))
    if isinstance(shape, Circle):
        far = shapely.distance(lines, shown(shape)) - shape.r
        expected, doubt = far <= 0, np.abs(far) < 1e-9
    else:
        expected = shapely.intersects(lines, shown(shape))
        doubt = shapely.distance(shapely.boundary(shown(shape)), lines) < 1e-9
        doubt &= ~shapely.intersects(shapely.buffer(shown(shape), -1e-9), lines)
    found = [way_meets(shape, Space.PLANAR, (w[0], w[1]), (w[2], w[3])) for w in ways]
    assert 500 < np.count_nonzero(expected) < 3500
    np.testing.assert_array_equal(np.array(found)[~doubt], expected[~doubt])


@pytest.mark.parametrize("shape", SHAPES, ids=["rectangle", "circle", "star", "hole"])
def test_a_place_is_near_a_region_where_shapely_says_so(shape: Shape) -> None:
    places = some_ways(Space.PLANAR)[:, :2]
    far = shapely.distance(shapely.points(places), shown(shape))
    far -= shape.r if isinstance(shape, Circle) else 0
    found = np.array([is_near(shape, Space.PLANAR, x, y, 1.5) for x, y in places.tolist()])
    doubt = np.abs(far - 1.5) < 1e-9
    assert 300 < np.count_nonzero(found) < 3700
    np.testing.assert_array_equal(found[~doubt], (far <= 1.5)[~doubt])
    got = nears(*vectors(np.hstack([places] * 2))[:2], one(shape, Space.PLANAR), 1.5)
    np.testing.assert_array_equal(got.values, found)


@pytest.mark.parametrize("ahead", [None, 3_000_000])
@pytest.mark.parametrize("space", list(Space))
def test_columns_of_ways_are_as_one_by_one(space: Space, ahead: int | None) -> None:
    ways = some_ways(space)
    east = 176.0 if space is Space.WGS84 else 0.0
    shapes: list[Shape] = [
        Circle(180.0 if east else 4.0, 4.0, 300_000.0 if east else 2.5),
        Polygon(tuple(tuple((x + east, y) for x, y in ring) for ring in HOLED.rings)),
        Rectangle(178.0, 2.0, -178.0, 6.0) if east else Rectangle(2, 2, 5, 6),
    ]
    since = np.arange(len(ways)) % 4 * 1_000_000
    unknown = np.arange(len(ways)) % 7 == 0
    parts = vectors(ways)
    parts[0] = Vector(parts[0].values, unknown)
    parts.append(Vector(since, unknown))
    for shape in shapes:
        got = sweeps(parts, one(shape, space), ahead)
        for i, (bx, by, x, y) in enumerate(ways.tolist()):
            before = (x, y) if unknown[i] else (bx, by)
            a, b = before, (x, y)
            if ahead is not None:
                passed = 0 if unknown[i] else int(since[i])
                a, b = (x, y), place_ahead(space, before, (x, y), passed, ahead)
            assert bool(got.values[i]) == way_meets(shape, space, a, b), (shape, a, b)
        assert 100 < np.count_nonzero(got.values) < len(ways) - 100


@pytest.mark.parametrize("space", list(Space))
def test_lines_are_crossed_where_they_are_first_met(space: Space) -> None:
    ways = some_ways(space)
    east = 176.0 if space is Space.WGS84 else 0.0
    line = tuple((x + east, y) for x, y in LINE)
    got = crossings(vectors(ways), one(line, space))
    edges = edges_of_line(line)
    for i, (ax, ay, bx, by) in enumerate(ways.tolist()):
        found = first_meeting(edges, space, (ax, ay), (bx, by), at_start=False)
        assert got.nulls[i] == (found < 0)
        if found >= 0:
            assert got.values[i] == found
    if space is Space.PLANAR:
        lines = shapely.linestrings(ways[1::2].reshape(-1, 2, 2))
        met = shapely.intersects(lines, shapely.LineString(LINE))
        np.testing.assert_array_equal(~got.nulls[1::2], met)


@pytest.mark.parametrize("ahead", [None, 3_000_000])
@pytest.mark.parametrize("space", list(Space))
def test_a_way_that_meets_an_area_meets_its_box(space: Space, ahead: int | None) -> None:
    """And far fewer ways meet the box than there are."""
    ways, parts = some_ways(space), vectors(some_ways(space))
    since = np.arange(len(ways)) % 4 * 1_000_000
    parts.append(Vector(since, np.zeros(len(ways), np.bool_)))
    starts, ends = ways[:, :2], ways[:, 2:]
    sphere = space is Space.WGS84
    if ahead is not None:
        ends = np.stack(places_ahead(*ways.T.copy(), since, ahead, sphere), axis=1)
        starts = ways[:, 2:]
    boxes = boxes_of_ways(*starts.T.copy(), *ends.T.copy(), sphere, MARGIN)
    east = 176.0 if sphere else 0.0
    shapes: list[Shape] = [
        Circle(180.0 if east else 4.0, 4.0, 200_000.0 if east else 1.5),
        Polygon((((7 + east, 2.0), (8 + east, 3.0), (7 + east, 4.0)),)),
        Rectangle(178.0, 2.0, -178.0, 3.0) if east else Rectangle(2, 2, 3, 6),
    ]
    line = ((2.0 + east, 1.0), (3.0 + east, 2.0))
    asked: list[tuple[Expression, NDArray[Any]]] = []
    for shape in shapes:
        way = Sweeps(*PLACES, column(4, Type.INTERVAL), shape, space, ahead)
        asked.append((way, sweeps(parts, one(shape, space), ahead).values))
    if ahead is None:
        way_met = ~crossings(parts[:4], one(line, space)).nulls
        asked.append((Not(IsNull(Crossing(*PLACES, line, space))), way_met))
    for condition, met in asked:
        found = way_boxes_of(condition, 0)
        assert found is not None
        near = np.zeros(len(ways), np.bool_)
        for x1, y1, x2, y2 in found.boxes:
            near |= (
                (boxes[:, 0] <= x2)
                & (x1 <= boxes[:, 2])
                & ((boxes[:, 1] <= y2) & (y1 <= boxes[:, 3]))
            )
        assert met.any()
        assert not (met & ~near).any()
        assert near.sum() < len(ways)
    assert way_boxes_of(Not(asked[0][0]), 0) is None
    assert way_boxes_of(asked[0][0], 1) is None


@pytest.mark.parametrize("space", list(Space))
def test_objects_come_as_near_as_a_dense_search_finds(space: Space) -> None:
    rng = np.random.default_rng(3)
    count, ahead = 200, 60_000_000
    spread = 100.0 if space is Space.PLANAR else 0.2
    ones, others = (rng.uniform(0, spread, (count, 4)) for _ in range(2))
    since = rng.integers(1, 9, (2, count)) * 1_000_000
    times = rng.integers(0, 9, (2, count)) * 1_000_000
    no = np.zeros(count, np.bool_)
    arguments: list[Vector] = []
    for each, (places, own) in enumerate(((ones, since[0]), (others, since[1]))):
        arguments += [*vectors(places), Vector(own, no), Vector(times[each], no)]
    got, nulls = closest(space, ahead, arguments)
    assert not nulls.any()
    for i in range(count):
        movings: list[Any] = [
            (*places[i].tolist(), int(since[k][i]), int(times[k][i]))
            for k, places in enumerate((ones, others))
        ]
        one, other = movings
        assert got[i] == closest_approach(space, one, other, ahead)
        start = max(one[5], other[5])
        steps = start + np.linspace(0, ahead, 6001)
        where = []
        for x0, y0, x, y, passed, at in (one, other):
            factor = (steps - at) / passed
            where.append((x + (x - x0) * factor, y + (y - y0) * factor))
        dx, dy = where[1][0] - where[0][0], where[1][1] - where[0][1]
        if space is Space.WGS84:
            dx, dy = dx * np.cos(np.radians(one[3])) * 111195.08, dy * 111195.08
        searched = np.hypot(dx, dy).min()
        step = np.hypot(np.diff(dx), np.diff(dy)).max()
        assert got[i] == pytest.approx(searched, rel=2e-2, abs=step + 1e-6)
