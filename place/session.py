"""The front door: statements and readings in, answers and deltas out.

>>> import place
>>> session = place.connect()
>>> session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)").message
'stream "Cars" created'
>>> _ = session.sql("REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5)")
>>> session.push("Cars", [(1, 3, 4), (2, 9, 9)], time="2026-01-01 12:00:00")
[Delta(query='near', sign=1, row=(1,), instant=1767268800000000)]
>>> session.answer("near")
[(1,)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from place.connection import Connection
from place.engine.matrix import Matrix
from place.engine.slices import Segment
from place.errors import ConfigurationError, suggestion
from place.model.delta import Delta, ordered
from place.model.reading import Advance
from place.model.result import DeltaList, Pushed
from place.model.result import Result as Result
from place.model.schema import Column, Stream
from place.model.table_rows import TableRows
from place.model.tabular import Rows
from place.model.time import SECOND, parse_duration
from place.model.types import Moment
from place.past_session import PastSession
from place.plan.catalog import Catalog, fold
from place.plan.query import Query
from place.runtime.durable.deltas import Deltas, Numbered
from place.runtime.durable.kept_ticks import Keep
from place.runtime.durable.takeover import known_cells
from place.runtime.durable.tick_pace import parse_tick
from place.runtime.intake.pushed import disappearance_of, moment_of, segment_of
from place.runtime.interface import Fed, Runtime
from place.runtime.local import LocalRuntime
from place.runtime.recompute import ReferenceRuntime
from place.runtime.tables import TableLoader
from place.sql.limits import Limits as Limits
from place.sql.limits import within as within
from place.sql.statements import Change
from place.statements import Statements
from place.subscription import LocalSubscription, Subscriptions

if TYPE_CHECKING:
    from place.client import Client

RUNTIMES = ("local", "reference", "spark")


class Session:
    """Statements and readings of one user, on one runtime."""

    def __init__(self, runtime: Runtime, loader: TableLoader) -> None:
        self.runtime = runtime
        self.loader = loader
        self._subscriptions = Subscriptions(runtime.catalog)
        self._statements = Statements(runtime, self._load, self._deliver)

    def _load(self, path: str, columns: tuple[Column, ...]) -> tuple[tuple[Column, ...], TableRows]:
        return self.loader(path, columns)

    @property
    def catalog(self) -> Catalog:
        return self.runtime.catalog

    def close(self) -> None:
        self.runtime.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Statements

    def sql(self, text: str) -> Result:
        """Execute the statements of a text in order; the last one's result, with all deltas.

        Statements that define or drop something, one after the other, are one tick. A
        StatementError says which one was wrong; those before it have taken effect.
        """
        return self._statements.sql(text)

    def execute(self, text: str) -> Iterator[Result]:
        """Execute the statements of a text one by one."""
        return self._statements.execute(text)

    def run(self, sql: str, text: str | None = None, offset: int = 0) -> Result:
        """Execute one statement, which stands at `offset` of `text`, where errors are located."""
        return self._statements.run(sql, text, offset)

    def change(self, statements: Sequence[tuple[Change, str]]) -> list[Result]:
        """Make several changes effective together; the last one's result has all deltas.

        If one is wrong, those before it take effect, and then its error is raised.
        """
        return self._statements.change(statements)

    # Readings

    def push(self, stream: str, rows: Any, time: Moment | None = None) -> Pushed:
        """Push readings; the deltas that they cause, and how many were taken and how many late.

        They are rows of values in column order, dicts by column name, or a table of Arrow, pandas
        or polars. If one is wrong, none is taken. `time` (a datetime, a date, an ISO text, or
        microseconds) is the time of rows that have none of their own, and tells that the stream
        has reached it, so that its instant is evaluated.
        """
        definition = self.stream(stream)
        moment = None if time is None else moment_of(time)
        table = segment_of(definition, rows, moment)
        told: list[Fed] = [Segment(definition.name, table)] if len(table) else []
        if moment is not None:
            told.append(Advance(moment, definition.name))
        return self._push(definition, told, len(table))

    def disappear(self, stream: str, key: Any, time: Moment) -> Pushed:
        """Tell that an object disappears at a time."""
        definition = self.stream(stream)
        return self._push(definition, [disappearance_of(definition, key, moment_of(time))], 1)

    def advance(self, time: Moment) -> Pushed:
        """Tell that all streams have reached a time; the deltas of what expires by then."""
        return Pushed(self.feed([Advance(moment_of(time))]))

    def _push(self, stream: Stream, told: Sequence[Fed], readings: int) -> Pushed:
        with self.runtime.pause():
            before = self.runtime.statistics(stream.name)["late"]
            deltas = self.feed(told)
            late = self.runtime.statistics(stream.name)["late"] - before
        return Pushed(deltas, taken=readings - late, late=late)

    def feed(self, inputs: Sequence[Fed]) -> DeltaList:
        """One tick of readings and advances."""
        with self.runtime.pause():
            return self._deliver(self.runtime.feed(inputs))

    def stream(self, name: str) -> Stream:
        """The definition of a stream, or a ConfigurationError with the nearest name."""
        found = self.catalog.streams.get(fold(name))
        if found is None:
            names = [stream.name for stream in self.catalog.streams.values()]
            raise ConfigurationError(
                f'stream "{name}" does not exist', hint=suggestion(name, names, "streams")
            )
        return found

    # Answers

    def answer(self, query: str) -> Rows:
        """The rows of a registered query's answer now, in a stable order."""
        plan = self.query(query)
        return Rows(plan.names, plan.types, ordered(self.runtime.answer(query).elements()))

    def at(self, time: Moment) -> PastSession:
        """A session of a time of the past, which can be asked and not changed.

        It has what the archives of the streams have; tables, regions and queries are those of now.
        """
        return PastSession(self._statements, moment_of(time))

    def subscribe(self, query: str) -> LocalSubscription:
        """Subscribe to a query: its answer as positive deltas, then every delta."""
        plan = self.query(query)
        with self.runtime.pause():
            instant = self.runtime.instant(query)
            first = [Delta(plan.name, 1, row, instant) for row in self.answer(query)]
            self.runtime.listener = self._deliver
            return self._subscriptions.add(plan, first)

    # Sources and sinks of the runtime on Spark

    def start(self) -> None:
        """Read the sources of all streams from now on, as data comes."""
        self._on_spark("sources").sources.start()

    def drain(self) -> None:
        """Read all that the sources have now, and return when it is done."""
        self._on_spark("sources").sources.drain()

    def stop(self) -> None:
        """Stop reading sources; the tick that is under way is finished."""
        self._on_spark("sources").sources.stop()

    def attach(self, stream: str, frame: Any) -> None:
        """Let any streaming DataFrame of Spark be the source of a stream.

        Its columns are found by name; it is read once `start` or `drain` is called.
        """
        self._on_spark("streaming DataFrames").attach(self.stream(stream).name, frame)

    def changes(self, *queries: str) -> Any:
        """The deltas of queries (of all, if none is named) as a streaming DataFrame of Spark.

        Columns: query, sign, row (a JSON array), instant, tick, position.
        """
        runtime = self._on_spark("a streaming DataFrame")
        return runtime.changes([self.query(name).name for name in queries])

    def resume(self, after: tuple[int, int] | None = None, *queries: str) -> Iterator[Numbered]:
        """The deltas after an id (tick, position) that are kept, with their ids.

        Whoever keeps the last id it has seen, and resumes from it, sees each delta once.
        """
        names = {self.query(name).name for name in queries} or None
        deltas: Deltas = self._on_spark("ids of deltas").deltas
        named = self._subscriptions.namer(self.catalog)
        return (each._replace(delta=named(each.delta)) for each in deltas.numbered(after, names))

    def _on_spark(self, what: str) -> Any:
        if self.runtime.name != "spark":
            raise ConfigurationError(
                f"the runtime {self.runtime.name} has no {what}",
                hint="connect with a master: place.connect(home, master='local[*]')",
            )
        return self.runtime

    def query(self, name: str) -> Query:
        """The plan of a registered query, or a ConfigurationError with the nearest name."""
        found = self.catalog.queries.get(fold(name))
        if found is None:
            names = [query.name for query in self.catalog.queries.values()]
            raise ConfigurationError(
                f'query "{name}" does not exist', hint=suggestion(name, names, "queries")
            )
        return found

    def _deliver(self, deltas: Sequence[Delta]) -> DeltaList:
        return self._subscriptions.deliver(self.catalog, deltas)


