"""What names were given to see: streams and tables, whole or by a condition, as it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from place.errors import ConfigurationError, PlaceError, StatementError
from place.plan.bind_query import bind_query
from place.plan.catalog import Catalog, fold
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.narrow import narrowed, qualified, quoted

_WRITTEN = re.compile(r'\s*(?:"((?:[^"]|"")+)"|(\w+))(?:\s+WHERE\s+(.+))?\s*', re.I | re.S)


@dataclass(frozen=True)
class Grant:
    """A stream or table that a name sees; with a condition, those of its rows that meet it."""

    name: str
    condition: str | None = None

    def __str__(self) -> str:
        plain = self.name if re.fullmatch(r"\w+", self.name) else quoted(self.name)
        return plain if self.condition is None else f"{plain} WHERE {self.condition}"


Sight = Mapping[str, Grant]
"""What a name sees, by folded names."""


def read_grant(text: str) -> Grant:
    """A grant as it is written: `Cars`, or `Cars WHERE fleet = 'north'`.

    >>> read_grant("Cars WHERE fleet = 'north'")
    Grant(name='Cars', condition="fleet = 'north'")
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"{text!r} says not what is seen", hint="write Cars, or Cars WHERE fleet = 'north'"
        )
    quoted_name, plain, condition = found.groups()
    grant = Grant(plain or quoted_name.replace('""', '"'), condition)
    if condition is not None:
        begin = f"SELECT * FROM {quoted(grant.name)} WHERE "
        try:
            probe = parse_one(begin + condition)  # by itself, so that its brackets are its own
            parse_one(f"{begin}({condition})")  # and in brackets, which a comment would leave open
        except StatementError as error:
            raise ConfigurationError(f"{text!r}: {error.message}", hint=error.hint) from None
        if not isinstance(probe, s.Select) or probe.inside or probe.nearest or probe.window:
            raise ConfigurationError(f"{text!r}: after WHERE a condition on columns is expected")
    return grant


def check_grant(catalog: Catalog, grant: Grant) -> None:
    """Raise an error if a stream or table that is there has not what a condition speaks of."""
    if fold(grant.name) not in catalog.streams and fold(grant.name) not in catalog.tables:
        return  # it may come later
    try:
        conditions = [condition_of(catalog, grant, grant.name)] if grant.condition else []
        select = parse_one(narrowed(f"SELECT * FROM {quoted(grant.name)}", conditions))
        assert isinstance(select, s.Select)
        bind_query(catalog, "", select)
    except PlaceError as error:
        raise ConfigurationError(f"{grant}: {error.message}", hint=error.hint) from None


def condition_of(catalog: Catalog, grant: Grant, alias: str) -> str:
    """The condition of a grant on the rows of an alias."""
    relation = catalog.streams.get(fold(grant.name)) or catalog.tables.get(fold(grant.name))
    assert relation is not None
    assert grant.condition is not None
    columns = {fold(column.name): column.name for column in relation.columns}
    return qualified(grant.condition, columns, alias)
