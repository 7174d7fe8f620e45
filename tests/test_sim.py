"""Moving objects drive where the roads are, no faster than they may, and the same every time."""

import dataclasses
import heapq
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.errors import ConfigurationError
from place.sim import (
    CLASSES,
    City,
    Generator,
    ObjectClass,
    Report,
    State,
    build_city,
    make_city,
)
from place.sim.generator import Options

TOWN = make_city("town", nodes=300, seed=3)
ARRAYS = ("keys", "xs", "ys", "codes", "speeds", "gone")


def crowd(**changes: object) -> Generator:
    """Many objects in a small town, so that each is in the others' way."""
    options: dict[str, object] = {"objects": 20_000, "seed": 5, "period": 60, "destinations": 40}
    return Generator(TOWN, **(options | changes))  # type: ignore[arg-type]


def assert_same(one: Report, other: Report) -> None:
    assert (one.step, one.seconds) == (other.step, other.seconds)
    for name in ARRAYS:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


CROWD = list(crowd().run(14))


def nearest_edges(city: City, x: float, y: float) -> tuple[np.ndarray, np.ndarray, float]:
    """The edges that a point is on (or nearest to), how far along each, and how far away."""
    ax, ay = city.xs[city.starts], city.ys[city.starts]
    dx, dy = city.xs[city.ends] - ax, city.ys[city.ends] - ay
    part = np.clip(((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy), 0, 1)
    away = np.hypot(ax + part * dx - x, ay + part * dy - y)
    edges = np.flatnonzero(away <= away.min() + 1e-12)
    return edges, part[edges], float(away.min())


def costs_to(city: City, target: int, costs: np.ndarray) -> np.ndarray:
    """Plain Dijkstra over undirected edges."""
    around: dict[int, list[tuple[int, float]]] = {}
    for a, b, cost in zip(city.starts.tolist(), city.ends.tolist(), costs.tolist(), strict=True):
        around.setdefault(a, []).append((b, cost))
        around.setdefault(b, []).append((a, cost))
    best = np.full(len(city.xs), np.inf)
    best[target] = 0.0
    queue = [(0.0, target)]
    while queue:
        cost, node = heapq.heappop(queue)
        if cost > best[node]:
            continue
        for other, more in around[node]:
            if cost + more < best[other]:
                best[other] = cost + more
                heapq.heappush(queue, (cost + more, other))
    return best


# Cities


@pytest.mark.parametrize("nodes", [100, 777, 1000, 10_000])
def test_a_city_is_connected_has_all_its_nodes_and_lies_in_the_unit_square(nodes: int) -> None:
    city = make_city("any", nodes=nodes)
    assert len(city.xs) == nodes
    assert np.isfinite(costs_to(city, 0, city.lengths)).all()
    x1, y1, x2, y2 = city.bounds
    assert 0 <= min(x1, y1) < 0.1
    assert 0.9 < max(x2, y2) <= 1
    assert np.allclose(
        city.lengths,
        20_000 * np.hypot(*(v[city.starts] - v[city.ends] for v in (city.xs, city.ys))),
    )


def test_a_larger_city_has_roads_of_all_classes_and_more_small_ones_than_large_ones() -> None:
    counts = np.bincount(make_city(nodes=5000).classes, minlength=7)
    assert len(counts) == 7
    assert counts.all()
    assert counts[5] > counts[:4].sum()


@pytest.mark.parametrize("seed", range(4))
def test_few_bridges_lead_over_the_river(seed: int) -> None:
    # As many ways from north to south as share no road: each search may take back a part of those
    # before it, so what is found is the most there are.
    city = make_city("river", nodes=3000, seed=seed)
    ends = [city.ends, city.starts]
    used: set[int] = set()
    ways = 0
    while ways <= 15:
        came = {int(node): -1 for node in np.flatnonzero(city.ys > 0.8)}
        queue = list(came)
        reached = -1
        for node in queue:
            if city.ys[node] < 0.2:
                reached = node
                break
            for arc in city.arcs[city.first[node] : city.first[node + 1]].tolist():
                other = int(ends[arc & 1][arc >> 1])
                if arc not in used and other not in came:
                    came[other] = arc
                    queue.append(other)
        if reached < 0:
            break
        ways += 1
        while (arc := came[reached]) >= 0:
            if arc ^ 1 in used:
                used.remove(arc ^ 1)
            else:
                used.add(arc)
            reached = int(ends[(arc ^ 1) & 1][arc >> 1])
    assert 3 <= ways <= 12


def test_the_same_name_and_seed_make_the_same_city_and_others_make_others() -> None:
    cities = [
        make_city("a", nodes=200),
        make_city("b", nodes=200),
        make_city("a", nodes=200, seed=1),
    ]
    assert len({city.fingerprint() for city in cities}) == 3
    assert make_city("a", nodes=200).fingerprint() == cities[0].fingerprint()


def test_the_adjacency_holds_every_edge_from_both_ends() -> None:
    seen = []
    for node in range(len(TOWN.xs)):
        for arc in TOWN.arcs[TOWN.first[node] : TOWN.first[node + 1]].tolist():
            assert (TOWN.ends if arc & 1 else TOWN.starts)[arc >> 1] == node
            seen.append(arc)
    assert sorted(seen) == list(range(2 * len(TOWN.starts)))


def test_of_several_parts_the_largest_is_the_city() -> None:
    city = build_city(
        [0, 1, 5, 6, 7, 9], [0] * 6, [0, 2, 3, 3], [1, 3, 4, 3], [0, 1, 2, 3], metres=900
    )
    assert city.xs.tolist() == [5, 6, 7]
    assert (city.starts.tolist(), city.ends.tolist()) == ([0, 1], [1, 2])
    assert city.classes.tolist() == [1, 2]
    assert city.lengths.tolist() == [100, 100]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0, 0], [0], [0], [3]), "at least one road"),
        (([], [], [], [], []), "at least one road"),
        (([0, 1], [0, 0], [0], [2], [3]), "not among the 2 nodes"),
        (([0, 1], [0, 0], [0], [1], [7]), "0 to 6"),
        (([0, 1], [0], [0], [1], [3]), "an x and a y by node"),
        (([0, 1], [0, 0], [0], [1], [3, 3]), "a class by edge"),
        (([0, float("nan")], [0, 0], [0], [1], [3]), "finite numbers"),
        (([0, 1], [0, 0], [0], [1], [3], [float("inf")]), "finite numbers"),
        (([0, 1], [0, 0], [0] * 300, [1] * 300, [3] * 300), "300 roads meet"),
    ],
)
def test_a_city_that_is_none_is_refused(arguments: tuple[list[float], ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build_city(*arguments)


# Driving


def test_objects_stay_on_roads_and_within_their_limits() -> None:
    top = np.array([kind.speed for kind in CLASSES])
    slowed = 0
    for report in CROWD[:6]:
        assert (report.speeds <= top[report.codes]).all()
        for i in range(0, 20_000, 199):
            edges, _, away = nearest_edges(TOWN, report.xs[i], report.ys[i])
            assert away < 1e-12
            if not report.gone[i] and report.speeds[i] > 0:
                limit = min(float(TOWN.limits[edges].max()), top[report.codes[i]])
                assert report.speeds[i] <= limit
                slowed += report.speeds[i] < 0.79 * limit
    assert slowed > 100  # roads are crowded, or the tests below would say little


def test_nobody_is_further_away_than_its_class_can_drive() -> None:
    top = np.array([kind.speed for kind in CLASSES]) / 3.6
    for before, after in pairwise(CROWD):
        same = before.keys == after.keys
        moved = 20_000 * np.hypot(after.xs - before.xs, after.ys - before.ys)[same]
        assert (moved <= 60 * top[after.codes][same] * (1 + 1e-9)).all()
        assert moved.max() > 0


def test_the_number_of_objects_stays_and_no_key_comes_back() -> None:
    ended: set[int] = set()
    for before, after in pairwise(CROWD):
        assert len(set(after.keys.tolist())) == 20_000
        ended |= set(before.keys[before.gone].tolist())
        assert ended.isdisjoint(after.keys.tolist())
        assert np.array_equal(before.keys[~before.gone], after.keys[~before.gone])
        assert (before.keys[before.gone] != after.keys[before.gone]).all()
    assert len(ended) > 1000


def test_every_object_drives_a_fastest_route_of_its_class() -> None:
    # With empty roads the time that is left falls by the pace of the object in each step, exactly
    # if the object is on a fastest route; on any other way it would fall more slowly.
    period = 45.0
    generator = Generator(TOWN, objects=60, seed=11, period=period, weather=0, crowding=0)
    lives: dict[int, list[tuple[float, float, int]]] = {}
    complete: list[list[tuple[float, float, int]]] = []
    for report in generator.run(120):
        for key, x, y, code, gone in zip(
            report.keys.tolist(),
            report.xs.tolist(),
            report.ys.tolist(),
            report.codes.tolist(),
            report.gone.tolist(),
            strict=True,
        ):
            lives.setdefault(key, []).append((x, y, code))
            if gone:
                complete.append(lives.pop(key))
    assert {life[0][2] for life in complete} >= {0, 1, 2, 3}
    assert sum(len(life) >= 8 for life in complete) > 60
    for life in complete:
        (x, y, code), (end_x, end_y, _) = life[0], life[-1]
        (target,) = np.flatnonzero((TOWN.xs == end_x) & (TOWN.ys == end_y))
        assert ((TOWN.xs == x) & (TOWN.ys == y)).any()
        costs = 3.6 * TOWN.lengths / np.minimum(TOWN.limits, CLASSES[code].speed)
        best = costs_to(TOWN, int(target), costs)
        left = []
        for x, y, _ in life[:-1]:
            edges, part, _ = nearest_edges(TOWN, x, y)
            there = best[TOWN.starts[edges]] + part * costs[edges]
            back = best[TOWN.ends[edges]] + (1 - part) * costs[edges]
            left.append(float(np.minimum(there, back).min()))
        steps = -np.diff(left) / period
        if len(steps):
            assert np.allclose(steps, steps[0], rtol=1e-6)
            assert 0.8 - 1e-6 <= steps[0] <= 1 + 1e-6
            assert left[-1] <= steps[0] * period * (1 + 1e-6)


def test_classes_come_in_their_shares() -> None:
    counts = np.bincount(CROWD[0].codes, minlength=len(CLASSES)) / 20_000
    assert np.allclose(counts, [kind.share for kind in CLASSES], atol=0.02)


@pytest.mark.parametrize(("objects", "left"), [(10, 1.0), (60, 1.0), (120, 0.5), (5000, 0.1)])
def test_a_full_road_is_slow(objects: int, left: float) -> None:
    road = build_city([0, 1], [0, 0], [0], [1], [3], metres=1000)  # 50 km/h, room for 60
    generator = Generator(road, objects=objects, destinations=1, weather=0, period=1)
    generator.advance()
    speeds = generator.advance().speeds
    limits = np.minimum(50, np.array([kind.speed for kind in CLASSES])[generator.at(1).codes])
    assert (speeds >= 0.8 * limits * left - 1e-9).all()
    assert (speeds <= limits * left + 1e-9).all()


def test_weather_slows_an_area_down_and_moves() -> None:
    # Snails stay on their edge, so that a step tells the weather of just that step.
    snails = {"classes": [ObjectClass("snail", 1, 0.001)], "period": 300, "crowding": 0}
    fair = crowd(**snails, weather=0).at(6)
    generator = crowd(**snails, weather=3)
    report = generator.at(6)
    areas = generator.areas(6)
    assert areas.shape == (3, 3)
    far = np.hypot(report.xs - areas[:, :1], report.ys - areas[:, 1:2]) - areas[:, 2:]
    slow = report.speeds < 0.9 * fair.speeds
    reach = TOWN.lengths.max() / 20_000
    assert slow[(far < -reach).any(axis=0)].all()
    assert not slow[(far > reach).all(axis=0)].any()
    assert 0 < slow.sum() < len(slow)
    x1, y1, x2, y2 = TOWN.bounds
    later = np.array([generator.areas(step) for step in range(0, 2000, 99)])
    assert (later[1:, :, :2] != later[:-1, :, :2]).all()
    assert ((later[..., 0] >= x1) & (later[..., 0] <= x2)).all()
    assert ((later[..., 1] >= y1) & (later[..., 1] <= y2)).all()


# The same every time


def test_another_seed_gives_other_readings() -> None:
    assert not np.array_equal(crowd(seed=6).at(3).xs, CROWD[3].xs)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 13), min_size=1, max_size=5))
