"""`place run`: a pipeline that runs until it is told to stop, and goes on where it stopped."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import time
from pathlib import Path
from types import FrameType

from place.errors import PlaceError
from place.model.schema import Stream
from place.model.time import LATEST, SECOND, parse_duration
from place.operate.aside import SetAside, complain
from place.operate.compiling import compiled_meanwhile
from place.operate.logs import add_log_options, start_logging
from place.operate.news import News
from place.operate.options import (
    add_idle_option,
    add_job_option,
    add_keep_option,
    add_spark_options,
    add_tick_option,
    hush_spark,
    open_session,
    read_setup,
    set_up,
)
from place.runtime.interface import DurableRuntime, durable, tick_of
from place.session import Session

LOG = logging.getLogger("place.run")
POLL = 0.2
"""Seconds between looks."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "run",
        help="run the pipeline over its sources, durable in a home directory",
        description="Executes the statements of a setup file that the home directory does not have"
        " yet, reads the sources of the streams as data comes, and delivers to the sinks. SIGTERM"
        " and Ctrl-C stop it after the tick that is under way; started again, it goes on. Killed"
        " at any moment, it loses and doubles nothing.",
    )
    parser.add_argument("--setup", type=Path, help="statements: streams, queries, sinks")
    parser.add_argument("--home", type=Path, required=True, help="the directory of all that lasts")
    parser.add_argument(
        "--once", action="store_true", help="read what the sources have now, then stop"
    )
    add_idle_option(parser)
    add_keep_option(parser)
    add_tick_option(parser)
    add_job_option(parser)
    add_spark_options(parser)
    add_log_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    idle = parse_duration(arguments.idle)
    text = read_setup(arguments.setup) if arguments.setup is not None else ""
    repeats = start_logging(arguments)
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with compiled_meanwhile(), open_session(arguments) as session:
        runtime = durable(session.runtime)
        if arguments.setup is not None:
            session.loader.directory = arguments.setup.resolve().parent
        new = set_up(session, text)
        print(
            f"place run: {arguments.home}, {new} new statements,"
            f" {len(session.catalog.queries)} queries, tick {tick_of(runtime)}",
            flush=True,
        )
        aside = SetAside(runtime)
        if arguments.once:
            session.drain()
        else:
            _serve(session, runtime, stopping, IdleClock(runtime, idle), News(runtime, repeats))
        print(f"place run: stopped after tick {tick_of(runtime)}", flush=True)
        lost = aside.lost() if arguments.once else None
    return 0 if lost is None else complain(*lost)


def _serve(
    session: Session,
    runtime: DurableRuntime,
    stopping: threading.Event,
    clock: IdleClock,
    news: News,
) -> None:
    session.start()
    try:
        while not stopping.wait(POLL):
            runtime.tend()
            clock.look(time.monotonic())
            news.look(time.monotonic())
    finally:
        hush_spark()
        try:
            session.stop()
        except PlaceError as error:
            LOG.error("%s", error)


class IdleClock:
    """Moves streams that are silent, by how long they are.

    A stream that told time t and then nothing for a while is at t and that while, less the pause
    that was allowed for, whatever the clock on the wall is set to meanwhile. The manifest records
    it as an input, so that a replay sees the same.
    """

    def __init__(self, runtime: DurableRuntime, idle: int) -> None:
        self._runtime = runtime
        self._idle = idle
        self._heard: dict[str, tuple[int, float, int]] = {}

    def look(self, now: float) -> None:
        """See who is silent at `now`, in seconds of a clock that only goes on; advance it."""
        with self._runtime.idle() as is_idle:
            if self._idle and is_idle:
                self._advance(now)
            else:
                self._heard.clear()  # a tick is under way, or is waited for: nobody is silent

    def _advance(self, now: float) -> None:
        last = self._runtime.last
        if last is None:
            return
        due: dict[str, int] = {}
        for stream in self._runtime.catalog.streams.values():
            totals, closed = last.totals.get(stream.name), last.clocks.get(stream.name)
            if totals is None or closed is None:
                continue
            count = totals["readings"] + totals["late"]
            heard = self._heard.get(stream.name)
            if heard is None or heard[0] != count:
                self._heard[stream.name] = count, now, closed
                continue
            silent = int((now - heard[1]) * SECOND) - self._idle
            if silent <= 0 or not count:
                continue
            if self._expires(stream, totals["objects"], closed - heard[2]):
                reached = heard[2] + stream.lateness + silent
                if reached - stream.lateness > closed + SECOND:
                    due[stream.name] = reached
            elif closed == heard[2]:  # once: the last readings have waited for others long enough
                due[stream.name] = closed + 2 * stream.lateness + 1
        due = {name: reached for name, reached in due.items() if reached <= LATEST}
        if due:
            self._runtime.advance(due)

    def _expires(self, stream: Stream, objects: int, since: int) -> bool:
        """Is there anything that the clock alone changes, so long after the last reading?

        Objects time out while there are any. Windows hold readings also of objects that are gone,
        until the longest of them is over; so long, too, somebody may have to stay.
        """
        if objects and stream.timeout is not None:
            return True
        queries = self._runtime.catalog.queries.values()
        here = [query for query in queries if stream.name in query.streams]
        lengths = [window.duration or 0 for query in here for window in query.windows]
        lengths += [query.dwell for query in here if query.dwell is not None]
        return since <= max(lengths, default=-1) + (stream.evaluate or 0)
