"""Objects that only move: who is near whom, by comparing places before and after an instant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import place
from place.engine.operators import stream_join
from place.kernels.inside import unit_vectors
from place.kernels.near_changes import near_changes, reach_of
from place.model.space import Space, distance
from place.script.blocks import read_script
from place.script.command import opener
from place.script.runner import Batching, ScriptRunner

SCRIPTS = Path(__file__).parent / "scripts"
PAIRS = "SELECT a.id, b.id FROM Ships a, Ships b WHERE DISTANCE(a, b) <= {} AND a.id < b.id"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few objects move, their places are compared."""
    monkeypatch.setattr(stream_join, "MANY_MOVES", 0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("batching", ["each", "one"])
@pytest.mark.parametrize("room", ["meet", "distance"])
def test_scripts_hold_where_places_are_compared(room: str, batching: str) -> None:
    for path in sorted((SCRIPTS / room).glob("*.cq")):
        ScriptRunner(read_script(path), opener("local", "1x1"), Batching.parse(batching)).run()


@pytest.mark.parametrize("space", list(Space))
@pytest.mark.parametrize("seed", range(5))
def test_changes_are_those_of_all_pairs(space: Space, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = (np.array([-180, -90]), np.array([180, 90]))
    before = [rng.uniform(low, high, (60, 2)).round() for _ in range(2)]
    after = [np.clip(b + rng.integers(-20, 21, b.shape), low, high).astype(float) for b in before]
    for places in (*before, *after):
        places[rng.random(60) < 0.1] = np.nan
    moved = [(b != a).any(axis=1) | np.isnan(b[:, 0]) for b, a in zip(before, after, strict=True)]
    length = 25.0 if space is Space.PLANAR else 3_000_000.0
    reach = reach_of(length, closed=True, sphere=space is Space.WGS84)
    points = [[_points(space, places) for places in state] for state in (before, after)]
    found = near_changes(tuple(points[0]), tuple(points[1]), tuple(moved), reach, threads=2)
    was, now = (_near(space, *state, length) for state in (before, after))
    assert set(zip(*(part.tolist() for part in found.came), strict=True)) == now - was
    assert set(zip(*(part.tolist() for part in found.left), strict=True)) == was - now
    assert was
    assert now - was
    assert was - now


def _points(space: Space, places: np.ndarray) -> np.ndarray:
    if space is Space.WGS84:
        points = unit_vectors(places[:, 0].copy(), places[:, 1].copy())
        points[np.isnan(places[:, 0])] = np.nan
        return points
    return np.column_stack([places, np.where(np.isnan(places[:, 0]), np.nan, 0.0)])


def _near(space: Space, one: np.ndarray, other: np.ndarray, length: float) -> set[tuple[int, int]]:
    return {
        (i, j)
        for i, a in enumerate(one.tolist())
        for j, b in enumerate(other.tolist())
        if not np.isnan([*a, *b]).any() and distance(space, *a, *b) <= length
    }


@pytest.mark.usefixtures("always")
def test_pairs_are_those_of_a_tree_at_every_instant() -> None:
    tree = pytest.importorskip("scipy.spatial").cKDTree
    rng = np.random.default_rng(3)
    count, reach = 400, 40.0
    session = place.connect()
    session.sql("CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE)")
    session.sql("REGISTER QUERY pairs AS " + PAIRS.format(reach))
    places = rng.uniform(0, 1000, (count, 2))
    for second in range(1, 101):
        chosen = np.flatnonzero(rng.random(count) < (1.0 if second == 1 else 0.7))
        places[chosen] += rng.normal(0, 8, (len(chosen), 2))
        rows = [(int(i), *places[i].tolist()) for i in chosen]
        session.push("Ships", rows, time=second * 1_000_000)
        answer = {tuple(row) for row in session.answer("pairs")}
        assert answer == tree(places).query_pairs(reach)
    session.close()