def test_readings_depend_on_the_step_and_not_on_the_way_to_it(steps: list[int]) -> None:
    generator = crowd()
    for step in steps:
        assert_same(generator.at(step), CROWD[step])
        assert generator.step == step + 1


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_generator_goes_on_from_its_checkpoints(batches: list[int]) -> None:
    generator = crowd()
    for batch in batches:
        for report in generator.run(min(batch, len(CROWD) - generator.step)):
            assert_same(report, CROWD[report.step])
        generator = Generator.resume(TOWN, State.from_bytes(generator.state().to_bytes()))
    if generator.step < len(CROWD):
        assert_same(generator.advance(), CROWD[generator.step - 1])
    assert_same(generator.at(0), CROWD[0])


def test_a_checkpoint_stays_as_it_was_while_the_generator_goes_on() -> None:
    generator = crowd()
    generator.at(4)
    state = generator.state()
    generator.at(9)
    assert_same(Generator.resume(TOWN, state).advance(), CROWD[5])


def test_a_checkpoint_of_another_city_and_a_broken_one_are_refused() -> None:
    state = crowd().state()
    with pytest.raises(ConfigurationError, match="another city"):
        Generator.resume(make_city("town", nodes=300, seed=4), state)
    for broken in (b"", b"not a checkpoint", state.to_bytes()[:100]):
        with pytest.raises(ConfigurationError, match="no checkpoint"):
            State.from_bytes(broken)


