"""Figures 5, 6 and 7 of the paper on continuous constraint queries (CCQ): verbosity, the number of
triggers, the length of time bounds; and the number of variables, which it tells in words.

Rates are by the time of the thread on its processor. What is kept is counted twice: as readings,
and as entries, of which NO INDEX has one for each variable that a reading stands for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.buoys import TAO, Reports, read_tao
from bench.papers.record import (
    Experiment,
    Line,
    Panel,
    Record,
    Row,
    Shown,
    Value,
    Verdict,
    Watch,
    column,
)
from bench.papers.rule_times import machine
from bench.papers.sizes import Size
from bench.trigger_queries import Chain, draw_triggers
from bench.triggers import HINTS, Setting, check, draw, reports_of, take
from bench.world import Floats, calibrate

WHERE = "CCQ, section 5.1"
MANY = 100
"""Above so many triggers only what is chosen and NO INDEX are measured."""
TAO_BUOYS, TAO_DAYS, TAO_FAR = "TAO", 3, 6.0
"""In the data of TAO a buoy reports once a day, and the next buoy is far."""


@dataclass(frozen=True)
class Swept:
    """What an experiment varies: a field of the setting, how it is called, and its values."""

    field: str
    words: str
    values: Callable[[Size], Sequence[float]]


def measure(swept: Swept, size: Size, seed: int, watch: Watch) -> Record:
    """Each value by all strategies, on generated buoys and on those of TAO, where they are."""
    calibrations = [calibrate()]
    counts: list[Row] = []
    times: list[Row] = []
    tao = _tao()
    seas = ["buoys", *([TAO_BUOYS] if tao is not None else [])]
    cases = [(sea, value) for sea in seas for value in swept.values(size)]
    for sea, value in watch.each(cases, f"triggers by {swept.words}"):
        setting = Setting(size.trigger_few, size.trigger_events, seed=seed)
        setting = _with(setting, swept.field, value)
        if sea == TAO_BUOYS:
            assert tao is not None
            reports, metres = tao
            events = min(len(reports), size.trigger_events)
            first = len(reports) - events  # the later years have fewer gaps
            reports, metres = reports.part(first, len(reports)), metres[first:]
            setting = replace(setting, events=events, tick=max(1, events // 10))
            chains = _far(setting, reports, metres)
        else:
            reports = reports_of(setting)
            chains = draw(setting, reports)
        hows = [how for how in HINTS if setting.triggers <= MANY or how in ("chosen", "noindex")]
        runs = {how: take(setting, chains, reports, HINTS[how]) for how in hows}
        check(runs)
        for how, run in runs.items():
            about: dict[str, Value] = {"sea": sea, swept.field: value, "how": how}
            told = int(run.alerts.sum())
            counts.append(
                {**about, "events": setting.events, "alerts": told, "peak": run.peak,
                 "entries": run.entries}
            )  # fmt: skip
            times.append({**about, "per_s": round(run.per_s(setting))})
    known = {"size": size.name, "seed": seed, "events": size.trigger_events}
    known |= {"triggers": size.trigger_few, "tao": int(tao is not None)}
    return Record(known, counts, times, machine(calibrations))


def _with(setting: Setting, field: str, value: Any) -> Setting:
    """The setting with another value of a field."""
    return replace(setting, **{field: value})


def _tao() -> tuple[Reports, Floats] | None:
    """The data of TAO, if a variable says where it is."""
    path = os.environ.get(TAO)
    return read_tao(Path(path)) if path and Path(path).exists() else None


def _far(setting: Setting, reports: Reports, metres: Floats) -> list[Chain]:
    """Triggers for buoys that are far from each other and report once a day."""
    days = TAO_DAYS * setting.seconds / Setting.seconds
    return draw_triggers(
        reports,
        metres,
        setting.triggers,
        variables=setting.variables,
        seconds=int(86_400 * days),
        verbosity=setting.verbosity,
        nearness=TAO_FAR,
        seed=setting.seed,
    )


def about(swept: Swept, record: Record) -> str:
    few = record.setting["triggers"]
    data = (
        "Beside it the data of the Tropical Atmosphere Ocean project, once a day of each buoy."
        if record.setting["tao"]
        else f"The paper's own data (TAO) was not at hand; the variable {TAO} says where it is."
    )
    others = "" if swept.field == "triggers" else f"{few} triggers, "
    return (
        f"{record.setting['events']:,} events of 600 generated buoys; {others}chains of variables "
        "with conditions on measurements, times and distances, tuned to their verbosity (1% where "
        "nothing else is said; 3 variables, each at most 20 minutes after the one before). "
        f"{data} *Chosen* is what is run without a hint. A worker takes ticks of events on one "
        "core, to Arrow columns of alerts. Readings kept are the most at the end of an instant."
    )


def _seas(record: Record) -> list[str]:
    return list(dict.fromkeys(column(record.counts, "sea")))


def tables(swept: Swept, record: Record) -> list[Shown]:
    rows = []
    for count, taken in zip(record.counts, record.times, strict=True):
        events = int(count["events"])
        rows.append(
            [
                str(count["sea"]),
                f"{count[swept.field]:,}",
                str(count["how"]),
                f"{int(taken['per_s']):,}",
                f"{int(count['alerts']):,}",
                f"{int(count['peak']):,}",
                f"{100 * int(count['peak']) / events:.2f}",
                f"{int(count['entries']):,}",
            ]
        )
    heads = ("data", swept.words, "strategy", "events/s", "alerts", "kept", "kept, %", "entries")
    return [Shown("Events a second, and the most that is kept", heads, rows)]


def panels(swept: Swept, record: Record) -> list[Panel]:
    found = []
    for sea in _seas(record):
        for rows, name, words in (
            (record.times, "per_s", "events a second"),
            (record.counts, "entries", "entries kept"),
        ):
            lines = [
                Line(how, column(rows, swept.field, sea=sea, how=how), ys)
                for how in HINTS
                if (ys := column(rows, name, sea=sea, how=how))
            ]
            many = swept.field in ("triggers", "verbosity")
            found.append(
                Panel(f"{sea}: {words}", swept.words, words, lines, log_x=swept.field == "triggers",
                      log_y=many)
            )  # fmt: skip
    return found


def _line(record: Record, name: str, how: str, sea: str = "buoys") -> list[float]:
    rows = record.times if name == "per_s" else record.counts
    return [float(value) for value in column(rows, name, sea=sea, how=how)]


def _spread(values: Sequence[float]) -> float:
    return max(values) / max(min(values), 1e-9)


def _words(values: Sequence[float]) -> str:
    return f"from {values[0]:,.0f} to {values[-1]:,.0f}"


def judge_verbosity(record: Record) -> list[Verdict]:
    """Figure 5."""
    where = f"{WHERE}, figure 5"
    rates = {how: _line(record, "per_s", how) for how in HINTS}
    falls = all(line[-1] < line[0] for line in rates.values())
    loose = [t / s for t, s in zip(rates["tight"], rates["loose"], strict=True)]
    best = [
        n / max(a, b)
        for n, a, b in zip(rates["noindex"], rates["loose"], rates["tight"], strict=True)
    ]
    kept = [
        100 * max(_line(record, "peak", how)) / float(record.setting["events"]) for how in HINTS
    ]
    copies = [
        e / t
        for e, t in zip(
            _line(record, "entries", "noindex"), _line(record, "entries", "tight"), strict=True
        )
    ]
    told = "; ".join(f"{how} {_words(line)}" for how, line in rates.items())
    return [
        Verdict(
            "for all variants performance deteriorates as verbosity increases",
            where,
            f"events a second: {told}",
            "each is slower at the greatest verbosity than at the least",
            falls,
        ),
        Verdict(
            "Loose has somewhat worse performance than the rest",
            where,
            f"Tight is {min(loose):.2f} to {max(loose):.2f} times as fast",
            "Tight is not slower anywhere, by more than 5%",
            min(loose) >= 0.95,
        ),
        Verdict(
            "NoIndex offers the highest processing rates",
            where,
            f"it is {min(best):.1f} to {max(best):.1f} times as fast as the better of the others",
            "faster everywhere",
            min(best) > 1.0,
        ),
        Verdict(
            "all techniques save substantial memory beside keeping all events",
            where,
            f"at most {max(kept):.1f}% of the events are kept",
            "10% at most",
            max(kept) <= 10.0,
        ),
        Verdict(
            "NoIndex has larger memory requirements due to replication",
            where,
            f"it has {min(copies):.2f} to {max(copies):.2f} times as many entries as Tight",
            "more everywhere",
            min(copies) > 1.0,
        ),
    ]


def judge_count(record: Record) -> list[Verdict]:
    """Figure 6."""
    where = f"{WHERE}, figure 6"
    numbers = column(record.counts, "triggers", sea="buoys", how="noindex")
    rates = _line(record, "per_s", "noindex")
    hundred = rates[numbers.index(MANY)] if MANY in numbers else rates[-1]
    falls = {how: _spread(_line(record, "per_s", how)) for how in ("loose", "tight")}
    few = len(_line(record, "per_s", "tight"))
    mine = _spread(rates[:few])
    copies = _line(record, "entries", "noindex")[few - 1] / _line(record, "entries", "tight")[-1]
    return [
        Verdict(
            "NoIndex sustains up to 15,000 events a second even with 100 queries",
            where,
            f"{hundred:,.0f} events a second",
            "15,000 at least",
            hundred >= 15_000,
        ),
        Verdict(
            "Loose and Tight suffer more as the number of queries increases",
            where,
            f"they fall by factors of {falls['loose']:.1f} and {falls['tight']:.1f}, NoIndex by "
            f"{mine:.1f}",
            "by more than NoIndex",
            min(falls.values()) > mine,
        ),
        Verdict(
            "NoIndex introduces substantial event duplication",
            where,
            f"{copies:.1f} times the entries of Tight at the most triggers of both",
            "1.5 times at least",
            copies >= 1.5,
        ),
    ]


def judge_bounds(record: Record) -> list[Verdict]:
    """Figure 7."""
    where = f"{WHERE}, figure 7"
    peaks, rates = _line(record, "peak", "tight"), _line(record, "per_s", "noindex")
    return [
        Verdict(
            "memory increases as the temporal extents increase",
            where,
            f"readings kept by Tight go {_words(peaks)}",
            "it never falls",
            all(one <= other for one, other in pairwise(peaks)),
        ),
        Verdict(
            "throughput remains unaffected, as verbosity is fixed",
            where,
            f"NoIndex: {_words(rates)} events a second",
            "the fastest is at most 1.5 times as fast as the slowest",
            _spread(rates) <= 1.5,
        ),
    ]


def judge_variables(record: Record) -> list[Verdict]:
    """What is said of the number of variables."""
    rates = _line(record, "per_s", "noindex")
    return [
        Verdict(
            "throughput does not depend on the number of variables",
            f"{WHERE}, no figure",
            f"NoIndex: {_words(rates)} events a second",
            "the fastest is at most 1.5 times as fast as the slowest",
            _spread(rates) <= 1.5,
        )
    ]


def _experiment(
    name: str, title: str, figures: str, swept: Swept, judge: Callable[[Record], list[Verdict]]
) -> Experiment:
    return Experiment(
        name,
        title,
        figures,
        partial(about, swept),
        partial(measure, swept),
        partial(tables, swept),
        partial(panels, swept),
        judge,
    )


VERBOSITY = _experiment(
    "verbosity", "Triggers by verbosity", "CCQ, figure 5",
    Swept("verbosity", "verbosity", lambda size: size.trigger_verbosities), judge_verbosity,
)  # fmt: skip
COUNTS = _experiment(
    "triggers", "Triggers by their number", "CCQ, figure 6",
    Swept("triggers", "triggers", lambda size: size.trigger_counts), judge_count,
)  # fmt: skip
BOUNDS = _experiment(
    "bounds", "Triggers by the length of time bounds", "CCQ, figure 7",
    Swept("seconds", "seconds to the next variable", lambda size: size.trigger_seconds),
    judge_bounds,
)  # fmt: skip
VARIABLES = _experiment(
    "variables", "Triggers by the number of variables", "CCQ, section 5.1 (no figure)",
    Swept("variables", "variables", lambda size: size.trigger_variables), judge_variables,
)  # fmt: skip
