"""`place status` and `place changes`: what a home holds, read beside whoever runs on it."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from place.errors import ConfigurationError
from place.model.time import format_timestamp
from place.operate.quota import clients_of
from place.runtime.durable import manifest as manifests
from place.runtime.durable.aside import number_of, set_aside
from place.runtime.durable.deltas import WHOLE, Deltas, Id
from place.runtime.durable.home import read_about
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.state_figures import FIGURES, Named, told_of
from place.runtime.durable.storage import Storage
from place.runtime.repository.report import faults_of
from place.runtime.store import CatalogStore
from place.server.store import FILE, ServerStore

DIRECTORIES = ("state", "outbox", "manifest", "quarantine", "ingest", "segments", "tables")
STAGES = ("route", "match", "answer", "outbox", "log", "settle", "spark", "seconds")
RECENT = 20
MOST_SHOWN = 20
"""Triggers, and joins, that are listed."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = commands.add_parser(
        "status",
        help="the last tick, counts, sizes and times of a home directory",
        description="Tells what a home directory holds, also while a pipeline runs on it: the last"
        " tick, how far behind it is, readings, deltas, rows set aside, sizes, and the seconds of"
        " each stage (the last tick's, and the median of the last 20).",
    )
    parser.add_argument("--home", type=Path, required=True, help="the home directory")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--prometheus", action="store_true", help="in Prometheus' text form")
    parser.set_defaults(run=run_status)
    changes = commands.add_parser(
        "changes",
        help="the deltas of a home directory, from any id on",
        description="Writes deltas as JSON lines with their ids (tick, position), in order. Whoever"
        " keeps the last id and resumes after it sees each delta once.",
    )
    changes.add_argument("--home", type=Path, required=True, help="the home directory")
    changes.add_argument("--query", action="append", default=[], help="only of this query")
    changes.add_argument(
        "--after",
        metavar="TICK:POSITION",
        help="only what came after this id, or, without a position, after this tick",
    )
    changes.add_argument("--follow", action="store_true", help="go on as ticks come")
    changes.set_defaults(run=run_changes)


def read_status(directory: Path) -> dict[str, Any]:
    """All that is known of a home, from its files alone."""
    about = read_about(directory, "pipeline")
    storage = Storage(about.get("storage") or str(directory.absolute()))
    numbers = manifests.ticks(storage)
    recent = list(_loaded(storage, numbers[-RECENT:]))
    sizes = {name: sum(size for _, size in storage.list(name)) for name in DIRECTORIES}
    aside = set_aside(storage)
    if not recent:
        return {
            "tick": 0,
            "sizes": sizes,
            "cells": about.get("cells"),
            "kept": 0,
            "set_aside": aside,
            "past_faults": {},
        }
    last = recent[-1]
    counted = manifests.counts_of(last)
    return {
        "clients": _clients(directory),
        "tick": last.tick,
        "written": last.written,
        "ago": max(0.0, time.time() - last.written),
        "catalog": last.catalog,
        "cells": last.cells,
        "kept": len(numbers),
        "kept_from": last.kept_from,
        "waiting": _waiting(storage, last),
        "set_aside": aside,
        "past_faults": _past_faults(storage, directory),
        "deltas": last.totals.get("", {}).get("deltas", 0),
        "triggers": counted["trigger"],
        "joins": counted["join"],
        "streams": {name: _stream(last, name) for name in last.totals if name},
        "sizes": sizes,
        "last": dict(last.metrics) | {"deltas": last.deltas},
        "median": {stage: _median([m.metrics.get(stage, 0.0) for m in recent]) for stage in STAGES},
    }


def _past_faults(storage: Storage, directory: Path) -> dict[str, str]:
    """Streams whose past is damaged or gone."""
    store = CatalogStore(directory)
    try:
        return faults_of(storage, store.load())
    finally:
        store.close()


def _waiting(storage: Storage, last: Manifest) -> int:
    """How many files of acknowledged readings no tick has taken."""
    names = (name for name in storage.names("ingest") if name.endswith(".arrow"))
    return sum(1 for name in names if number_of(name) > last.ingest)


def _loaded(storage: Storage, ticks: list[int]) -> Iterator[Manifest]:
    """Manifests that are still there: those of ticks without deltas go after a while."""
    for tick in ticks:
        with contextlib.suppress(FileNotFoundError):
            yield manifests.load(storage, tick)


