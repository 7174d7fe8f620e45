"""Figure 18 of Spatial Join CQ: queries over the join of two windows."""

from __future__ import annotations

import time

import numpy as np

from bench import window_join
from bench.ibs import IbsJoin
from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict, Watch, column
from bench.papers.rule_times import WHERE, machine
from bench.papers.sizes import Size
from bench.world import calibrate
from place.errors import InternalError

ATTRIBUTES = 4
HOWS = ("SJ-Join", "IBS-JS", "ours")
STATED = 6.9


def measure(size: Size, seed: int, watch: Watch) -> Record:
    """Windows of each size, and each number of queries."""
    calibrations = [calibrate()]
    counts: list[Row] = []
    times: list[Row] = []
    cases = [(window, queries) for window in size.window_sizes for queries in size.window_queries]
    for window, queries in watch.each(cases, "joins of windows"):
        pairs, taken = _compare(window, queries, size.window_arrivals, seed)
        about = {"window": window, "queries": queries}
        counts.append({**about, "arrivals": size.window_arrivals, "pairs": pairs})
        times += [{**about, "how": how, "ms": round(1e3 * taken[how], 5)} for how in HOWS]
    setting = {"size": size.name, "seed": seed, "attributes": ATTRIBUTES}
    return Record(setting, counts, times, machine(calibrations))


def _compare(window: int, queries: int, arrivals: int, seed: int) -> tuple[int, dict[str, float]]:
    """All pairs of all arrivals, and the median of the seconds that each way needs for one."""
    drawn = window_join.draw_queries(queries, ATTRIBUTES, 1.0, seed)
    setting = window_join.Setting(queries, ATTRIBUTES, window, arrivals + 2)
    windows = window_join.Windows(setting, seed)
    paper, ours = window_join.PaperJoin(drawn), window_join.SpatialJoin(drawn)
    trees = IbsJoin(*drawn)
    ours.prepare(windows.held[0])
    taken: dict[str, list[float]] = {how: [] for how in HOWS}
    pairs = 0
    for number, (stream, arrival, held) in enumerate(windows.arrivals()):
        seconds = [time.thread_time()]
        found = [paper.arrive(stream, arrival, held)]
        seconds.append(time.thread_time())
        found.append(trees.arrive(stream, arrival, held, window_join.holds))
        seconds.append(time.thread_time())
        found.append(ours.arrive(stream, arrival, held))
        seconds.append(time.thread_time())
        keys = [window_join.keys_of(one, queries) for one in found]
        if not all(np.array_equal(keys[0], other) for other in keys[1:]):
            raise InternalError("the joins of windows find different pairs")
        if number >= 2:  # the first ones compile
            pairs += len(keys[0])
            for how, spent in zip(HOWS, np.diff(seconds), strict=True):
                taken[how].append(float(spent))
    return pairs, {how: float(np.median(spent)) for how, spent in taken.items()}


def about(record: Record) -> str:
    return (
        f"Two streams of {record.setting['attributes']} attributes; a query compares their first "
        "attributes by an operator and has a condition on each attribute of both. A reading "
        "arrives and meets the window of the other stream. SJ-Join joins the pairs as points, in "
        "clusters, with boxes into which join conditions are cut (four for each query). IBS-JS "
        "finds the pairs of each operator once and asks trees about each pair; it counts what the "
        "arrival's own attributes say only once. *Ours* asks which queries the arrival's "
        "own attributes leave, and joins the window with those."
    )


def tables(record: Record) -> list[Shown]:
    rows = []
    for number, count in enumerate(record.counts):
        taken = record.times[number * len(HOWS) : (number + 1) * len(HOWS)]
        ms = {str(row["how"]): float(row["ms"]) for row in taken}
        rows.append(
            [
                f"{count['window']:,}",
                f"{count['queries']:,}",
                f"{int(count['pairs']) / int(count['arrivals']):,.0f}",
                *(f"{ms[how]:.3f}" for how in HOWS),
                f"{ms['IBS-JS'] / ms['SJ-Join']:.1f}",
                f"{ms['IBS-JS'] / ms['ours']:.1f}",
            ]
        )
    heads = ("window", "queries", "pairs", *HOWS, "IBS-JS / SJ-Join", "IBS-JS / ours")
    return [Shown("Milliseconds for an arrival", heads, rows)]


def panels(record: Record) -> list[Panel]:
    found = []
    for window in dict.fromkeys(column(record.counts, "window")):
        lines = [
            Line(
                how,
                column(record.times, "queries", how=how, window=window),
                column(record.times, "ms", how=how, window=window),
            )
            for how in HOWS
        ]
        title, y = f"windows of {window:,}", "milliseconds an arrival"
        found.append(Panel(title, "queries", y, lines, log_x=True, log_y=True))
    return found


def _ratios(record: Record, fast: str, **where: int) -> list[float]:
    slow = column(record.times, "ms", how="IBS-JS", **where)
    return [
        float(a) / float(b)
        for a, b in zip(slow, column(record.times, "ms", how=fast, **where), strict=True)
    ]


def judge(record: Record) -> list[Verdict]:
    """The join is faster, the more so the larger the window."""
    where = f"{WHERE}, section 7.4, figure 18"
    windows = list(dict.fromkeys(column(record.counts, "window")))
    most = {window: max(_ratios(record, "SJ-Join", window=window)) for window in windows}
    ours = max(_ratios(record, "ours", window=windows[-1]))
    told = ", ".join(f"{ratio:.1f} at {window:,}" for window, ratio in most.items())
    all_ratios = _ratios(record, "SJ-Join")
    return [
        Verdict(
            "SJ-Join outperforms IBS-JS, by up to 2.6, 3.9 and 6.9 times at windows of 100, 1,000 "
            "and 10,000",
            where,
            f"{min(all_ratios):.1f} to {max(all_ratios):.1f} times as fast; at best {told}",
            "faster everywhere",
            min(all_ratios) > 1.0,
        ),
        Verdict(
            "the margin grows with the window",
            where,
            f"at best {told}",
            "larger at the largest window than at the smallest",
            most[windows[-1]] > most[windows[0]],
        ),
        Verdict(
            "a spatial join outperforms IBS-JS by up to 6.9 times",
            where,
            f"our choice does, by up to {ours:.1f} times at the largest window",
            f"our choice reaches {STATED:g} times",
            ours >= STATED,
        ),
    ]


EXPERIMENT = Experiment(
    "windows",
    "Joins of windows",
    "Spatial Join CQ, figure 18",
    about,
    measure,
    tables,
    panels,
    judge,
)
