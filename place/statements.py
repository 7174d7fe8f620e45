"""Statements and what they do: changes of the catalog become ticks, the others tell something."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from place.errors import LimitError, PlaceError, StatementError, suggestion
from place.model.deadline import Interrupted, OutOfTime
from place.model.delta import Delta, ordered
from place.model.result import DeltaList, Result
from place.model.types import Row, Type
from place.plan.apply import apply
from place.plan.bind_query import bind_query
from place.plan.bind_trigger import bind_trigger
from place.plan.catalog import Catalog, fold
from place.plan.define import Load
from place.plan.explain import explain
from place.plan.explain_trigger import explain_trigger, rows_to_explain
from place.plan.kinds import KINDS, Listed, kind_of
from place.plan.limits import (
    answer_too_large,
    check_combinations,
    check_cost,
    registration_too_slow,
    select_too_slow,
)
from place.plan.past import Question, as_of
from place.plan.planner import make_plan
from place.plan.query import Query
from place.runtime.interface import Runtime, TooManyRows
from place.runtime.past_range import check_beginning, check_range
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.limits import current
from place.sql.scan import split

LONG_TEXT = 100_000
"""Characters of a text that is executed without garbage collection."""
Deliver = Callable[[Sequence[Delta]], DeltaList]


class Statements:
    """Executes statements on a runtime; `deliver` takes the deltas that they cause."""

    def __init__(self, runtime: Runtime, loader: Load, deliver: Deliver) -> None:
        self._runtime = runtime
        self._loader = loader
        self._deliver = deliver

    def sql(self, text: str) -> Result:
        """Execute the statements of a text in order; the last one's result, with all deltas.

        Changes that stand one after the other are one tick.
        """
        with without_collector() if len(text) > LONG_TEXT else nullcontext():
            return self._sql(text)

    def _sql(self, text: str) -> Result:
        results: list[Result] = []
        waiting: list[tuple[s.Change, str]] = []
        try:
            for offset, sql in split(text):
                statement = parse_one(sql, text, offset)
                if isinstance(statement, s.Change):
                    waiting.append((statement, sql.strip()))
                    continue
                together, waiting = waiting, []
                results += self._together(together)
                results.append(self.inform(statement))
        finally:  # those before a statement that is wrong take effect
            results += self._together(waiting)
        if not results:
            return Result("nothing to do")
        return replace(results[-1], deltas=DeltaList.joined(result.deltas for result in results))

    def execute(self, text: str) -> Iterator[Result]:
        """Execute the statements of a text one by one."""
        for offset, sql in split(text):
            yield self.run(sql, text, offset)

    def run(self, sql: str, text: str | None = None, offset: int = 0) -> Result:
        """Execute one statement, which stands at `offset` of `text`, where errors are located."""
        statement = parse_one(sql, text, offset)
        if isinstance(statement, s.Change):
            return self._together([(statement, sql.strip())])[0]
        return self.inform(statement)

    def _together(self, statements: Sequence[tuple[s.Change, str]]) -> list[Result]:
        try:
            return self.change(statements)
        except RecursionError:
            raise StatementError("the statement is nested too deeply") from None

    def change(self, statements: Sequence[tuple[s.Change, str]]) -> list[Result]:
        """Make several changes effective together; the last one's result has all deltas.

        If one is wrong, those before it take effect, and then its error is raised. A name that is
        dropped and defined anew begins anew, at the next tick.
        """
        results: list[Result] = []
        with self._runtime.pause():
            for part in _parts(statements):
                results += self._tick(part)
        return results

    def _tick(self, statements: Sequence[tuple[s.Change, str]]) -> list[Result]:
        before = catalog = self._runtime.catalog
        results: list[Result] = []
        wrong: Exception | None = None
        checked: set[str] = set()  # forms whose queries cost alike, and not too much
        for statement, sql in statements:
            try:
                changed = apply(catalog, statement, sql, self._loader)
                if isinstance(statement, s.RegisterQuery) and changed is not catalog:
                    query = changed.queries[fold(statement.name.text)]
                    if query.form is None or query.form not in checked:
                        check_cost(query, changed, self._objects, statement.name.at)
                        if query.form is not None and query.nearest is None:
                            checked.add(query.form)
                    if statement.since is not None:
                        check_beginning(self._runtime, changed, query, statement.since.at)
                if isinstance(statement, s.CreateTrigger) and changed is not catalog:
                    query = changed.queries[fold(statement.name.text)]
                    check_combinations(query, changed, statement.name.at)
            except (PlaceError, RecursionError) as error:
                wrong = error
                break
            results.append(Result(_said(statement, catalog, changed)))
            catalog = changed
        if catalog is not before:
            try:
                deltas = self._deliver(self._runtime.change(catalog))
            except OutOfTime:
                raise self._too_slow(statements[: len(results)]) from None
            results[-1] = replace(results[-1], deltas=deltas)
        if wrong is not None:
            raise wrong
        return results

    def _too_slow(self, statements: Sequence[tuple[s.Change, str]]) -> LimitError:
        """The error of a tick that took too long; what stands before its queries takes effect."""
        names = [each.name for each, _ in statements if isinstance(each, s.Registration)]
        first = next(i for i, (c, _) in enumerate(statements) if isinstance(c, s.Registration))
        if first:
            self._tick(statements[:first])
        return registration_too_slow([name.text for name in names], names[0].at)

    # Statements that tell something

    def inform(self, statement: s.Statement) -> Result:
        """Execute a statement that changes nothing."""
        try:
            if isinstance(statement, s.SelectTold):
                return self._recall(statement)
            if isinstance(statement, s.Select):
                return self._ask(statement) if statement.past is None else self._recall(statement)
            if isinstance(statement, s.Show):
                return self._show(statement.kind)
            if isinstance(statement, s.Describe):
                return self._describe(statement.name)
            if isinstance(statement, s.Explain):
                return self._explain(statement)
        except RecursionError:
            raise StatementError("the statement is nested too deeply") from None
        raise StatementError(f"{type(statement).__name__} cannot be executed")

    @property
    def _catalog(self) -> Catalog:
        return self._runtime.catalog

    def _ask(self, select: s.Select) -> Result:
        query = bind_query(self._catalog, "", select)
        check_cost(query, self._catalog, self._objects, select.at)
        width = len(query.outputs)
        try:
            found = self._runtime.ask(query, current().answer // width)
        except TooManyRows as many:
            raise answer_too_large(many.rows, width, select.at) from None
        except OutOfTime:
            raise select_too_slow(select.at) from None
        rows = tuple(ordered(found.elements()))
        return Result(counted(len(rows), "row"), query.names, query.types, rows)

    def _recall(self, select: s.Select | s.SelectTold) -> Result:
        """Answer a question about the past."""
        question = self._question(select)
        width = len(question.names)
        try:
            found = self._runtime.recall(question, current().answer // width)
        except TooManyRows as many:
            raise answer_too_large(many.rows, width, select.at) from None
        except OutOfTime:
            raise select_too_slow(select.at) from None
        except KeyboardInterrupt:
            raise Interrupted from None
        # Trajectories come in the order of their objects and times.
        way = question.trajectory
        rows = tuple(ordered(found.rows) if way is None else found.rows)
        message = "; ".join([counted(len(rows), "row"), *question.notes])
        line = None if way is None else way.line
        return Result(message, question.names, question.types, rows, line=line)

    def _question(self, select: s.Select | s.SelectTold) -> Question:
        question = as_of(self._catalog, select)
        check_range(self._runtime.archive, question)
        check_cost(question.query, self._catalog, self._objects, select.at)
        return question

    def _objects(self, stream: str) -> int:
        """Objects of a stream now; one that is made in this tick has none."""
        known = fold(stream) in self._catalog.streams
        return self._runtime.statistics(stream)["objects"] if known else 0

    def _explain(self, statement: s.Explain) -> Result:
        target = statement.target
        if isinstance(target, s.SelectTold) or (isinstance(target, s.Select) and target.past):
            return self._explain_past(target)
        if statement.kind == "trigger":
            return self._explain_trigger(statement)
        if isinstance(target, s.Name):
            query: Query = self._catalog.find("query", target, verb="EXPLAIN")
        elif isinstance(target, s.RegisterQuery):
            if not target.or_replace:
                self._catalog.check_free("query", target.name)
            query = bind_query(self._catalog, target.name.text, target.select)
            query = replace(query, arrivals=target.arrivals)
        else:
            assert isinstance(target, s.Select)
            query = bind_query(self._catalog, "", target)
        if statement.analyze and not isinstance(target, s.Name):
            check_cost(query, self._catalog, self._objects, None)
        try:
            observed = self._runtime.analyze(query) if statement.analyze else None
        except OutOfTime:
            raise select_too_slow(None) from None
        lines = tuple((line,) for line in explain(self._runtime.plan(query), observed))
        return Result("plan", ("plan",), (Type.STRING,), lines)

    def _explain_past(self, select: s.Select | s.SelectTold) -> Result:
        """The plan of a question, and what is read of the past for it, which is read for that."""
        question = self._question(select)
        if question.query.trigger is not None:
            rows = rows_to_explain(question.query, self._catalog)
            lines = explain_trigger(question.query, rows, None)
        else:
            lines = explain(make_plan(question.query), None)
        try:
            found = self._runtime.recall(question)
        except OutOfTime:
            raise select_too_slow(select.at) from None
        except KeyboardInterrupt:
            raise Interrupted from None
        told = ((line,) for line in (*lines, *found.reads, *question.notes))
        return Result("plan", ("plan",), (Type.STRING,), tuple(told))

    def _explain_trigger(self, statement: s.Explain) -> Result:
        """The constraints of a trigger; those of the first row of its tables, if it has some."""
        target = statement.target
        if isinstance(target, s.CreateTrigger):
            if not target.or_replace:
                self._catalog.check_free("trigger", target.name)
            query = bind_trigger(self._catalog, target)
        else:
            assert isinstance(target, s.Name)
            query = self._catalog.find("trigger", target, verb="EXPLAIN")
        observed = self._runtime.analyze(query) if statement.analyze else None
        rows = rows_to_explain(query, self._catalog)
        lines = tuple((line,) for line in explain_trigger(query, rows, observed))
        return Result("plan", ("plan",), (Type.STRING,), lines)

    def _show(self, kind: str) -> Result:
        counts = _Counts(self._runtime)
        rows = [_row_of(self._catalog, kind, each, counts) for each in self._definitions(kind)]
        return listing(kind, rows)

    def _definitions(self, kind: str) -> list[object]:
        return list(self._catalog.of_kind(kind))

    def _describe(self, name: s.Name) -> Result:
        for kind in KINDS.values():
            found = self._catalog.get(kind.name, name.text)
            if found is None:
                continue
            if kind.columns is None:
                text = one_line(self._catalog, kind.name, found.name)
                return _table((("statement", Type.STRING),), [(text,)])
            rows: list[Row] = [(column, type_.value) for column, type_ in kind.columns(found)]
            return _table((("column", Type.STRING), ("type", Type.STRING)), rows)
        known = [d.name for kind in KINDS for d in self._catalog.of_kind(kind)]
        raise s.wrong(
            f'"{name.text}" does not exist', name.at, hint=suggestion(name.text, known, "names")
        )


@contextmanager
def without_collector() -> Iterator[None]:
    """No garbage is collected meanwhile.

    Registering many queries makes many objects, all of which stay. Python would look through all
    of them again and again, which takes a third of the whole time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True)
