"""The store of readings that wait for others, held against trying all of them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.engine import constraint_graphs, constraint_store
from place.engine.constraint_graphs import Graph
from place.kernels.constraint_tables import LOOSE, NEVER, NO_INDEX, TIGHT, UNBOUNDED, UNKNOWN
from place.model.space import Space, distance
from tests.harness.constraints import Event, Feed, Told, all_matches, ceiling, held_by_model
from tests.harness.examples import examples

EXAMPLES = examples(25)
STRATEGIES = (LOOSE, TIGHT, NO_INDEX)
FEATURES = 2
PLACES = (0.0, 0.0, 1.0, 2.0, 4.0, -1.0)
ANGLES = (0.0, 0.0, 30.0, -180.0, 180.0, 90.0)
LENGTHS = (0.0, 1.0, math.sqrt(2), 2.0, 3.0, 5.0, 5.0, 5.0)
METRES = tuple(
    distance(Space.WGS84, 0, 0, x, y) for x, y in ((0, 0), (30, 0), (30, 30), (90, 30), (180, 0))
)
END = 10_000
CANDIDATES = {1: 12, 2: 10, 3: 7, 4: 5, 5: 4}
"""How many readings may qualify for a variable, by the variables of a match: all are tried."""
FEW = st.sampled_from([False, False, False, False, True])


@dataclass(frozen=True)
class World:
    graphs: dict[int, Graph]
    events: list[Event]
    cuts: list[tuple[int, int]]
    """Ticks: how many events there were at their end, and the instant of that."""

    def with_strategy(self, *strategies: int) -> World:
        """The same graphs with these strategies, in turn."""
        turn = itertools.cycle(strategies)
        graphs = {key: replace(each, strategy=next(turn)) for key, each in self.graphs.items()}
        return replace(self, graphs=graphs)

    def expected(self) -> list[Told]:
        every = range(len(self.events))
        return sorted(
            (
                told
                for key, graph in self.graphs.items()
                for told in all_matches(key, graph, self.events, every)
            ),
            key=repr,
        )


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are too small at once, so that kernels often stop and go on."""
    monkeypatch.setattr(constraint_store, "FIRST_ROOM", 1)
    monkeypatch.setattr(constraint_store, "LARGE", 8)
    monkeypatch.setattr(constraint_graphs, "FIRST_ROWS", 1)


def lengths_of(sphere: bool) -> tuple[float, ...]:
    return METRES if sphere else LENGTHS


def closed(latest: np.ndarray) -> np.ndarray:
    """What follows from the bounds, too; without negative cycles on the diagonal."""
    for k in range(len(latest)):
        through = latest[:, k, None] + latest[None, k, :]
        unbounded = (latest[:, k, None] >= UNBOUNDED) | (latest[None, k, :] >= UNBOUNDED)
        latest = np.where(unbounded, latest, np.minimum(latest, through))
    np.fill_diagonal(latest, 0)
    return latest


