"""`place bench papers`: run the papers' experiments, draw them, and write their page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.papers import (
    answers,
    caches,
    cluster_sizes,
    delays,
    pipelines,
    selections,
    selectivity,
    triggers,
    window_joins,
)
from bench.papers.page import Found, write_page
from bench.papers.plot import check_library, draw
from bench.papers.record import Experiment, Record, Shown, Watch, read_record, write_record
from bench.papers.sizes import FULL, QUICK, Size
from place.errors import ConfigurationError

T = TypeVar("T")

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        answers.MOVING,
        answers.QUERY_SIDE,
        pipelines.EXPERIMENT,
        delays.EXPERIMENT,
        selectivity.EXPERIMENT,
        caches.CACHE,
        caches.GROWTH,
        cluster_sizes.EXPERIMENT,
        selections.COUNTS,
        selections.PREDICATES,
        selections.SKEW,
        window_joins.EXPERIMENT,
        triggers.VERBOSITY,
        triggers.COUNTS,
        triggers.BOUNDS,
        triggers.VARIABLES,
    )
}
PAGE = "README.md"
PUBLISHED, TRIED = Path("docs/experiments"), Path("build/experiments")
"""Where the experiments go: a quick run is not for others to read."""


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    names = ", ".join(EXPERIMENTS)
    parser = benches.add_parser(
        "papers",
        help="the experiments of the papers, with plots and a page",
        description="Runs every experiment of the PLACE, GPAC, Spatial Join CQ and CCQ papers "
        "that has data, prints its table and, beside what the paper states, whether that is so "
        "here; draws a plot (SVG and PNG) and writes the data and a page. Counts depend on the "
        f"seed alone; times have the calibration of this machine. Figures: {names}.",
        epilog="example: place bench papers --quick --figure side --figure cache --out /tmp/papers",
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a minute, not ten")
    parser.add_argument(
        "--figure",
        action="append",
        choices=list(EXPERIMENTS),
        metavar="NAME",
        help="only this one, or these; the page keeps what DIR has of the others",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"where plots, data and page are written ({PUBLISHED}; with --quick {TRIED})",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the objects (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    parser.set_defaults(run=run)


class Shower(Watch):
    """Shows on a console how far an experiment is."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def each(self, items: Sequence[T], what: str) -> Iterable[T]:
        return track(items, what, console=self._console, transient=True)


def run(arguments: argparse.Namespace) -> int:
    """Run `place bench papers`."""
    if arguments.seed < 0:
        raise ConfigurationError("a seed is at least 0", hint="write --seed 1")
    size = QUICK if arguments.quick else FULL
    chosen = [EXPERIMENTS[name] for name in arguments.figure or EXPERIMENTS]
    out = arguments.out or (TRIED if arguments.quick else PUBLISHED)
    try:
        found = make(chosen, size, arguments.seed, out, Console(highlight=False))
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(_everything(found), indent=2) + "\n", "utf-8")
    except OSError as error:
        where = error.filename or out
        raise ConfigurationError(f"{where} cannot be written: {error.strerror}") from error
    return 0


def make(
    chosen: Sequence[Experiment], size: Size, seed: int, out: Path, console: Console
) -> list[tuple[Experiment, Record]]:
    """Run experiments one after the other, and write the page of all that the directory holds."""
    check_library()
    out.mkdir(parents=True, exist_ok=True)
    watch = Shower(Console(highlight=False, stderr=True))
    found = []
    for experiment in dict.fromkeys(chosen):
        record = experiment.measure(size, seed, watch)
        write_record(out, experiment.name, record)
        draw(experiment.panels(record), out, experiment.name)
        _tell(experiment, record, console)
        found.append((experiment, record))
    (out / PAGE).write_text(write_page(_kept(out)), "utf-8")
    console.print(f"plots, data and page are in {out}")
    return found


def _kept(out: Path) -> Found:
    """All records of the directory, in the order of the experiments."""
    kept = [(experiment, read_record(out, name)) for name, experiment in EXPERIMENTS.items()]
    return [(experiment, record) for experiment, record in kept if record is not None]


def _tell(experiment: Experiment, record: Record, console: Console) -> None:
    for shown in experiment.tables(record):
        title = f"{experiment.title} ({experiment.figures})\n{shown.title}"
        console.print(_rich(Shown(title, shown.columns, shown.rows)))
    heads = ("stated", "found here", "verdict", "agrees if")
    verdicts = Table(*heads, title="Beside the papers", title_justify="left", show_lines=True)
    for verdict in experiment.judge(record):
        stated = f"{verdict.stated} ({verdict.where})"
        colour = "green" if verdict.agrees else "yellow"
        verdicts.add_row(stated, verdict.found, f"[{colour}]{verdict.word}[/]", verdict.rule)
    console.print(verdicts)


def _rich(shown: Shown) -> Table:
    table = Table(title=shown.title, title_justify="left")
    for name in shown.columns:
        table.add_column(name, justify="right")
    for row in shown.rows:
        table.add_row(*row)
    return table


def _everything(found: Found) -> list[dict[str, object]]:
    return [
        {
            "name": experiment.name,
            "figures": experiment.figures,
            "setting": dict(record.setting),
            "counts": list(record.counts),
            "times": list(record.times),
            "machine": dict(record.machine),
            "verdicts": [vars(verdict) for verdict in experiment.judge(record)],
        }
        for experiment, record in found
    ]
