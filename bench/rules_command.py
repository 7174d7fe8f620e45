"""`place bench rules` and `place bench window-join` on the command line."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import rules, rules_grid, window_join
from bench.figures import number, share, tell
from bench.world import calibrate
from place.errors import ConfigurationError
from place.kernels.box_choice import METHODS

Benches = argparse._SubParsersAction


def add_parsers(benches: Benches[argparse.ArgumentParser]) -> None:
    """Add both commands to the command line."""
    _add_rules(benches)
    _add_window_join(benches)


def _add_rules(benches: Benches[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "rules",
        help="which of many rules hold for readings, beside IBS and DuckDB's range join",
        description="Rules are conjunctions of conditions on attributes, drawn as section 7.1 of "
        "Spatial Join CQ says: below a constant, above one, or between two. Readings are joined "
        "with them all at once (batch) and one by one (immediate), beside a compiled tree for "
        "each attribute (IBS) and DuckDB. Preparing the rules is left out, as in the paper. IBS "
        "and immediate are measured for the first 300 readings and DuckDB for some, and scaled. "
        "All find the same pairs. batch_ratio is ibs_s / batch_s, immediate_ratio ibs_s / "
        "immediate_s, duckdb_ratio duckdb_s / batch_s.",
        epilog="examples: place bench rules --rules 100000 --attributes 8 --readings 10000; "
        "place bench rules --narrow 0.05 --attributes 3; place bench rules --grid",
    )
    default = rules.Setting()
    parser.add_argument("--rules", type=number, default=default.rules, metavar="N", help="(100000)")
    parser.add_argument(
        "--attributes", type=number, default=default.attributes, metavar="A", help="of each (8)"
    )
    parser.add_argument(
        "--readings", type=number, default=default.readings, metavar="M", help="(10000)"
    )
    parser.add_argument(
        "--predicates",
        type=share,
        default=default.predicates,
        metavar="R",
        help="share of the attributes on which a rule has a condition (1)",
    )
    parser.add_argument(
        "--skew", type=share, default=default.skew, metavar="F",
        help="share of the readings in a tenth of each attribute's values (0)",
    )  # fmt: skip
    parser.add_argument(
        "--narrow", type=share, dest="width", metavar="W",
        help="rules are intervals of this width on every attribute instead",
    )  # fmt: skip
    parser.add_argument("--method", choices=METHODS, help="force a way (the cheapest is chosen)")
    parser.add_argument("--threads", type=number, default=1, metavar="K", help="of a batch (1)")
    parser.add_argument(
        "--grid", action="store_true", help="instead, the choice beside all ways in 24 settings"
    )
    parser.add_argument(
        "--sweep", action="store_true", help="instead, the size of clusters beside other sizes"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_rules)


def _add_window_join(benches: Benches[argparse.ArgumentParser]) -> None:
    parser = benches.add_parser(
        "window-join",
        help="many queries over the join of two windows, beside IBS-JS and DuckDB",
        description="Queries compare the first attributes of two streams by an operator and have "
        "conditions on attributes of both. A reading arrives in one stream and meets the window of "
        "the other, in turn. IBS-JS finds the pairs of each operator once and asks trees about "
        "each; DuckDB joins arrival, window and queries anew. All find the same. Times are medians "
        "over the arrivals; ratio is ibs_js_s / join_s, duckdb_ratio duckdb_s / join_s.",
        epilog="example: place bench window-join --window 10000 --queries 10000 --json join.json",
    )
    default = window_join.Setting()
    for name, metavar, words in (
        ("queries", "N", "how many"),
        ("attributes", "A", "of each stream"),
        ("window", "W", "readings in each window"),
        ("arrivals", "M", "readings that arrive"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar=metavar, help=f"{words} ({value})"
        )
    parser.add_argument(
        "--predicates",
        type=share,
        default=default.predicates,
        metavar="R",
        help="share of the attributes on which a query has a condition (1)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run_window_join)


def run_rules(arguments: argparse.Namespace) -> int:
    """Run `place bench rules`."""
    if arguments.grid and arguments.sweep:
        raise ConfigurationError("--grid and --sweep are two experiments", hint="leave one out")
    if arguments.grid:
        return _run_grid(arguments.json)
    if arguments.sweep:
        return _run_sweep(arguments.json)
    if arguments.width == 0.0:
        raise ConfigurationError("rules without width hold for nothing", hint="write --narrow 0.05")
    figures = rules.measure(_setting(rules.Setting, arguments))
    tell("rules", [figures.as_json()], arguments.json)
    return 0


def run_window_join(arguments: argparse.Namespace) -> int:
    """Run `place bench window-join`."""
    figures = window_join.measure(_setting(window_join.Setting, arguments))
    tell("window-join", [figures.as_json()], arguments.json)
    return 0


def _setting(kind: Any, arguments: argparse.Namespace) -> Any:
    return kind(**{field.name: getattr(arguments, field.name) for field in fields(kind)})


def _run_grid(file: Path | None) -> int:
    calibration = calibrate()
    outcomes = rules_grid.measure_choices()
    heads = ("rules", "readings", "count", "pairs", "chosen", "best", "choice / best")
    table = Table(*heads, title="The choice beside the best way", title_justify="left")
    for found in outcomes:
        counts = (f"{found.readings:,}", f"{found.rules:,}", f"{found.pairs:,}")
        table.add_row(found.name, *counts, found.chosen, found.best, f"{found.ratio:.2f}")
    Console(highlight=False).print(table)
    figures = rules_grid.choice_figures(outcomes)
    tell("rules --grid", [figures | {"calibration_s": min(calibration, calibrate())}], file)
    return 0


def _run_sweep(file: Path | None) -> int:
    calibration = calibrate()
    sweeps = rules_grid.measure_sizes()
    table = Table(
        "rules", "size found", "best size", "found / best", "milliseconds by size",
        title="Sizes of clusters", title_justify="left",
    )  # fmt: skip
    for found in sweeps:
        times = ", ".join(f"{size}: {1e3 * t:.1f}" for size, t in sorted(found.seconds.items()))
        table.add_row(found.name, f"{found.found}", f"{found.best}", f"{found.ratio:.2f}", times)
    Console(highlight=False).print(table)
    ratios = [found.ratio for found in sweeps]
    figures = {
        "settings": len(sweeps),
        "within_10_percent": sum(ratio <= 1.1 for ratio in ratios),
        "worst_ratio": max(ratios),
        "calibration_s": min(calibration, calibrate()),
    }
    tell("rules --sweep", [figures], file)
    return 0
