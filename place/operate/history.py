"""`place history`: what the repository of a home holds and costs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from place.model.time import format_timestamp
from place.runtime.durable import manifest as manifests
from place.runtime.durable.home import read_about
from place.runtime.durable.storage import Storage
from place.runtime.repository.report import report
from place.runtime.store import CatalogStore
from place.statements import counted


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "history",
        help="what the repository of a home holds and costs",
        description="Tells of each stream that is archived from when to when its past is kept, how"
        " many readings, files and bytes that are, beside what the readings would take as plain"
        " Parquet, what is pinned, and how many ticks wait to be archived. It may be asked while"
        " a process runs on the home.",
        epilog="example: place history --home place-data",
    )
    parser.add_argument("--home", type=Path, required=True, help="the home directory")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run_history)


def read_history(directory: Path) -> dict[str, Any]:
    """What the repository of a home has, from its files alone."""
    about = read_about(directory)
    storage = Storage(about.get("storage") or str(directory.absolute()))
    store = CatalogStore(directory)
    try:
        catalog = store.load()
    finally:
        store.close()
    streams, earlier = report(storage, catalog)
    return {
        "repository": f"{storage}/repository",
        "waiting": _waiting(storage, about["kind"]),
        "earlier": earlier,
        "streams": [asdict(each) for each in streams],
    }


def _waiting(storage: Storage, kind: str) -> int:
    """The ticks that wait to be archived, as far as the files tell."""
    states = [n for n in storage.names("repository/_state") if n.endswith(".arrow")]
    if not states:
        return 0
    if kind == "pipeline":
        ticks = manifests.ticks(storage)
    else:
        ticks = [int(n.partition(".")[0]) for n in storage.names("log") if n.endswith(".arrow")]
    return max(0, max(ticks, default=0) - int(states[-1].partition(".")[0]))


def run_history(arguments: argparse.Namespace) -> int:
    """Run `place history`."""
    found = read_history(arguments.home)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    show(found, Console(highlight=False))
    return 1 if any(each["fault"] for each in found["streams"]) else 0


def show(found: dict[str, Any], console: Console) -> None:
    """Draw it, within 80 columns."""
    if not found["streams"]:
        console.print("no stream is archived: WITH (archive = 'all') keeps its past")
        return
    console.print(f"{found['repository']}; {found['waiting']:,} ticks wait", soft_wrap=True)
    table = Table()
    table.add_column("stream", overflow="fold")
    for title in ("readings", "copies", "files", "MiB", "plain MiB"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in found["streams"]:
        plain = "-" if each["plain"] is None else f"{each['plain'] / (1 << 20):,.1f}"
        table.add_row(
            each["stream"],
            *(f"{each[key]:,}" for key in ("readings", "copies", "files")),
            f"{each['size'] / (1 << 20):,.1f}",
            plain,
        )
    console.print(table)
    for each in found["streams"]:
        if each["fault"]:
            console.print(f"{each['stream']}: {each['fault']}", markup=False, soft_wrap=True)
        elif each["begin"] is None:
            console.print(f"{each['stream']}: nothing is archived yet", markup=False)
        else:
            begin, end = (format_timestamp(each[key]) for key in ("begin", "end"))
            said = f"{each['stream']}: from {begin} to {end}, in {each['directory']}"
            console.print(said, markup=False, soft_wrap=True)
        if each["late"]:
            said = f"  {counted(each['late'], 'late reading')} set aside: place amend puts them in"
            console.print(said, markup=False)
        if each["amended"]:
            said = f"  {counted(each['amended'], 'late reading')} put in by place amend"
            console.print(said, markup=False)
        for name, at in (each["pins"] or {}).items():
            console.print(f"  pinned: {name}, {format_timestamp(at)}", markup=False)
    if found["earlier"]:
        console.print(f"{found['earlier'] / (1 << 20):,.1f} MiB are of streams that were dropped")
