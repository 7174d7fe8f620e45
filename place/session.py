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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from place.connection import Connection
from place.engine.matrix import Matrix
from place.errors import ConfigurationError, PlaceError, StatementError, suggestion
from place.model.delta import Delta, ordered
from place.model.reading import Advance, Input, Reading
from place.model.result import Deltas, Pushed
from place.model.result import Result as Result
from place.model.schema import Stream
from place.model.tabular import Rows
from place.model.types import Moment, Row, Type
from place.plan.apply import Change, apply
from place.plan.bind_query import bind_query
from place.plan.catalog import PLURALS, Catalog, fold
from place.plan.explain import explain, show_shape
from place.plan.query import Query
from place.runtime.durable.outbox import Numbered, resumed
from place.runtime.intake.pushed import disappearance_of, moment_of, readings_of
from place.runtime.interface import Runtime
from place.runtime.local import LocalRuntime
from place.runtime.recompute import ReferenceRuntime
from place.runtime.tables import TableLoader
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.scan import split
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

        A StatementError says which one was wrong; those before it have taken effect.
        """
        results = list(self.execute(text))
        if not results:
            return Result("nothing to do")
        return replace(results[-1], deltas=Deltas(d for result in results for d in result.deltas))

    def execute(self, text: str) -> Iterator[Result]:
        """Execute the statements of a text one by one."""
        for offset, sql in split(text):
            yield self.run(sql, text, offset)

    def run(self, sql: str, text: str | None = None, offset: int = 0) -> Result:
        """Execute one statement, which stands at `offset` of `text`, where errors are located."""
        statement = parse_one(sql, text, offset)
        try:
            if isinstance(statement, Change):
                (result,) = self.change([(statement, sql.strip())])
                return result
            return self._inform(statement)
        except RecursionError:
            raise StatementError("the statement is nested too deeply") from None

    def change(self, statements: Sequence[tuple[Change, str]]) -> list[Result]:
        """Make several changes effective together; the last one's result has all deltas.

        If one is wrong, those before it take effect, and then its error is raised.
        """
        with self.runtime.pause():
            catalog = self.catalog
            results: list[Result] = []
            wrong: Exception | None = None
            for statement, sql in statements:
                try:
                    changed = apply(catalog, statement, sql, self.loader)
                except (PlaceError, RecursionError) as error:
                    wrong = error
                    break
                results.append(Result(_said(statement, is_done=changed is not catalog)))
                catalog = changed
            if catalog is not self.catalog:
                deltas = self._deliver(self.runtime.change(catalog))
                results[-1] = replace(results[-1], deltas=deltas)
            if wrong is not None:
                raise wrong
            return results

    def _inform(self, statement: s.Statement) -> Result:
        if isinstance(statement, s.Select):
            return self._ask(statement)
        if isinstance(statement, s.Show):
            return self._show(statement.kind)
        if isinstance(statement, s.Describe):
            return self._describe(statement.name)
        if isinstance(statement, s.Explain):
            return self._explain(statement)
        raise StatementError(f"{type(statement).__name__} cannot be executed")

    def _ask(self, select: s.Select) -> Result:
        query = bind_query(self.catalog, "", select)
        rows = tuple(ordered(self.runtime.ask(query).elements()))
        return Result(counted(len(rows), "row"), query.names, query.types, rows)

    def _explain(self, statement: s.Explain) -> Result:
        target = statement.target
        if isinstance(target, s.Name):
            query: Query = self.catalog.find("query", target)
        elif isinstance(target, s.RegisterQuery):
            self.catalog.check_free("query", target.name)
            query = bind_query(self.catalog, target.name.text, target.select)
        else:
            query = bind_query(self.catalog, "", target)
        observed = self.runtime.analyze(query) if statement.analyze else None
        lines = tuple((line,) for line in explain(self.runtime.plan(query), observed))
        return Result("plan", ("plan",), (Type.STRING,), lines)

    def _show(self, kind: str) -> Result:
        text, number = Type.STRING, Type.BIGINT
        rows: list[Row] = []
        if kind == "streams":
            for stream in self.catalog.streams.values():
                counts = self.runtime.statistics(stream.name)
                rows.append((stream.name, counts["objects"], counts["readings"], counts["late"]))
            return _listing(("stream", "objects", "readings", "late"), (text, *[number] * 3), rows)
        if kind == "queries":
            for query in self.catalog.queries.values():
                size = self.runtime.answer(query.name).total()
                rows.append((query.name, size, _one_line(self.catalog, "query", query.name)))
            return _listing(("query", "rows", "statement"), (text, number, text), rows)
        if kind == "tables":
            for table in self.catalog.tables.values():
                rows.append((table.name, len(self.catalog.rows_of(table.name)), table.path))
            return _listing(("table", "rows", "file"), (text, number, text), rows)
        if kind == "regions":
            for region in self.catalog.regions.values():
                rows.append((region.name, show_shape(region.shape)))
            return _listing(("region", "shape"), (text, text), rows)
        for sink in self.catalog.sinks.values():
            listed = ", ".join(sink.queries) if sink.queries is not None else "ALL"
            rows.append((sink.name, listed, sink.target.kind))
        return _listing(("sink", "queries", "target"), (text, text, text), rows)

    def _describe(self, name: s.Name) -> Result:
        for kind in PLURALS:
            found = self.catalog.of_kind(kind).get(fold(name.text))
            if isinstance(found, Query):
                pairs = list(zip(found.names, found.types, strict=True))
            elif kind in ("stream", "table") and found is not None:
                pairs = [(column.name, column.type) for column in found.columns]
            elif found is not None:
                statement = _one_line(self.catalog, kind, found.name)
                return _listing(("statement",), (Type.STRING,), [(statement,)])
            else:
                continue
            rows: list[Row] = [(column, type_.value) for column, type_ in pairs]
            return _listing(("column", "type"), (Type.STRING, Type.STRING), rows)
        known = [d.name for kind in PLURALS for d in self.catalog.of_kind(kind).values()]
        raise s.wrong(
            f'"{name.text}" does not exist', name.at, hint=suggestion(name.text, known, "names")
        )

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
        readings = readings_of(definition, rows, moment)
        ends = [] if moment is None else [Advance(moment, definition.name)]
        return self._push(definition, readings, ends)

    def disappear(self, stream: str, key: Any, time: Moment) -> Pushed:
        """Tell that an object disappears at a time."""
        definition = self.stream(stream)
        return self._push(definition, [disappearance_of(definition, key, moment_of(time))], [])

    def advance(self, time: Moment) -> Pushed:
        """Tell that all streams have reached a time; the deltas of what expires by then."""
        return Pushed(self.feed([Advance(moment_of(time))]))

    def _push(self, stream: Stream, readings: Sequence[Reading], ends: Sequence[Advance]) -> Pushed:
        with self.runtime.pause():
            before = self.runtime.statistics(stream.name)["late"]
            deltas = self.feed([*readings, *ends])
            late = self.runtime.statistics(stream.name)["late"] - before
        return Pushed(deltas, taken=len(readings) - late, late=late)

    def feed(self, inputs: Sequence[Input]) -> Deltas:
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
        storage = self._on_spark("ids of deltas").pipeline.storage
        found, named = resumed(storage, after, names), self._subscriptions.namer(self.catalog)
        return (each._replace(delta=named(each.delta)) for each in found)

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

    def _deliver(self, deltas: list[Delta]) -> Deltas:
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
    keep_ticks: int | None = None,
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
    keep_ticks: int | None = None,
) -> Connection:
    """Open a session: durable in the directory `home`, or without one only while it is open.

    `master` (`local[*]`, `spark://…`) starts Spark, or attaches to the session that is active, and
    runs the pipeline there; `ui` shows Spark's pages, `settings` are Spark's own. `storage` is
    where state and deltas are kept if not in `home`: a directory or an object store that all
    machines of a cluster reach; the deltas of `keep_ticks` ticks (1000) stay there for those who
    resume. Without a master `runtime` is `local`, in this process,
    or `reference`, which computes every answer from its definition.

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
        from place.runtime.spark.pipeline import Keep
        from place.runtime.spark.runtime import SparkRuntime
        from place.runtime.spark.session import start_session, worker_settings

        matrix = parse_matrix(cells) if cells is not None else None
        chosen_settings = {**worker_settings(matrix or Matrix()), **(settings or {})}
        spark = start_session(master or "local[*]", ui=ui, settings=chosen_settings)
        keep = Keep() if keep_ticks is None else Keep(ticks=keep_ticks)
        runs = SparkRuntime(
            spark, directory, storage=storage, matrix=matrix, threads=threads, keep=keep
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


def _said(statement: Change, *, is_done: bool) -> str:
    """What a change has done, in words; or why there was nothing to do."""
    done = _done(statement)
    if is_done:
        return done
    what = done.rpartition(" ")[0]
    return f"{what} {'is not there' if isinstance(statement, s.Drop) else 'exists'}"


def _done(statement: Change) -> str:
    match statement:
        case s.Drop(kind=kind, name=name):
            return f'{kind} "{name.text}" dropped'
        case s.RegisterQuery(name=name):
            return f'query "{name.text}" registered'
        case s.RefreshTable(name=name):
            return f'table "{name.text}" refreshed'
        case _:
            kind = type(statement).__name__.removeprefix("Create").lower()
            return f'{kind} "{statement.name.text}" created'


def _one_line(catalog: Catalog, kind: str, name: str) -> str:
    return masked(" ".join(catalog.text_of(kind, name).split()))


def masked(sql: str) -> str:
    """A statement without its secrets.

    >>> masked("… TO WEBHOOK (url = 'https://a', secret = 'it''s me')")
    "… TO WEBHOOK (url = 'https://a', secret = '***')"
    """
    return re.sub(r"(?i)(\bsecret\s*=\s*)'(?:[^']|'')*'", r"\1'***'", sql)


def _listing(columns: tuple[str, ...], types: tuple[Type, ...], rows: list[Row]) -> Result:
    return Result(counted(len(rows), "row"), columns, types, tuple(rows))


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
