"""What figure 11 of GPAC says of the delays that were measured."""

from __future__ import annotations

from bench.papers.delay import measure
from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict

SECOND_MS = 1000.0
STATED_RATE = 2_000
WHERE = "GPAC, section 6.2.1, figure 11"
HOWS = {
    "progressive": "reading by reading",
    "batches": "batches of a second",
    "spark": "pipeline on Spark",
}


def about(record: Record) -> str:
    of = record.setting
    spark = (
        "*Spark* is the durable pipeline: readings come as ten Parquet files a second, for "
        f"{of['spark_seconds']:g} s, and are answered when their tick is committed; its "
        "deltas are those of the local runtime, or the experiment fails."
        if _of(record, "spark")
        else "The pipeline on Spark is measured without `--quick` only: starting it takes too long."
    )
    return (
        f"Readings of {of['objects']:,} objects of the generator arrive by the clock on the wall, "
        f"with exponential gaps, for {of['seconds']:g} s at each rate; {of['queries']:,} "
        f"square queries of side {of['side']:g} stand still or follow objects (the paper does not "
        "say how many it has). The delay is the mean, over all readings, of the time from arrival "
        "until all deltas up to that reading are out. *Reading by reading* is the local runtime, "
        "evaluating every instant; it takes what has arrived since it was last done. *Batches* is "
        f"the same with readings buffered for {of['batch']:g} s, as PLACE does for "
        f"5 s. {spark} The paper's machine was a Pentium IV of 2.4 GHz."
    )


def tables(record: Record) -> list[Shown]:
    counted = {(row["how"], row["query"], row["rate"]): row for row in record.counts}
    rows = []
    for row in record.times:
        counts = counted[row["how"], row["query"], row["rate"]]
        rows.append(
            [
                HOWS[str(row["how"])],
                str(row["query"]),
                f"{row['rate']:,}",
                f"{counts['readings']:,}",
                f"{counts['deltas']:,}",
                f"{row['mean_ms']:,.1f}",
                f"{row['p99_ms']:,.1f}",
            ]
        )
    calibration, load = (record.machine[name] for name in ("calibration_s", "load"))
    heads = ("how", "queries", "readings a second", "readings", "deltas", "mean, ms", "99%, ms")
    return [Shown(f"Delays (calibration {calibration:.2f} s, load {load:.1f})", heads, rows)]


def panels(record: Record) -> list[Panel]:
    lines = []
    for how, words in HOWS.items():
        for query in ("stationary", "moving"):
            rows = _of(record, how, query)
            if rows:
                rates = [float(row["rate"]) for row in rows]
                delays = [float(row["mean_ms"]) for row in rows]
                lines.append(Line(f"{words}, {query}", rates, delays))
    x, y = "readings a second", "mean delay (ms)"
    marks = {"one second": SECOND_MS}
    return [Panel("Output delay", x, y, lines, log_x=True, log_y=True, marks=marks)]


def _of(record: Record, how: str, query: str | None = None) -> list[Row]:
    return [r for r in record.times if r["how"] == how and query in (None, r["query"])]


def _reached(rows: list[Row]) -> int:
    """The highest rate up to which no mean delay is above a second; 0 if there is none."""
    late = [int(row["rate"]) for row in rows if float(row["mean_ms"]) > SECOND_MS]
    return max((int(r["rate"]) for r in rows if not late or int(r["rate"]) < min(late)), default=0)


def _upto(rows: list[Row]) -> str:
    reached = _reached(rows)
    lowest = min(int(row["rate"]) for row in rows)
    return f"at all rates up to {reached:,}" if reached else f"not even at {lowest:,} a second"


def judge(record: Record) -> list[Verdict]:
    """One second at the paper's rate and beyond, and sooner than by buffering."""
    ours, spark = _of(record, "progressive"), _of(record, "spark")
    there = [float(row["mean_ms"]) for row in ours if row["rate"] == STATED_RATE]
    highest = max(int(row["rate"]) for row in ours)
    verdicts = [
        Verdict(
            f"up to {STATED_RATE:,} readings a second, the delay is about one second at most",
            WHERE,
            f"{max(there):,.1f} ms at {STATED_RATE:,} a second; within a second {_upto(ours)}",
            f"one second at most at every rate up to {STATED_RATE:,}",
            _reached(ours) >= STATED_RATE,
        ),
        Verdict(
            "it is stable at high rates of arrival",
            "GPAC, section 7",
            f"{max(float(r['mean_ms']) for r in ours if r['rate'] == highest):,.1f} ms at "
            f"{highest:,} a second",
            "one second at most at the highest rate",
            _reached(ours) == highest,
        ),
        _judge_batches(record),
    ]
    if spark:
        delays = [float(row["mean_ms"]) for row in spark]
        rates = [int(row["rate"]) for row in spark]
        verdicts.append(
            Verdict(
                f"our durable pipeline, held to the same: one second up to {STATED_RATE:,}",
                WHERE,
                f"{min(delays):,.0f} to {max(delays):,.0f} ms over rates from {min(rates):,} to "
                f"{max(rates):,}; within a second {_upto(spark)}",
                f"one second at most at every rate up to {STATED_RATE:,}",
                _reached(spark) >= STATED_RATE,
            )
        )
    return verdicts


def _judge_batches(record: Record) -> Verdict:
    batches = {row["rate"]: float(row["mean_ms"]) for row in _of(record, "batches")}
    gains = [
        batches[row["rate"]] / float(row["mean_ms"])
        for row in _of(record, "progressive", "stationary")
        if row["rate"] in batches
    ]
    return Verdict(
        "a change is told at once rather than with the others of a batch",
        "GPAC, section 2",
        f"buffering for a second delays {min(gains):,.1f} to {max(gains):,.0f} times as long",
        "longer at every rate",
        min(gains) > 1,
    )


EXPERIMENT = Experiment(
    "delay",
    "Output delay by the rate of arrivals",
    "GPAC, figure 11",
    about,
    measure,
    tables,
    panels,
    judge,
)
