"""Table 3 of Spatial Join CQ: how large clusters should be, and what a larger batch saves."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.conditions import draw_readings, draw_rules
from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict, Watch, column
from bench.papers.rule_times import WHERE, least_ms, machine
from bench.papers.sizes import Size
from bench.world import calibrate
from place.kernels.box_clusters import BoxClusters
from place.kernels.hilbert import hilbert_order

ATTRIBUTES = (4, 8)
TRIED = (16, 32, 64, 128, 256, 512, 1024)
NEAR, FLAT = 1.1, 1.1
"""What is within this factor of the best is as good."""


def measure(size: Size, seed: int, watch: Watch) -> Record:
    """Clusters of each size for each size of batch, and the size that is found without trying."""
    calibrations = [calibrate()]
    counts: list[Row] = []
    times: list[Row] = []
    cases = [(attributes, batch) for attributes in ATTRIBUTES for batch in size.rule_batches]
    for attributes, batch in watch.each(cases, "sizes of clusters"):
        rules = draw_rules(size.rule_few, attributes, 1.0, seed)
        readings = draw_readings(batch, attributes, seed)
        columns = np.ascontiguousarray(readings[hilbert_order(readings)].T)
        found = BoxClusters(*rules).size_of(columns)
        about = {"attributes": attributes, "batch": batch}
        pairs = len(BoxClusters(*rules).find(readings).points)
        counts.append({**about, "found": found, "pairs": pairs})
        for tried in sorted({*TRIED, found}):
            if tried <= batch:
                clusters = BoxClusters(*rules, tried)
                ms = least_ms(lambda asked=clusters, of=readings: asked.find(of), batch)  # type: ignore[misc]
                times.append({**about, "size": tried, "ms": ms})
    setting = {"size": size.name, "seed": seed, "queries": size.rule_few}
    return Record(setting, counts, times, machine(calibrations))


def _best(record: Record, row: Row) -> Row:
    """The size that took least."""
    same = {"attributes": row["attributes"], "batch": row["batch"]}
    tried = [t for t in record.times if all(t[key] == value for key, value in same.items())]
    return min(tried, key=lambda one: float(one["ms"]))


def _ms(record: Record, row: Row, size: Any) -> float:
    found = column(record.times, "ms", attributes=row["attributes"], batch=row["batch"], size=size)
    return float(found[0])


def about(record: Record) -> str:
    return (
        f"{record.setting['queries']:,} queries with conditions on all of 4 or 8 attributes, drawn "
        "as section 7.1 says, meet batches of readings by clusters in Hilbert order. *Found* is "
        "the size that is found from a few clusters of each size before the join, which the paper "
        "leaves open. The query index is in memory, so what a larger cluster saves is less than "
        "where a probe reads pages."
    )


def tables(record: Record) -> list[Shown]:
    rows = []
    for row in record.counts:
        best = _best(record, row)
        found = _ms(record, row, row["found"])
        rows.append(
            [
                f"{row['attributes']}",
                f"{row['batch']:,}",
                f"{best['size']}",
                f"{best['ms']:.4f}",
                f"{row['found']}",
                f"{found:.4f}",
                f"{found / float(best['ms']):.2f}",
            ]
        )
    heads = ("attributes", "batch", "best size", "ms a reading", "found", "ms a reading", "ratio")
    return [Shown("Sizes of clusters", heads, rows)]


def panels(record: Record) -> list[Panel]:
    found = []
    batches = list(dict.fromkeys(column(record.counts, "batch")))
    for attributes in dict.fromkeys(column(record.counts, "attributes")):
        lines = []
        for batch in batches:
            same = {"attributes": attributes, "batch": batch}
            sizes, ms = column(record.times, "size", **same), column(record.times, "ms", **same)
            lines.append(Line(f"batch of {batch:,}", sizes, ms))
        x, y = "readings in a cluster", "milliseconds a reading"
        found.append(Panel(f"{attributes} attributes", x, y, lines, log_x=True))
    return found


def judge(record: Record) -> list[Verdict]:
    """Larger batches: larger clusters, less time. Flat around the best. Found without trying."""
    where = f"{WHERE}, section 7.2, table 3"
    grows, falls, flat, near = [], [], [], []
    for attributes in dict.fromkeys(column(record.counts, "attributes")):
        rows = [row for row in record.counts if row["attributes"] == attributes]
        best = [_best(record, row) for row in rows]
        grows.append((int(best[0]["size"]), int(best[-1]["size"])))
        falls.append(float(best[-1]["ms"]) / float(best[0]["ms"]))
        for row, one in zip(rows, best, strict=True):
            near.append(_ms(record, row, row["found"]) / float(one["ms"]))
            sizes = column(record.times, "size", attributes=attributes, batch=row["batch"])
            around = [s for s in sizes if int(one["size"]) / 2 <= s <= int(one["size"]) * 2]
            flat.append(max(_ms(record, row, s) for s in around) / float(one["ms"]))
    return [
        Verdict(
            "the best size of a cluster grows with the batch",
            where,
            ", ".join(f"from {a} to {b}" for a, b in grows) + " from the smallest batch to the "
            "largest (4 and 8 attributes)",
            "larger at the largest batch than at the smallest, for both",
            all(b > a for a, b in grows),
        ),
        Verdict(
            "the time for a reading falls as the batch grows",
            where,
            ", ".join(f"{ratio:.2f}" for ratio in falls) + " times that of the smallest batch, at "
            "the largest",
            "less at the largest batch than at the smallest, for both",
            all(ratio < 1.0 for ratio in falls),
        ),
        Verdict(
            "around the best size the time hardly depends on it",
            where,
            f"half and twice the best size take up to {max(flat):.2f} times as long",
            f"at most {FLAT:g} times",
            max(flat) <= FLAT,
        ),
        Verdict(
            "how the best size can be found without experiments is left open",
            f"{WHERE}, sections 5.5 and 8",
            f"the size that is found takes {min(near):.2f} to {max(near):.2f} times as long as the "
            "best of those tried",
            f"solved if at most {NEAR:g} times everywhere",
            max(near) <= NEAR,
        ),
    ]


EXPERIMENT = Experiment(
    "clusters",
    "Sizes of clusters",
    "Spatial Join CQ, table 3",
    about,
    measure,
    tables,
    panels,
    judge,
)
