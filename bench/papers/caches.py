"""GPAC, sections 3.3, 3.4 and 6: what a cache around the queries keeps, and what it misses.

The paper speaks of both without a figure. Accuracy is the rows of the exact answer that are missed
at an instant; memory is the objects that are kept.
"""

from __future__ import annotations

from itertools import pairwise

from bench import cache
from bench.papers.record import Experiment, Line, Panel, Record, Row, Shown, Verdict, Watch, column
from bench.papers.sizes import Size
from place.model.time import SECOND

SIMILAR = 0.01
"""Three quarters of the cache are similar to all of it if they miss no more of the rows."""
MULTIPLES = (2, 4, 8, 16, 24, 32)
"""Sides of a query, in the longest ways between two reports."""
WAY = 0.01
WALKS = 4
MIDDLE = (0.25, 0.75)
"""Where a query starts, so that all of it stays in the unit square."""
STATED = {16: 0.125, 24: 0.085}
"""How much more area a cache covers, as the paper has it for 2 and 3 miles and 1/8 of a mile."""
NEAR = 0.25


def measure_cache(size: Size, seed: int, watch: Watch) -> Record:
    """Accuracy and memory by the share of the conservative cache: as `place bench cache`."""
    setting = cache.Setting(
        size.cache_objects, size.cache_queries, 0.1, 0.05, size.cache_seconds, seed
    )
    rows: list[Row] = []
    for share in cache.SHARES:  # the benchmark shows how far it is
        found = cache.measure(setting, share)
        rows.append(
            {
                "cache": share,
                "kept": round(found.kept, 6),
                "rows": found.rows,
                "missed": found.missed,
                "late": found.late,
            }
        )
    return Record({"size": size.name, **vars(setting)}, rows)


def measure_growth(size: Size, seed: int, watch: Watch) -> Record:
    """Objects kept beyond those in the answer, by the side of a query."""
    rows: list[Row] = []
    walks = _walks(size.growth_objects, seed)
    for multiple in watch.each(MULTIPLES, "objects kept by the side of a query"):
        answered = kept = 0
        for walk in walks:
            setting = cache.Setting(size.growth_objects, 1, multiple * WAY, WAY, 3, walk)
            rows_of, kept_of = kept_of_cache(setting)
            answered, kept = answered + rows_of, kept + kept_of
        rows.append({"multiple": multiple, "answered": answered, "kept": kept})
    setting_of = {"objects": size.growth_objects, "way": WAY, "walks": walks}
    return Record({"size": size.name, "seed": seed, **setting_of}, rows)


def _walks(objects: int, seed: int) -> list[int]:
    """The first seeds from this one on whose focal object starts in the middle."""
    found: list[int] = []
    low, high = MIDDLE
    while len(found) < WALKS:
        first = next(
            row
            for _, told in cache.readings(cache.Setting(objects, 1, WAY, WAY, 1, seed))
            for row in told
            if row[0] == 0
        )
        if low < first[1] < high and low < first[2] < high:
            found.append(seed)
        seed += 1
    return found


def kept_of_cache(setting: cache.Setting) -> tuple[int, int]:
    """Rows of the answer and objects kept, but the focal one, over all instants of a second."""
    answered = kept = 0
    with cache.open_session(setting, 1.0) as session:
        for instant, told in cache.readings(setting):
            session.push("Objects", told, time=instant)
            if instant > 2 * SECOND:
                answered += len(cache.answers(session, setting))
                kept += cache.kept(session) - 1
    return answered, kept


def about_cache(record: Record) -> str:
    of = record.setting
    return (
        f"{of['objects']:,} objects wander in the unit square and report once a second, each at its"
        f" own moment, for {of['seconds']} seconds; {of['queries']} of them lead a square of side "
        f"{of['side']:g}, and nobody is faster than {of['speed']:g} a second. A cache of 1 is the "
        "conservative one: the region grown on all sides by the longest way between two reports. "
        "The same readings go to a stream that keeps all objects, and answers are compared at "
        "every instant. The paper has no figure of this, only sentences: its conclusion says that "
        "experiments determined the size."
    )


def about_growth(record: Record) -> str:
    of = record.setting
    return (
        f"{of['objects']:,} objects wander as above, and one of them leads a square whose side is "
        f"a multiple m of d, the longest way between two reports ({of['way']:g}). Counted are the "
        "objects that the conservative cache keeps and those in the answer, over "
        f"{len(of['walks'])} walks that start in the middle. The paper computes "
        "that the cache adds (2m + 1)/m², about 2/m, to the area of the query, as if it grew the "
        "side by d. Growing the region by d in all directions, which the paper asks for and "
        "`retain = 'cache'` does, makes the side longer by 2d and adds 4(m + 1)/m². The example of "
        "the paper takes 25 miles per hour for 30 seconds as 1/8 of a mile; that way is 0.21 miles."
    )


