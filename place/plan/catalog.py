"""The catalog: what is known at a version, as one immutable value.

A statement yields a new catalog or an error, so no statement can leave it half changed. Names
are looked up whatever their case; a name that does not exist is answered with the nearest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from place.errors import suggestion
from place.model.schema import Region, Relation, Sink, Stream, Table
from place.model.types import Row
from place.plan.query import Query
from place.sql.statements import Name, wrong

PLURALS = {
    "stream": "streams",
    "table": "tables",
    "region": "regions",
    "query": "queries",
    "sink": "sinks",
}


def fold(name: str) -> str:
    """The form by which names are compared."""
    return name.casefold()


@dataclass(frozen=True)
class Catalog:
    """All definitions by folded name, the statements that made them, and the rows of the tables.

    Each change is a new version. `revisions` are the versions in which the rows of each table came.
    """

    version: int = 0
    streams: Mapping[str, Stream] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    regions: Mapping[str, Region] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    contents: Mapping[str, tuple[Row, ...]] = field(default_factory=dict, repr=False)
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    revisions: Mapping[str, int] = field(default_factory=dict, repr=False)

    def of_kind(self, kind: str) -> Mapping[str, Any]:
        """All definitions of a kind (`stream`, `table`, `region`, `query`, `sink`)."""
        return getattr(self, PLURALS[kind])  # type: ignore[no-any-return]

    def find(self, kind: str, name: Name) -> Any:
        """The definition of that name, or a StatementError with the nearest name."""
        known: Mapping[str, Any] = self.of_kind(kind)
        found = known.get(fold(name.text))
        if found is None:
            names = [definition.name for definition in known.values()]
            raise wrong(
                f'{kind} "{name.text}" does not exist',
                name.at,
                hint=self._elsewhere(kind, name) or suggestion(name.text, names, PLURALS[kind]),
            )
        return found

    def _elsewhere(self, kind: str, name: Name) -> str | None:
        for other in PLURALS:
            if other != kind and fold(name.text) in self.of_kind(other):
                return f'"{name.text}" is a {other}'
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

    def rows_of(self, table: str) -> tuple[Row, ...]:
        return self.contents[fold(table)]

    def check_free(self, kind: str, name: Name) -> None:
        """Raise a StatementError if the name is taken; streams and tables share their names."""
        kinds = ("stream", "table") if kind in ("stream", "table") else (kind,)
        for taken in kinds:
            if fold(name.text) in self.of_kind(taken):
                raise wrong(
                    f'{taken} "{name.text}" exists already',
                    name.at,
                    hint=f"choose another name, or DROP {taken.upper()} {name.text} first",
                )

    def put(
        self, kind: str, definition: Any, text: str, rows: tuple[Row, ...] | None = None
    ) -> Catalog:
        """The next version, with this definition and the statement that made it."""
        key = fold(definition.name)
        return replace(
            self,
            version=self.version + 1,
            contents=self.contents if rows is None else {**self.contents, key: rows},
            revisions=self.revisions if rows is None else {**self.revisions, key: self.version + 1},
            texts={**self.texts, (kind, key): text},
            **{PLURALS[kind]: {**self.of_kind(kind), key: definition}},
        )

    def remove(self, kind: str, name: str) -> Catalog:
        """The next version, without this definition."""
        gone = fold(name)
        contents, revisions = self.contents, self.revisions
        if kind == "table":
            contents = {key: rows for key, rows in contents.items() if key != gone}
            revisions = {key: since for key, since in revisions.items() if key != gone}
        return replace(
            self,
            version=self.version + 1,
            contents=contents,
            revisions=revisions,
            texts={key: text for key, text in self.texts.items() if key != (kind, gone)},
            **{PLURALS[kind]: {k: kept for k, kept in self.of_kind(kind).items() if k != gone}},
        )

    def text_of(self, kind: str, name: str) -> str:
        """The statement that made a definition."""
        return self.texts[kind, fold(name)]