@st.composite
def graphs(draw: st.DrawFn, periods: list[int], sphere: bool, most_variables: int) -> Graph:
    m = draw(st.sampled_from([most_variables, *range(1, most_variables + 1)]))
    has_absent = draw(st.booleans())
    roles = m + has_absent
    streams = np.array([draw(st.integers(0, len(periods) - 1)) for _ in range(roles)])
    window = draw(st.sampled_from([2, 4, 8, 16, UNBOUNDED]))
    latest = np.full((roles, roles), window, np.int64)
    for i, j in itertools.permutations(range(roles), 2):
        if draw(FEW):
            latest[i, j] = draw(st.sampled_from([UNBOUNDED, *range(-3, 9)]))
    np.fill_diagonal(latest, 0)
    latest = closed(latest)
    shape = (roles, roles)
    least, most = np.zeros(shape), np.full(shape, np.inf)
    least_open, most_open = np.zeros(shape, bool), np.zeros(shape, bool)
    lengths = st.sampled_from(lengths_of(sphere))
    is_near = draw(st.booleans())
    for i, j in itertools.combinations(range(roles), 2):
        if is_near or draw(FEW):
            most[i, j] = most[j, i] = draw(lengths)
            most_open[i, j] = most_open[j, i] = draw(st.booleans())
        if draw(FEW):
            least[i, j] = least[j, i] = draw(st.sampled_from((0.0, lengths_of(sphere)[1])))
            least_open[i, j] = least_open[j, i] = draw(st.booleans())
    order = np.zeros(shape, np.int8)
    for i, j in itertools.combinations(draw(st.permutations(range(roles))), 2):
        order[i, j] = draw(FEW)
    comparisons = []
    for i, j in itertools.permutations(range(roles), 2):
        if draw(FEW) and draw(st.booleans()):
            row = [draw(st.integers(0, FEATURES - 1)) for _ in range(2)]
            comparisons.append((i, row[0], draw(st.integers(0, 5)), j, row[1]))
    return Graph(
        streams,
        np.array(periods)[streams],
        latest,
        least,
        most,
        least_open,
        most_open,
        order,
        np.array(comparisons, np.int64).reshape(-1, 5),
        has_absent,
        draw(st.booleans()),
        sphere,
        draw(st.sampled_from(STRATEGIES)),
    )


@st.composite
def worlds(draw: st.DrawFn, most_graphs: int = 3, most_variables: int = 4) -> World:
    periods = draw(st.lists(st.sampled_from([0, 0, 2, 3, 5]), min_size=1, max_size=3))
    sphere = draw(st.integers(0, 3)) == 0
    count = draw(st.integers(1, most_graphs))
    some = {k: draw(graphs(periods, sphere, most_variables)) for k in range(count)}
    roles = [
        (key, role, graph.streams[role])
        for key, graph in some.items()
        for role in range(graph.roles)
    ]
    numbers = st.sampled_from(ANGLES if sphere else PLACES)
    latitude = st.sampled_from((0.0, 30.0, 90.0)) if sphere else numbers
    span = draw(st.sampled_from([3, 12, 30]))
    share = draw(st.sampled_from([2, 1, 3, 4]))
    events, counts = [], Counter[tuple[int, int]]()
    for _ in range(draw(st.sampled_from([18, 15, 12, 9, 3, 0]))):
        time, stream = draw(st.integers(0, span)), draw(st.integers(0, len(periods) - 1))
        x, y = draw(numbers), draw(latitude)
        if draw(FEW) and draw(st.booleans()):
            x = y = math.nan
        features = tuple(draw(st.sampled_from([1, 1, 1, 0, 2, UNKNOWN])) for _ in range(FEATURES))
        mine = [
            (key, role)
            for key, role, other in roles
            if other == stream
            and counts[key, role] < CANDIDATES[some[key].matched]
            and draw(st.integers(0, 4)) <= share
        ]
        counts.update(mine)
        instant = ceiling(time, 0, periods[stream])
        events.append(Event(instant, time, stream, x, y, features, tuple(mine)))
    events.sort(key=lambda event: (event.instant, event.time, event.stream))
    cuts = []
    for n in range(1, len(events)):
        one, other = events[n - 1].instant, events[n].instant
        if one < other and draw(st.booleans()):
            cuts.append((n, draw(st.integers(one, other - 1))))
    return World(some, events, [*cuts, (len(events), END)])


def fed(world: World, feed: Feed) -> list[Told]:
    """All that the ticks of a world tell, and that nothing is left after the end of time."""
    told, begin = [], 0
    for end, until in world.cuts:
        found = feed.take(world.events[begin:end], until)
        assert [each.instant for each in found] == sorted(each.instant for each in found)
        assert all(each.instant <= until for each in found)
        at_once = [each for each in found if not world.graphs[each.graph].has_absent]
        completing = [each.completing for each in at_once]
        assert completing == sorted(completing)
        told += found
        begin = end
    bounded = all((graph.latest < UNBOUNDED).all() for graph in world.graphs.values())
    if bounded:
        assert feed.store.held == feed.store.held_entries == 0
        assert feed.store.next_deadline() == NEVER
    told += feed.take([], NEVER)
    assert feed.store.held == feed.store.held_entries == 0
    assert all((feed.store.held_of(number) == 0).all() for number in feed.numbers.values())
    assert len(feed.store.entries()[0]) == 0
    return sorted(told, key=repr)