@overload
def connect(home: str, *, token: str | None) -> Client: ...
@overload
def connect(home: str) -> Connection: ...  # type: ignore[overload-overlap] # a Session is one, too
@overload
def connect(
    home: str | Path | None = None,
    *,
    master: str | None = None,
    runtime: str | None = None,
    cells: str | None = None,
    threads: int | None = None,
    storage: str | None = None,
    ui: bool = False,
    settings: Mapping[str, str] | None = None,
    keep: str | None = None,
    tick: str | None = None,
    job_rows: int | None = None,
) -> Session: ...
def connect(
    home: str | Path | None = None,
    *,
    token: str | None = None,
    master: str | None = None,
    runtime: str | None = None,
    cells: str | None = None,
    threads: int | None = None,
    storage: str | None = None,
    ui: bool = False,
    settings: Mapping[str, str] | None = None,
    keep: str | None = None,
    tick: str | None = None,
    job_rows: int | None = None,
) -> Connection:
    """Open a session: durable in the directory `home`, or without one only while it is open.

    `master` (`local[*]`, `spark://…`) starts Spark, or attaches to the session that is active, and
    runs the pipeline there; `ui` shows Spark's pages, `settings` are Spark's own. `storage` is
    where state and deltas are kept if not in `home`: a directory or an object store that all
    machines of a cluster reach; deltas stay there for so long as `keep` says (`"24 hours"`), for
    those who resume. What comes in is cut so that a tick takes about as long as `tick` says
    (`"200ms"`). A question about the past that may have to read `job_rows` rows (5 million) is a
    Spark job of its own. Without a master `runtime` is `local`, in this process, or `reference`,
    which computes every answer from its definition.

    An address of a server (`http://…`, with the `token` that it wants) gives a Client of it. For a
    type checker a text alone may be either, a Connection: a Path, or a runtime, says Session, and a
    token, if it is None, says Client.
    """
    if isinstance(home, str) and home.startswith(("http://", "https://")):
        from place.client import Client  # and its libraries, for those who are elsewhere

        return Client(home, token)
    if isinstance(home, str) and ("://" in home or re.fullmatch(r"[\w.-]+:\d+", home)):
        raise ConfigurationError(
            f"{home} is neither a directory nor an address",
            hint="a server's address begins with http:// or https://",
        )
    if token is not None:
        raise ConfigurationError(
            "a token is for a server", hint="connect('http://host:8765', token=…)"
        )
    chosen = runtime or ("local" if master is None else "spark")
    if chosen not in RUNTIMES:
        raise ConfigurationError(
            f'runtime "{chosen}" does not exist', hint=suggestion(chosen, RUNTIMES, "runtimes")
        )
    directory = Path(home) if home is not None else None
    if chosen == "spark":
        # Spark's library is large: only who asks for it waits for it.
        from place.runtime.spark.runtime import SparkRuntime
        from place.runtime.spark.session import start_session

        matrix = parse_matrix(cells) if cells is not None else None
        rows, columns = (
            known_cells(directory, storage) if matrix is None else (matrix.rows, matrix.columns)
        )
        target = None if tick is None else parse_tick(tick)
        spark = start_session(master or "local[*]", cells=rows * columns, ui=ui, settings=settings)
        kept = Keep() if keep is None else Keep(seconds=parse_duration(keep) / SECOND)
        runs = SparkRuntime(
            *(spark, directory),
            storage=storage,
            matrix=matrix,
            threads=threads,
            keep=kept,
            tick=target,
            job_rows=job_rows,
        )
        return Session(runs, TableLoader())
    if master is not None:
        raise ConfigurationError(
            f"the runtime {chosen} has no master", hint="leave the runtime out to run on Spark"
        )
    if chosen == "reference":
        return Session(ReferenceRuntime(directory), TableLoader())
    matrix = parse_matrix(cells or "1x1")
    return Session(LocalRuntime(directory, matrix=matrix, threads=threads or 1), TableLoader())


def parse_matrix(text: str) -> Matrix:
    """The matrix of `RxC`, rows of objects by columns of queries."""
    rows, _, columns = text.partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) * int(columns) > 0):
        raise ConfigurationError(f"cells '{text}' are not RxC", hint="write for example 2x3")
    return Matrix(int(rows), int(columns))
