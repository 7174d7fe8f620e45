"""CPA as sides: whoever comes near enough is found, in the plane and everywhere on the sphere."""

import numpy as np
import pytest
from numpy.typing import NDArray

from place.engine.approach_sides import Horizon
from place.engine.columns import Columns, Dictionary
from place.engine.sides import boxes_of_rows, points_of, sides_of
from place.engine.vector import holds
from place.kernels.box_join import join_boxes
from place.model import schema
from place.model.space import Space
from place.model.types import Type
from place.plan.expression import Call, Column, Compare, Constant, Expression
from place.plan.functions import APPROACH
from place.session import connect

MINUTE = 60_000_000
AHEAD = 10 * MINUTE
TYPES = (Type.DOUBLE,) * 4 + (Type.BIGINT, Type.TIMESTAMP)
COUNT = 400
CPA = "CPA(a, b, '10 minutes')"

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


def within(space: Space, length: float) -> Compare:
    arguments: list[Expression] = [
        Column(source, i, kind, f"{'ab'[source]}.c{i}")
        for source in (0, 1)
        for i, kind in enumerate(TYPES)
    ]
    call = Call(f"{APPROACH}{space.value} {AHEAD}", tuple(arguments), Type.DOUBLE)
    return Compare("<=", call, Constant(length, Type.DOUBLE))


def objects(places: Numbers, since: Whole, times: Whole, unknown: NDArray[np.bool_]) -> Columns:
    columns = tuple(schema.Column(f"c{i}", kind) for i, kind in enumerate(TYPES))
    rows = Columns(columns, Dictionary(), len(places))
    for i, values in enumerate([*places.T, since, times]):
        rows.values[i][:] = values
        rows.nulls[i][:] = unknown if i in (0, 1, 4) else False
    rows.nulls[3][::53] = True
    rows.nulls[5][7::53] = True
    return rows


def drawn(space: Space, where: str, seed: int) -> Columns:
    """Objects that were somewhere and went on, some of them long ago, far, or not at all."""
    rng = np.random.default_rng(seed)
    now = rng.uniform(0, 20_000, (COUNT, 2))
    step = rng.normal(0, 300, (COUNT, 2))
    if space is Space.WGS84:
        middle = {"equator": 0.0, "north": 60.0, "pole": 89.9, "south": -84.9}[where]
        now = np.stack([rng.normal(180, 0.3, COUNT), rng.normal(middle, 0.2, COUNT)], axis=1)
        if where == "pole":
            now[:, 0] = rng.uniform(-180, 180, COUNT)
        step = rng.normal(0, 0.005, (COUNT, 2))
        now[:, 1] = np.clip(now[:, 1], -90, 90)
    step[rng.random(COUNT) < 0.2] = 0.0
    step[rng.random(COUNT) < 0.05] *= 100.0
    before = now - step
    if space is Space.WGS84:
        before[:, 1] = np.clip(before[:, 1], -90, 90)
        now[:, 0], before[:, 0] = ((x[:, 0] + 180) % 360 - 180 for x in (now, before))
    times = rng.integers(0, 2, COUNT) * MINUTE // 2
    times[rng.random(COUNT) < 0.1] -= rng.integers(1, 100) * MINUTE
    times[0] = MINUTE
    since = rng.integers(0, 4, COUNT) * MINUTE
    return objects(np.hstack([before, now]), since, times, rng.random(COUNT) < 0.1)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("space", "where", "length"),
    [
        (Space.PLANAR, "", 100.0),
        (Space.PLANAR, "", 0.0),
        (Space.WGS84, "equator", 300.0),
        (Space.WGS84, "north", 300.0),
        (Space.WGS84, "pole", 300.0),
        (Space.WGS84, "south", 300.0),
        (Space.WGS84, "south", 150_000.0),
    ],
)
def test_pairs_that_come_near_have_ways_that_meet(
    space: Space, where: str, length: float, seed: int
) -> None:
    rows = [drawn(space, where, 2 * seed), drawn(space, where, 2 * seed + 1)]
    dictionary, condition = rows[0].dictionary, within(space, length)
    horizon = Horizon()
    # One reading is later than the horizon: its object may come near to anybody.
    horizon.reach(MINUTE - 1 - AHEAD // 4, AHEAD)
    horizon.reach(MINUTE - 1, 0)
    assert horizon.time == MINUTE - 1
    one, other = (grid.ravel() for grid in np.indices((COUNT, COUNT)))
    pairs = [rows[0].take(one), rows[1].take(other)]
    expected = holds(condition, pairs, len(one), dictionary)
    if length:
        assert 50 < np.count_nonzero(expected) < len(one)
    for new in (0, 1):
        sides = sides_of([condition], frozenset((1 - new,)), new)
        assert sides.width == (4 if space is Space.PLANAR else 6)
        both: list[Columns | None] = [*rows]
        points = points_of(sides, both, COUNT, dictionary, horizon).places
        boxes = boxes_of_rows(sides, both, COUNT, dictionary, horizon)
        met = join_boxes(points, boxes.low, boxes.high)
        found = np.zeros((COUNT, COUNT), np.bool_)
        found[met.points, met.boxes] = True
        if sides.new_is_box == (new == 0):
            found = found.T
        assert not (expected & ~found.ravel()).any()
        if where not in ("pole", "south"):
            assert np.count_nonzero(found) < 0.6 * len(one)


def test_without_a_horizon_everybody_is_met() -> None:
    rows = [drawn(Space.PLANAR, "", 1), drawn(Space.PLANAR, "", 2)]
    sides = sides_of([within(Space.PLANAR, 1.0)], frozenset((0,)), 1)
    places = points_of(sides, [rows[0], rows[1]], COUNT, rows[0].dictionary).places
    known = ~(rows[1].nulls[3] | rows[1].nulls[5])
    assert np.isinf(places[known]).all()
    assert np.isnan(places[~known]).all()


def test_a_negative_distance_holds_nobody() -> None:
    rows = [drawn(Space.PLANAR, "", 1), drawn(Space.PLANAR, "", 2)]
    sides = sides_of([within(Space.PLANAR, -1.0)], frozenset((0,)), 1)
    assert np.isnan(boxes_of_rows(sides, [rows[0], rows[1]], COUNT, rows[0].dictionary).low).all()


def test_explain_analyze_tells_that_ways_find_pairs() -> None:
    with connect() as session:
        session.sql(
            "CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            " WITH (motion = TRUE)"
        )
        session.push("Ships", [(i, 10.0 * i, 0.0, "2000-01-01 00:00:00") for i in range(5)])
        session.advance("2000-01-01 00:00:01")
        for condition, is_told in ((f"{CPA} < 15", True), (f"{CPA} > 15", False)):
            session.sql(
                "REGISTER OR REPLACE QUERY near AS SELECT a.id AS one, b.id AS other"
                f" FROM Ships a, Ships b WHERE a.id < b.id AND {condition}"
            )
            plan = "\n".join(row[0] for row in session.sql("EXPLAIN ANALYZE QUERY near").rows)
            assert "5 elements of Ships stand, found by" in plan
            assert ("where the boxes of ways meet" in plan) == is_told
