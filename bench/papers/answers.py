"""Figures 4 and 6 of PLACE: the size of the incremental answer beside the complete one.

A complete answer is all pairs of query and object, sent every five seconds; an incremental one is
the deltas. Points of the generator are objects, and some, drawn at random, are centres of squares.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict, Watch, column
from bench.papers.sizes import Size
from bench.papers.traffic import PERIOD, Floats, places, settled
from bench.world import Instant
from place.errors import InternalError
from place.kernels.bulk import BulkMatcher

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SIDES = (0.010, 0.012, 0.014, 0.016, 0.018, 0.020)
SIDE = 0.01
PERIODS = (PERIOD, 1.0)
PAIR_BYTES, QUERY_BYTES, DELTA_BYTES = 4, 4, 9
"""(QID, OList) has a number for each query and each object, (QID, ±, OID) two and a sign."""
CONSTANT, ORDER, FASTER, SEVEN, NEAR = 0.05, 10.0, 1.25, 7.0, 0.75
"""What counts as constant, as an order of magnitude, as faster, and as near to seven times."""


class Frames(NamedTuple):
    """Where objects and the centres of queries are, period by period."""

    objects: list[Floats]
    centres: list[Floats]


class Sizes(NamedTuple):
    """Pairs of all complete answers and deltas of all incremental ones, over the periods."""

    complete: int
    incremental: int


def frames(size: Size, seed: int, period: float = PERIOD) -> Frames:
    """The first frame is where all appear; each of the others is a period later."""
    everyone = size.objects + size.queries
    generator = settled(everyone, seed, size.settling, period)
    order = np.random.default_rng(seed).permutation(everyone)
    centres, objects = order[: size.queries], order[size.queries :]
    found = [places(generator.advance()) for _ in range(size.periods + 1)]
    return Frames([frame[objects] for frame in found], [frame[centres] for frame in found])


def answer_sizes(
    moving: Frames, side: float, share: float = 1.0, query_share: float | None = None, seed: int = 0
) -> Sizes:
    """The sizes of both answers; only a share of the objects and of the queries ever moves.

    The kernel tells deltas. What they add up to is compared with the complete answer at the end,
    found from nothing.
    """
    walking = _chosen(moving.objects[0], share, seed)
    leading = _chosen(moving.centres[0], share if query_share is None else query_share, seed + 1)
    points = [_standing(frame, moving.objects[0], walking) for frame in moving.objects]
    boxes = [_squares(_standing(f, moving.centres[0], leading), side) for f in moving.centres]
    matcher, threads = BulkMatcher(), os.cpu_count() or 1
    held = len(_appearing(points[0], boxes[0]).match(matcher, threads).codes)
    complete = incremental = 0
    modes = np.zeros(len(boxes[0]), np.uint8)
    for (old_points, now_points), (old_boxes, now_boxes) in zip(
        pairwise(points), pairwise(boxes), strict=True
    ):
        instant = Instant(
            np.hstack([now_points, old_points]),
            np.hstack([now_boxes, old_boxes]),
            modes,
            walking,
            leading,
        )
        codes = instant.match(matcher, threads).codes
        held += int((codes == 1).sum()) - int((codes == 2).sum())
        complete += held
        incremental += len(codes)
    if held != len(_appearing(points[-1], boxes[-1]).match(BulkMatcher(), threads).codes):
        raise InternalError("deltas do not add up to the complete answer")
    return Sizes(complete, incremental)


def _chosen(frame: Floats, share: float, seed: int) -> NDArray[np.bool_]:
    """A share of all, drawn at random; a greater share has all of a lesser one."""
    chosen: NDArray[np.bool_] = np.random.default_rng(seed).random(len(frame)) < share
    return chosen


def _standing(frame: Floats, first: Floats, moving: NDArray[np.bool_]) -> Floats:
    return np.where(moving[:, None], frame, first)


def _squares(centres: Floats, side: float) -> Floats:
    return np.hstack([centres - side / 2, centres + side / 2])


def _appearing(points: Floats, boxes: Floats) -> Instant:
    return Instant(
        np.hstack([points, np.full_like(points, np.nan)]),
        np.hstack([boxes, np.full_like(boxes, np.nan)]),
        np.zeros(len(boxes), np.uint8),
        np.ones(len(points), np.bool_),
        np.ones(len(boxes), np.bool_),
    )


def _row(sizes: Sizes, size: Size, **about: float | str) -> Row:
    """The sizes of one period, on average, in rows and in kilobytes."""
    complete, deltas = (round(number / size.periods) for number in sizes)
    sent = complete * PAIR_BYTES + size.queries * QUERY_BYTES
    return {
        **about,
        "complete": complete,
        "incremental": deltas,
        "complete_kb": round(sent / 1024),
        "incremental_kb": round(deltas * DELTA_BYTES / 1024),
    }


def _setting(size: Size, seed: int) -> dict[str, int | str]:
    names = ("objects", "queries", "settling", "periods")
    return {"size": size.name, "seed": seed, **{name: getattr(size, name) for name in names}}


def measure_moving(size: Size, seed: int, watch: Watch) -> Record:
    """Figures 4a and 6a: by the share of objects that moved."""
    moving = frames(size, seed)
    rows = []
    for share in watch.each(SHARES, "answers by the share that moves"):
        for queries, query_share in (("moving", share), ("standing", 0.0)):
            sizes = answer_sizes(moving, SIDE, share, query_share, seed)
            rows.append(_row(sizes, size, queries=queries, share=share))
    return Record({**_setting(size, seed), "side": SIDE}, rows)


def measure_side(size: Size, seed: int, watch: Watch) -> Record:
    """Figures 4b and 6b: by the side of the queries."""
    rows = []
    steps = []
    for period in watch.each(PERIODS, "answers by the side of queries"):
        moving = frames(size, seed, period)
        steps.append({"period": period, "step": round(mean_step(moving.objects), 6)})
        for side in SIDES:
            rows.append(_row(answer_sizes(moving, side), size, period=period, side=side))
    return Record({**_setting(size, seed), "steps": steps}, rows)


def mean_step(objects: Sequence[Floats]) -> float:
    """How far an object goes in a period, on average."""
    ways = [np.hypot(*(after - before).T) for before, after in pairwise(objects)]
    return float(np.nanmean(np.concatenate(ways)))


def _about(record: Record) -> str:
    of = record.setting
    return (
        f"{of['objects']:,} objects and {of['queries']:,} square queries whose centres move as "
        "objects do, from the generator, in the unit square, which is 20 km wide. A complete "
        "answer is all pairs of query and object, an incremental one all deltas, both of one "
        f"period on average over {of['periods']} periods. Kilobytes count four for each number and "
        "one for a sign. "
    )


def about_moving(record: Record) -> str:
    return (
        _about(record) + f"Queries have a side of {record.setting['side']}; a period is "
        f"{PERIOD:g} seconds. A share of the objects and the same share of the queries move in "
        "every period, the others never do; beside it the same with queries that all stand still. "
        "The papers do not say how wide their city is, nor which side 4a has."
    )


def about_side(record: Record) -> str:
    steps = " and ".join(
        f"{step['step']:.4f} in {step['period']:g} s" for step in record.setting["steps"]
    )
    return (
        _about(record) + "Everything moves. The papers evaluate every 5 seconds; a period of 1 "
        "second stands beside it, because the ratio depends on how far objects go in a period: "
        f"here {steps}."
    )


def _ratio(row: Row) -> float:
    return float(row["complete"]) / max(1.0, float(row["incremental"]))


def _table(record: Record, *names: str) -> list[Shown]:
    heads = ("complete", "incremental", "ratio", "complete, KB", "incremental, KB", "ratio of KB")
    rows = [
        [
            *(
                f"{row[name]:g}" if isinstance(row[name], float) else str(row[name])
                for name in names
            ),
            f"{row['complete']:,}",
            f"{row['incremental']:,}",
            f"{_ratio(row):.2f}",
            f"{row['complete_kb']:,}",
            f"{row['incremental_kb']:,}",
            f"{float(row['complete_kb']) / max(1.0, float(row['incremental_kb'])):.2f}",
        ]
        for row in record.counts
    ]
    return [Shown("Rows of one period", [*names, *heads], rows)]


def panels_moving(record: Record) -> list[Panel]:
    lines = []
    for queries in ("moving", "standing"):
        of = [row for row in record.counts if row["queries"] == queries]
        shares = [100 * share for share in column(of, "share")]
        for kind in ("complete", "incremental"):
            lines.append(Line(f"{kind}, queries {queries}", shares, column(of, kind)))
    x, y = "objects that move (%)", "rows of one period"
    return [Panel("Size of an answer", x, y, lines)]


def panels_side(record: Record) -> list[Panel]:
    rows = [row for row in record.counts if row["period"] == PERIOD]
    sides = column(rows, "side")
    sizes = [Line(kind, sides, column(rows, kind)) for kind in ("complete", "incremental")]
    ratios = [
        Line(
            f"every {period:g} s",
            sides,
            [_ratio(r) for r in record.counts if r["period"] == period],
        )
        for period in PERIODS
    ]
    x = "side of a query"
    stated = {"seven, as stated": SEVEN}
    return [
        Panel(f"Size of an answer, every {PERIOD:g} s", x, "rows of one period", sizes),
        Panel("Complete over incremental", x, "ratio", ratios, marks=stated),
    ]


WHERE_MOVING = "PLACE 2004, section 8.1, figure 4a; PLACE 2005, section 8.1, figure 6a"
WHERE_SIDE = "PLACE 2004, section 8.1, figure 4b; PLACE 2005, section 8.1, figure 6b"


def judge_moving(record: Record) -> list[Verdict]:
    """Constant, largest when all move, and small beside the complete answer."""
    rows = [row for row in record.counts if row["queries"] == "moving"]
    complete = column(rows, "complete")
    spread = (max(complete) - min(complete)) / max(complete)
    deltas = column(rows, "incremental")
    worst = max(rows, key=lambda row: row["incremental"])
    return [
        Verdict(
            "the complete answer does not depend on how many objects moved",
            WHERE_MOVING,
            f"it varies by {spread:.1%} over all shares",
            f"by {CONSTANT:.0%} at most",
            spread <= CONSTANT,
        ),
        Verdict(
            "the incremental answer is at its worst when most objects moved",
            WHERE_MOVING,
            f"it goes from {deltas[0]:,} to {deltas[-1]:,} rows",
            "it never falls",
            all(before <= after for before, after in pairwise(deltas)),
        ),
        Verdict(
            "the complete answer is larger by orders of magnitude than the largest incremental one",
            WHERE_MOVING,
            f"it is {_ratio(worst):.1f} times as large at a share of {worst['share']:.0%}, and "
            f"{_ratio(rows[0]):.1f} times at {rows[0]['share']:.0%}",
            f"{ORDER:g} times at least",
            _ratio(worst) >= ORDER,
        ),
    ]


def judge_side(record: Record) -> list[Verdict]:
    """Growth with the side, and up to seven times."""
    rows = [row for row in record.counts if row["period"] == PERIOD]
    first, last = rows[0], rows[-1]
    grown = [float(last[kind]) / float(first[kind]) for kind in ("complete", "incremental")]
    highest = max(map(_ratio, rows))
    others = max(_ratio(row) for row in record.counts if row["period"] != PERIOD)
    return [
        Verdict(
            "with the side, the complete answer grows much more than the incremental one",
            WHERE_SIDE,
            f"from {first['side']:g} to {last['side']:g} it grows {grown[0]:.1f} times, the "
            f"incremental one {grown[1]:.1f} times",
            f"{FASTER:g} times as much growth at least",
            grown[0] >= FASTER * grown[1],
        ),
        Verdict(
            "the complete answer is up to seven times as large as the incremental one",
            WHERE_SIDE,
            f"up to {highest:.1f} times when evaluated every {PERIOD:g} s, and up to {others:.1f} "
            f"times every {min(PERIODS):g} s",
            f"{NEAR * SEVEN:g} times at least",
            highest >= NEAR * SEVEN,
        ),
    ]


MOVING = Experiment(
    "moving",
    "Incremental and complete answer, by the share that moves",
    "PLACE 2004, figure 4a; PLACE 2005, figure 6a",
    about_moving,
    measure_moving,
    lambda record: _table(record, "queries", "share"),
    panels_moving,
    judge_moving,
)
QUERY_SIDE = Experiment(
    "side",
    "Incremental and complete answer, by the side of queries",
    "PLACE 2004, figure 4b; PLACE 2005, figure 6b",
    about_side,
    measure_side,
    lambda record: _table(record, "period", "side"),
    panels_side,
    judge_side,
)
