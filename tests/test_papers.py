"""The papers' experiments: counts are right and repeatable, and verdicts can say no."""

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench import cache, pipeline
from bench.papers import (
    answers,
    caches,
    cluster_sizes,
    delay,
    delays,
    pipelines,
    plot,
    rule_times,
    selections,
    selectivity,
    traffic,
    triggers,
    window_joins,
)
from bench.papers.command import EXPERIMENTS, make
from bench.papers.record import Record, Watch, read_record, write_record
from bench.papers.sizes import Size
from place.cli import main
from place.errors import ConfigurationError
from place.sim import make_city

TINY = Size(
    name="tiny",
    objects=90,
    queries=60,
    settling=3,
    periods=3,
    pipeline_objects=40,
    pipeline_ticks=2,
    delay_objects=40,
    delay_queries=8,
    delay_seconds=0.05,
    rates=(2_000, 4_000),
    spark_rates=(),
    spark_seconds=0.0,
    selectivity_objects=60,
    selectivity_periods=20,
    cache_objects=30,
    cache_queries=3,
    cache_seconds=3,
    growth_objects=60,
    rule_queries=(50, 200),
    rule_few=60,
    rule_middle=80,
    rule_batch=90,
    rule_wide_batch=60,
    rule_batches=(60, 120),
    rule_singles=4,
    window_sizes=(30, 90),
    window_queries=(40, 120),
    window_arrivals=2,
    trigger_events=1_500,
    trigger_few=2,
    trigger_verbosities=(0.02, 0.1),
    trigger_counts=(1, 3),
    trigger_seconds=(600, 1_200),
    trigger_variables=(2, 3),
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small city with large queries in it, and few cases of what other benchmarks measure."""
    monkeypatch.setattr(traffic, "make_city", lambda: make_city(nodes=150, metres=1_500))
    monkeypatch.setattr(pipeline, "AREAS", (0.02, 0.64))
    monkeypatch.setattr(pipeline, "WARM_UP", 2)
    monkeypatch.setattr(cache, "SHARES", (0.0, 0.75, 1.0))
    monkeypatch.setattr(caches, "WALKS", 1)
    monkeypatch.setattr(delay, "WARM_UP", (20,))
    monkeypatch.setattr(delay, "BATCH", 0.02)
    for module in (delay, rule_times, cluster_sizes, selections, window_joins, triggers):
        monkeypatch.setattr(module, "calibrate", lambda: 0.5)
    monkeypatch.setattr(delay, "SIDE", 0.3)


def run(out: Path, seed: int = 1, names: tuple[str, ...] = tuple(EXPERIMENTS)) -> list[Record]:
    chosen = [EXPERIMENTS[name] for name in names]
    return [record for _, record in make(chosen, TINY, seed, out, Console(quiet=True))]


# Counts


@pytest.mark.parametrize(
    ("side", "share", "query_share"), [(0.3, 1.0, None), (0.2, 0.4, 0.4), (0.5, 0.5, 0.0)]
)
def test_sizes_of_answers_are_those_of_plain_comparison(
    side: float, share: float, query_share: float | None
) -> None:
    moving = answers.frames(TINY, seed=3)
    walking = np.random.default_rng(5).random(TINY.objects) < share
    of_queries = share if query_share is None else query_share
    leading = np.random.default_rng(6).random(TINY.queries) < of_queries
    held = []
    for objects, centres in zip(moving.objects, moving.centres, strict=True):
        points = np.where(walking[:, None], objects, moving.objects[0])
        middles = np.where(leading[:, None], centres, moving.centres[0])
        low, high = middles - side / 2, middles + side / 2
        inside = (points[None] >= low[:, None]) & (points[None] <= high[:, None])
        held.append(inside.all(axis=2))
    complete = sum(int(answer.sum()) for answer in held[1:])
    changed = sum(int((before != after).sum()) for before, after in pairwise(held))
    found = answers.answer_sizes(moving, side, share, query_share, seed=5)
    assert found == (complete, changed)
    assert 0 < changed < complete


def test_deltas_of_areas_are_those_of_plain_comparison() -> None:
    generator = traffic.settled(60, 2, 3)
    reports = [generator.advance() for _ in range(25)]
    for row in selectivity.count_deltas(reports, (0.2, 0.6, 1.0), Watch()):
        x1, y1, x2, y2 = selectivity.square(float(row["area"]))
        holds: dict[int, bool] = {}
        ever: set[int] = set()
        counts = {True: 0, False: 0}
        for report in reports:
            for key, x, y in zip(report.keys, report.xs, report.ys, strict=True):
                inside = bool(x1 <= x <= x2 and y1 <= y <= y2)
                if holds.get(key, False) != inside:
                    counts[inside] += 1
                holds[key] = inside
                ever |= {int(key)} if inside else set()
        assert (row["positive"], row["negative"]) == (counts[True], counts[False])
        assert row["ever_inside"] == len(ever)
        assert counts[True] > 0


@pytest.mark.parametrize("query", ["stationary", "moving"])
@pytest.mark.parametrize("batch", [None, 0.02])
def test_deltas_of_arrivals_are_those_of_plain_comparison(
    query: str, batch: float | None, tmp_path: Path
) -> None:
    coming = delay.Source(TINY, 4).arrivals(2_000, 150)
    deltas, waits = delay.run_local(coming, query, batch, tmp_path)
    start = {row["id"]: (row["x"], row["y"]) for row in coming.first.to_pylist()}
    before = first = _held(start, coming, query)
    expected = 0
    rows = coming.table.to_pylist()
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        start[row["id"]] = (row["x"], row["y"])
        if batch is None or following is None or _number(row, batch) < _number(following, batch):
            after = _held(start, coming, query)
            expected += len(before ^ after)
            before = after
    assert deltas == expected > 0
    assert len(waits) == 150
    assert (waits >= 0).all()
    if batch is None:
        assert delay.count_local(coming, query, tmp_path) == (len(first), expected)


def _number(row: dict[str, int], batch: float) -> int:
    """The batch that a reading belongs to: the first whole one not before it."""
    return -((delay.START - row["ts"]) // round(batch * 1_000_000))


def _held(
    where: dict[int, tuple[float, float]], coming: delay.Arrivals, query: str
) -> set[tuple[int, int]]:
    held = set()
    half = delay.SIDE / 2
    for number, (centre, focal) in enumerate(zip(coming.centres, coming.focals, strict=True)):
        cx, cy = where[int(focal)] if query == "moving" else centre
        for key, (x, y) in where.items():
            if query == "moving" and key == focal:
                continue
            if cx - half <= x <= cx + half and cy - half <= y <= cy + half:
                held.add((number, key))
    return held


def test_the_conservative_cache_keeps_at_least_the_answer() -> None:
    answered, kept = caches.kept_of_cache(cache.Setting(200, 1, 0.3, 0.02, 3, 1))
    assert 0 < answered < kept < 200 * 10


# Files


@pytest.mark.long
def test_a_run_writes_all_files_and_the_same_seed_writes_the_same(tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    again.mkdir()
    records = run(first)
    for name, experiment in EXPERIMENTS.items():
        record = experiment.measure(TINY, 1, Watch())
        write_record(again, name, record)
        assert (first / f"{name}.json").read_bytes() == (again / f"{name}.json").read_bytes()
        for kind in ("svg", "png"):
            assert len((first / f"{name}.{kind}").read_bytes()) > 5_000
        if name in ("pipeline", "growth"):
            plot.draw(experiment.panels(record), again, name)
            for kind in ("svg", "png"):
                drawn = (first / f"{name}.{kind}").read_bytes()
                assert drawn == (again / f"{name}.{kind}").read_bytes(), name
    for name in ("moving", "selectivity"):
        write_record(again, name, EXPERIMENTS[name].measure(TINY, 2, Watch()))
        assert (first / f"{name}.json").read_bytes() != (again / f"{name}.json").read_bytes()
    for name, record in zip(EXPERIMENTS, records, strict=True):
        assert read_record(first, name) == record
    _check_page(first)


def _check_page(out: Path) -> None:
    page = (out / "README.md").read_text("utf-8")
    titles = re.findall(r"^## (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    links = re.findall(r"\]\(([^)]+)\)", page)
    for link in links:
        if link.startswith("#"):
            assert link[1:] in anchors
        elif not link.startswith("../"):
            assert (out / link).exists(), link
        else:
            assert (Path(__file__).parent.parent / "docs" / link.removeprefix("../")).exists()
    assert len([link for link in links if link.endswith(".svg")]) == len(EXPERIMENTS)
    for number in (4, 5):
        assert f"PLACE 2004, figure {number}" in page
    for paper, numbers in (("PLACE 2005", ("6a", "6b", "7")), ("GPAC", ("9", "11", "12"))):
        for number in numbers:
            assert re.search(rf"{paper}, figures? {number}", page), (paper, number)
    for name, experiment in EXPERIMENTS.items():
        record = read_record(out, name)
        assert record is not None
        for verdict in experiment.judge(record):
            assert f"- **{verdict.word}**: {verdict.stated}" in page


def test_one_figure_alone_keeps_the_others_on_the_page(tmp_path: Path) -> None:
    run(tmp_path, names=("moving", "selectivity"))
    kept = (tmp_path / "moving.json").read_bytes()
    run(tmp_path, seed=9, names=("selectivity",))
    assert (tmp_path / "moving.json").read_bytes() == kept
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "moving.svg" in page
    assert "seed 9" in page


def test_the_command_runs_figures_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.papers.command.QUICK", TINY)
    told = tmp_path / "all.json"
    out = tmp_path / "out"
    call = ["bench", "papers", "--quick", "--figure", "selectivity", "--out", str(out)]
    assert main([*call, "--json", str(told)]) == 0
    shown = capsys.readouterr().out
    assert "GPAC, figure 12" in shown
    assert "agrees if" in shown
    (figure,) = json.loads(told.read_text("utf-8"))
    assert figure["name"] == "selectivity"
    assert len(figure["counts"]) == len(selectivity.AREAS)
    assert {type(verdict["agrees"]) for verdict in figure["verdicts"]} == {bool}


def test_what_cannot_be_done_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "side.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="no record"):
        read_record(tmp_path, "side")
    with pytest.raises(SystemExit):
        main(["bench", "papers", "--figure", "13"])
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("bench.papers.command.QUICK", TINY)
    call = ["bench", "papers", "--quick", "--figure", "selectivity", "--out"]
    assert main([*call, str(tmp_path / "file")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigurationError, match=r"matplotlib.*pip install"):
        plot.check_library()


# Verdicts


def words(experiment: object, record: Record) -> list[bool]:
    return [verdict.agrees for verdict in experiment.judge(record)]  # type: ignore[attr-defined]


def sizes(*pairs: tuple[int, int], **about: object) -> list[dict[str, object]]:
    """Rows of complete and incremental sizes, each with the values of `about` in turn."""
    return [
        {**{k: v[i] for k, v in about.items()}, "complete": c, "incremental": d}  # type: ignore[index]
        for i, (c, d) in enumerate(pairs)
    ]


def test_verdicts_on_the_share_that_moves() -> None:
    about = {"queries": ["moving"] * 2, "share": [0.5, 1.0]}
    right = Record({}, sizes((1000, 10), (1000, 50), **about))  # type: ignore[arg-type]
    assert words(answers.MOVING, right) == [True, True, True]
    wrong = Record({}, sizes((1000, 600), (500, 400), **about))  # type: ignore[arg-type]
    assert words(answers.MOVING, wrong) == [False, False, False]


def test_verdicts_on_the_side() -> None:
    about = {"period": [5.0, 5.0, 1.0], "side": [0.01, 0.02, 0.02]}
    right = Record({}, sizes((100, 30), (400, 58), (400, 10), **about))  # type: ignore[arg-type]
    assert words(answers.QUERY_SIDE, right) == [True, True]
    wrong = Record({}, sizes((100, 30), (400, 130), (400, 10), **about))  # type: ignore[arg-type]
    assert words(answers.QUERY_SIDE, wrong) == [False, False]


def test_verdicts_on_pipelines() -> None:
    def record(inside: tuple[int, int], last: tuple[int, int], chosen: tuple[int, int]) -> Record:
        rows = [
            {
                "operator": o,
                "query": q,
                "area": a,
                "inside_first": i,
                "filters_first": f,
                "chosen": c,
            }
            for o in ("select", "join")
            for q in ("stationary", "moving")
            for a, i, f, c in zip((0.02, 0.64), inside, last, chosen, strict=True)
        ]
        return Record({"readings": 2_000}, rows)

    assert words(pipelines.EXPERIMENT, record((9, 150), (100, 100), (9, 100))) == [True] * 6
    wrong = record((300, 250), (400, 260), (300, 270))
    assert words(pipelines.EXPERIMENT, wrong) == [False, True, False, False, False, False]
    assert not words(pipelines.EXPERIMENT, record((120, 150), (100, 100), (100, 100)))[1]


def test_verdicts_on_delays() -> None:
    def record(at_stated: float, at_most: float, batches: float, spark: float) -> Record:
        found = [
            ("progressive", "stationary", 2_000, at_stated),
            ("progressive", "moving", 2_000, at_stated),
            ("progressive", "stationary", 200_000, at_most),
            ("batches", "stationary", 2_000, batches),
            ("spark", "moving", 2_000, spark),
        ]
        names = ("how", "query", "rate", "mean_ms")
        return Record({}, (), [dict(zip(names, row, strict=True)) for row in found])

    assert words(delays.EXPERIMENT, record(3, 900, 500, 800)) == [True] * 4
    assert words(delays.EXPERIMENT, record(3, 1_100, 500, 1_200)) == [True, False, True, False]
    assert words(delays.EXPERIMENT, record(1_001, 900, 500, 800)) == [False, False, False, True]


def test_verdicts_on_selectivity() -> None:
    def record(*rows: tuple[float, int, int, int]) -> Record:
        names = ("area", "ever_inside", "positive", "negative")
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return Record({"objects": 100}, found)

    assert (
        words(selectivity.EXPERIMENT, record((0.5, 60, 70, 40), (1.0, 100, 100, 0))) == [True] * 4
    )
    wrong = record((0.5, 40, 40, 10), (1.0, 100, 110, 10))
    assert words(selectivity.EXPERIMENT, wrong) == [False] * 4


def test_verdicts_on_caches() -> None:
    def record(*missed: int) -> Record:
        shares = zip((0.0, 0.75, 1.0), (0.1, 0.4, 0.5), missed, strict=True)
        rows = [{"cache": c, "kept": k, "rows": 1000, "missed": m} for c, k, m in shares]
        return Record({}, rows)

    assert words(caches.CACHE, record(100, 5, 0)) == [True, True, True]
    assert words(caches.CACHE, record(0, 20, 1)) == [False, False, False]

    def grown(*kept: int) -> Record:
        rows = [
            {"multiple": m, "answered": 1000, "kept": k}
            for m, k in zip((2, 16, 24), kept, strict=True)
        ]
        return Record({}, rows)

    assert words(caches.GROWTH, grown(3000, 1130, 1085)) == [True, True, True]
    assert words(caches.GROWTH, grown(1100, 1260, 1170)) == [False, False, False]


def selections_record(times: dict[str, tuple[float, ...]], **about: tuple[float, ...]) -> Record:
    """Rows of selections: `about` has a value for each of them, `times` one for each way."""
    size = len(next(iter(times.values())))
    told = [{name: values[i] for name, values in about.items()} for i in range(size)]
    counts = [{**row, "readings": 10, "pairs": 100} for row in told]
    rows = [
        {**row, "how": how, "ms": times[how][i]}
        for i, row in enumerate(told)
        for how in rule_times.HOWS
    ]
    return Record({"batch": 10, "singles": 1}, counts, rows)


def test_verdicts_on_selections() -> None:
    def record(batch: float, single: float, ours: float, alone: float) -> Record:
        times = {
            "SJ-Batch": (1.0, batch),
            "SJ-Immediate": (5.0, single),
            "IBS": (10.0, 100.0),
            "our batch": (1.0, ours),
            "our immediate": (2.0, alone),
        }
        return selections_record(times, queries=(10, 100), attributes=(8, 8))

    assert words(selections.COUNTS, record(4.0, 50.0, 2.0, 30.0)) == [True] * 5
    assert words(selections.COUNTS, record(101.0, 110.0, 9.0, 40.0)) == [False] * 4 + [True]

    def by_share(ibs: float, others: float) -> Record:
        times = dict.fromkeys(rule_times.HOWS, (1.0, others)) | {"IBS": (1.0, ibs)}
        return selections_record(times, predicates=(0.5, 1.0))

    assert words(selections.PREDICATES, by_share(2.0, 0.5)) == [True] * 4
    assert words(selections.PREDICATES, by_share(0.5, 2.0)) == [False] * 4

    def by_skew(batch: float, others: float) -> Record:
        times = dict.fromkeys(rule_times.HOWS, (1.0, others)) | {"SJ-Batch": (1.0, batch)}
        return selections_record(times, skew=(0.0, 1.0))

    assert words(selections.SKEW, by_skew(0.6, 1.1)) == [True] * 3
    assert words(selections.SKEW, by_skew(1.6, 1.4)) == [False] * 3


def test_verdicts_on_sizes_of_clusters() -> None:
    def record(small: tuple[float, ...], large: tuple[float, ...], found: int) -> Record:
        counts = [{"attributes": 4, "batch": b, "found": found, "pairs": 1} for b in (10, 20)]
        times = [
            {"attributes": 4, "batch": batch, "size": size, "ms": ms}
            for batch, all_ms in ((10, small), (20, large))
            for size, ms in zip((16, 32, 64), all_ms, strict=True)
        ]
        return Record({"queries": 10}, counts, times)

    right = record((1.0, 1.05, 1.1), (0.95, 0.9, 0.95), 32)
    assert words(cluster_sizes.EXPERIMENT, right) == [True] * 4
    wrong = record((1.5, 1.0, 1.5), (1.2, 1.5, 1.8), 64)
    assert words(cluster_sizes.EXPERIMENT, wrong) == [False] * 4


def test_verdicts_on_joins_of_windows() -> None:
    def record(small: float, large: float, ours: float) -> Record:
        about = [{"window": window, "queries": 10} for window in (100, 1_000)]
        all_ms = [(small, 10.0, 1.0), (large, 10.0, ours)]
        times = [
            {**row, "how": how, "ms": taken}
            for row, ms in zip(about, all_ms, strict=True)
            for how, taken in zip(window_joins.HOWS, ms, strict=True)
        ]
        return Record(
            {"attributes": 4}, [{**row, "arrivals": 1, "pairs": 5} for row in about], times
        )

    assert words(window_joins.EXPERIMENT, record(5.0, 2.0, 1.0)) == [True] * 3
    assert words(window_joins.EXPERIMENT, record(8.0, 11.0, 2.0)) == [False] * 3
