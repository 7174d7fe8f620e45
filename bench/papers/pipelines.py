"""Figures 5 of PLACE 2004, 7 and 8 of PLACE 2005, 9 and 10 of GPAC: INSIDE within a pipeline.

What an application does with the output of a selection or a join is here the plan that has INSIDE
at the top; the operator that is pushed down is the plan that has it at the bottom.
"""

from __future__ import annotations

from bench import pipeline
from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict, Watch, column
from bench.papers.sizes import Size

FLAT, TURN, ORDER, LOSS = 0.10, 0.32, 10.0, 0.05
"""What counts as unaffected, where the better order turns, as an order of magnitude, and as a
choice no worse than the better order."""
KINDS = {"select": "a selection", "join": "a join"}
QUERIES = ("stationary", "moving")


def measure(size: Size, seed: int, watch: Watch) -> Record:
    """All areas, for a selection and a join, stationary and moving: as `place bench pipeline`.

    That benchmark has a walk of its own, which is always the same: the seed changes nothing here.
    """
    setting = pipeline.Setting(objects=size.pipeline_objects, ticks=size.pipeline_ticks)
    cases = len(KINDS) * len(QUERIES) * len(pipeline.AREAS)
    found = pipeline.measure(setting)
    rows: list[Row] = []
    for _ in watch.each(range(cases), "rows through the pipeline"):
        figures = next(found)
        rows.append(
            {
                "operator": figures.figure,
                "query": QUERIES[figures.moving],
                "area": figures.area,
                "inside_first": figures.inside_first,
                "filters_first": figures.filters_first,
                "chosen": figures.chosen,
            }
        )
    return Record(
        {
            "size": size.name,
            "objects": setting.objects,
            "step": setting.step,
            "ticks": setting.ticks,
            "passing": pipeline.PASSING,
            "readings": setting.objects * setting.ticks,
        },
        rows,
    )


def about(record: Record) -> str:
    of = record.setting
    return (
        f"{of['objects']:,} objects walk in the unit square, by at most {of['step']:g} each way in "
        f"each of {of['ticks']} ticks, and all of them report. A selection, or a join with a table "
        f"of favourites, lets the same {of['passing']:.0%} pass; the area holds 2% to 64% of the "
        "square and stands still or follows an object. Counted are the rows on the edges above "
        "INSIDE and above the other operator. *INSIDE first* has it at the bottom, as the papers' "
        "operator; *filters first* has it at the top, where an application would work on what a "
        "selection or a join gives it; *chosen* is what our planner takes. The papers' own two "
        "implementations cannot be had: an algorithm outside of the engine is represented by its "
        "plan. The walk is that of `place bench pipeline` and does not depend on the seed."
    )


def tables(record: Record) -> list[Shown]:
    heads = ("operator", "query", "area", "INSIDE first", "filters first", "gain", "chosen")
    rows = [
        [
            str(row["operator"]),
            str(row["query"]),
            f"{row['area']:.0%}",
            f"{row['inside_first']:,}",
            f"{row['filters_first']:,}",
            f"{_gain(row):.2f}",
            f"{row['chosen']:,}",
        ]
        for row in record.counts
    ]
    return [Shown("Rows through the pipeline, in all ticks", heads, rows)]


def _gain(row: Row) -> float:
    return float(row["filters_first"]) / max(1.0, float(row["inside_first"]))


def panels(record: Record) -> list[Panel]:
    found = []
    for kind, words in KINDS.items():
        lines = []
        for query in QUERIES:
            rows = [r for r in record.counts if r["operator"] == kind and r["query"] == query]
            areas = [100 * area for area in column(rows, "area")]
            for order, name in (("inside_first", "INSIDE first"), ("filters_first", "INSIDE last")):
                lines.append(Line(f"{name}, {query}", areas, column(rows, order)))
        x = "selectivity of INSIDE (%)"
        found.append(Panel(f"With {words}", x, "rows", lines, log_x=True))
    return found


def judge(record: Record) -> list[Verdict]:
    """What the papers say of a selection, what of a join, and what our planner made of it."""
    return [
        *_judge_select([row for row in record.counts if row["operator"] == "select"]),
        *_judge_join(record, [row for row in record.counts if row["operator"] == "join"]),
        _judge_choice(record),
    ]


