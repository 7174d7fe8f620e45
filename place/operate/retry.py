"""`place retry`: readings that were acknowledged and set aside come back."""

from __future__ import annotations

import argparse
from pathlib import Path

from place.runtime.durable.aside import put_back
from place.runtime.durable.home import read_about
from place.runtime.durable.storage import Storage


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "retry",
        help="put pushed readings back of which no tick could be made",
        description="Readings that were acknowledged, and of which no tick could be made, are set"
        " aside in the home directory (ingest/….failed), and place status and /health say so until"
        " this command puts them back: the server that runs on the home takes them up at once, and"
        " otherwise the next one that opens it does. By then they may be late. Remove the files"
        " instead if their readings are to be given up.",
    )
    parser.add_argument("--home", type=Path, required=True, help="the home directory")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    about = read_about(arguments.home, "pipeline")
    found = put_back(Storage(about.get("storage") or str(arguments.home.absolute())))
    for name in found:
        print(f"{name} is put back")
    if not found:
        print("nothing is set aside")
    return 0
