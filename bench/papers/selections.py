"""Figures 15 to 17 of Spatial Join CQ: selections, by their number, predicates and skew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.conditions import draw_readings, draw_rules
from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict, Watch, column
from bench.papers.rule_times import HOWS, WHERE, compare, machine
from bench.papers.sizes import Size
from bench.world import calibrate

ATTRIBUTES = (4, 8)
SHARES = (0.25, 0.5, 0.75, 1.0)
SKEWS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
STATED_BATCH, STATED_IMMEDIATE = 36.2, 3.2
SAME = 1.25
"""Times that differ by less than this factor are the same."""
Case = tuple[int, int, float, float]
"""Queries, attributes, the share with predicates, and the skew."""


def _measure(
    size: Size, seed: int, watch: Watch, cases: Sequence[Case], batch: int, what: str
) -> Record:
    calibrations = [calibrate()]
    counts: list[Row] = []
    times: list[Row] = []
    for queries, attributes, share, skew in watch.each(cases, what):
        rules = draw_rules(queries, attributes, share, seed)
        readings = draw_readings(batch, attributes, seed, skew)
        told: dict[str, int | float | str] = {"queries": queries, "attributes": attributes}
        told |= {"predicates": share, "skew": skew}
        count, taken = compare(readings, rules, size.rule_singles, told)
        counts.append(count)
        times += taken
    setting = {"size": size.name, "seed": seed, "batch": batch}
    setting["singles"] = size.rule_singles
    return Record(setting, counts, times, machine(calibrations))


def measure_counts(size: Size, seed: int, watch: Watch) -> Record:
    """Figure 15: by the number of queries."""
    cases = [(queries, attributes, 1.0, 0.0) for attributes in ATTRIBUTES for queries in
             size.rule_queries]  # fmt: skip
    return _measure(size, seed, watch, cases, size.rule_batch, "selections by their number")


def measure_predicates(size: Size, seed: int, watch: Watch) -> Record:
    """Figure 16: by the share of attributes with predicates."""
    cases = [(size.rule_middle, 8, share, 0.0) for share in SHARES]
    return _measure(
        size, seed, watch, cases, size.rule_wide_batch, "selections by their predicates"
    )


def measure_skews(size: Size, seed: int, watch: Watch) -> Record:
    """Figure 17: by the share of readings in a narrow range."""
    cases = [(size.rule_queries[-1], 4, 1.0, skew) for skew in SKEWS]
    return _measure(size, seed, watch, cases, size.rule_wide_batch, "selections by skew")


def _times(record: Record, how: str, **where: int | float | str) -> list[float]:
    return [float(ms) for ms in column(record.times, "ms", how=how, **where)]


def _drawn(record: Record) -> str:
    of = record.setting
    return (
        f"Batches have {of['batch']:,} readings; those that take readings one by one are measured "
        f"for {of['singles']:,}. SJ-Batch and SJ-Immediate are the paper's algorithm with an index "
        "of corners in memory; *ours* is what the kernel chooses, which are bitmaps over ranges "
        "where rules are wide. Rules and trees are prepared beforehand; putting readings in "
        "order is part of the time, and so is writing all pairs down."
    )


def about_counts(record: Record) -> str:
    return (
        "Queries with conditions on all of 4 or 8 attributes (the paper does not say on how many "
        f"in this figure), drawn as section 7.1 says. {_drawn(record)}"
    )


def about_predicates(record: Record) -> str:
    queries = record.counts[0]["queries"]
    return (
        f"{queries:,} queries over 8 attributes, with conditions on a quarter of them to all. "
        f"Queries with few conditions hold for many readings, and all pairs are written down. "
        f"{_drawn(record)}"
    )


def about_skews(record: Record) -> str:
    queries = record.counts[0]["queries"]
    return (
        f"{queries:,} queries over 4 attributes; a share of the readings has all values in a tenth "
        f"of the domain. There, more queries hold than elsewhere. {_drawn(record)}"
    )


def _tables(record: Record, *names: str) -> list[Shown]:
    rows = []
    for number, count in enumerate(record.counts):
        taken = record.times[number * len(HOWS) : (number + 1) * len(HOWS)]
        ms = {str(row["how"]): float(row["ms"]) for row in taken}
        rows.append(
            [
                *(f"{count[name]:,}" for name in names),
                f"{int(count['pairs']) / int(count['readings']):,.1f}",
                *(f"{ms[how]:.4f}" for how in HOWS),
                f"{ms['IBS'] / ms['SJ-Batch']:.1f}",
                f"{ms['IBS'] / ms['our batch']:.1f}",
                f"{ms['IBS'] / ms['our immediate']:.1f}",
            ]
        )
    ratios = ("IBS / SJ-Batch", "IBS / our batch", "IBS / our immediate")
    heads = (*names, "queries that hold", *HOWS, *ratios)
    return [Shown("Milliseconds for a reading", heads, rows)]


def _panel(record: Record, title: str, x: str, name: str, log_x: bool, **where: int) -> Panel:
    lines = []
    for how in HOWS:
        xs = [float(value) for value in column(record.times, name, how=how, **where)]
        lines.append(Line(how, xs, _times(record, how, **where)))
    return Panel(title, x, "milliseconds a reading", lines, log_x=log_x, log_y=True)


def panels_counts(record: Record) -> list[Panel]:
    return [
        _panel(
            record, f"{attributes} attributes", "queries", "queries", True, attributes=attributes
        )
        for attributes in dict.fromkeys(column(record.counts, "attributes"))
    ]


def panels_predicates(record: Record) -> list[Panel]:
    x = "share of attributes with predicates"
    return [_panel(record, "8 attributes", x, "predicates", False)]


def panels_skews(record: Record) -> list[Panel]:
    x = "share of readings in a tenth of the domain"
    return [_panel(record, "4 attributes", x, "skew", False)]


def _ratios(record: Record, slow: str, fast: str, **where: int) -> list[float]:
    both = zip(_times(record, slow, **where), _times(record, fast, **where), strict=True)
    return [a / b for a, b in both]


def _span(values: Iterable[float]) -> str:
    values = list(values)
    return f"{min(values):.1f} to {max(values):.1f}"


def judge_counts(record: Record) -> list[Verdict]:
    """Who is first, by how much, and whether that grows with the queries."""
    where = f"{WHERE}, section 7.3, figure 15"
    batch = _ratios(record, "IBS", "SJ-Batch")
    single = _ratios(record, "IBS", "SJ-Immediate")
    grows = [
        (ratios[0], ratios[-1])
        for attributes in dict.fromkeys(column(record.counts, "attributes"))
        for ratios in [_ratios(record, "IBS", "SJ-Batch", attributes=attributes)]
    ]
    ours, alone = _ratios(record, "IBS", "our batch"), _ratios(record, "IBS", "our immediate")
    return [
        Verdict(
            "SJ-Batch is faster than IBS, by up to 36.2 times",
            where,
            f"{_span(batch)} times as fast",
            "faster for every number of queries",
            min(batch) > 1.0,
        ),
        Verdict(
            "SJ-Immediate is faster than IBS, by 1.4 to 3.2 times",
            where,
            f"{_span(single)} times as fast",
            "faster for every number of queries",
            min(single) > 1.0,
        ),
        Verdict(
            "the advantage over IBS grows with the number of queries",
            where,
            "SJ-Batch: "
            + ", ".join(f"from {a:.1f} to {b:.1f} times" for a, b in grows)
            + " (4 and 8 attributes)",
            "larger for most queries than for fewest, for both",
            all(b > a for a, b in grows),
        ),
        Verdict(
            "processing batches by a spatial join outperforms IBS by up to 36.2 times",
            where,
            f"our choice does, by up to {max(ours):.1f} times",
            f"our choice reaches {STATED_BATCH:g} times",
            max(ours) >= STATED_BATCH,
        ),
        Verdict(
            "immediate processing outperforms IBS by up to 3.2 times",
            where,
            f"our choice does, by up to {max(alone):.1f} times",
            f"our choice reaches {STATED_IMMEDIATE:g} times",
            max(alone) >= STATED_IMMEDIATE,
        ),
    ]


def judge_predicates(record: Record) -> list[Verdict]:
    """IBS is slower with more predicates, the join is faster."""
    where = f"{WHERE}, section 7.3, figure 16"

    def judged(how: str, up: bool, stated: str) -> Verdict:
        ms = _times(record, how)
        word = "rises" if up else "falls"
        return Verdict(
            stated,
            where,
            f"{how} takes {ms[0]:.4f} ms at the fewest predicates and {ms[-1]:.4f} ms at most",
            f"the time {word} from the fewest predicates to most",
            (ms[-1] > ms[0]) == up,
        )

    return [
        judged("IBS", True, "the time of IBS increases with the predicates"),
        judged("SJ-Batch", False, "SJ-Batch improves with more predicates"),
        judged("SJ-Immediate", False, "SJ-Immediate improves with more predicates"),
        judged("our batch", False, "processing batches improves with more predicates (our choice)"),
    ]


def judge_skews(record: Record) -> list[Verdict]:
    """Skew helps SJ-Batch; the others do not mind it."""
    where = f"{WHERE}, section 7.3, figure 17"
    batch = _times(record, "SJ-Batch")
    verdicts = [
        Verdict(
            "SJ-Batch gets faster as skew grows, by up to 1.7 times",
            where,
            f"{batch[0] / batch[-1]:.2f} times as fast at full skew as without, for "
            f"{_held(record, -1) / _held(record, 0):.1f} times as many pairs",
            "faster at full skew than without",
            batch[-1] < batch[0],
        )
    ]
    for how in ("SJ-Immediate", "IBS"):
        ms = _times(record, how)
        spread = max(ms) / min(ms)
        verdicts.append(
            Verdict(
                f"{how} does not depend on skew",
                where,
                f"its slowest is {spread:.2f} times its fastest",
                f"less than {SAME:g} times",
                spread < SAME,
            )
        )
    return verdicts


def _held(record: Record, number: int) -> float:
    return float(record.counts[number]["pairs"])


COUNTS = Experiment(
    "selections", "Selections by their number", "Spatial Join CQ, figure 15", about_counts,
    measure_counts, lambda record: _tables(record, "attributes", "queries"), panels_counts,
    judge_counts,
)  # fmt: skip
PREDICATES = Experiment(
    "predicates", "Selections by their predicates", "Spatial Join CQ, figure 16", about_predicates,
    measure_predicates, lambda record: _tables(record, "predicates"), panels_predicates,
    judge_predicates,
)  # fmt: skip
SKEW = Experiment(
    "skewed", "Selections over skewed readings", "Spatial Join CQ, figure 17", about_skews,
    measure_skews, lambda record: _tables(record, "skew"), panels_skews, judge_skews,
)  # fmt: skip
