"""Inference is held against brute force: whatever follows is inferred, and nothing else.

Times are tried one by one on a short stretch, places at random. A bound that is inferred for a
distance may be a little too wide, but never too narrow.
"""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.model.space import Space, distance
from place.model.time import SECOND
from place.plan import reach_bounds, time_bounds
from place.plan.bind_trigger import bind_trigger
from place.plan.catalog import Catalog
from place.plan.infer import constraints_of
from place.plan.query import Query
from place.plan.time_bounds import Edge
from place.plan.trigger import ANYWHERE, FOREVER, Constraints, Reach
from place.session import connect
from place.sql.dialect import parse_one
from place.sql.limits import NONE, within
from place.sql.statements import CreateTrigger
from tests.harness.examples import examples

SIZE = 3
FAR = 20
NAMES = ["V1", "V2", "V3", "V4"]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    with connect(runtime="reference") as session:
        session.sql(
            "CREATE STREAM E (id BIGINT KEY, p STRING, v DOUBLE, x DOUBLE, y DOUBLE, ts TIMESTAMP);"
            "CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH (space = 'wgs84');"
            "CREATE TABLE P (kind STRING, seconds DOUBLE, whole BIGINT, d DOUBLE)"
            " AS VALUES ('A', 1, 1, 1)"
        )
        return session.catalog


def bound(catalog: Catalog, sql: str) -> Query:
    statement = parse_one(f"CREATE TRIGGER t {sql}")
    assert isinstance(statement, CreateTrigger)
    return bind_trigger(catalog, statement)


def constraints(catalog: Catalog, sql: str, *rows: tuple[object, ...]) -> Constraints:
    found = constraints_of(bound(catalog, sql), rows)  # type: ignore[arg-type]
    assert found is not None
    return found


# Times

edges = st.lists(
    st.builds(
        lambda pair, most, is_strict: Edge(*pair, most - is_strict, is_strict),
        st.sampled_from(list(itertools.permutations(range(SIZE), 2))),
        st.integers(-3, 3),
        st.booleans(),
    ),
    max_size=8,
)


def assignments(bounds: list[Edge]) -> list[tuple[int, ...]]:
    """All times that fulfil bounds; the first is 0, the others are far enough around it."""
    reach = range(-FAR, FAR + 1)
    return [
        (0, *rest)
        for rest in itertools.product(reach, repeat=SIZE - 1)
        if all((0, *rest)[e.second] - (0, *rest)[e.first] <= e.most for e in bounds)
    ]


@given(edges)
@settings(max_examples=examples(100), deadline=None)
def test_times_that_follow_are_those_of_all_assignments(bounds: list[Edge]) -> None:
    found = assignments(bounds)
    matrix = time_bounds.closed(SIZE, bounds)
    assert (matrix is None) == (not found)
    assert bool(time_bounds.cycle(SIZE, bounds)) == (not found)
    if matrix is None:
        return
    for first, second in itertools.permutations(range(SIZE), 2):
        widest = max(times[second] - times[first] for times in found)
        if matrix[first][second] < FOREVER:
            assert matrix[first][second] == widest
        else:
            assert widest > 3 * SIZE  # further than any bound that could follow


@given(edges)
@settings(max_examples=examples(100), deadline=None)
def test_a_cycle_is_one_and_comes_back_before_it_started(bounds: list[Edge]) -> None:
    circle = time_bounds.cycle(SIZE, bounds)
    if not circle:
        return
    assert sum(edge.most for edge in circle) < 0
    assert all(edge in bounds for edge in circle)
    for edge, onward in zip(circle, [*circle[1:], circle[0]], strict=True):
        assert edge.second == onward.first
    said = time_bounds.in_words(circle, NAMES)
    assert said.count(" after ") == len(circle)


