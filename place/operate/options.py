"""What several commands of operation have in common: their options, and the setup file."""

from __future__ import annotations

import argparse
from pathlib import Path

from place.errors import ConfigurationError, PlaceError, StatementError
from place.plan.kinds import kind_of
from place.runtime.durable.home import check_writable
from place.runtime.durable.tick_pace import parse_tick
from place.runtime.interface import durable
from place.server.store import ServerStore
from place.session import Session, connect
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.scan import split
from place.sql.statements import Change
from place.statements import masked


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Where Spark runs, and how the work is cut."""
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where Spark runs: local[*] (the default) is this process, spark://… a cluster",
    )
    parser.add_argument(
        "--cells",
        metavar="RxC",
        help="rows of objects by columns of queries, each a task; 1x1 without it",
    )
    parser.add_argument(
        "--files-per-tick",
        type=positive,
        metavar="N",
        help="at most so many files of a source in one tick (64)",
    )
    parser.add_argument(
        "--storage",
        metavar="URI",
        help="where state and deltas are kept, if not in the home directory: a directory or an"
        " object store that all machines reach",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="a setting of Spark, as often as needed",
    )
    parser.add_argument("--ui", action="store_true", help="show Spark's own pages")


def add_idle_option(parser: argparse.ArgumentParser) -> None:
    """When a silent stream goes on without readings."""
    parser.add_argument(
        "--idle",
        default="5 seconds",
        metavar="DURATION",
        help="a stream that has told nothing for so long goes on by the clock on the wall, so that"
        " its objects time out (5 seconds; 0s for never)",
    )


def add_keep_option(parser: argparse.ArgumentParser) -> None:
    """How far back those who resume may have been."""
    parser.add_argument(
        "--keep",
        metavar="DURATION",
        help="keep deltas for so long for those who resume after an id, at most 4 GiB (24 hours)",
    )


def add_tick_option(parser: argparse.ArgumentParser) -> None:
    """How long a tick should take."""
    parser.add_argument(
        "--tick",
        type=_tick,
        metavar="DURATION",
        help="cut what comes in so that a tick takes about so long, 50ms to 5s; without it a tick"
        " takes all that waits, up to a million readings",
    )


def add_job_option(parser: argparse.ArgumentParser) -> None:
    """When a question about the past is a Spark job."""
    parser.add_argument(
        "--job-rows",
        type=int,
        metavar="N",
        help="a question about the past that may have to read so many rows is a Spark job of its"
        " own, and smaller ones are answered in this process (5000000)",
    )


def _tick(text: str) -> str:
    try:
        parse_tick(text)
    except PlaceError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def hush_spark() -> None:
    """Spark is about to be stopped; what it says of that is no news."""
    from place.runtime.spark.console import hush

    hush()


def open_session(arguments: argparse.Namespace) -> Session:
    """A session on Spark in the home directory, as the options ask for it."""
    check_writable(arguments.home)  # before Spark is started for nothing
    session = connect(
        arguments.home,
        master=arguments.master,
        cells=arguments.cells,
        storage=arguments.storage,
        ui=arguments.ui,
        settings=spark_settings(arguments),
        keep=arguments.keep,
        tick=arguments.tick,
        job_rows=arguments.job_rows,
    )
    if arguments.files_per_tick is not None:
        durable(session.runtime).files_per_tick = arguments.files_per_tick
    return session


def spark_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of Spark that the options ask for."""
    settings: dict[str, str] = {}
    for text in arguments.settings:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise ConfigurationError(f"--set {text} is no setting", hint="write NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return int(text)


def known_store(home: Path) -> ServerStore:
    """What the server of a home that is there keeps: tokens, quotas, owners."""
    if not home.is_dir():
        raise ConfigurationError(f"{home} is not there", hint="name the home of the server")
    return ServerStore(home)


def read_setup(path: Path) -> str:
    """The text of a setup file."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the setup {path} cannot be read: {error}") from None


def set_up(session: Session, text: str) -> int:
    """Execute the statements of a setup that have not been executed yet; how many.

    A home directory that is opened again has them already: the same statement is passed over, one
    of the same name that says something else is an error.
    """
    new: list[tuple[Change, str]] = []
    done = 0
    for offset, sql in split(text):
        statement = parse_one(sql, text, offset)
        known = _known(session, statement)
        if known is None:
            done += 1
            if isinstance(statement, s.Creation):
                new.append((statement, sql.strip()))
                continue
            _define(session, new)
            session.run(sql, text, offset)
        elif " ".join(known.split()) != " ".join(sql.split()):
            raise StatementError(
                f"the setup says {masked(sql.strip())!r}, the home has {masked(known.strip())!r}",
                hint="change the setup, or drop what the home has first",
            )
    _define(session, new)
    return done


def _define(session: Session, new: list[tuple[Change, str]]) -> None:
    """Make definitions that are new in one tick."""
    if new:
        session.change(new)
        new.clear()


def _known(session: Session, statement: s.Statement) -> str | None:
    """The statement that has made what this one would make."""
    if not isinstance(statement, s.Creation):
        return None
    kind, name = kind_of(statement).name, statement.name.text
    catalog = session.catalog
    return catalog.text_of(kind, name) if catalog.get(kind, name) is not None else None