class _Counts:
    """What SHOW asks of a runtime."""

    runtime: Runtime

    def statistics(self, stream: str) -> dict[str, int]:
        return self.runtime.statistics(stream)

    def reason(self, stream: str) -> str | None:
        return self.runtime.reason(stream)

    def size(self, query: str) -> int:
        return self.runtime.answer(query).total()


def _row_of(catalog: Catalog, kind: str, definition: object, counts: _Counts) -> Row:
    row = KINDS[kind].row(catalog, definition, counts)
    shown = (masked(value) if isinstance(value, str) else value for value in row)
    return (definition.name, *shown)  # type: ignore[attr-defined]


def listing(kind: str, rows: Sequence[Row]) -> Result:
    """What SHOW answers for a kind: names, then the kind's own columns."""
    return _table(((kind, Type.STRING), *KINDS[kind].listed), rows)


def _table(columns: Listed, rows: Sequence[Row]) -> Result:
    names, types = zip(*columns, strict=True)
    return Result(counted(len(rows), "row"), names, types, tuple(rows))


def _parts(
    statements: Sequence[tuple[s.Change, str]],
) -> Iterator[list[tuple[s.Change, str]]]:
    """The statements in parts in which no name is spoken of twice."""
    part: list[tuple[s.Change, str]] = []
    named: set[tuple[str, str]] = set()
    for statement, sql in statements:
        name = (_kind_of(statement), fold(_name_of(statement)))
        if name in named:
            yield part
            part, named = [], set()
        part.append((statement, sql))
        named.add(name)
    if part:
        yield part


