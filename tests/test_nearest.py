"""The k nearest points of moving centres, held against sorting all of them at every instant.

The kernel is right if its answers, their measures to the last bit and the changes between them are
those of the model's own measure, whatever the places, the flags and the history.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from place.kernels import nearest, nested_grid
from place.kernels.nearest import Nearby, NearestMatcher
from place.kernels.order import Pool
from place.model.space import Space, measure
from tests.harness.examples import examples

Floats = NDArray[np.float64]
Chance = np.random.Generator
Places = Callable[[Chance, int], Floats]
NAN = np.nan


def uniform(chance: Chance, count: int) -> Floats:
    return chance.random((count, 2))


def coincident(chance: Chance, count: int) -> Floats:
    """Many points in few places, and many of the same distance."""
    return chance.integers(0, 4, (count, 2)).astype(float)


def one_place(_: Chance, count: int) -> Floats:
    return np.full((count, 2), 0.1)


def in_a_line(chance: Chance, count: int) -> Floats:
    along = chance.random(count)
    return np.stack([along, 2 * along], axis=1)


def upright(chance: Chance, count: int) -> Floats:
    return np.stack([np.full(count, 7.0), chance.random(count)], axis=1)


def tiny(chance: Chance, count: int) -> Floats:
    return 1.0 + chance.random((count, 2)) * 1e-12


def huge(chance: Chance, count: int) -> Floats:
    return (chance.random((count, 2)) - 0.5) * 1e9


def outliers(chance: Chance, count: int) -> Floats:
    places = chance.random((count, 2))
    places[chance.random(count) < 0.05] *= 1e9
    places[chance.random(count) < 0.02] *= -1e250
    return places


def ends_of_numbers(chance: Chance, count: int) -> Floats:
    """Squares that overflow or vanish: then ranks decide."""
    return chance.choice(
        [-1.7e308, -1e200, -1e-170, 0.0, 1e-310, 1e-170, 1e200, 1.7e308], (count, 2)
    )


def scales(chance: Chance, count: int) -> Floats:
    return 10.0 ** chance.uniform(-12, 3, (count, 2))


def clusters(chance: Chance, count: int) -> Floats:
    """Crowds within crowds, and piles within those."""
    places = chance.random((count, 2))
    places[chance.random(count) < 0.9] *= 0.01
    places[chance.random(count) < 0.5] *= 0.001
    places[chance.random(count) < 0.2] = [0.5, 0.5]
    return places


def globe(chance: Chance, count: int) -> Floats:
    return np.stack([chance.uniform(-180, 180, count), chance.uniform(-90, 90, count)], axis=1)


def antimeridian(chance: Chance, count: int) -> Floats:
    return np.stack(
        [chance.choice([-180.0, 180.0, 179.5, -179.9], count), chance.uniform(-2, 2, count)], axis=1
    )


def poles(chance: Chance, count: int) -> Floats:
    latitudes = chance.choice([90.0, 89.99, 89.0, -90.0, -89.5], count)
    return np.stack([chance.uniform(-180, 180, count), latitudes], axis=1)


def lattice(chance: Chance, count: int) -> Floats:
    """Whole degrees, of which many are as far from one another."""
    return np.stack(
        [chance.integers(-180, 181, count) / 1.0, chance.integers(-90, 91, count) / 1.0], axis=1
    )


def one_town(chance: Chance, count: int) -> Floats:
    return np.array([2.35, 48.86]) + chance.normal(0, 1e-4, (count, 2))


PLANAR: list[Places] = [
    uniform,
    coincident,
    one_place,
    in_a_line,
    upright,
    tiny,
    huge,
    outliers,
    ends_of_numbers,
    scales,
    clusters,
]
SPHERE: list[Places] = [globe, antimeridian, poles, lattice, one_town]


class Instants:
    """A matcher and what it is told, instant by instant; every one of them is checked."""

    def __init__(self, sphere: bool = False, threads: int = 1) -> None:
        self.space = Space.WGS84 if sphere else Space.PLANAR
        self.matcher, self.threads = NearestMatcher(sphere), threads
        self.points, self.centers = np.empty((0, 2)), np.empty((0, 2))
        self.ranks = np.empty(0, np.int64)
        self.excluded, self.ks = np.empty(0, np.int64), np.empty(0, np.int64)
        self.answers: list[set[int]] = []

    def grow(self, points: int, queries: int, chance: Chance) -> None:
        """More slots for points and queries, all of them empty."""
        count, more = len(self.points), points - len(self.points)
        self.points = np.concatenate([self.points, np.full((more, 2), NAN)])
        # Later slots may come before earlier ones, but ranks stay what they are.
        added = chance.permutation(more) * 2 + 1000 * count * chance.choice([-1, 1])
        self.ranks = np.concatenate([self.ranks, added]).astype(np.int64)
        more = queries - len(self.centers)
        self.centers = np.concatenate([self.centers, np.full((more, 2), NAN)])
        self.excluded = np.concatenate([self.excluded, np.full(more, -1)])
        self.ks = np.concatenate([self.ks, np.zeros(more, np.int64)])
        self.answers += [set() for _ in range(more)]

    def match(self, moved: NDArray[np.bool_], shifted: NDArray[np.bool_]) -> Nearby:
        changes = self.matcher.match(
            self.points,
            self.ranks,
            moved,
            self.centers,
            self.excluded,
            self.ks,
            shifted,
            threads=self.threads,
        )
        self.check(changes)
        return changes

    def expected(self, query: int) -> list[tuple[float, int, int]]:
        """Measure, rank and slot of the nearest points, from all of them."""
        x, y = self.centers[query].tolist()
        if x != x or y != y:
            return []
        found = [
            (measure(self.space, x, y, px, py), int(self.ranks[slot]), slot)
            for slot, (px, py) in enumerate(self.points.tolist())
            if px == px and py == py and slot != self.excluded[query]
        ]
        return sorted(found)[: self.ks[query]]

    def check(self, changes: Nearby) -> None:
        for query, slot, sign in zip(
            changes.queries.tolist(), changes.slots.tolist(), changes.signs.tolist(), strict=True
        ):
            answer = self.answers[query]
            assert (slot in answer) == (sign == -1), "came twice, or left without being there"
            if sign == 1:
                answer.add(slot)
            else:
                answer.remove(slot)
        starts, members, measures = (
            self.matcher.starts,
            self.matcher.members,
            self.matcher.measures,
        )
        assert len(starts) == len(self.ks) + 1
        for query, k in enumerate(self.ks.tolist()):
            expected = self.expected(query)
            first, last = starts[query], starts[query + 1]
            missing = k - len(expected)
            assert members[first:last].tolist() == [slot for *_, slot in expected] + [-1] * missing
            assert (
                measures[first:last].tolist() == [one[0] for one in expected] + [np.inf] * missing
            )
            assert self.answers[query] == {slot for *_, slot in expected}


def wander(places: Places, seed: int, *, sphere: bool, instants: int = 10, most: int = 160) -> None:
    """A random history: points and queries come, go, move, and become more."""
    chance = np.random.default_rng(seed)
    world = Instants(sphere)
    points, queries = int(chance.integers(1, most)), int(chance.integers(1, 8))
    for _ in range(instants):
        old_points, old_queries = len(world.points), len(world.centers)
        world.grow(points, queries, chance)
        moved = chance.random(points) < chance.choice([0.0, 0.02, 0.2, 1.0])
        shifted = chance.random(queries) < chance.choice([0.0, 0.3, 1.0])
        moved[old_points:], shifted[old_queries:] = True, True
        there = places(chance, points)
        there[chance.random(points) < chance.choice([0.0, 0.1, 0.9])] = NAN
        world.points[moved] = there[moved]
        there = places(chance, queries)
        there[chance.random(queries) < 0.1] = NAN
        world.centers[shifted] = there[shifted]
        ks = chance.choice([0, 1, 2, 5, 10, 33, 400], queries)
        world.ks[shifted] = ks[shifted]
        world.excluded[shifted] = chance.integers(-1, points, queries)[shifted]
        world.match(moved, shifted)
        points += int(chance.integers(0, 5)) * int(chance.random() < 0.4)
        queries += int(chance.random() < 0.3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("places", PLANAR)
def test_a_history_in_the_plane(places: Places, seed: int) -> None:
    wander(places, seed, sphere=False)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("places", SPHERE)
def test_a_history_on_the_sphere(places: Places, seed: int) -> None:
    wander(places, seed, sphere=True)


@pytest.mark.parametrize("places", [coincident, clusters, uniform])
@pytest.mark.parametrize(
    ("name", "value"),
    [("MOST_MOVED", 2.0), ("MOST_MOVED", 0.0), ("FEW_MOVED", 0), ("FEW_MOVED", 10**9)],
)
def test_how_much_moves_decides_only_what_is_cheaper(
    places: Places, name: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, name, value)
    for seed in range(3):
        wander(places, 100 + seed, sphere=False)


def test_memory_grows_as_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "PIECE", 2)
    monkeypatch.setattr(nearest, "MOST_MARKS", 8)
    for seed in range(3):
        wander(uniform, 200 + seed, sphere=False)


@pytest.mark.parametrize("places", [uniform, in_a_line, clusters])
def test_a_few_points_move_in_every_instant(places: Places) -> None:
    """Those that move are kept apart; those that stand again are sorted in some time."""
    chance = np.random.default_rng(5)
    world = Instants()
    world.grow(150, 6, chance)
    world.points, world.centers = places(chance, 150), places(chance, 6)
    world.ks[:] = [1, 3, 8, 8, 20, 149]
    world.excluded[:] = [-1, 0, 1, -1, 2, 3]
    world.match(np.ones(150, np.bool_), np.ones(6, np.bool_))
    for _ in range(60):
        moved = np.zeros(150, np.bool_)
        moved[chance.integers(0, 150, chance.integers(1, 30))] = True
        world.points[moved] = places(chance, int(moved.sum()))
        world.match(moved, np.zeros(6, np.bool_))


def test_one_comes_beside_many_who_do_not() -> None:
    """The many lie in one place, within the old circle and outside of the new one."""
    world = Instants()
    world.grow(200, 1, np.random.default_rng(0))
    world.points[:] = 100.0
    world.points[:3] = [[1.0, 0.0], [0.0, 1.1], [-1.2, 0.0]]
    world.centers[0], world.ks[0] = 0.0, 3
    everything = np.ones(200, np.bool_)
    world.match(everything, np.ones(1, np.bool_))
    moved = ~everything
    moved[3 : 5 + nested_grid.CROWD] = True
    world.points[moved] = [0.8, 0.81]
    world.points[3] = [0.1, 0.0]
    world.match(moved, np.zeros(1, np.bool_))


PLACES = st.tuples(st.integers(0, 3), st.integers(0, 3)) | st.none()
POINTS = st.dictionaries(st.integers(0, 6), PLACES, max_size=7)
QUERIES = st.dictionaries(
    st.integers(0, 2), st.tuples(PLACES, st.integers(-1, 6), st.integers(0, 5)), max_size=3
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(POINTS, QUERIES), min_size=1, max_size=8), st.booleans())
def test_any_history_of_few_places(
    history: list[
        tuple[
            dict[int, tuple[int, int] | None],
            dict[int, tuple[tuple[int, int] | None, int, int]],
        ]
    ],
    sphere: bool,
) -> None:
    """Places on a lattice of four by four; on the sphere it reaches over a pole."""
    chance = np.random.default_rng(0)
    world = Instants(sphere)

    def place(at: tuple[int, int] | None) -> tuple[float, float]:
        if at is None:
            return NAN, NAN
        return (60.0 * at[0] - 180.0, 87.0 + at[1]) if sphere else (float(at[0]), float(at[1]))

    for points, queries in history:
        old_points, old_queries = len(world.points), len(world.centers)
        world.grow(
            max(old_points, max(points, default=-1) + 1),
            max(old_queries, max(queries, default=-1) + 1),
            chance,
        )
        moved, shifted = np.zeros(len(world.points), bool), np.zeros(len(world.centers), bool)
        moved[old_points:], shifted[old_queries:] = True, True
        for slot, at in points.items():
            world.points[slot], moved[slot] = place(at), True
        for query, (at, excluded, k) in queries.items():
            world.centers[query], shifted[query] = place(at), True
            world.excluded[query], world.ks[query] = excluded, k
        world.match(moved, shifted)


def crowded(chance: Chance, count: int) -> Floats:
    """Nine tenths of the points in a hundredth of the space."""
    places = chance.random((count, 2))
    dense = chance.random(count) < 0.9
    places[dense] = 0.3 + places[dense] * 0.1
    return places


@pytest.mark.parametrize(
    ("places", "moving", "threads"),
    [
        (uniform, 1.0, 2),
        (uniform, 0.1, 1),
        (uniform, 0.0002, 2),
        (crowded, 1.0, 1),
        (crowded, 0.1, 2),
        (crowded, 0.0002, 1),
    ],
)
def test_many_points_beside_a_k_d_tree(places: Places, moving: float, threads: int) -> None:
    """SciPy has the same members in the same order; every query leaves its own object out."""
    chance = np.random.default_rng(3)
    count, k = 20_000, 10
    points, matcher = places(chance, count), NearestMatcher()
    ranks, every = chance.permutation(count), np.ones(count, np.bool_)
    slots, ks = np.arange(count), np.full(count, k)
    moved, old = every, np.empty(0, np.int64)
    for _ in range(4):
        changes = matcher.match(points, ranks, moved, points, slots, ks, moved, threads=threads)
        members = matcher.members.reshape(count, k)
        distances, expected = cKDTree(points).query(points, k + 1)
        assert np.array_equal(expected[:, 0], slots)
        assert np.array_equal(members, expected[:, 1:])
        assert np.allclose(np.sqrt(matcher.measures.reshape(count, k)), distances[:, 1:])
        keys = changes.queries.astype(np.int64) * count + changes.slots
        new = (slots[:, None] * count + members).ravel()
        assert np.array_equal(np.sort(keys[changes.signs == 1]), np.setdiff1d(new, old))
        assert np.array_equal(np.sort(keys[changes.signs == -1]), np.setdiff1d(old, new))
        old = new
        moved = chance.random(count) < moving
        points = np.where(moved[:, None], points + chance.normal(0, 2e-3, (count, 2)), points)


@pytest.mark.parametrize("sphere", [False, True])
def test_thousands_are_wanted_and_piled_up(sphere: bool) -> None:
    """More than fit a buffer, some of them in one place, in the order of their ranks."""
    chance = np.random.default_rng(8)
    world = Instants(sphere)
    world.grow(3000, 4, chance)
    world.points = uniform(chance, 3000)
    world.points[:1200] = [0.5, 0.5]
    world.centers = np.array([[0.5, 0.5], [0.1, 0.9], [0.9, 0.9], [50.0, 50.0]])
    world.ks[:] = [1500, 2, 2500, 5000]
    world.excluded[:] = [7, 8, 9, 10]
    every = np.ones(4, np.bool_)
    world.match(np.ones(3000, np.bool_), every)
    moved = np.zeros(3000, np.bool_)
    moved[1000:1400] = True
    world.points[moved] = world.points[moved][::-1]
    world.match(moved, ~every)
    world.ks[:] = [3, 2000, 1, 0]
    world.match(np.zeros(3000, np.bool_), every)


def test_after_a_reset_all_is_new() -> None:
    chance = np.random.default_rng(1)
    world = Instants()
    world.grow(50, 3, chance)
    world.points, world.centers, world.ks[:] = uniform(chance, 50), uniform(chance, 3), 4
    moved, shifted = np.ones(50, np.bool_), np.ones(3, np.bool_)
    first = world.match(moved, shifted)
    assert len(world.match(~moved, ~shifted).queries) == 0
    world.matcher.reset()
    world.answers = [set() for _ in range(3)]
    again = world.match(moved, shifted)
    for one, other in zip(vars(first).values(), vars(again).values(), strict=True):
        assert np.array_equal(one, other)


def test_what_did_not_move_is_not_looked_at() -> None:
    """A point that moves unflagged is not noticed where nothing flagged has touched the circle."""
    chance = np.random.default_rng(2)
    points, ranks = uniform(chance, 1000), np.arange(1000)
    points[:500] += 5.0
    centers = np.array([[0.5, 0.5], [5.5, 5.5]])
    rest = np.array([-1, -1]), np.array([3, 3])
    matcher, every = NearestMatcher(), np.ones(1000, np.bool_)
    matcher.match(points, ranks, every, centers, *rest, np.ones(2, np.bool_))
    before = matcher.members.copy()
    points[before[:3]] = NAN
    for movers in (1, 100):
        moved = np.zeros(1000, np.bool_)
        moved[:movers] = True
        points[:movers] = 5.5
        matcher.match(points, ranks, moved, centers, *rest, np.zeros(2, np.bool_))
        assert np.array_equal(matcher.members[:3], before[:3])
        assert not np.array_equal(matcher.members[3:], before[3:])


def test_crowds_are_divided() -> None:
    """No cell of an uneven world holds many points, but for those that lie in one place."""
    chance = np.random.default_rng(4)
    for places in (uniform, in_a_line, upright, tiny, outliers, scales, clusters, crowded):
        points = places(chance, 5000)
        found = nested_grid.build_nest(
            points, np.arange(5000, dtype=np.int32), np.arange(5000), Pool(1)
        )
        assert np.array_equal(np.sort(found.names), np.arange(5000))
        assert np.array_equal(points[found.names], np.stack([found.xs, found.ys], axis=1))
        for shape in found.shapes:
            cells = shape[:3].prod()
            first = shape[nested_grid.FIRST]
            sizes = np.diff(found.starts[first : first + cells + 1].astype(np.int64))
            sizes[found.inner[first : first + cells] >= 0] = 0
            if shape[nested_grid.KIND] == nested_grid.PILE:
                pile = found.names[found.starts[first] : found.starts[first + 1]]
                assert len(np.unique(points[pile], axis=0)) == 1
                assert np.array_equal(pile, np.sort(pile))
            else:
                assert sizes.max() <= nested_grid.CROWD
