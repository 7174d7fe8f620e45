"""Binding FOR and UNLESS of a trigger: its variables, the sets among them, and the tables.

`V[3]` becomes three variables with the aliases `V[1]`, `V[2]` and `V[3]`. So a member of a set is
found by its alias like any other variable, and only V alone has to be told what it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from place.errors import StatementError, suggestion
from place.model.schema import Stream, Table
from place.plan.catalog import Catalog
from place.plan.limits import check_variables
from place.plan.query import Source
from place.sql import statements as s
from place.sql.limits import current
from place.sql.statements import wrong


@dataclass(frozen=True)
class Variables:
    """The sources of a trigger in their order: variables, the variable of UNLESS, tables."""

    sources: tuple[Source, ...]
    count: int
    """How many of the sources are variables of a match."""
    absent: int | None
    """The source that is the variable of UNLESS."""
    sets: dict[str, tuple[int, ...]]
    """The members of each set, by its folded name."""
    names: tuple[str, ...]
    """The names as they were written, sets among them."""

    @property
    def roles(self) -> int:
        return self.count + (self.absent is not None)

    def stream(self, source: int) -> Stream:
        """The stream of a variable."""
        relation = self.sources[source].relation
        assert isinstance(relation, Stream)
        return relation

    def members(self, name: str) -> tuple[int, ...] | None:
        """The sources that a name stands for: one, or all of a set; None of an unknown name."""
        folded = name.casefold()
        if folded in self.sets:
            return self.sets[folded]
        found = (i for i, source in enumerate(self.sources) if source.alias.casefold() == folded)
        one = next(found, None)
        return None if one is None else (one,)

    def unknown(self, name: str, at: s.Position | None) -> StatementError:
        """What to say of a name that FOR does not have."""
        hint = suggestion(name, self.names, "variables")
        return wrong(f'"{name}" is not in FOR', at, hint=hint)


def bind_variables(catalog: Catalog, statement: s.CreateTrigger) -> Variables:
    """What FOR and UNLESS name, or a StatementError."""
    absent = statement.unless.variable if statement.unless is not None else None
    every = [*statement.variables, *([absent] if absent is not None else [])]
    _check_once(every)
    variables: list[Source] = []
    tables: list[Source] = []
    sets: dict[str, tuple[int, ...]] = {}
    for spec in statement.variables:
        relation = catalog.relation(spec.relation)
        alias = spec.alias.text
        size = None if spec.count is None else _size(spec, spec.count)
        if isinstance(relation, Table):
            if spec.count is not None:
                raise wrong(
                    f'{alias}[{size}] is a set of readings, and table "{relation.name}" has none',
                    spec.count.at,
                    hint=f"write {relation.name} AS {alias}",
                )
            tables.append(Source(alias, relation))
        elif size is None:
            variables.append(Source(alias, relation))
        else:
            first = len(variables)
            check_variables(first + size, spec.alias.at)
            variables += [Source(f"{alias}[{i + 1}]", relation) for i in range(size)]
            sets[alias.casefold()] = tuple(range(first, first + size))
        check_variables(len(variables), spec.alias.at)
    if not variables:
        raise wrong(
            "a trigger is about readings, and FOR names no stream",
            statement.variables[0].relation.at,
            expected="a stream in FOR",
            hint="tables stand beside it: FOR Cars AS c, Limits AS p",
        )
    guard = [] if absent is None else [_bind_absent(catalog, absent)]
    return Variables(
        (*variables, *guard, *tables),
        len(variables),
        None if absent is None else len(variables),
        sets,
        tuple(spec.alias.text for spec in every),
    )


def _check_once(specs: Iterable[s.VariableSpec]) -> None:
    seen: set[str] = set()
    for spec in specs:
        if spec.alias.text.casefold() in seen:
            relation = spec.relation.text
            raise wrong(
                f'"{spec.alias.text}" is twice in FOR',
                spec.alias.at,
                hint=f"give each its own name: {relation} AS V1, {relation} AS V2; or write"
                f" {relation} AS V[2] where they are interchangeable",
            )
        seen.add(spec.alias.text.casefold())


def _size(spec: s.VariableSpec, count: s.Literal) -> int:
    size = count.value
    if type(size) is not int or size < 1:
        raise wrong(
            f"{spec.alias.text}[{count.value}] is no set",
            count.at,
            expected=f"a whole number from 1 to {current().variables:,}",
        )
    return size


def _bind_absent(catalog: Catalog, spec: s.VariableSpec) -> Source:
    relation = catalog.relation(spec.relation)
    if isinstance(relation, Table):
        raise wrong(
            f'UNLESS waits for a reading, and table "{relation.name}" has none',
            spec.relation.at,
            expected="the name of a stream",
        )
    if spec.count is not None:
        raise wrong(
            "UNLESS has one variable, not a set",
            spec.count.at,
            hint=f"write UNLESS {relation.name} AS {spec.alias.text} WHEN …",
        )
    return Source(spec.alias.text, relation)
