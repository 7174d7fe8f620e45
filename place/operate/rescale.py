"""`place rescale`: a home of a pipeline gets another number of cells."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from place.session import parse_matrix

DESCRIPTION = """\
Gives the home of a pipeline other cells: more of them for a larger cluster, or fewer.

Objects are split by key into rows, queries into columns; see docs/pipeline.md. A home keeps
the cells that it was made with, until this command gives it others. Everything goes on from
there: queries, windows, triggers, sinks and sources; the deltas are those that there would have
been anyway.

Nothing may run on the home meanwhile. Killed in the middle, it is the old home or the new one.
No Spark is needed; the states of all cells pass through this process, one after the other."""

EPILOG = """\
examples:
  place rescale --home town --cells 2x2
  place rescale --home town --cells 1x1
  place rescale --home new --storage s3://bucket/town --cells 4x2

afterwards, start it as before, without --cells or with the new ones:
  place run --home town"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "rescale",
        help="give the home of a pipeline another number of cells",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--home", type=Path, required=True, help="the home directory")
    parser.add_argument(
        "--cells",
        metavar="RxC",
        required=True,
        help="rows of objects by columns of queries that it should have, for example 2x3",
    )
    parser.add_argument(
        "--storage",
        metavar="URI",
        help="where state and deltas are kept, if not in the home directory",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from place.runtime.spark.rescale import rescale  # what it needs takes a while to load

    matrix = parse_matrix(arguments.cells)
    rescale(arguments.home, arguments.storage, matrix, _report)
    return 0


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