def _kind_of(statement: s.Change) -> str:
    if isinstance(statement, s.Drop):
        return statement.kind
    if isinstance(statement, s.Creation):
        return kind_of(statement).name
    return "stream" if isinstance(statement, s.ResetTime | s.AlterStream) else "table"


def _name_of(statement: s.Change) -> str:
    name: s.Name = statement.name  # type: ignore[attr-defined]
    return name.text


def _said(statement: s.Change, before: Catalog, after: Catalog) -> str:
    """What a change has done, in words; or why there was nothing to do."""
    is_done, kind = after is not before, _kind_of(statement)
    what = f'{kind} "{_name_of(statement)}"'
    if isinstance(statement, s.Drop):
        return f"{what} {'dropped' if is_done else 'is not there'}"
    if isinstance(statement, s.ResetTime):
        return f"{what} begins anew"
    if isinstance(statement, s.AlterStream):
        return f"{what} altered"
    if isinstance(statement, s.InsertRows | s.DeleteRows):
        sizes = [len(each.contents[fold(_name_of(statement))]) for each in (before, after)]
        verb = "inserted into" if isinstance(statement, s.InsertRows) else "deleted from"
        return f"{counted(abs(sizes[1] - sizes[0]), 'row')} {verb} {what}"
    if not isinstance(statement, s.Creation):
        return f"{what} refreshed"
    if statement.or_replace and before.get(kind, _name_of(statement)) is not None:
        return f"{what} replaced"
    return f"{what} {KINDS[kind].done if is_done else 'exists'}"


def one_line(catalog: Catalog, kind: str, name: str) -> str:
    """The statement that made a definition, on one line and without its secrets."""
    return masked(" ".join(catalog.text_of(kind, name).split()))


def masked(sql: str) -> str:
    """A statement without its secrets.

    >>> masked("… TO WEBHOOK (url = 'https://a', secret = 'it''s me')")
    "… TO WEBHOOK (url = 'https://a', secret = '***')"
    """
    return re.sub(
        r"(?i)(\b(?:secret|authorization|(?:key_)?password)\s*=\s*)'(?:[^']|'')*'", r"\1'***'", sql
    )


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
