"""`place bench rules` and `window-join`: what is measured is the same work, and it is told."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench import rules, rules_grid, window_join
from bench.ibs import IbsJoin
from place.cli import main
from place.errors import InternalError


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rules", "window_join", "rules_command"):
        monkeypatch.setattr(f"bench.{module}.calibrate", lambda: 0.5)
    monkeypatch.setattr(rules, "REPEATS", 1)
    monkeypatch.setattr(rules_grid, "REPEATS", 1)
    monkeypatch.setattr(rules_grid, "MOST_REPEATS", 1)
    monkeypatch.setattr(rules, "ONE_BY_ONE", 20)


@pytest.mark.parametrize(
    "more", [[], ["--predicates", "0.5", "--skew", "0.8"], ["--narrow", "0.1"]]
)
def test_rules_are_measured_beside_others(more: list[str], tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    sizes = ["--rules", "600", "--attributes", "3", "--readings", "150"]
    assert main(["bench", "rules", *sizes, *more, "--json", str(file)]) == 0
    told = json.loads(file.read_text("utf-8"))
    keys = "batch_s immediate_s ibs_s duckdb_s batch_ratio immediate_ratio pairs chosen"
    assert {*keys.split(), "calibration_s"} <= set(told)
    assert told["pairs"] > 0
    assert told["batch_ratio"] == pytest.approx(told["ibs_s"] / told["batch_s"])


def test_a_contestant_that_finds_something_else_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rules.Ibs.find
    monkeypatch.setattr(rules.Ibs, "find", lambda *given: [side[1:] for side in found(*given)])
    with pytest.raises(InternalError, match="IBS"):
        rules.measure(rules.Setting(300, 2, 40))


def test_all_ways_are_forced_and_the_choice_is_beside_them() -> None:
    outcomes = rules_grid.measure_choices(((5, 200), (200, 20)))
    assert len(outcomes) == 2 * len(rules_grid.WORLDS)
    for outcome in outcomes:
        assert {"choice", "scan", "grid", "clusters", "bitmaps"} <= set(outcome.seconds)
        assert ("hash" in outcome.seconds) == (outcome.name == "one kind of 200")
        assert outcome.ratio == outcome.seconds["choice"] / outcome.seconds[outcome.best]
    assert rules_grid.choice_figures(outcomes)["settings"] == len(outcomes)
    for sweep in rules_grid.measure_sizes(300, 200):
        assert sweep.found in sweep.seconds
        assert sweep.ratio >= 1.0


def test_wrong_arguments_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "rules", "--grid", "--sweep"]) == 1
    assert main(["bench", "rules", "--narrow", "0"]) == 1
    assert "two experiments" in capsys.readouterr().err


def test_window_joins_are_measured_beside_others(tmp_path: Path) -> None:
    file = tmp_path / "join.json"
    sizes = ["--queries", "200", "--attributes", "2", "--window", "60", "--arrivals", "4"]
    assert main(["bench", "window-join", *sizes, "--json", str(file)]) == 0
    told = json.loads(file.read_text("utf-8"))
    assert told["pairs"] > 0
    assert told["ratio"] == pytest.approx(told["ibs_js_s"] / told["join_s"])


@pytest.mark.parametrize("stream", [0, 1])
def test_joins_of_windows_find_what_comparison_finds(stream: int) -> None:
    """With values that are often equal, so that every operator matters."""
    chance = np.random.default_rng(stream)
    low, high, operators = window_join.draw_queries(150, 2, 0.5, seed=3)
    low, high = np.round(low * 4), np.round(high * 4)
    queries = window_join.Queries(low, high, operators)
    window = chance.integers(0, 5, (40, 2)).astype(float)
    for arrival in chance.integers(0, 5, (5, 2)).astype(float):
        expected = []
        for number, reading in enumerate(window):
            first, second = (arrival, reading) if stream == 0 else (reading, arrival)
            both = np.concatenate([first, second])
            held = ((low <= both) & (both <= high)).all(axis=1)
            for query in np.flatnonzero(held):
                if window_join.holds(int(operators[query]), first[0], second[0]):
                    expected.append(number * 150 + int(query))
        ways = [
            window_join.SpatialJoin(queries).arrive(stream, arrival, window),
            window_join.PaperJoin(queries).arrive(stream, arrival, window),
            IbsJoin(*queries).arrive(stream, arrival, window, window_join.holds),
            window_join.DuckDbJoin(queries).arrive(stream, arrival, window),
        ]
        for found in ways:
            assert window_join.keys_of(found, 150).tolist() == sorted(expected)
        assert expected