@given(worlds())
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.parametrize("strategy", ["loose", "tight", "no index", "mixed", "in turn"])
def test_every_match_is_told_once_at_its_instant(strategy: str, world: World) -> None:
    strategies = {"loose": (LOOSE,), "tight": (TIGHT,), "no index": (NO_INDEX,)}
    if strategy == "in turn":
        world = world.with_strategy(*STRATEGIES)
    elif strategy != "mixed":
        world = world.with_strategy(*strategies[strategy])
    feed = Feed(world.graphs, FEATURES)
    told = fed(world, feed)
    assert told == world.expected()
    for key, number in feed.numbers.items():
        assert feed.store.matches_of(number) == sum(each.graph == key for each in told)


@given(worlds(most_graphs=1, most_variables=5))
@settings(max_examples=EXAMPLES, deadline=None)
def test_large_graphs_match_too(world: World) -> None:
    expected = world.expected()
    for strategy in STRATEGIES:
        some = world.with_strategy(strategy)
        assert fed(some, Feed(some.graphs, FEATURES)) == expected


@given(worlds())
@settings(max_examples=EXAMPLES, deadline=None)
def test_tight_keeps_no_more_than_loose(world: World) -> None:
    loose, tight = (Feed(world.with_strategy(s).graphs, FEATURES) for s in (LOOSE, TIGHT))
    begin = 0
    for end, until in world.cuts:
        for feed in (loose, tight):
            feed.take(world.events[begin:end], until)
        assert tight.store.held <= loose.store.held
        assert tight.store.held_entries <= loose.store.held_entries
        assert tight.store.peak <= loose.store.peak
        begin = end


@given(worlds())
@settings(max_examples=EXAMPLES, deadline=None)
def test_what_is_held_does_not_depend_on_the_cuts(world: World) -> None:
    one, each = Feed(world.graphs, FEATURES), Feed(world.graphs, FEATURES)
    begin, last = 0, {event.instant: n + 1 for n, event in enumerate(world.events)}
    for end, until in world.cuts:
        one.take(world.events[begin:end], until)
        for instant, stop in last.items():
            if begin < stop <= end:
                each.take(world.events[begin:stop], instant)
                begin = stop
        each.take([], until)
        assert one.kept() == each.kept()
        assert one.store.held == each.store.held
        assert one.store.held_entries == each.store.held_entries
        assert one.store.peak == each.store.peak
        assert one.store.peak_entries == each.store.peak_entries


@given(worlds(most_graphs=1), st.sampled_from(STRATEGIES))
@settings(max_examples=EXAMPLES, deadline=None)
def test_readings_are_kept_exactly_as_long_as_is_said(world: World, strategy: int) -> None:
    graph = world.graphs[0]
    m = graph.matched
    square = np.s_[:m, :m]
    graph = replace(
        graph,
        **{
            name: getattr(graph, name)[square]
            for name in ("latest", "least", "most", "least_open", "most_open", "order")
        },
        streams=graph.streams[:m],
        periods=graph.periods[:m],
        comparisons=graph.comparisons[(graph.comparisons[:, [0, 3]] < m).all(axis=1)],
        has_absent=False,
        strategy=strategy,
    )
    events = [
        replace(event, roles=tuple(each for each in event.roles if each[1] < m))
        for event in world.events
    ]
    feed, begin = Feed({0: graph}, FEATURES), 0
    for end, until in world.cuts:
        feed.take(events[begin:end], until)
        begin = end
        slots, variables, expiries = feed.store.entries()
        numbers = feed.store.sequences(slots).tolist()
        if strategy == NO_INDEX:
            kept = dict(zip(zip(numbers, variables.tolist(), strict=True), expiries, strict=True))
        else:
            kept = {(n, 0): x for n, x in zip(numbers, expiries, strict=True)}
        assert kept == held_by_model(graph, events, until, strategy != NO_INDEX)
        assert feed.store.held == len({n for n, _ in kept})
        assert feed.store.held_entries == len(kept)


