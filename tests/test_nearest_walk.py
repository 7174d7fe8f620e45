"""The k nearest points through many steps in one call, held against sorting all at every step.

The kernel is right if its answers, their measures to the last bit and what it tells at each step
are those of all points sorted anew, and those of a matcher that is called step by step.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.kernels.arrays import Bools, Floats, Ints, Longs
from place.kernels.inside import unit_vectors
from place.kernels.nearest import NearestMatcher
from place.kernels.nearest_walk import FEW, LINK_COST, ROOM, Walked, walk_nearest
from tests.harness.examples import examples
from tests.test_nearest import (
    PLANAR,
    SPHERE,
    Chance,
    Places,
    clusters,
    coincident,
    crowded,
    globe,
    one_place,
    outliers,
    uniform,
)

NAN = np.nan
Told = list[tuple[int, int, int, int, float]]
"""Step, query, slot, sign and measure of every change."""


def on_sphere(places: Floats) -> Floats:
    found: Floats = unit_vectors(places[:, 0].copy(), places[:, 1].copy())
    return found


@dataclass
class Step:
    """What goes where at an instant: places are coordinates, or longitudes and latitudes."""

    slots: Ints
    to: Floats
    queries: Ints
    centers: Floats


class World:
    """Points and centres as they were given, and the arrays that the kernel takes and changes."""

    def __init__(
        self,
        points: Floats,
        centers: Floats,
        ks: Longs,
        excluded: Longs,
        ranks: Longs,
        sphere: bool,
    ) -> None:
        self.sphere, self.ranks, self.excluded, self.ks = sphere, ranks, excluded, ks
        self.given_points, self.given_centers = points.copy(), centers.copy()
        self.points, self.centers = self.vectors(points), self.vectors(centers)
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(ks)])
        self.members = np.full(self.starts[-1], -1, np.int32)
        self.measures = np.full(self.starts[-1], np.inf)
        for query in range(len(ks)):
            found = self.answer(query, self.points, self.centers)
            first = self.starts[query]
            self.members[first : first + len(found)] = [slot for slot, _ in found]
            self.measures[first : first + len(found)] = [measure for _, measure in found]

    def vectors(self, places: Floats) -> Floats:
        return on_sphere(places) if self.sphere else places.copy()

    def answer(self, query: int, points: Floats, centers: Floats) -> list[tuple[int, float]]:
        """The members of a query and their measures, from all points."""
        if not np.isfinite(centers[query, :2]).all():
            return []
        with np.errstate(over="ignore", under="ignore"):
            apart = centers[query] - points
            measures = apart[:, 0] * apart[:, 0] + apart[:, 1] * apart[:, 1]
            if self.sphere:
                measures = measures + apart[:, 2] * apart[:, 2]
        slots = np.flatnonzero(np.isfinite(points[:, :2]).all(axis=1))
        slots = slots[slots != self.excluded[query]]
        order = slots[np.lexsort((slots, self.ranks[slots], measures[slots]))][: self.ks[query]]
        return [(int(slot), float(measures[slot])) for slot in order]

    def walk(self, steps: list[Step], watch: bool = False, measured: bool = False) -> Walked:
        sizes = np.array([(0, 0), *((len(one.slots), len(one.queries)) for one in steps)])
        starts = np.cumsum(sizes, axis=0)
        return walk_nearest(
            *(self.points, self.ranks, self.centers, self.excluded, self.ks),
            *(self.starts, self.members, self.measures, starts[:, 0].copy()),
            np.concatenate([np.empty(0, np.int32), *(one.slots for one in steps)]),
            self.vectors(np.concatenate([np.empty((0, 2)), *(one.to for one in steps)])),
            starts[:, 1].copy(),
            np.concatenate([np.empty(0, np.int32), *(one.queries for one in steps)]),
            self.vectors(np.concatenate([np.empty((0, 2)), *(one.centers for one in steps)])),
            watch=watch,
            measured=measured,
        )

    def answers(self) -> list[list[tuple[int, float]]]:
        """The answers as the kernel left them."""
        found = []
        for first, last in pairwise(self.starts.tolist()):
            members, measures = self.members[first:last], self.measures[first:last]
            count = int((members >= 0).sum())
            assert (members[count:] == -1).all()
            assert (measures[count:] == np.inf).all()
            found.append(
                list(zip(members[:count].tolist(), measures[:count].tolist(), strict=True))
            )
        return found

    def expected(self, steps: list[Step], watch: bool, measured: bool) -> Told:
        """What is to be told at each step, by sorting all points before it and after it."""
        points, centers = self.points.copy(), self.centers.copy()
        told: Told = []
        old = [self.answer(query, points, centers) for query in range(len(self.ks))]
        for number, step in enumerate(steps):
            points[step.slots] = self.vectors(step.to)
            centers[step.queries] = self.vectors(step.centers)
            new = [self.answer(query, points, centers) for query in range(len(self.ks))]
            named = set(step.slots.tolist())
            for query, (before, after) in enumerate(zip(old, new, strict=True)):
                was, now = dict(before), dict(after)
                again = {
                    slot
                    for slot in was.keys() & now.keys()
                    if (watch and slot in named) or (measured and was[slot] != now[slot])
                }
                for sign, one, other in ((-1, before, now), (1, after, was)):
                    told += [
                        (number, query, slot, sign, measure)
                        for slot, measure in one
                        if slot not in other or slot in again
                    ]
            old = new
        self.last = old
        return told


def told_by(walked: Walked, first: int = 0) -> Told:
    assert [column.dtype for column in walked] == [
        np.int32,
        np.int32,
        np.int32,
        np.int8,
        np.float64,
    ]
    return [
        (step + first, query, slot, sign, measure)
        for step, query, slot, sign, measure in zip(
            *(column.tolist() for column in walked), strict=True
        )
    ]


def follow(world: World, steps: list[Step], *, watch: bool = False, measured: bool = False) -> Told:
    """Walks all steps at once, and checks what is told at each and what is left."""
    expected = world.expected(steps, watch, measured)
    told = told_by(world.walk(steps, watch, measured))
    assert told == expected
    assert world.answers() == world.last
    return told


def found(places: Places, chance: Chance, points: int, queries: int, sphere: bool) -> World:
    """Some of the points and centres are absent; centres may have an object of their own."""
    there, centers = places(chance, points), places(chance, queries)
    there[chance.random(points) < chance.choice([0.0, 0.1, 0.9])] = NAN
    centers[chance.random(queries) < 0.2] = NAN
    return World(
        there,
        centers,
        chance.choice([0, 1, 2, 5, 10, 33, 400], queries),
        chance.integers(-1, points, queries),
        chance.permutation(points) - 5 * (chance.random() < 0.5),
        sphere,
    )


def wander(world: World, places: Places, chance: Chance, count: int) -> list[Step]:
    """Steps in which points and centres come, go, move near or far, or stay where they are."""
    points, centers = world.given_points.copy(), world.given_centers.copy()
    steps, most = [], int(chance.choice([1, 3, 8, 60]))

    def moved(rows: Floats, chosen: Ints) -> Floats:
        to, few = places(chance, len(chosen)), chance.random(len(chosen))
        with np.errstate(over="ignore", invalid="ignore"):
            to = np.where((few < 0.4)[:, None], rows[chosen] + 1e-3 * (to - rows[chosen]), to)
        to[few < 0.1] = rows[chosen[few < 0.1]]
        to[(few > 0.85) | ~np.isfinite(to).all(axis=1)] = NAN
        rows[chosen] = to
        return to

    for _ in range(count):
        slots = chance.permutation(len(points))[: chance.integers(0, most)].astype(np.int32)
        chosen = chance.random(len(centers)) < chance.choice([0.0, 0.0, 0.3])
        queries = np.flatnonzero(chosen).astype(np.int32)
        steps.append(Step(slots, moved(points, slots), queries, moved(centers, queries)))
    return steps


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("places", [*PLANAR, *SPHERE])
def test_a_walk(places: Places, seed: int) -> None:
    """Few points and more than are looked at without a tree; every way of telling."""
    chance, sphere = np.random.default_rng(seed), places in SPHERE
    count = int(chance.integers(1, 60)) if seed % 2 else int(chance.integers(FEW + 1, 3 * FEW))
    world = found(places, chance, count, int(chance.integers(1, 7)), sphere)
    steps = wander(world, places, chance, 40)
    follow(world, steps, watch=seed % 3 == 1, measured=seed % 3 == 2)


@pytest.mark.parametrize("places", [uniform, clusters, coincident, one_place, outliers, globe])
def test_a_walk_through_a_tree(places: Places) -> None:
    """So many searches that there is a tree for most of them, while points come and go."""
    chance, sphere = np.random.default_rng(7), places in SPHERE
    count = 4 * FEW
    world = found(places, chance, count, 8, sphere)
    world.ks[:], world.excluded[:] = [1, 2, 3, 8, 10, 10, 40, 400], np.arange(-1, 7)
    world = World(
        world.given_points, places(chance, 8), world.ks, world.excluded, world.ranks, sphere
    )
    steps = []
    for _ in range(4 * LINK_COST // 8):
        slots = chance.permutation(count)[:6].astype(np.int32)
        to = places(chance, 6)
        to[chance.random(6) < 0.1] = NAN
        steps.append(Step(slots, to, np.arange(8, dtype=np.int32), places(chance, 8)))
    assert len(steps) * 8 * count > LINK_COST * (count + len(steps) * 6)
    follow(world, steps)


@pytest.mark.parametrize("sphere", [False, True])
def test_beside_a_matcher(sphere: bool) -> None:
    """The same members and measures as of a matcher that is called at every step."""
    for seed in range(6):
        chance = np.random.default_rng(seed)
        places = globe if sphere else crowded
        world = found(places, chance, int(chance.integers(20, 300)), 6, sphere)
        points, centers = world.given_points.copy(), world.given_centers.copy()
        matcher = NearestMatcher(sphere)

        def match(
            moved: Bools,
            shifted: Bools,
            matcher: NearestMatcher = matcher,
            world: World = world,
            points: Floats = points,
            centers: Floats = centers,
        ) -> Told:
            near = matcher.match(
                points, world.ranks, moved, centers, world.excluded, world.ks, shifted
            )
            assert np.array_equal(matcher.starts, world.starts)
            rows = zip(near.queries.tolist(), near.slots.tolist(), near.signs.tolist(), strict=True)
            return sorted((0, query, slot, sign, 0.0) for query, slot, sign in rows)

        match(np.ones(len(points), np.bool_), np.ones(6, np.bool_))
        assert np.array_equal(matcher.members, world.members)
        for step in wander(world, places, chance, 30):
            points[step.slots], centers[step.queries] = step.to, step.centers
            moved, shifted = np.zeros(len(points), np.bool_), np.zeros(6, np.bool_)
            moved[step.slots], shifted[step.queries] = True, True
            told = told_by(world.walk([step]))
            assert sorted((*one[:4], 0.0) for one in told) == match(moved, shifted)
            assert np.array_equal(matcher.members, world.members)
            assert np.array_equal(matcher.measures, world.measures)


@pytest.mark.parametrize("sphere", [False, True])
def test_the_same_steps_in_several_calls(sphere: bool) -> None:
    places = globe if sphere else clusters
    for seed in range(6):
        chance = np.random.default_rng(seed)
        world = found(places, chance, 200, 5, sphere)
        again = World(
            world.given_points, world.given_centers, world.ks, world.excluded, world.ranks, sphere
        )
        steps = wander(world, places, chance, 60)
        whole = told_by(world.walk(steps, watch=True, measured=True))
        parts: Told = []
        cuts = [0, *np.sort(chance.integers(0, 60, 4)).tolist(), 60]
        for first, last in pairwise(cuts):
            parts += told_by(again.walk(steps[first:last], watch=True, measured=True), first)
        assert parts == whole
        for one, other in ((world.points, again.points), (world.centers, again.centers)):
            assert np.array_equal(one, other, equal_nan=True)
        assert np.array_equal(world.members, again.members)
        assert np.array_equal(world.measures, again.measures)


def small(points: list[tuple[float, float]], k: int, excluded: int = -1) -> World:
    """A query at the origin."""
    count = len(points)
    return World(
        np.array(points, np.float64),
        np.zeros((1, 2)),
        np.array([k]),
        np.array([excluded]),
        np.arange(count),
        False,
    )


def moves(*to: tuple[int, float, float], center: tuple[float, float] | None = None) -> Step:
    centers = [] if center is None else [center]
    return Step(
        np.array([slot for slot, *_ in to], np.int32),
        np.array([at for _, *at in to], np.float64).reshape(-1, 2),
        np.zeros(len(centers), np.int32),
        np.array(centers, np.float64).reshape(-1, 2),
    )


def test_who_left_is_told_before_who_came() -> None:
    world = small([(1, 0), (2, 0), (3, 0), (4, 0)], 2)
    steps = [moves((2, 0.5, 0)), moves((2, 9, 0), (3, 1.5, 0)), moves()]
    assert follow(world, steps) == [
        (0, 0, 1, -1, 4.0),
        (0, 0, 2, 1, 0.25),
        (1, 0, 2, -1, 0.25),
        (1, 0, 3, 1, 2.25),
    ]
    assert world.members.tolist() == [0, 3]


def test_members_that_stay_are_told_if_that_is_asked_for() -> None:
    for watch, measured, told in (
        (False, False, []),
        (True, False, [(0, -1, 1.0), (1, -1, 4.0), (0, 1, 1.0), (1, 1, 2.25)]),
        (False, True, [(1, -1, 4.0), (1, 1, 2.25)]),
        (True, True, [(0, -1, 1.0), (1, -1, 4.0), (0, 1, 1.0), (1, 1, 2.25)]),
    ):
        world = small([(1, 0), (2, 0), (3, 0)], 2)
        found = follow(world, [moves((1, 1.5, 0), (0, 1, 0))], watch=watch, measured=measured)
        assert [one[2:] for one in found] == told
        assert world.measures.tolist() == [1.0, 2.25]
    # If the centre moves, all measures change, and nobody was named.
    world = small([(1, 0), (2, 0), (3, 0)], 2)
    found = follow(world, [moves(center=(0.5, 0))], watch=True, measured=True)
    assert [one[2:] for one in found] == [(0, -1, 1.0), (1, -1, 4.0), (0, 1, 0.25), (1, 1, 2.25)]


def test_on_the_circle_ranks_decide() -> None:
    world = small([(1, 0), (2, 0), (0, 2), (5, 0)], 2)
    assert world.members.tolist() == [0, 1]
    # It comes onto the circle after the one that is there, and then before it.
    assert follow(world, [moves((3, 0, -2))]) == []
    world.ranks[3] = -1
    world = World(
        world.given_points, world.given_centers, world.ks, world.excluded, world.ranks, False
    )
    assert follow(world, [moves((3, 0, -2))]) == [(0, 0, 1, -1, 4.0), (0, 0, 3, 1, 4.0)]
    # A member goes onto the circle, where one stands that is before it.
    world = small([(5, 0), (0, 3), (1, 0), (2, 0)], 2)
    assert follow(world, [moves((3, 3, 0))]) == [(0, 0, 3, -1, 4.0), (0, 0, 1, 1, 9.0)]


def test_a_centre_is_away_for_a_while() -> None:
    world = small([(1, 0), (2, 0), (3, 0)], 2, excluded=0)
    steps = [
        moves(center=(NAN, NAN)),
        moves((1, NAN, NAN), (0, 0.5, 0)),
        moves(center=(NAN, NAN)),
        moves((1, 7, 0), center=(0, 0)),
    ]
    assert [one[:4] for one in follow(world, steps)] == [
        (0, 0, 1, -1),
        (0, 0, 2, -1),
        (3, 0, 2, 1),
        (3, 0, 1, 1),
    ]


def test_nothing_to_do() -> None:
    """No steps, no queries, no points; a query that wants nobody."""
    assert follow(small([(1, 0)], 1), []) == []
    assert follow(small([(1, 0)], 0), [moves((0, 0, 0), center=(1, 1))]) == []
    empty, none = np.empty((0, 2)), np.empty(0, np.int64)
    assert follow(World(empty, empty, none, none, none, False), [moves(), moves()]) == []
    world = World(empty, np.zeros((1, 2)), np.array([3]), np.array([-1]), none, False)
    assert follow(world, [moves(center=(1, 1))]) == []
    assert follow(small([(NAN, NAN)], 2), [moves((0, NAN, NAN)), moves((0, 1, 1))]) == [
        (1, 0, 0, 1, 2.0)
    ]


def test_more_is_told_than_there_was_room_for() -> None:
    chance = np.random.default_rng(3)
    world = found(uniform, chance, 100, 6, False)
    steps = wander(world, uniform, chance, 200)
    assert len(follow(world, steps, watch=True, measured=True)) > 2 * ROOM


@pytest.mark.parametrize("sphere", [False, True])
def test_thousands_are_wanted_and_piled_up(sphere: bool) -> None:
    """Some of them in one place, in the order of their ranks, and nearly all that there are."""
    chance = np.random.default_rng(8)
    points = uniform(chance, 3000)
    points[:1200] = [0.5, 0.5]
    centers = np.array([[0.5, 0.5], [0.1, 0.9], [0.9, 0.9], [50.0, 50.0]])
    ks, excluded = np.array([1500, 2, 2990, 5000]), np.array([7, 8, 9, 10])
    world = World(points, centers, ks, excluded, chance.permutation(3000), sphere)
    steps = []
    for _ in range(40):
        slots = chance.permutation(3000)[:50].astype(np.int32)
        to = uniform(chance, 50)
        to[::3] = [0.5, 0.5]
        steps.append(Step(slots, to, np.arange(4, dtype=np.int32), uniform(chance, 4)))
    follow(world, steps)


PLACES = st.tuples(st.integers(0, 3), st.integers(0, 3)) | st.none()
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 6), PLACES, max_size=4),
        st.dictionaries(st.integers(0, 1), PLACES, max_size=2),
    ),
    max_size=8,
)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(PLACES, min_size=7, max_size=7),
    st.lists(st.tuples(PLACES, st.integers(-1, 6), st.integers(0, 5)), min_size=2, max_size=2),
    STEPS,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_any_walk_through_few_places(
    points: list[tuple[int, int] | None],
    queries: list[tuple[tuple[int, int] | None, int, int]],
    history: list[tuple[dict[int, tuple[int, int] | None], dict[int, tuple[int, int] | None]]],
    sphere: bool,
    watch: bool,
    measured: bool,
) -> None:
    """Places on a lattice of four by four; on the sphere it reaches over a pole."""

    def laid(places: list[tuple[int, int] | None]) -> Floats:
        rows = [(NAN, NAN) if at is None else (60.0 * at[0] - 180.0, 87.0 + at[1]) for at in places]
        return np.array(rows, np.float64).reshape(-1, 2)

    world = World(
        laid(points),
        laid([at for at, *_ in queries]),
        np.array([k for *_, k in queries]),
        np.array([excluded for _, excluded, _ in queries]),
        np.array([3, 1, 4, 1, 5, 9, 2]),
        sphere,
    )
    steps = [
        Step(
            np.array(list(moved), np.int32),
            laid(list(moved.values())),
            np.array(list(shifted), np.int32),
            laid(list(shifted.values())),
        )
        for moved, shifted in history
    ]
    follow(world, steps, watch=watch, measured=measured)