def test_a_report_is_not_overwritten_by_the_next() -> None:
    generator = crowd()
    first = generator.advance()
    kept = {name: getattr(first, name).copy() for name in ARRAYS}
    generator.advance()
    assert all(np.array_equal(getattr(first, name), kept[name]) for name in ARRAYS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objects": 0}, "at least 1 object"),
        ({"period": 0}, "seconds above 0"),
        ({"period": float("nan")}, "seconds above 0"),
        ({"destinations": 0}, "1 to 4096"),
        ({"weather": -1}, "number of areas"),
        ({"crowding": -1}, "from 0 on"),
        ({"classes": []}, "classes of objects"),
        ({"classes": [ObjectClass("boat", 0.5, 0)]}, '"boat" must be above 0'),
    ],
)
def test_options_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        crowd(**changes)


def test_steps_before_the_beginning_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no step -1"):
        crowd(objects=1).at(-1)


def test_options_are_all_in_the_checkpoint() -> None:
    changed = crowd(objects=7, seed=-3, weather=1, crowding=0.5, classes=CLASSES[:2])
    restored = State.from_bytes(changed.state().to_bytes()).options
    assert dataclasses.asdict(restored) == dataclasses.asdict(changed.options)


def test_the_python_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parent.parent / "docs" / "generator.md"
    monkeypatch.chdir(tmp_path)
    Path("oldenburgGen_node.txt").write_text("1 0 0 *\n2 3 4 *\n", "utf-8")
    Path("oldenburgGen_edge.txt").write_text("1 1 2 0 *\n", "utf-8")
    for name in ("roads.geojson", "plan.geojson"):
        line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
        Path(name).write_text(json.dumps(line), "utf-8")
    making, loading = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(making, scope)
    assert scope["report"].step == 60
    exec(loading, scope)
    assert len(scope["city"].starts) == 1