def tables_cache(record: Record) -> list[Shown]:
    rows = [
        [
            f"{row['cache']:.2f}",
            f"{row['kept']:.1%}",
            f"{row['rows']:,}",
            f"{row['missed']:,}",
            f"{row['late']:,}",
            f"{_missed(row):.2%}",
        ]
        for row in record.counts
    ]
    heads = ("cache", "objects kept", "rows of answers", "missed", "of these late", "missed, share")
    return [Shown("Over all instants", heads, rows)]


def tables_growth(record: Record) -> list[Shown]:
    rows = [
        [
            f"{row['multiple']}",
            f"{row['answered']:,}",
            f"{row['kept']:,}",
            f"{_growth(row):.1%}",
            f"{_formula(int(row['multiple'])):.1%}",
            f"{_stated(int(row['multiple'])):.1%}",
        ]
        for row in record.counts
    ]
    heads = ("m", "in the answer", "kept", "more", "4(m + 1)/m²", "(2m + 1)/m², the paper")
    return [Shown("Over all instants of a second of each walk", heads, rows)]


def _missed(row: Row) -> float:
    return float(row["missed"]) / max(1.0, float(row["rows"]))


def _growth(row: Row) -> float:
    return float(row["kept"]) / max(1.0, float(row["answered"])) - 1


def _formula(multiple: int) -> float:
    return 4 * (multiple + 1) / multiple**2


def _stated(multiple: int) -> float:
    return (2 * multiple + 1) / multiple**2


def panels_cache(record: Record) -> list[Panel]:
    shares = [100 * share for share in column(record.counts, "cache")]
    missed = Line("missed", shares, [100 * _missed(row) for row in record.counts])
    kept = Line("kept", shares, [100 * kept for kept in column(record.counts, "kept")])
    x = "cache (% of the conservative one)"
    return [
        Panel("Accuracy", x, "rows missed (%)", [missed]),
        Panel("Memory", x, "objects kept (%)", [kept]),
    ]


def panels_growth(record: Record) -> list[Panel]:
    multiples = column(record.counts, "multiple")
    lines = [
        Line("measured", multiples, [100 * _growth(row) for row in record.counts]),
        Line("4(m + 1)/m²", multiples, [100 * _formula(m) for m in multiples], is_dashed=True),
        Line("(2m + 1)/m², the paper", multiples, [100 * _stated(m) for m in multiples], True),
    ]
    x, y = "side of the query, in longest ways between reports", "objects kept besides (%)"
    return [Panel("What the cache adds", x, y, lines, log_x=True, log_y=True)]


def judge_cache(record: Record) -> list[Verdict]:
    """Exact with all of the cache, almost with three quarters, wrong without."""
    by_share = {row["cache"]: row for row in record.counts}
    whole, most, none = by_share[1.0], by_share[0.75], by_share[0.0]
    return [
        Verdict(
            "without a cache, answers are wrong where queries move",
            "GPAC, section 3.2, figure 3",
            f"{_missed(none):.2%} of the rows are missed",
            "some are missed",
            none["missed"] != 0,
        ),
        Verdict(
            "the conservative cache leaves no uncertainty",
            "GPAC, section 3.3",
            f"{whole['missed']:,} of {whole['rows']:,} rows are missed",
            "none is missed",
            whole["missed"] == 0,
        ),
        Verdict(
            "three quarters of it are similar to all of it in most cases",
            "GPAC, section 6",
            f"{_missed(most):.2%} of the rows are missed, and {most['kept']:.0%} of the objects "
            f"kept instead of {whole['kept']:.0%}",
            f"{SIMILAR:.0%} missed at most, and fewer kept",
            _missed(most) <= SIMILAR and float(most["kept"]) < float(whole["kept"]),
        ),
    ]


def judge_growth(record: Record) -> list[Verdict]:
    """The paper's two examples, and that larger queries pay less."""
    growths = [_growth(row) for row in record.counts]
    verdicts = [
        Verdict(
            f"a query of {multiple // 8} miles covers {stated:.1%} more area (m = {multiple})",
            "GPAC, section 3.4",
            f"{_growth(row):.1%} more objects are kept than answered",
            f"within {NEAR:.0%} of that",
            abs(_growth(row) / stated - 1) <= NEAR,
        )
        for multiple, stated in STATED.items()
        for row in record.counts
        if row["multiple"] == multiple
    ]
    verdicts.append(
        Verdict(
            "the larger the query, the less the cache adds",
            "GPAC, section 3.4",
            f"from {growths[0]:.0%} at m = {MULTIPLES[0]} to {growths[-1]:.0%} at {MULTIPLES[-1]}",
            "it falls from each m to the next",
            all(before > after for before, after in pairwise(growths)),
        )
    )
    return verdicts


CACHE = Experiment(
    "cache",
    "Size of the cache, accuracy and memory",
    "GPAC, sections 3.3 and 6 (no figure)",
    about_cache,
    measure_cache,
    tables_cache,
    panels_cache,
    judge_cache,
)
GROWTH = Experiment(
    "growth",
    "What the cache adds, by the side of the query",
    "GPAC, section 3.4 (no figure)",
    about_growth,
    measure_growth,
    tables_growth,
    panels_growth,
    judge_growth,
)
