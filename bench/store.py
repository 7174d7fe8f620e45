"""`place bench store`: how much memory a stream needs of whose objects queries reach few.

The same readings go to a stream that holds all objects in memory and to one with a disk store, each
in a process of its own. Standing squares reach a small share of the area, some objects lead squares
of their own, half of the queries begin after everybody has reported, and then some report again.
Both processes tell the checksum of all answers, and their resident memory by the kernel's account.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.store_memory import OPTIONS, Figures, Setting


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the benchmark to the command line."""
    parser = commands.add_parser(
        "store",
        help="memory of a stream with a disk store, beside one that holds all objects",
        description="Runs the same readings and queries with retain = 'all' and with a disk store,"
        " compares the answers, and tells the resident memory of both.",
    )
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--reach", type=float, default=0.01, help="share that queries reach")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--moving", type=int, default=10, help="queries that move, besides")
    parser.add_argument("--tick", type=int, default=50_000, help="readings of a tick")
    parser.add_argument("--again", type=float, default=0.2, help="share that reports twice")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.set_defaults(run=run)


def measured_apart(setting: Setting, mode: str) -> Figures:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "bench.store_process", json.dumps(asdict(setting)), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the process with {mode} ended: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Figures(**found)


def run(arguments: argparse.Namespace) -> int:
    """Measure both, and show them in one table."""
    setting = Setting(
        arguments.objects,
        arguments.reach,
        arguments.queries,
        arguments.moving,
        arguments.tick,
        arguments.again,
        arguments.seed,
    )
    found = {mode: measured_apart(setting, mode) for mode in OPTIONS}
    sizes = ("before", "resident", "peak", "libraries")
    names = (*sizes, "in memory", "on disk", "seconds", "rows", "answers")
    table = Table("retain", *names, box=None)
    for mode, figures in found.items():
        table.add_row(
            mode,
            *(f"{getattr(figures, name):,.0f}" for name in sizes),
            *(f"{value:,}" for value in (figures.in_memory, figures.on_disk)),
            f"{figures.seconds:.1f}",
            f"{figures.rows:,}",
            figures.answers,
        )
    console = Console()
    console.print(table)
    held, disk = found["all"], found["disk"]
    share = disk.resident / held.resident
    added = (disk.resident - disk.before) / (held.resident - held.before)
    console.print(f"resident memory: {share:.2f} of that with all objects in memory")
    console.print(f"what the stream adds to the process: {added:.2f}")
    is_equal = disk.answers == held.answers
    console.print("answers are equal" if is_equal else "answers differ")
    if arguments.json is not None:
        record = {**asdict(setting), **{mode: asdict(each) for mode, each in found.items()}}
        record |= {"share": share, "added": added, "equal": is_equal}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if is_equal else 1
