"""The catalog: what is known at a version, as one immutable value.

A statement yields a new catalog or an error, so no statement can leave it half changed. Names
are looked up whatever their case; a name that does not exist is answered with the nearest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from place.errors import suggestion
from place.model.schema import Pin, Region, Relation, Sink, Stream, Table, lasting
from place.model.table_rows import TableRows
from place.model.types import Row
from place.plan.definitions import Definitions
from place.plan.query import Query
from place.sql.definitions import GRAMMAR
from place.sql.statements import Name, wrong

PLURALS = {each.kind: each.plural for each in GRAMMAR}
STORED_AS = {"trigger": "query"}
"""Kinds that share their names and their store with another one: whoever takes deltas takes those
of queries and of triggers by one name."""
STORES = {kind: plural for kind, plural in PLURALS.items() if kind not in STORED_AS}
"""The kinds that have a store of their own, and what it is called."""

_SHARED_NAMES = {
    kind: kinds for kinds in (("stream", "table"), ("query", "trigger")) for kind in kinds
}
"""Kinds whose names must differ from each other's."""


def fold(name: str) -> str:
    """The form by which names are compared."""
    return name.casefold()


@dataclass(frozen=True)
class Catalog:
    """All definitions by folded name, the statements that made them, and the rows of the tables.

    Each change is a new version, which shares all that stays with the one before. `revisions` are
    the versions in which the rows of each table came, and in which streams were reset last.
    """

    version: int = 0
    streams: Definitions[Stream] = field(default_factory=Definitions)
    tables: Definitions[Table] = field(default_factory=Definitions)
    regions: Definitions[Region] = field(default_factory=Definitions)
    queries: Definitions[Query] = field(default_factory=Definitions)
    sinks: Definitions[Sink] = field(default_factory=Definitions)
    pins: Definitions[Pin] = field(default_factory=Definitions)
    contents: Mapping[str, TableRows] = field(default_factory=dict, repr=False)
    texts: Mapping[str, Definitions[str]] = field(default_factory=dict, repr=False)
    """The statements that made definitions, by the kind of their store."""
    revisions: Mapping[str, int] = field(default_factory=dict, repr=False)

    def store_of(self, kind: str) -> Definitions[Any]:
        """Where the definitions of a kind are kept; queries and triggers are kept together."""
        return getattr(self, PLURALS[STORED_AS.get(kind, kind)])  # type: ignore[no-any-return]

    def of_kind(self, kind: str) -> Iterator[Any]:
        """All definitions of a kind (`stream`, `table`, `region`, `query`, `trigger`, `sink`)."""
        return (each for each in self.store_of(kind).values() if _is_of(kind, each))

    def get(self, kind: str, name: str) -> Any | None:
        """The definition of that kind and name, if there is one."""
        found = self.store_of(kind).get(fold(name))
        return found if found is not None and _is_of(kind, found) else None

    def find(self, kind: str, name: Name, *, verb: str | None = None) -> Any:
        """The definition of that name, or a StatementError with the nearest name.

        `verb` is what the statement does with it: what is of another kind is done so by other
        words, `DROP TRIGGER storm` and not `DROP QUERY storm`.
        """
        found = self.get(kind, name.text)
        if found is None:
            names = [definition.name for definition in self.of_kind(kind)]
            raise wrong(
                f'{kind} "{name.text}" does not exist',
                name.at,
                hint=self._elsewhere(kind, name, verb)
                or suggestion(name.text, names, PLURALS[kind]),
            )
        return found

    def find_told(self, name: Name) -> Query:
        """The query or trigger of that name: whatever has deltas."""
        found = self.queries.get(fold(name.text))
        return self.find("query", name) if found is None else found

    def _elsewhere(self, kind: str, name: Name, verb: str | None = None) -> str | None:
        for other in PLURALS:
            if other != kind and self.get(other, name.text) is not None:
                is_akin = STORED_AS.get(other, other) == STORED_AS.get(kind, kind)
                words = f": write {verb} {other.upper()} {name.text}" if verb and is_akin else ""
                return f'"{name.text}" is a {other}{words}'
        return None

    def relation(self, name: Name) -> Relation:
        """The stream or table of that name."""
        found = self.streams.get(fold(name.text)) or self.tables.get(fold(name.text))
        if found is None:
            relations: list[Relation] = [*self.streams.values(), *self.tables.values()]
            names = [relation.name for relation in relations]
            raise wrong(
                f'stream or table "{name.text}" does not exist',
                name.at,
                hint=self._elsewhere("stream", name)
                or suggestion(name.text, names, "streams and tables"),
            )
        return found

    def has(self, stream: Stream) -> bool:
        """Is this stream still there, perhaps with other options?"""
        found = self.streams.get(fold(stream.name))
        return found is not None and (found is stream or lasting(found) == lasting(stream))

    def rows_of(self, table: str) -> tuple[Row, ...]:
        """The rows of a table, one by one."""
        return self.contents[fold(table)].tuples()

    def arrow_of(self, table: str) -> pa.Table:
        """The rows of a table as Arrow."""
        return self.contents[fold(table)].arrow

    def check_free(self, kind: str, name: Name) -> None:
        """Raise a StatementError if the name is taken; streams and tables share their names, and so
        do queries and triggers."""
        key = fold(name.text)
        for taken in _SHARED_NAMES.get(kind, (kind,)):
            found = self.store_of(taken).get(key)
            if found is not None and _is_of(taken, found):
                raise wrong(
                    f'{taken} "{name.text}" exists already',
                    name.at,
                    hint=f"choose another name, or DROP {taken.upper()} {name.text} first",
                )

    def put(self, kind: str, definition: Any, text: str, rows: TableRows | None = None) -> Catalog:
        """The next version, with this definition and the statement that made it."""
        key, version = fold(definition.name), self.version + 1
        store = STORED_AS.get(kind, kind)
        changes: dict[str, Any] = {STORES[store]: self.store_of(kind).put(key, definition)}
        if rows is not None:
            changes["contents"] = {**self.contents, key: rows}
            changes["revisions"] = {**self.revisions, key: version}
        texts = self._texts_of(store).put(key, text)
        return self._next(version, {**self.texts, store: texts}, changes)

    def with_rows(self, table: str, rows: TableRows) -> Catalog:
        """The same version, in which a table has these rows."""
        contents = {**self.contents, fold(table): rows}
        return self._next(self.version, self.texts, {"contents": contents})

    def remove(self, kind: str, name: str) -> Catalog:
        """The next version, without this definition."""
        gone, store = fold(name), STORED_AS.get(kind, kind)
        changes: dict[str, Any] = {STORES[store]: self.store_of(kind).without(gone)}
        if kind == "table":
            changes["contents"] = {k: rows for k, rows in self.contents.items() if k != gone}
        if kind in ("stream", "table") and gone in self.revisions:
            changes["revisions"] = {k: since for k, since in self.revisions.items() if k != gone}
        texts = {**self.texts, store: self._texts_of(store).without(gone)}
        return self._next(self.version + 1, texts, changes)

    def reset(self, stream: str) -> Catalog:
        """The next version, in which a stream begins anew."""
        version = self.version + 1
        revisions = {**self.revisions, fold(stream): version}
        return self._next(version, self.texts, {"revisions": revisions})

    def _next(
        self, version: int, texts: Mapping[str, Definitions[str]], changes: dict[str, Any]
    ) -> Catalog:
        # What `dataclasses.replace` does, without looking at each field: this is done for every
        # statement of a text of 100,000.
        made = Catalog.__new__(Catalog)
        made.__dict__.update(self.__dict__, version=version, texts=texts, **changes)
        return made

    def _texts_of(self, store: str) -> Definitions[str]:
        return self.texts.get(store) or Definitions()

    def since(self, before: Catalog) -> CatalogChange:
        """What has to be done to `before` to have this version, but for texts and rows."""
        ended, begun = {}, {}
        for kind in STORES:
            mine = self.store_of(kind)
            gone, new = mine.since(before.store_of(kind))
            ended[kind] = tuple(key for key in gone if key not in mine)
            begun[kind] = {key: mine[key] for key in new}
        return CatalogChange(before.version, self.version, ended, begun, self.revisions)

    def after(self, change: CatalogChange) -> Catalog:
        """The version that a change leads to; it has neither texts nor rows."""
        changes: dict[str, Any] = {"revisions": change.revisions, "contents": {}}
        for kind, plural in STORES.items():
            definitions = self.store_of(kind)
            for key in change.ended[kind]:
                definitions = definitions.without(key)
            for key, definition in change.begun[kind].items():
                definitions = definitions.put(key, definition)
            changes[plural] = definitions
        return self._next(change.version, {}, changes)

    def text_of(self, kind: str, name: str) -> str:
        """The statement that made a definition."""
        return self.texts[STORED_AS.get(kind, kind)][fold(name)]


def _is_of(kind: str, definition: Any) -> bool:
    return not isinstance(definition, Query) or definition.kind == kind


@dataclass(frozen=True)
class CatalogChange:
    """The way from one version of the catalog to another: which definitions go, and which come."""

    before: int
    version: int
    ended: Mapping[str, tuple[str, ...]]
    begun: Mapping[str, Mapping[str, Any]]
    revisions: Mapping[str, int]

    def __len__(self) -> int:
        return sum(map(len, self.ended.values())) + sum(map(len, self.begun.values()))