def _clients(home: Path) -> dict[str, dict[str, Any]]:
    """What clients of a server have, and what was set for them; nothing where none was."""
    if not (home / FILE).exists():
        return {}
    store = ServerStore(home)
    own, suspended = store.quotas(), Counter(q.owner for q in store.suspended().values())
    found = {
        name: {
            "queries": counts["queries"],
            "webhooks": counts["webhooks"],
            "suspended": suspended[name],
            "quota": own.get(name, {}),
        }
        for name, counts in clients_of(store).items()
    }
    store.close()
    return found


def _stream(last: Manifest, name: str) -> dict[str, Any]:
    closed = last.clocks.get(name)
    lag = None if closed is None else max(0.0, last.written - closed / 1e6)
    return {**last.totals[name], "time": closed, "lag": lag, "reason": last.reasons.get(name)}


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def run_status(arguments: argparse.Namespace) -> int:
    """Run `place status`."""
    status = read_status(arguments.home)
    if arguments.json:
        print(json.dumps(status, indent=2))
    elif arguments.prometheus:
        print(prometheus(status), end="")
    else:
        show(status, Console(highlight=False))
    return 0


def show(status: dict[str, Any], console: Console) -> None:
    """Draw the status, within 80 columns."""
    if not status["tick"]:
        console.print("no tick yet")
        return
    for line in (
        f"tick {status['tick']:,}, {status['ago']:.1f} s ago; {status['deltas']:,} deltas so far",
        *_behind(status),
        f"catalog version {status['catalog']}, cells {status['cells']};"
        f" deltas are kept from tick {status['kept_from']:,} on",
    ):
        console.print(line, soft_wrap=True)
    if status["set_aside"]:
        count, example = len(status["set_aside"]), status["set_aside"][0]
        console.print(
            f"{count:,} files of acknowledged readings are set aside, as {example}:"
            " place retry puts them back",
            soft_wrap=True,
        )
    for name, fault in status["past_faults"].items():
        said = f"the past of {name} cannot be asked about: {fault}"
        console.print(said, markup=False, soft_wrap=True)
    # Long lists stand upright: 80 columns are enough.
    keys = ["objects", "on_disk", "readings", "late", "bad"]
    if not any(counts.get("on_disk") for counts in status["streams"].values()):
        keys.remove("on_disk")
    streams = _table("stream", *(key.replace("_", " ") for key in keys), "lag")
    for name, counts in status["streams"].items():
        numbers = [f"{counts.get(key, 0):,}" for key in keys]
        lag = f"{counts['lag']:,.1f} s" if counts["lag"] is not None else "-"
        streams.add_row(name, *numbers, lag)
    console.print(streams)
    for name, counts in status["streams"].items():
        if counts["time"] is not None:
            console.print(f"{name} is at {format_timestamp(counts['time'])}", soft_wrap=True)
        if counts["reason"] is not None:
            said = f"{name}, set aside last: {counts['reason']}"
            console.print(said, markup=False)
    for label, counted in _counted(status).items():
        if counted:
            console.print(_counted_table(label, counted))
    upright = Table.grid(padding=(0, 4))
    upright.add_row(_stages(status), _sizes(status))
    console.print(upright)
    if status["clients"]:
        console.print(_clients_table(status))


def _behind(status: dict[str, Any]) -> list[str]:
    """How long the first of the readings of the last tick had waited when it was committed."""
    lag = status.get("last", {}).get("lag")
    return [] if lag is None else [f"its readings came {lag:,.3f} s before it was committed"]


def _table(first: str, *others: str) -> Table:
    """A table with a name in its first column, which may be folded, and numbers in the others."""
    made = Table()
    made.add_column(first, overflow="fold")
    for title in others:
        made.add_column(title, justify="right", no_wrap=True)
    return made


def _stages(status: dict[str, Any]) -> Table:
    stages = _table("seconds", "last", "median")
    for stage in STAGES:
        seconds = [f"{status[which].get(stage, 0.0):.3f}" for which in ("last", "median")]
        stages.add_row("in all" if stage == "seconds" else stage, *seconds)
    return stages


def _sizes(status: dict[str, Any]) -> Table:
    sizes = _table("on disk", "MiB")
    for name in DIRECTORIES:
        sizes.add_row(name, f"{status['sizes'][name] / (1 << 20):,.1f}")
    return sizes


def _counted(status: dict[str, Any]) -> dict[str, Named]:
    """What is counted of triggers and of joins, as `FIGURES` calls them."""
    return {label: status.get(f"{label}s", {}) for label in FIGURES}


def _counted_table(label: str, counted: Named) -> Table:
    """Triggers, or joins; of very many those that keep the most readings."""
    table = _table(label, *(figure.title for figure in FIGURES[label].values()))
    found = sorted(counted.items(), key=lambda each: -each[1]["kept"])
    for name, counts in found[:MOST_SHOWN]:
        table.add_row(name, *(f"{count:,}" for count in counts.values()))
    if len(found) > MOST_SHOWN:
        table.add_row(f"{len(found) - MOST_SHOWN:,} more")
    return table