def test_words_of_a_cycle() -> None:
    half = Edge(0, 2, SECOND // 2)
    circle = time_bounds.cycle(3, [half, Edge(2, 1, -SECOND), Edge(1, 0, 0)])
    assert time_bounds.in_words(circle, NAMES) == (
        "V3 is at least 1 s after V2, V2 at least 0 s after V1, and V3 at most 0.5 s after V1"
    )
    strict = time_bounds.cycle(2, [Edge(0, 1, -1, True), Edge(1, 0, -1, True)])
    assert time_bounds.in_words(strict, NAMES) in (
        "V1 is more than 0 s after V2, and V2 more than 0 s after V1",
        "V2 is more than 0 s after V1, and V1 more than 0 s after V2",
    )


@pytest.mark.parametrize(
    ("condition", "least", "most"),
    [
        ("b.t - a.t IN [1, 5]", 1, 5),
        ("b.t - a.t IN (1, 5)", 1, 5),  # two lengths, between which there may be nothing
        ("b.t - a.t IN (1, 5] AND a.t <= b.t", 1.000001, 5),
        ("b.t - a.t IN [1, 5)", 1, 4.999999),
        ("b.t - a.t BETWEEN '1 second' AND INTERVAL '5 seconds'", 1, 5),
        ("a.t - b.t BETWEEN -5 AND -1", 1, 5),
        ("b.ts >= a.ts + INTERVAL '1 second' AND b.ts < a.t + INTERVAL 5 SECONDS", 1, 4.999999),
        ("a.t + INTERVAL '1 second' <= b.t AND b.t - INTERVAL '5 seconds' <= a.t", 1, 5),
        ("a.t = b.t", 0, 0),
        ("b.t - a.t = 2.5", 2.5, 2.5),
        ("ABS(b.t - a.t) <= 3", -3, 3),
        ("3 > ABS(a.t - b.t)", -2.999999, 2.999999),
        ("-(a.t - b.t) <= 5 AND 5 >= a.t - b.t", -5, 5),
        ("(b.t - '2020-01-01') - (a.t - '2020-01-01') IN [0, 1]", 0, 1),
        ("b.t - a.t IN [0.000001, 0.3]", 0.000001, 0.3),
    ],
)
def test_conditions_that_bound_times(
    catalog: Catalog, condition: str, least: float, most: float
) -> None:
    found = constraints(catalog, f"FOR E AS a, E AS b WHEN {condition}")
    assert found.latest[0][1] == round(most * SECOND)
    assert found.latest[1][0] == -round(least * SECOND)
    assert not found.comparisons
    assert len(found.others) == (condition == "b.t - a.t IN (1, 5)")


@given(st.floats(-10, 10), st.sampled_from(["<", "<=", ">", ">=", "="]))
@settings(max_examples=examples(100), deadline=None)
def test_seconds_of_a_table_mean_what_their_quotient_does(seconds: float, op: str) -> None:
    """A bound in seconds, which is a DOUBLE, is a bound in microseconds: none is lost or won."""
    is_upper = op in ("<", "<=", "=")
    most = time_bounds._microseconds(seconds if is_upper else -seconds, op in "<>")
    for size in range(most - 2, most + 3):
        quotient = (size if is_upper else -size) / SECOND
        holds = {
            "<": quotient < seconds,
            "<=": quotient <= seconds,
            ">": quotient > seconds,
            ">=": quotient >= seconds,
            "=": quotient <= seconds,
        }[op]
        assert holds == (size <= most)


def test_bounds_of_a_table(catalog: Catalog) -> None:
    sql = "FOR E AS a, E AS b, P AS p WHEN b.t - a.t IN [0, {}]"
    row = ("A", 0.3, 7, 1.5)
    for column, most in (("p.seconds", 0.3), ("p.whole", 7)):
        found = constraints(catalog, sql.format(column), row)
        assert found.latest[0][1] == round(most * SECOND)
    nothing = ("A", None, None, None)
    assert constraints_of(bound(catalog, sql.format("p.seconds")), [nothing]) is None
    backwards = ("A", -0.1, -1, 0)
    assert constraints_of(bound(catalog, sql.format("p.seconds")), [backwards]) is None


def test_members_of_a_set_follow_each_other(catalog: Catalog) -> None:
    found = constraints(catalog, "FOR E AS V[3] WHEN SPAN(V) <= 5")
    assert found.latest == ((0, 5 * SECOND, 5 * SECOND), (0, 0, 5 * SECOND), (0, 0, 0))


def test_unless_is_bounded_and_bounds_nobody(catalog: Catalog) -> None:
    sql = (
        "FOR E AS a, E AS b WHEN b.t - a.t IN [0, 10] AND DISTANCE(a, b) < 50"
        " UNLESS E AS g WHEN g.t - b.t IN [0, 2] AND g.t - a.t <= 3 AND DISTANCE(g, b) < 5"
        " AND g.p = 'G' AND g.v > a.v AND a.t < b.t"
    )
    found = constraints(catalog, sql)
    inner = constraints(catalog, sql[: sql.index(" UNLESS")])
    assert tuple(row[:2] for row in found.latest[:2]) == inner.latest
    assert tuple(row[:2] for row in found.reaches[:2]) == inner.reaches
    assert found.latest[0][2] == 3 * SECOND
    assert found.latest[1][2] == 2 * SECOND
    assert found.latest[2] == (0, 0, 0)
    assert found.reaches[2][1] == Reach(most=5.0, most_open=True)
    assert found.reaches[2][0].most == pytest.approx(55)
    assert found.unary[2] is not None
    assert len(found.absence) == 2


# Distances

reaches = st.builds(
    lambda least, width, low, high: Reach(least, least + width, low, high),
    st.sampled_from([0.0, 0.0, 0.5, 2.0]),
    st.sampled_from([0.0, 0.5, 1.0, 3.0, math.inf]),
    st.booleans(),
    st.booleans(),
)


@given(
    st.dictionaries(
        st.sampled_from(list(itertools.combinations(range(SIZE), 2))), reaches, max_size=6
    ),
    st.sampled_from(list(Space)),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(60), deadline=None)
def test_what_is_inferred_of_distances_never_loses_a_match(
    given_reaches: dict[tuple[int, int], Reach], space: Space, chance: random.Random
) -> None:
    unit = 1.0 if space is Space.PLANAR else 111_000.0
    matrix = [[ANYWHERE] * SIZE for _ in range(SIZE)]
    for (a, b), r in given_reaches.items():
        scaled = Reach(r.least * unit, r.most * unit, r.least_open, r.most_open)
        matrix[a][b] = matrix[b][a] = scaled
    found = reach_bounds.closed(matrix, space)
    size = 1.5 if space is Space.PLANAR else 1.6
    for _ in range(50):
        places = [
            (chance.choice([179.5, 180.0, -180.0, 0.0]) * (space is Space.WGS84), 0.0)
            if chance.random() < 0.2
            else (chance.uniform(-size, size), chance.uniform(-size, size))
            for _ in range(SIZE)
        ]
        pairs = list(itertools.combinations(range(SIZE), 2))
        lengths = {(a, b): distance(space, *places[a], *places[b]) for a, b in pairs}
        if all(_fits(lengths[pair], matrix[pair[0]][pair[1]]) for pair in pairs):
            assert all(_fits(lengths[pair], found[pair[0]][pair[1]]) for pair in pairs)


def _fits(length: float, reach: Reach) -> bool:
    above = length > reach.least if reach.least_open else length >= reach.least
    below = length < reach.most if reach.most_open else length <= reach.most
    return above and below


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=5), st.sampled_from(list(Space)))
@settings(max_examples=examples(100), deadline=None)
def test_places_in_a_row_are_as_far_as_their_distances_together(
    steps: list[float], space: Space
) -> None:
    """The worst case: on a line nothing is left between what is and what is inferred."""
    scale = 1.0 if space is Space.PLANAR else 1e-5
    marks = list(itertools.accumulate((step * scale for step in steps), initial=0.0))
    count = len(marks)
    matrix = [[ANYWHERE] * count for _ in range(count)]
    for i in range(count - 1):
        length = distance(space, marks[i], 0.0, marks[i + 1], 0.0)
        matrix[i][i + 1] = matrix[i + 1][i] = Reach(length, length)
    found = reach_bounds.closed(matrix, space)
    for i, j in itertools.combinations(range(count), 2):
        assert _fits(distance(space, marks[i], 0.0, marks[j], 0.0), found[i][j])
    whole = found[0][count - 1].most
    together = sum(matrix[i][i + 1].most for i in range(count - 1))
    if together < reach_bounds.FAR:
        assert whole == pytest.approx(together, rel=1e-8, abs=1e-5)


