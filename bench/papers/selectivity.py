"""Figure 12 of GPAC: what a query outputs, beside the part of space that it covers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa

import place
from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict, Watch, column
from bench.papers.sizes import Size
from bench.papers.traffic import PERIOD, settled
from place.engine.slices import Segment
from place.model.reading import Advance
from place.model.segment import segment_schema
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import Session
from place.sim import Report

MOST = 0.5
"""What has at least this part is the reason."""
AREAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def square(area: float) -> tuple[float, float, float, float]:
    """A square in the middle of the unit square, with that share of it."""
    side = math.sqrt(area)
    return 0.5 - side / 2, 0.5 - side / 2, 0.5 + side / 2, 0.5 + side / 2


def measure(size: Size, seed: int, watch: Watch) -> Record:
    """Positive and negative deltas of a square of each area, over all periods."""
    generator = settled(size.selectivity_objects, seed, size.settling)
    reports = [generator.advance() for _ in range(size.selectivity_periods)]
    rows = count_deltas(reports, AREAS, watch)
    setting = {
        "size": size.name,
        "seed": seed,
        "objects": len(np.unique(np.concatenate([report.keys for report in reports]))),
        "at_once": size.selectivity_objects,
        "settling": size.settling,
        "periods": size.selectivity_periods,
        "readings": sum(len(report.keys) for report in reports),
    }
    return Record(setting, rows)


def count_deltas(reports: Sequence[Report], areas: Iterable[float], watch: Watch) -> list[Row]:
    """The deltas of a query for each area, in one session.

    An object that has arrived stays where it is: the paper's query over all of the space never
    has a negative tuple.
    """
    names = {f"q{number}": area for number, area in enumerate(areas)}
    counts = {name: {1: 0, -1: 0} for name in names}
    with place.connect() as session:
        session.sql("CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE)")
        for name, area in names.items():
            corners = ", ".join(map(repr, square(area)))
            session.sql(f"REGISTER QUERY {name} AS SELECT id FROM Objects INSIDE ({corners})")
        runtime = cast(LocalRuntime, session.runtime)
        for report in watch.each(reports, "deltas by the area of a query"):
            moment = round(report.step * PERIOD * SECOND)
            told = Segment("Objects", _segment(session, report, moment))
            for change in runtime.take([told, Advance(moment, "Objects")]):
                for part in change.by_query():
                    counts[part.queries[0].name][part.sign] += len(part)
    return [
        {
            "area": area,
            "ever_inside": ever_inside(reports, area),
            "positive": counts[name][1],
            "negative": counts[name][-1],
        }
        for name, area in names.items()
    ]


def ever_inside(reports: Sequence[Report], area: float) -> int:
    """How many objects have a reading in the square; by plain comparison, not by the engine."""
    x1, y1, x2, y2 = square(area)
    keys = [r.keys[(r.xs >= x1) & (r.xs <= x2) & (r.ys >= y1) & (r.ys <= y2)] for r in reports]
    return len(np.unique(np.concatenate(keys)))


def _segment(session: Session, report: Report, moment: int) -> pa.Table:
    count = len(report.keys)
    times, gone = np.full(count, moment), np.zeros(count, np.bool_)
    schema = segment_schema(session.stream("Objects").columns)
    arrays = [pa.array(values) for values in (report.keys, report.xs, report.ys, times, gone)]
    return pa.Table.from_arrays(arrays, schema=schema)


def about(record: Record) -> str:
    of = record.setting
    return (
        f"{of['at_once']:,} objects of the generator at a time, {of['objects']:,} in all, report "
        f"every {PERIOD:g} seconds for {of['periods']} periods: {of['readings']:,} readings. A "
        "square in the middle of the unit square covers 10% to 100% of it: its correct "
        "selectivity. Its actual one is its deltas, positive and negative, by the number of "
        "objects. Objects crowd in the middle of the city and many pass through, so more objects "
        "are ever inside than the area says; the other deltas are of those who leave and who come "
        "back. An object that arrives stays in the answer, as the paper has it. The paper does "
        "not say by what it divides; by readings, all shares would be smaller by the same factor."
    )


def _deltas(row: Row) -> int:
    return int(row["positive"]) + int(row["negative"])


def _back(row: Row) -> int:
    """How often an object came that had been inside before."""
    return int(row["positive"]) - int(row["ever_inside"])


def _by_movement(record: Record, row: Row) -> float:
    """The part of what is above the correct selectivity that is leaving and coming back."""
    above = _deltas(row) - float(row["area"]) * int(record.setting["objects"])
    return (int(row["negative"]) + _back(row)) / above if above > 0 else 0.0


def _actual(record: Record, row: Row) -> float:
    return _deltas(row) / max(1, int(record.setting["objects"]))


def tables(record: Record) -> list[Shown]:
    rows = [
        [
            f"{row['area']:.0%}",
            f"{row['ever_inside']:,}",
            f"{row['positive']:,}",
            f"{_back(row):,}",
            f"{row['negative']:,}",
            f"{_deltas(row):,}",
            f"{_actual(record, row):.1%}",
            f"{_deltas(row) / max(1, int(record.setting['readings'])):.2%}",
        ]
        for row in record.counts
    ]
    heads = ("correct", "objects ever inside", "positive", "came back", "negative")
    return [Shown("Over all periods", [*heads, "deltas", "actual", "by readings"], rows)]


def panels(record: Record) -> list[Panel]:
    areas = [100 * area for area in column(record.counts, "area")]
    actual = [100 * _actual(record, row) for row in record.counts]
    objects = max(1, int(record.setting["objects"]))
    ever = [100 * inside / objects for inside in column(record.counts, "ever_inside")]
    lines = [
        Line("actual", areas, actual),
        Line("objects ever inside", areas, ever),
        Line("correct", areas, areas, is_dashed=True),
    ]
    x, y = "correct selectivity: area covered (%)", "selectivity (%)"
    return [Panel("Deltas by the number of objects", x, y, lines)]


def judge(record: Record) -> list[Verdict]:
    """Higher than correct and why, not in the order of areas, nothing negative when all is in."""
    where = "GPAC, section 6.2.2, figure 12"
    parts = [row for row in record.counts if float(row["area"]) < 1.0]
    higher = [row for row in parts if _actual(record, row) > float(row["area"])]
    ratios = [_actual(record, row) / float(row["area"]) for row in parts]
    moved = [_by_movement(record, row) for row in parts]
    falls = sum(_deltas(a) > _deltas(b) for a, b in pairwise(record.counts))
    most = max(record.counts, key=_deltas)
    whole = record.counts[-1]
    return [
        Verdict(
            "the actual selectivity is higher than the correct one",
            where,
            f"it is at {len(higher)} of {len(parts)} areas below 100%, {min(ratios):.2f} to "
            f"{max(ratios):.2f} times the correct one",
            "at every area below 100%",
            len(higher) == len(parts),
        ),
        Verdict(
            "the actual selectivity is higher because objects go out and in again",
            where,
            f"leaving and coming back makes {min(moved):.0%} to {max(moved):.0%} of what is above "
            "the correct selectivity; the rest is that more objects are ever inside than the area "
            "says",
            f"{MOST:.0%} at least at every area below 100%",
            min(moved) >= MOST,
        ),
        Verdict(
            "a query with a smaller area may output more than one with a larger",
            where,
            f"{falls} of {len(record.counts) - 1} steps to a larger area output less; the most "
            f"deltas, {_deltas(most):,}, are at {most['area']:.0%}, and {_deltas(whole):,} at 100%",
            "at least once",
            falls > 0,
        ),
        Verdict(
            "a query over all of the space has no negative tuples, and each object once",
            where,
            f"{whole['positive']:,} positive and {whole['negative']:,} negative deltas of "
            f"{record.setting['objects']:,} objects",
            "exactly so",
            whole["negative"] == 0 and whole["positive"] == record.setting["objects"],
        ),
    ]


EXPERIMENT = Experiment(
    "selectivity",
    "Selectivity through incremental evaluation",
    "GPAC, figure 12",
    about,
    measure,
    tables,
    panels,
    judge,
)