def _clients_table(status: dict[str, Any]) -> Table:
    clients = _table("client", "queries", "suspended", "webhooks")
    clients.add_column("quota of its own", overflow="fold")
    for name, has in status["clients"].items():
        numbers = [f"{has[key]:,}" for key in ("queries", "suspended", "webhooks")]
        own = ", ".join(f"{what} {most:,}" for what, most in has["quota"].items())
        clients.add_row(name, *numbers, own or "-")
    return clients


def prometheus(status: dict[str, Any]) -> str:
    """The status in Prometheus' text form."""
    lines: list[str] = []

    def metric(name: str, kind: str, text: str, values: Mapping[str, float]) -> None:
        lines.append(f"# HELP place_{name} {text}")
        lines.append(f"# TYPE place_{name} {kind}")
        lines.extend(f"place_{name}{labels} {value:g}" for labels, value in values.items())

    streams = status.get("streams", {})
    metric("tick", "counter", "Ticks that were committed.", {"": status["tick"]})
    metric("deltas_total", "counter", "Deltas sent.", {"": status.get("deltas", 0)})
    for key, text in (
        ("readings", "Readings taken."),
        ("late", "Readings that came too late."),
        ("bad", "Rows that were set aside."),
    ):
        values = {_label("stream", name): counts[key] for name, counts in streams.items()}
        metric(f"{key}_total", "counter", text, values)
    objects = {_label("stream", name): counts["objects"] for name, counts in streams.items()}
    metric("objects", "gauge", "Objects that are alive.", objects)
    stored = {_label("stream", n): counts.get("on_disk", 0) for n, counts in streams.items()}
    metric("objects_on_disk", "gauge", "Those of them that are not in memory.", stored)
    lags = {_label("stream", n): c["lag"] for n, c in streams.items() if c["lag"] is not None}
    metric("lag_seconds", "gauge", "How far event time was behind at the last tick.", lags)
    waited = status.get("last", {}).get("lag")
    text = "Seconds from the first reading of the last tick to its commit."
    metric("tick_lag_seconds", "gauge", text, {} if waited is None else {"": waited})
    stages = {_label("stage", s): status.get("last", {}).get(s, 0.0) for s in STAGES}
    metric("tick_seconds", "gauge", "Seconds of the stages of the last tick.", stages)
    counted = _counted(status)
    metric("triggers", "gauge", "Triggers.", {"": len(counted["trigger"])})
    for figure, label, values in told_of(counted):
        told = {_label(label, name): value for name, value in values.items()}
        metric(figure.name, figure.kind, figure.text, told)
    aside = {"": float(len(status["set_aside"]))}
    metric("set_aside_files", "gauge", "Files of readings of which no tick could be made.", aside)
    faults = {"": float(len(status["past_faults"]))}
    metric("past_faults", "gauge", "Streams whose past is damaged or gone.", faults)
    sizes = {_label("directory", name): size for name, size in status["sizes"].items()}
    metric("stored_bytes", "gauge", "Bytes that are kept.", sizes)
    return "\n".join(lines) + "\n"


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{{name}="{escaped}"}}'


def run_changes(arguments: argparse.Namespace) -> int:
    """Run `place changes`."""
    about = read_about(arguments.home, "pipeline")
    storage = Storage(about.get("storage") or str(arguments.home.absolute()))
    after = _parse_id(arguments.after) if arguments.after else None
    names = set(arguments.query) or None
    deltas = Deltas(storage)
    while True:
        newest = max(manifests.ticks(storage), default=0)
        for each in deltas.numbered(after, names, until=newest):
            delta = each.delta
            line = {
                "tick": each.tick,
                "position": each.position,
                "query": delta.query,
                "sign": delta.sign,
                "row": list(delta.row),
                "instant": format_timestamp(delta.instant),
            }
            print(json.dumps(line))
            after = each.tick, each.position
        sys.stdout.flush()
        if not arguments.follow:
            return 0
        if newest and (after is None or newest > after[0]):
            after = newest, WHOLE
        time.sleep(0.2)


def _parse_id(text: str) -> Id:
    tick, _, position = text.partition(":")
    if not tick.isdecimal() or not (position or "0").isdecimal():
        raise ConfigurationError(f"{text} is not an id", hint="write TICK:POSITION, as in 12:3")
    return int(tick), int(position) if position else WHOLE
