"""The command line: `place`, with a subcommand for each thing that people do."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence

import place
from bench import command as bench
from place import demo, prompt, tour
from place.errors import PlaceError
from place.operate import (
    generate,
    history,
    quota,
    replay,
    rescale,
    retry,
    run,
    serve,
    status,
    token,
)
from place.script import command as script

FAULTS_OF_FILES = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""What the system says of files that cannot be read or written: no fault of the program."""
DESCRIPTION = """\
PLACE keeps continuous queries over moving objects right at every instant, and sends only what
changed: positive and negative deltas."""

EPILOG = """\
start here:
  place demo                      watch a city: moving objects, queries, triggers, a live map
  place tour                      read along: statements, readings and their deltas
  place sql                       type statements; readings too: .push, .at
  place sql -f setup.sql          execute the statements of a file
  place generate --help           readings of cars on the roads of a city, as files
  place replay --help             recorded readings through queries, into a changelog
  place run --help                a pipeline over files or Kafka that survives being killed
  place serve --home DIR          the same with an HTTP API and a live map
  place script tests/scripts      run continuous-query scripts and check them
  place bench match               how fast the matcher is, beside an R-tree and a database

a first session at `place sql`:
  CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING);
  REGISTER QUERY downtown AS SELECT id, type FROM Cars INSIDE (0, 0, 10, 10);
  .push Cars (1, 5, 5, 'Taxi')
  .at 10s

each command tells more with --help."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="place",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"place {place.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    commands_of = (demo, tour, prompt, generate, replay, run, serve, rescale, retry, token, quota)
    for module in (*commands_of, status, history, script, bench):
        module.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of ours end in one readable message and exit code 1."""
    parser = make_parser()
    parsed = parser.parse_args(arguments)
    if not hasattr(parsed, "run"):
        parser.print_help()
        return 0
    try:
        return int(parsed.run(parsed))
    except PlaceError as error:
        print(f"place: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.errno not in FAULTS_OF_FILES:
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"place: {where}{error.strerror or error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