@given(worlds(), st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_store_goes_on_where_another_was(world: World, data: st.DataObject) -> None:
    feed = Feed(world.graphs, FEATURES)
    told, begin = [], 0
    for end, until in world.cuts:
        told += feed.take(world.events[begin:end], until)
        begin = end
        if data.draw(st.booleans()):
            before, feed = feed, feed.saved()
            assert feed.kept() == before.kept()
            assert feed.store.held == before.store.held
            assert feed.store.held_entries == before.store.held_entries
            assert feed.store.next_deadline() == before.store.next_deadline()
    told += feed.take([], NEVER)
    assert sorted(told, key=repr) == world.expected()


@given(worlds(most_graphs=5, most_variables=3), st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_graphs_come_and_go(world: World, data: st.DataObject) -> None:
    feed = Feed({}, FEATURES)
    told: list[Told] = []
    expected: set[Told] = set()
    begin, at, born = 0, -1, {}
    for end, until in [*world.cuts, (len(world.events), NEVER)]:
        for key, graph in world.graphs.items():
            if key not in feed.numbers and data.draw(st.integers(0, 2)):
                feed.add(key, graph)
                born[key] = begin
            elif key in feed.numbers and data.draw(st.integers(0, 3)) == 0:
                feed.remove(key)
                seen = all_matches(key, graph, world.events, range(born.pop(key), begin))
                expected |= {each for each in seen if each.instant <= at}
        if not feed.numbers:
            assert feed.store.held == feed.store.held_entries == 0
        told += feed.take(world.events[begin:end], until)
        begin, at = end, until
    for key, first in born.items():
        every = range(first, len(world.events))
        expected |= all_matches(key, world.graphs[key], world.events, every)
    assert feed.store.held == 0
    assert sorted(told, key=repr) == sorted(expected, key=repr)


def collision(strategy: int) -> Graph:
    """The query of the paper's Figure 1b: b at most 5 after a, c from 1 to 5 after b, all near."""
    most = np.array([[math.inf, 1, 2], [1, math.inf, 1], [2, 1, math.inf]])
    return Graph(
        streams=np.zeros(3, np.int64),
        periods=np.zeros(3, np.int64),
        latest=np.array([[0, 5, 10], [0, 0, 5], [-1, -1, 0]]),
        least=np.zeros((3, 3)),
        most=most,
        least_open=np.zeros((3, 3), bool),
        most_open=np.ones((3, 3), bool),
        order=np.zeros((3, 3), np.int8),
        comparisons=np.empty((0, 5), np.int64),
        has_absent=False,
        asks_more=False,
        sphere=False,
        strategy=strategy,
    )


def reading(time: int, role: int, x: float, y: float) -> Event:
    return Event(time, time, 0, x, y, (), ((0, role),))


A1, B1, B2, C1 = (
    reading(1, 0, 0, 0),
    reading(2, 1, 3, 3),
    reading(3, 1, 0.5, 0),
    reading(3, 2, 1, 0),
)
C2 = reading(6, 2, 0.9, 0.3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_example_of_the_paper(strategy: int) -> None:
    feed = Feed({0: collision(strategy)})
    assert feed.take([A1], 1) == []
    assert feed.kept() == {(0, 0, 0, 11 if strategy == LOOSE else 6)}
    assert feed.take([B1], 2) == []
    assert (1, 0, 1, 7) in feed.kept() or strategy != LOOSE
    assert feed.take([B2, C1], 3) == []
    assert {row for row in feed.kept() if row[0] != 1} == {
        (0, 0, 0, 11 if strategy == LOOSE else 8),
        (2, 0, 1, 8),
    }
    assert feed.take([], 5) == []
    assert feed.take([C2], 6) == [Told(0, 6, 4, (0, 2, 4))]
    held = {}
    for until in (7, 8, 10, 11):
        feed.take([], until)
        held[until] = feed.store.held
    assert held == ({7: 2, 8: 1, 10: 1, 11: 0} if strategy == LOOSE else {7: 2, 8: 0, 10: 0, 11: 0})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_waits_in_vain_is_dropped_at_its_instant(strategy: int) -> None:
    feed = Feed({0: collision(strategy)})
    feed.take([A1], 1)
    last = 11 if strategy == LOOSE else 6
    feed.take([], last - 1)
    assert feed.store.held == 1
    far = replace(A1, instant=last + 1, time=last + 1, x=50.0)
    feed.take([far], last + 1)
    assert {row[0] for row in feed.kept()} == {1}
    assert feed.store.peak == 1
    feed.take([], last + 1 + last)
    assert feed.store.held == 0


def test_a_reading_is_kept_once_for_all_graphs_of_a_level() -> None:
    graphs = {k: collision(TIGHT) for k in range(4)}
    shared = Feed(graphs)
    event = replace(A1, roles=tuple((k, 0) for k in graphs))
    shared.take([event], 1)
    assert (shared.store.held, shared.store.held_entries) == (1, 1)
    apart = Feed({k: replace(each, strategy=NO_INDEX) for k, each in graphs.items()})
    apart.take([event], 1)
    assert (apart.store.held, apart.store.held_entries) == (1, 4)
    shared.remove(2)
    assert (shared.store.held, shared.store.held_entries) == (1, 1)
    assert {row[1] for row in shared.kept()} == {0, 1, 3}
    for key in (0, 1, 3):
        shared.remove(key)
        apart.remove(key)
    assert (shared.store.held, shared.store.held_entries) == (0, 0)
    assert (apart.store.held, apart.store.held_entries) == (1, 1)


def test_new_features_are_unknown_to_what_is_kept() -> None:
    equal = replace(collision(TIGHT), comparisons=np.array([[0, 1, 0, 1, 1]]))
    feed = Feed({0: collision(NO_INDEX)}, features=0)
    feed.take([A1], 1)
    feed.store.set_features(2)
    feed.add(1, equal)
    slots, _, expiries = feed.store.entries()
    feed.store.keep(slots, np.full(1, feed.store.first(feed.numbers[1])), expiries)
    assert {row[:3] for row in feed.kept()} == {(0, 0, 0), (0, 1, 0)}
    known = replace(B2, features=(7, 7), roles=((0, 1), (1, 1)))
    feed.take([replace(A1, instant=2, time=2, features=(7, 7), roles=((1, 0),)), known], 3)
    told = feed.take([replace(C2, features=(0, 0), roles=((0, 2), (1, 2)))], 6)
    assert {(each.graph, each.readings) for each in told} == {(0, (0, 2, 3)), (1, (1, 2, 3))}


@pytest.mark.parametrize("room_at_first", [1, 64])
def test_many_matches_of_one_reading(room_at_first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any table has room for: the reading is begun again, and each is told once."""
    monkeypatch.setattr(constraint_store, "FIRST_ROOM", room_at_first)
    pair = replace(
        collision(TIGHT),
        latest=np.zeros((3, 3), np.int64),
        most=np.full((3, 3), math.inf),
        most_open=np.zeros((3, 3), bool),
    )
    for strategy in STRATEGIES:
        feed = Feed({0: replace(pair, strategy=strategy)})
        events = [reading(1, role, 0, 0) for role in (0, 1) for _ in range(30)]
        told = feed.take([*events, reading(1, 2, 0, 0)], 1)
        assert len(told) == len(set(told)) == 900