def test_what_is_far_from_a_neighbour_is_far(catalog: Catalog) -> None:
    found = constraints(
        catalog,
        "FOR E AS a, E AS b, E AS c WHEN DISTANCE(a, b) > 10 AND DISTANCE(c, b) < 3"
        " AND DISTANCE(a, c) <= 100 WITHIN '1 second'",
    )
    assert found.reaches[0][2].least == pytest.approx(7)
    assert found.reaches[0][2].most == 100
    assert found.reaches[0][1] == Reach(10.0, pytest.approx(103), True, False)


def test_near_the_antipode_nothing_is_inferred(catalog: Catalog) -> None:
    found = constraints(
        catalog,
        "FOR Ships AS a, Ships AS b, Ships AS c WHEN DISTANCE(a, b) < 9000000"
        " AND DISTANCE(b, c) < 9000000 WITHIN '1 second'",
    )
    assert found.reaches[0][2] == ANYWHERE


# Where conditions go


def test_which_condition_goes_where(catalog: Catalog) -> None:
    found = constraints(
        catalog,
        "FOR E AS a, E AS b, E AS c WHEN a.p = 'A' AND a.v > 5 AND b.t > '2020-01-01'"
        " AND a.id = b.id AND b.v > a.v + 5 AND a.t <> b.t AND a.v - b.v > 5"
        " AND (a.p = 'A' OR b.p = 'B') AND DISTANCE(a, POINT (0, 0)) < 5 AND DISTANCE(a, b) >= 0"
        " AND DISTANCE(a, b) <> 7 AND a.v + b.v > c.v AND 1 < 2 WITHIN '1 minute'",
    )
    assert [unary is not None for unary in found.unary] == [True, True, False]
    assert [(each.first, each.op, each.second) for each in found.comparisons] == [
        (0, "=", 1),
        (1, ">", 0),
        (0, "<>", 1),
    ]
    assert len(found.others) == 5
    assert found.reaches[0][1] == ANYWHERE


def test_what_is_never_true_has_no_constraints(catalog: Catalog) -> None:
    with within(NONE):  # a catalog that is read again takes what it once took
        for when in (
            "a.p = 'A' AND 1 > 2",
            "b.t - a.t < 0 AND a.t < b.t",
            "DISTANCE(a, b) < 1 AND DISTANCE(b, a) > 2",
        ):
            query = bound(catalog, f"FOR E AS a, E AS b WHEN {when} WITHIN '1 second'")
            assert constraints_of(query) is None
