"""Shapes contain what Shapely and the textbook say that they contain."""

import math

import pytest
import shapely
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from place.errors import PlaceError
from place.model.shape import (
    Circle,
    Polygon,
    Rectangle,
    ShapeError,
    contains,
    make_ring,
    parse_wkt,
    rectangle_around,
    settle,
)
from place.model.space import EARTH_RADIUS, Space, measure, measure_of

PLANAR, WGS84 = Space.PLANAR, Space.WGS84
small = st.integers(-6, 6).map(float)
points = st.tuples(small, small)
near = st.integers(-2, 2).map(float)


@settings(max_examples=400, deadline=None)
@given(st.lists(points, min_size=3, max_size=7, unique=True), points, st.booleans())
def test_simple_polygons(
    corners: list[tuple[float, float]], point: tuple[float, float], turn: bool
) -> None:
    theirs = shapely.Polygon(corners)
    assume(theirs.is_valid and theirs.area > 0)
    ring = make_ring(corners[::-1] if turn else corners)
    assert contains(Polygon((ring,)), PLANAR, *point) == theirs.covers(shapely.Point(point))


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(
    st.lists(points, min_size=3, max_size=5, unique=True),
    st.lists(
        st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=3, max_size=3, unique=True
    ),
    points,
)
def test_polygons_with_a_hole(
    outer: list[tuple[float, float]], hole: list[tuple[float, float]], point: tuple[float, float]
) -> None:
    outer = [(3 * x, 3 * y) for x, y in outer]
    theirs = shapely.Polygon(outer, [hole])
    assume(theirs.is_valid and theirs.area > 0)
    shape = Polygon((make_ring(outer), make_ring(hole)))
    assert contains(shape, PLANAR, *point) == theirs.covers(shapely.Point(point))


@given(points, points, points)
def test_rectangles_by_corners_in_any_order(
    one: tuple[float, float], other: tuple[float, float], point: tuple[float, float]
) -> None:
    shape = settle(Rectangle(*one, *other), PLANAR)
    inside = min(one[0], other[0]) <= point[0] <= max(one[0], other[0]) and (
        min(one[1], other[1]) <= point[1] <= max(one[1], other[1])
    )
    assert contains(shape, PLANAR, *point) == inside


def haversine(ax: float, ay: float, bx: float, by: float) -> float:
    a, b = math.radians(ay), math.radians(by)
    h = (
        math.sin((b - a) / 2) ** 2
        + math.cos(a) * math.cos(b) * math.sin(math.radians(bx - ax) / 2) ** 2
    )
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(h)))


longitudes, latitudes = st.floats(-180, 180), st.floats(-90, 90)


@settings(max_examples=300, deadline=None)
@given(longitudes, latitudes, longitudes, latitudes, st.floats(0, 2.1e7))
def test_circles_on_the_sphere(ax: float, ay: float, bx: float, by: float, r: float) -> None:
    distance = haversine(ax, ay, bx, by)
    assume(abs(distance - r) > 1e-3)
    # Near the antipode the haversine itself loses its digits.
    assume(distance < 1.9e7)
    assert contains(Circle(ax, ay, r), WGS84, bx, by) == (distance <= r)


def test_the_two_names_of_a_place_are_one() -> None:
    assert measure(WGS84, 180, 10, -180, 10) == 0
    assert measure(WGS84, 0, 90, 77, 90) == 0
    assert contains(Rectangle(170, -5, 180, 5), WGS84, -180, 0)
    assert contains(Rectangle(-180, -5, -170, 5), WGS84, 180, 0)
    assert contains(Circle(0, 0, math.pi * EARTH_RADIUS), WGS84, 180, 0)
    assert measure_of(WGS84, 3e7) == math.inf


def test_rectangles_across_the_antimeridian() -> None:
    shape = settle(Rectangle(170, 10, -170, -10), WGS84)
    inside = [(170, 0), (180, 0), (-180, 10), (-170, -10), (175, 5)]
    assert all(contains(shape, WGS84, *p) for p in inside)
    assert not any(contains(shape, WGS84, *p) for p in [(169.9, 0), (-169.9, 0), (0, 0), (180, 11)])


def test_polygons_across_the_antimeridian() -> None:
    shape = settle(Polygon((((170, -5), (190, -5), (190, 5), (170, 5)),)), WGS84)
    assert contains(shape, WGS84, -175, 0)
    assert contains(shape, WGS84, 175, 0)
    assert not contains(shape, WGS84, -165, 0)


def test_moving_rectangles_in_metres() -> None:
    degree = EARTH_RADIUS * math.pi / 180
    square = rectangle_around(WGS84, 10, 60, 2 * degree, 2 * degree)
    assert (square.y1, square.y2) == pytest.approx((59, 61))
    assert (square.x1, square.x2) == pytest.approx((8, 12))
    crossing = rectangle_around(WGS84, 179.5, 0, 2 * degree, degree)
    assert (crossing.x1, crossing.x2) == pytest.approx((178.5, -179.5))
    polar = rectangle_around(WGS84, 0, 90, 1000, 1000)
    assert (polar.x1, polar.x2, polar.y2) == (-180, 180, 90)
    assert contains(polar, WGS84, 123, 89.999)


@pytest.mark.parametrize(
    ("shape", "space"),
    [
        (Circle(0, 0, -1), PLANAR),
        (Circle(0, 91, 1), WGS84),
        (Circle(181, 0, 1), WGS84),
        (Rectangle(0, 0, math.inf, 1), PLANAR),
        (Rectangle(0, -91, 1, 1), WGS84),
        (Polygon((((0, 0), (math.nan, 0), (1, 1)),)), PLANAR),
    ],
)
def test_what_is_no_region(shape: Rectangle | Circle | Polygon, space: Space) -> None:
    with pytest.raises(ShapeError):
        settle(shape, space)


def test_wkt() -> None:
    text = "MultiPolygon(((0 0,4 0,4 4,0 0)),((9 9, 1e1 9, 9.5 -.5),(1 1, 2 1, 2 2)))"
    assert len(parse_wkt(text).rings) == 3
    for wrong in (
        "",
        "POINT (1 1)",
        "POLYGON ((0 0, 1 1))",
        "POLYGON ((0 0, 1 x, 2 2))",
        "POLYGON",
    ):
        with pytest.raises(PlaceError):
            parse_wkt(wrong)
