"""The kinds of definitions: what each of them needs to be defined, dropped, listed and described.

Adding one takes its grammar (`place/sql/definitions.py`), the function that checks it into a
definition, and one entry here. Statements, the catalog, its store, SHOW, DESCRIBE, DROP and what a
server lets its clients do are all driven by these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from place.model.schema import Region, Sink, Stream, Table
from place.model.shape import show_shape
from place.model.table_rows import TableRows
from place.model.types import Row, Type
from place.plan.bind_trigger import bind_trigger
from place.plan.catalog import Catalog, fold
from place.plan.define import (
    Load,
    define_pin,
    define_region,
    define_sink,
    define_stream,
    define_table,
)
from place.plan.forms import FORMS
from place.plan.query import Query
from place.sql import statements as s
from place.sql.definitions import GRAMMAR, Definition


class Counts(Protocol):
    """What a listing asks of a runtime."""

    def statistics(self, stream: str) -> dict[str, int]:
        """Counts of a stream: objects, readings, late."""

    def reason(self, stream: str) -> str | None:
        """Why a reading of a stream was set aside last."""

    def size(self, query: str) -> int:
        """How many rows the answer of a query has."""


Made = tuple[Any, TableRows | None]
"""A definition, and the rows of a table."""
Listed = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Kind:
    """One kind of definition.

    `done` says what its statement does. `users` are the definitions that stand on one of it.
    `listed` and `row` are the columns of SHOW after the name, and `columns` those that DESCRIBE
    tells; without `columns` it tells the statement. Of what is `owned`, clients of a server make
    their own; what is `public` is shown to all of them.
    """

    grammar: Definition
    define: Callable[[Catalog, Any, Load], Made]
    users: Callable[[Catalog, str], Iterator[tuple[str, str]]]
    listed: Listed
    row: Callable[[Catalog, Any, Counts], Row]
    columns: Callable[[Any], Listed] | None = None
    done: str = "created"
    owned: bool = False
    public: bool = True

    @property
    def name(self) -> str:
        return self.grammar.kind


# What stands on a definition


def _queries_that(reads: Callable[[Query, str], bool]) -> Any:
    def users(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
        return ((q.kind, q.name) for q in catalog.queries.values() if reads(q, name))

    return users


def _sinks_of(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
    for sink in catalog.sinks.values():
        if sink.queries and fold(name) in map(fold, sink.queries):
            yield "sink", sink.name


def _readers_of_stream(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
    yield from _queries_that(lambda query, stream: stream in query.streams)(catalog, name)
    yield from (("pin", pin.name) for pin in catalog.pins.values() if pin.stream == name)


def _nobody(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
    return iter(())


# What a statement makes


def _make_trigger(catalog: Catalog, statement: s.CreateTrigger, load: Load) -> Made:
    return bind_trigger(catalog, statement), None


def _make_query(catalog: Catalog, statement: s.RegisterQuery, load: Load) -> Made:
    return FORMS.bind(catalog, statement), None


# What is listed


def _stream_row(catalog: Catalog, stream: Stream, counts: Counts) -> Row:
    found = counts.statistics(stream.name)
    return found["objects"], found["readings"], found["late"], counts.reason(stream.name)


def _query_row(catalog: Catalog, query: Query, counts: Counts) -> Row:
    text = " ".join(catalog.text_of("query", query.name).split())
    return counts.size(query.name), text


def _trigger_row(catalog: Catalog, query: Query, counts: Counts) -> Row:
    return variables_of(query), " ".join(catalog.text_of("trigger", query.name).split())


def variables_of(query: Query) -> str:
    """The variables of a trigger, as SHOW TRIGGERS lists them."""
    trigger = query.trigger
    aliases = [] if trigger is None else [s.alias for s in query.sources[: trigger.variables]]
    return ", ".join(aliases)


def _table_row(catalog: Catalog, table: Table, counts: Counts) -> Row:
    return len(catalog.contents[fold(table.name)]), table.path


def _region_row(catalog: Catalog, region: Region, counts: Counts) -> Row:
    return (show_shape(region.shape),)


def _sink_row(catalog: Catalog, sink: Sink, counts: Counts) -> Row:
    return ", ".join(sink.queries) if sink.queries is not None else "ALL", sink.target.kind


def _relation_columns(relation: Stream | Table) -> Listed:
    return tuple((column.name, column.type) for column in relation.columns)


def _query_columns(query: Query) -> Listed:
    return tuple(zip(query.names, query.types, strict=True))


_TEXT, _NUMBER = Type.STRING, Type.BIGINT
_ENTRIES: dict[str, dict[str, Any]] = {
    "stream": {
        "define": lambda catalog, statement, load: (define_stream(statement), None),
        "users": _readers_of_stream,
        "listed": (
            ("objects", _NUMBER),
            ("readings", _NUMBER),
            ("late", _NUMBER),
            ("last reason", _TEXT),
        ),
        "row": _stream_row,
        "columns": _relation_columns,
    },
    "table": {
        "define": lambda catalog, statement, load: define_table(statement, load),
        "users": _queries_that(lambda query, name: name in query.tables),
        "listed": (("rows", _NUMBER), ("file", _TEXT)),
        "row": _table_row,
        "columns": _relation_columns,
    },
    "region": {
        "define": lambda catalog, statement, load: (define_region(statement), None),
        "users": _queries_that(lambda query, name: name in query.regions),
        "listed": (("shape", _TEXT),),
        "row": _region_row,
    },
    "query": {
        "define": _make_query,
        "users": _sinks_of,
        "listed": (("rows", _NUMBER), ("statement", _TEXT)),
        "row": _query_row,
        "columns": _query_columns,
        "done": "registered",
        "owned": True,
    },
    "trigger": {
        "define": _make_trigger,
        "users": _sinks_of,
        "listed": (("variables", _TEXT), ("statement", _TEXT)),
        "row": _trigger_row,
        "columns": _query_columns,
        "owned": True,
    },
    "sink": {
        "define": lambda catalog, statement, load: (define_sink(statement, catalog), None),
        "users": _nobody,
        "listed": (("queries", _TEXT), ("target", _TEXT)),
        "row": _sink_row,
        "public": False,
    },
    "pin": {
        "define": lambda catalog, statement, load: (define_pin(statement, catalog), None),
        "users": _nobody,
        "listed": (("stream", _TEXT), ("time", Type.TIMESTAMP)),
        "row": lambda catalog, pin, counts: (pin.stream, pin.at),
    },
}

KINDS: dict[str, Kind] = {each.kind: Kind(each, **_ENTRIES[each.kind]) for each in GRAMMAR}
"""All kinds by name, those that others stand on first."""


_OF_STATEMENT = {kind.grammar.statement: kind for kind in KINDS.values()}
_OF_STATEMENT |= {
    alike: kind for of, kind in _OF_STATEMENT.items() for alike in of.__subclasses__()
}


def kind_of(statement: s.Creation) -> Kind:
    """The kind of what a statement defines."""
    return _OF_STATEMENT[type(statement)]
