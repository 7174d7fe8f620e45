"""Binding CREATE TRIGGER: which readings make a match together, and what is told of it.

One function reads as the meaning of the clauses in their order. What a trigger can never tell, and
what it would have to remember for ever, is refused at the end (`place/plan/check_trigger.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from place.errors import PlaceError
from place.model.schema import Stream
from place.model.shape import Shape
from place.model.time import parse_duration
from place.plan.bind_match import MatchBinder
from place.plan.bind_possible import Placed, check_possible
from place.plan.bind_query import bind_inside, split_where
from place.plan.bind_variables import Variables, bind_variables
from place.plan.catalog import Catalog, fold
from place.plan.check_trigger import check_trigger
from place.plan.expression import Column, Expression, conjuncts, show
from place.plan.query import Around, Output, Query
from place.plan.trigger import STRATEGIES, Trigger, time_column
from place.sql import statements as s
from place.sql.limits import check_outputs
from place.sql.statements import Inside, position_of, wrong


def bind_trigger(catalog: Catalog, statement: s.CreateTrigger) -> Query:
    """The meaning of a CREATE TRIGGER, or a StatementError that says which part has none."""
    variables = bind_variables(catalog, statement)
    when = _bind_conditions(catalog, variables, statement.when, "WHEN")
    unless = None
    if statement.unless is not None:
        unless = _bind_conditions(catalog, variables, statement.unless.when, "UNLESS")
    areas = [*when.areas, *(unless.areas if unless is not None else ())]
    areas += [_area(catalog, variables, clause, None) for clause in statement.areas]
    check_possible(when.placed)
    check_possible(unless.placed if unless is not None else ())
    trigger = Trigger(
        variables=variables.count,
        conditions=when.conditions,
        absence=None if unless is None else unless.conditions,
        regions=tuple((source, a.shape) for a in areas for source in a.sources),
        sets=tuple(variables.sets.values()),
        within=_bind_duration(statement.within),
        is_first=statement.is_first,
        every=_bind_every(statement),
        groups=_bind_groups(variables, statement),
        hint=_bind_hint(statement),
        region_names=tuple(dict.fromkeys(a.name for a in areas if a.name is not None)),
    )
    query = Query(
        name=statement.name.text,
        sources=variables.sources,
        subject=0,
        space=variables.sources[0].relation.space,
        where=None,
        query_table=None,
        inside=None,
        nearest=None,
        window=None,
        groups=None,
        aggregates=(),
        having=None,
        outputs=_bind_alert(variables, statement),
        distinct=False,
        arrivals=True,
        trigger=trigger,
    )
    places = [*when.positions, *(unless.positions if unless is not None else ())]
    check_trigger(query, statement, places)
    return query


# WHEN


@dataclass(frozen=True)
class _Area:
    """A region, the variables that lie in it, and its name if it has one."""

    shape: Shape
    sources: tuple[int, ...]
    name: str | None


@dataclass(frozen=True)
class _Conditions:
    """Conditions joined by AND with the places where they were written, and regions."""

    placed: tuple[Placed, ...]
    areas: tuple[_Area, ...]

    @property
    def conditions(self) -> tuple[Expression, ...]:
        return tuple(condition for condition, _ in self.placed)

    @property
    def positions(self) -> tuple[s.Position | None, ...]:
        return tuple(at for _, at in self.placed)


def _bind_conditions(
    catalog: Catalog, variables: Variables, node: exp.Expr, clause: str
) -> _Conditions:
    plain, predicates = split_where(node)
    binder = MatchBinder(variables, clause)
    placed: dict[Expression, s.Position | None] = {}
    for part in plain:
        for bound in binder.conditions(part):
            for condition in conjuncts(bound):
                placed.setdefault(condition, position_of(part))
    areas = tuple(_area(catalog, variables, _clause_of(each), clause) for each in predicates)
    return _Conditions(tuple(placed.items()), areas)


def _clause_of(predicate: Inside) -> s.InsideClause:
    clause: s.InsideClause = predicate.meta["area"]
    return clause


def _area(
    catalog: Catalog, variables: Variables, clause: s.InsideClause, within: str | None
) -> _Area:
    """`V INSIDE area`: the region, of each member if V is a set."""
    sources = _subjects(variables, clause)
    if within == "UNLESS" and sources != (variables.absent,):
        alias = variables.sources[variables.absent or 0].alias
        raise wrong(
            "INSIDE behind UNLESS speaks of its own variable",
            clause.at,
            expected=f"{alias} INSIDE …",
            hint="what is said of the variables of FOR stands in the first WHEN",
        )
    if within == "WHEN" and sources == (variables.absent,):
        raise wrong(
            f'"{clause.subject.text if clause.subject else ""}" is the reading that UNLESS waits'
            " for in vain",
            clause.at,
            hint="write its INSIDE behind UNLESS … WHEN",
        )
    if clause.focal is not None:
        raise wrong(
            "the regions of a trigger do not move",
            clause.at,
            expected="INSIDE region, INSIDE (x1, y1, x2, y2) or INSIDE (x, y, r)",
            hint="write DISTANCE(V1, V2) <= r for what is near another reading",
        )
    name = None
    if clause.region is not None:
        if fold(clause.region.text) not in catalog.regions and variables.members(
            clause.region.text
        ):
            raise wrong(
                f'"{clause.region.text}" is not a region but stands in FOR',
                clause.region.at,
                expected="a named region or a shape",
                hint="compare the columns of a table: V1.x BETWEEN p.x1 AND p.x2, or write"
                " DISTANCE(V1, p) <= p.r",
            )
        name = str(catalog.find("region", clause.region).name)
    first = sources[0]
    space = variables.sources[first].relation.space
    shape = bind_inside(catalog, clause, variables.sources, first, space)
    assert shape is not None
    assert not isinstance(shape, Around)
    return _Area(shape, sources, name)


def _subjects(variables: Variables, clause: s.InsideClause) -> tuple[int, ...]:
    """The variables that INSIDE speaks of; the only one of FOR needs no name."""
    if clause.subject is None:
        names = [*variables.sets, *(x.alias for x in variables.sources[: variables.count])]
        alone = variables.count == 1 or set(range(variables.count)) in map(
            set, variables.sets.values()
        )
        if not alone:
            raise wrong(
                "INSIDE speaks of one of several variables",
                clause.at,
                hint=f"write {names[0]} INSIDE …",
            )
        return tuple(range(variables.count))
    found = variables.members(clause.subject.text)
    if found is None:
        raise variables.unknown(clause.subject.text, clause.subject.at)
    if found[0] >= variables.roles:
        raise wrong(
            f'INSIDE speaks of readings, and "{clause.subject.text}" is a table',
            clause.subject.at,
            hint="choose rows of a table by comparing its columns",
        )
    return found


# The clauses behind WHEN


def _bind_duration(duration: s.Duration | None) -> int | None:
    if duration is None:
        return None
    try:
        return parse_duration(duration.text)
    except PlaceError as error:
        raise wrong(error.message, duration.at, hint=error.hint) from None


def _bind_every(statement: s.CreateTrigger) -> int | None:
    if statement.every is None:
        return None
    every = _bind_duration(statement.every.duration)
    if not every:
        raise wrong(
            "EVERY of no length silences nothing",
            statement.every.duration.at,
            hint="leave EVERY out, or write EVERY '10 minutes'",
        )
    return every


def _bind_groups(variables: Variables, statement: s.CreateTrigger) -> tuple[Expression, ...]:
    if statement.every is None:
        return ()
    binder = MatchBinder(variables, "PER")
    return tuple(binder.bind(node) for node in statement.every.per)


def _bind_hint(statement: s.CreateTrigger) -> str | None:
    if statement.hint is None:
        return None
    if statement.hint.text not in STRATEGIES:
        raise wrong(
            f"{statement.hint.text} is not a hint of a trigger",
            statement.hint.at,
            expected=" or ".join(f"/*+ {hint} */" for hint in STRATEGIES),
        )
    return statement.hint.text


# ALERT


def _bind_alert(variables: Variables, statement: s.CreateTrigger) -> tuple[Output, ...]:
    if not statement.alert:
        return tuple(
            output for source in range(variables.count) for output in _identity(variables, source)
        )
    check_outputs(len(statement.alert), statement.alert[0].at)
    binder = MatchBinder(variables, "ALERT")
    outputs = []
    for item in statement.alert:
        assert item.expression is not None
        bound = binder.bind(item.expression)
        name = item.alias.text if item.alias is not None else _name_of(item.expression, bound)
        outputs.append(Output(name, bound))
    return tuple(outputs)


def _identity(variables: Variables, source: int) -> list[Output]:
    """What is told of a variable that nobody asked for: its key and its time."""
    stream: Stream = variables.stream(source)
    alias = variables.sources[source].alias
    time = Output(f"{alias}.t", time_column(source, stream, alias))
    if stream.key is None:
        return [time]
    key = stream.columns[stream.key]
    name = f"{alias}.{key.name}"
    return [Output(name, Column(source, stream.key, key.type, name)), time]


def _name_of(node: exp.Expr, bound: Expression) -> str:
    """What a column is called that nobody gave a name: as it was written, if that is short."""
    return _written(node) or show(bound)


def _written(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Column):
        return f"{node.table}.{node.name}" if node.table else str(node.name)
    if isinstance(node, exp.Anonymous):
        parts = [_written(each) for each in node.expressions]
        if all(part is not None for part in parts):
            return f"{node.this}({', '.join(filter(None, parts))})"
    return None
