"""`place amend`: late readings that were set aside become part of the past."""

from __future__ import annotations

import argparse
from pathlib import Path

from place.errors import ConfigurationError
from place.runtime.durable import manifest as manifests
from place.runtime.durable.home import ABOUT, Home, read_about
from place.runtime.durable.statement_log import follow
from place.runtime.durable.takeover import fence, storage_of
from place.runtime.repository.amend import Amended
from place.runtime.repository.repository import Repository, TickOfLog
from place.runtime.store import CatalogStore
from place.statements import counted


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "amend",
        help="put late readings that were set aside into the repository",
        description="Readings that came too late were in no answer, and are not part of the past."
        " The repository keeps them beside its tables, and this command puts them in, each table"
        " in one version of its own: questions about the past see them from then on. Answers that"
        " were told stay as they were. Killed at any moment, or run twice, it puts each reading in"
        " once. Nothing may run on the home meanwhile.",
        epilog="example: place amend --home place-data",
    )
    parser.add_argument("--home", type=Path, required=True, help="the home directory")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = amend_home(arguments.home)
    for each in found:
        print(_said(each))
    if not found:
        print("nothing came too late")
    return 0


def _said(each: Amended) -> str:
    text = f"{each.stream}: {counted(each.readings, 'late reading')} put into its past"
    if each.too_old:
        text += f", {each.too_old:,} left out, from before what is kept"
    return text


def amend_home(directory: Path) -> list[Amended]:
    """Put late readings of all streams of a home into its repository; those that had some."""
    if not (directory / ABOUT).exists():
        raise ConfigurationError(
            f"{directory} is not a home directory of PLACE: it has no {ABOUT}",
            hint="name the directory that was given to --home or connect()",
        )
    kind = read_about(directory)["kind"]
    if kind == "journal":
        raise ConfigurationError(f"{directory} is a home of the reference, which has no repository")
    home = Home(directory, kind)
    try:
        with storage_of(home, None) as (storage, lease):
            store = CatalogStore(directory)
            try:
                if lease is not None:
                    if lease.needs_fence:
                        fence(storage, home.about["id"], "x".join(map(str, home.about["cells"])))
                        lease.needs_fence = False
                    ticks = manifests.ticks(storage)
                    if ticks:
                        follow(store, storage, manifests.load(storage, ticks[-1]), lease)
                repository = Repository(storage, _no_ticks, store.load, has_thread=False)
                repository.open(0, store.load())
                for fault in repository.faults.values():
                    raise ConfigurationError(f"the repository cannot be used: {fault}")
                return [each for each in repository.amend() if each.readings or each.too_old]
            finally:
                store.close()
    finally:
        home.close()


def _no_ticks(tick: int) -> list[TickOfLog]:
    """What the log has since is for the process that runs next."""
    return []
