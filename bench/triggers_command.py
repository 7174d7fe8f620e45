"""`place bench triggers` on the command line."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from rich.console import Console

from bench import trigger_flink, trigger_memory, triggers
from bench.figures import number, share, tell
from place.errors import ConfigurationError
from place.model.space import Space


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = benches.add_parser(
        "triggers",
        help="many triggers over drifting buoys, by each strategy, beside DuckDB's self-joins",
        description="600 buoys drift in an ocean and report what they measure, about one a second. "
        "Triggers are chains of variables with conditions on measurements, times and distances, "
        "tuned so that each tells its share of the events (the verbosity). Measured is what a "
        "worker does with ticks of 20,000 events, on one thread, in seconds of the processor: what "
        "the planner chooses (events_per_s), and each strategy by a hint. All have to tell the "
        "same alerts. After a tick that fills the lists, --ticks instants are ticks of their own "
        "(instant_ms for each, instant_per_s events a second). DuckDB finds the matches of five of "
        "the triggers by self-joins over all events in one go (duckdb_s); duckdb_ratio is what it "
        "would need for all of them, in relation to the triggers. exponent is 1 where the time "
        "grows in proportion to the events.",
        epilog="examples: place bench triggers --triggers 1000 --events 100000; "
        "place bench triggers --verbosity 0.001 --variables 4",
    )
    default = triggers.Setting()
    for name, metavar, words in (
        ("triggers", "N", "how many"),
        ("events", "M", "how many"),
        ("variables", "K", "of each trigger, 2 to 5"),
        ("seconds", "S", "from a variable to the next, at most"),
        ("buoys", "B", "that report, one a second in all if 600"),
        ("tick", "E", "events of a tick"),
        ("ticks", "T", "of one instant each, measured beside the others"),
        ("seed", "X", "of buoys and triggers"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar=metavar, help=f"{words} ({value})"
        )
    parser.add_argument(
        "--verbosity", type=share, default=default.verbosity, metavar="V",
        help="alerts of a trigger for each event (0.01)",
    )  # fmt: skip
    parser.add_argument(
        "--nearness", type=float, default=default.nearness, metavar="F",
        help="distances are this many times as long (1: 100 to 300 km)",
    )  # fmt: skip
    parser.add_argument(
        "--space",
        choices=[space.value for space in Space],
        default=default.space,
        help="metres in the plane or degrees on the sphere (wgs84)",
    )
    parser.add_argument(
        "--lonely", type=share, metavar="F",
        help="instead, the readings that loose and tight keep where this share of the first ones "
        "never finds a partner, for chains of 3 and 4 variables",
    )  # fmt: skip
    parser.add_argument(
        "--rival",
        choices=("flink",),
        help="instead, a trigger of two variables beside Apache Flink, which is installed into an "
        "environment of its own below ~/.cache/place if it is not there",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `place bench triggers`."""
    names = [field.name for field in fields(triggers.Setting)]
    setting = triggers.Setting(**{name: getattr(arguments, name) for name in names})
    if not 2 <= setting.variables <= 5:
        raise ConfigurationError("a chain has 2 to 5 variables", hint="write --variables 3")
    if setting.nearness <= 0:
        raise ConfigurationError("a distance is more than 0", hint="write --nearness 1")
    console = Console(highlight=False, stderr=True)
    if arguments.lonely is not None:
        tell(
            "triggers --lonely",
            trigger_memory.measure(setting.events, arguments.lonely),
            arguments.json,
        )
        return 0
    if arguments.rival is not None:
        try:
            found = trigger_flink.measure(setting.events, setting.seed, console)
        except trigger_flink.Missing as reason:
            console.print(f"not compared with Flink: {reason}")
            return 0
        tell("triggers --rival flink", [found], arguments.json)
        return 0
    tell("triggers", [triggers.measure(setting, console).as_json()], arguments.json)
    return 0
