"""The command line: `place`, with a subcommand for each thing that people do."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import place
from place import demo, prompt, tour
from place.errors import ConfigurationError, PlaceError
from place.operate import (
    amend,
    backup,
    config,
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
from place.operate.configuration import configuration_of
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
  place backup --help             a home as one file, while it runs; place restore
  place config serve              what place.toml and the environment say of its options
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
    _add_config_option(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    of_data = (demo, tour, prompt, generate, replay, run, serve)
    of_homes = (rescale, retry, amend, token, quota, backup, status, history)
    for module in (*of_data, *of_homes, config, script):
        module.add_parser(commands)
    _add_bench(commands)
    return parser


def _add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="options of commands (place.toml where the command runs, or what PLACE_CONFIG names)",
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for: by the command line, by the environment and by the file of settings."""
    parser = make_parser()
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_config_option(first)
    named, rest = first.parse_known_args(arguments)
    if {"-h", "--help", "--version"} & set(rest):  # whatever the file says
        return parser.parse_args(rest)
    configuration = configuration_of(parser, os.environ, named.config)
    configuration.prepare()
    parsed = parser.parse_args(rest)
    configuration.fill(parsed)
    parsed.configuration = configuration
    if not hasattr(parsed, "run"):
        parser.print_help()
        parsed.run = lambda _: 0
    return parsed


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Benchmarks are beside the package in a checkout: they need what only developers install, and
    `bench` would be a rude name among the packages of others."""
    root = Path(place.__file__).parent.parent
    if (root / "pyproject.toml").is_file() and (root / "bench" / "command.py").is_file():
        from bench import command

        command.add_parser(commands)
        return
    parser = commands.add_parser("bench", help="measure the kernels (only from a checkout)")
    parser.add_argument("experiment", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_without_benchmarks)


def _without_benchmarks(_: argparse.Namespace) -> int:
    raise ConfigurationError(
        "benchmarks are not in the installed package",
        hint="take the source distribution or a checkout, and there: make env, then"
        " .venv/bin/place bench",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of ours end in one readable message and exit code 1."""
    try:
        parsed = parse(sys.argv[1:] if arguments is None else arguments)
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
