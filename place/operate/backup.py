"""`place backup` and `place restore`: a home as one file, and a home from it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from place.errors import ConfigurationError
from place.model.time import SECOND, format_timestamp
from place.runtime.durable.backup import Contents, back_up, check, read_listing, restore


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = commands.add_parser(
        "backup",
        help="write a home directory to one file, also while it runs",
        description="Writes all that lasts of a home to a file, as it is after one tick, while a"
        " pipeline or a server runs on it: ticks wait for the moment in which the files are"
        " listed. Every file has a checksum. The home of a session without Spark has to be closed."
        " The file holds data, and secrets of webhooks: only its owner may read it.",
        epilog="examples: place backup --home place-data --to monday.tar; place backup --check"
        " monday.tar",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--to", type=Path, metavar="FILE", help="the file, which is not there yet")
    which.add_argument(
        "--check", type=Path, metavar="FILE", help="only see whether a backup is whole"
    )
    parser.add_argument("--home", type=Path, help="the home directory")
    parser.add_argument(
        "--no-data", action="store_true", help="without HOME/data, where files of users are"
    )
    parser.set_defaults(run=run_backup)
    back = commands.add_parser(
        "restore",
        help="make a home directory of a backup",
        description="Makes a home of a backup where there is nothing yet; it goes on from the tick"
        " of the backup as if its process had been killed then. Every file is compared with its"
        " checksum first: the home appears whole, or not at all. Let never run both, the home that"
        " was backed up and the one that was restored, with the same sinks.",
        epilog="example: place restore --from monday.tar --home place-data",
    )
    back.add_argument(
        "--from", type=Path, required=True, metavar="FILE", dest="source", help="the backup"
    )
    back.add_argument("--home", type=Path, required=True, help="a directory that is empty, or new")
    back.set_defaults(run=run_restore)


def run_backup(arguments: argparse.Namespace) -> int:
    """Run `place backup`."""
    if arguments.check is not None:
        contents = read_listing(arguments.check)
        check(arguments.check, contents)
        print(f"{arguments.check} is whole: {told(contents)}")
        return 0
    if arguments.home is None:
        raise ConfigurationError("there is no home to back up", hint="name it with --home")
    began = time.monotonic()
    contents = back_up(arguments.home, arguments.to, with_data=not arguments.no_data)
    print(f"{arguments.to}: {told(contents)}, in {time.monotonic() - began:.1f} s")
    return 0


def run_restore(arguments: argparse.Namespace) -> int:
    """Run `place restore`."""
    contents = restore(arguments.source, arguments.home)
    print(f"{arguments.home}: {told(contents)}")
    return 0


def told(contents: Contents) -> str:
    """What a backup holds, for people."""
    moment = format_timestamp(int(contents.made) * SECOND)
    return (
        f"tick {contents.tick}, {len(contents.files):,} files, {contents.size:,} bytes,"
        f" of {moment} UTC"
    )