def _judge_select(rows: list[Row]) -> list[Verdict]:
    where = "PLACE 2004, figure 5; PLACE 2005, section 8.2.1, figure 7; GPAC, 6.1.1, figure 9"
    spread = max(_spread(column(rows, "filters_first", query=query)) for query in QUERIES)
    below = [row for row in rows if float(row["area"]) < TURN]
    above = [row for row in rows if float(row["area"]) > TURN]
    turns = {query: _turn([row for row in rows if row["query"] == query]) for query in QUERIES}
    told = ", ".join(f"{query} from {turn:.0%} on" for query, turn in turns.items() if turn)
    return [
        Verdict(
            "with INSIDE at the top, rows do not depend on its selectivity",
            where,
            f"they vary by {spread:.1%}",
            f"by {FLAT:.0%} at most",
            spread <= FLAT,
        ),
        Verdict(
            f"below a selectivity of {TURN:.0%}, INSIDE at the bottom saves much",
            where,
            f"at the bottom, rows are {_times(below)} of those at the top",
            "fewer rows at every selectivity below, for both kinds of queries",
            all(_gain(row) > 1 for row in below),
        ),
        Verdict(
            f"above {TURN:.0%}, INSIDE is better at the top",
            "GPAC, section 6.1.1, figure 9",
            f"at the bottom, rows are {_times(above)} of those at the top; INSIDE is better at the "
            f"top: {told or 'nowhere'}",
            "fewer rows at every selectivity above",
            all(_gain(row) < 1 for row in above),
        ),
    ]


def _judge_join(record: Record, rows: list[Row]) -> list[Verdict]:
    where = "PLACE 2005, section 8.2.2, figure 8; GPAC, section 6.1.2, figure 10"
    best = max(map(_gain, rows))
    # All readings come to a join at the bottom. Above INSIDE it sees at most the rows counted.
    looked = [record.setting["readings"] / max(1.0, float(row["inside_first"])) for row in rows]
    return [
        Verdict(
            "below a join, INSIDE saves about an order of magnitude",
            where,
            f"by rows above both operators, a factor of {best:.1f} at best, as with a selection",
            f"{ORDER:g} times at some selectivity",
            best >= ORDER,
        ),
        Verdict(
            "below a join, INSIDE saves so much because the join has less to look at",
            where,
            f"rows that come to the join fall by a factor of {min(looked):.0f} or more, up to "
            f"{max(looked):.0f}",
            f"{ORDER:g} times at some selectivity",
            max(looked) >= ORDER,
        ),
    ]


def _judge_choice(record: Record) -> Verdict:
    best = [min(int(r["inside_first"]), int(r["filters_first"])) for r in record.counts]
    loss = [int(r["chosen"]) / max(1, b) - 1 for r, b in zip(record.counts, best, strict=True)]
    return Verdict(
        "a cost model, left to future work, would choose the better pipeline",
        "PLACE 2005, section 8.2",
        f"our planner's choice has at most {max(loss):.1%} more rows than the better order, in "
        f"{sum(x <= 0 for x in loss)} of {len(loss)} cases none",
        f"at most {LOSS:.0%} more in every case",
        max(loss) <= LOSS,
    )


def _spread(numbers: list[float]) -> float:
    return (max(numbers) - min(numbers)) / max(numbers)


def _times(rows: list[Row]) -> str:
    shares = [1 / _gain(row) for row in rows]
    return f"{min(shares):.0%} to {max(shares):.0%}"


def _turn(rows: list[Row]) -> float | None:
    """The least area from which on INSIDE is never better at the bottom."""
    turn = None
    for row in reversed(rows):
        if _gain(row) >= 1:
            break
        turn = float(row["area"])
    return turn


EXPERIMENT = Experiment(
    "pipeline",
    "Pipelined operators, with a selection and with a join",
    "PLACE 2004, figure 5; PLACE 2005, figures 7 and 8; GPAC, figures 9 and 10",
    about,
    measure,
    tables,
    panels,
    judge,
)