def test_every_option_is_on_the_page() -> None:
    page = (Path(__file__).parent.parent / "docs" / "generator.md").read_text("utf-8")
    for option in dataclasses.fields(Options):
        assert f"| `{option.name}` |" in page, option.name


# Objects that roam


def test_objects_that_roam_drive_on_from_where_they_are_and_stay_who_they_are() -> None:
    generator = Generator(TOWN, objects=300, seed=2, period=60, destinations=20, roam=True)
    reports = list(generator.run(60))
    furthest = 60 * max(TOWN.speeds) / 3.6 / 20_000 * (1 + 1e-9)
    moves = 0
    for before, after in pairwise(reports):
        assert after.keys.tolist() == list(range(300))
        assert np.array_equal(before.codes, after.codes)
        assert not after.gone.any()
        away = np.hypot(after.xs - before.xs, after.ys - before.ys)
        assert away.max() <= furthest
        moves += int(((before.speeds > 0) & (after.speeds == 0)).sum())
    assert moves > 300  # many have begun another way


@pytest.mark.parametrize("step", [1, 17, 40])
def test_objects_that_roam_go_on_from_a_checkpoint(step: int) -> None:
    options: dict[str, Any] = {"objects": 200, "seed": 2, "period": 60, "roam": True}
    generator = Generator(TOWN, **options)
    wanted = list(generator.run(50))
    fresh = Generator(TOWN, **options)
    for _ in fresh.run(step):
        pass
    resumed = Generator.resume(TOWN, State.from_bytes(fresh.state().to_bytes()))
    for report in wanted[step:]:
        assert_same(report, resumed.advance())
