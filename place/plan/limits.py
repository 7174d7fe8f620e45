"""What a bound query would cost, estimated before it is accepted, and the sizes of its clauses.

Objects are counted by the runtime and rows of tables by the catalog; what a condition or a region
leaves of them is not known beforehand. So only what is certain is refused here: an answer without
any condition, and combinations with tables and other streams that have to be looked at whatever the
condition says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pyarrow.compute as pc

from place.errors import LimitError
from place.model.schema import Table
from place.plan.catalog import Catalog, fold
from place.plan.expression import (
    Call,
    Column,
    Compare,
    Distance,
    Expression,
    conjuncts,
    sources_of,
)
from place.plan.query import Query
from place.sql import statements as s
from place.sql.limits import DAY, check, current, exceeded

Count = Callable[[str], int]
"""How many objects a stream has now."""

FEW = 64
"""Columns and conditions: a query with no more makes no more of an object than the store holds."""
_REMEMBERED = 256
_alike: dict[tuple[int, int], tuple[object, int]] = {}
"""By the rows of a table and a column: these rows, and how many of them share a value."""


_SMALLER = "ask for fewer columns, or for fewer rows by WHERE or INSIDE"


# The sizes of clauses


def check_neighbours(k: int, clause: str, at: s.Position) -> None:
    """The k of kNN or RNN."""
    what = f"{clause} asks for {{size}} neighbours, more than {{most}}"
    check("neighbours", k, what, at, "ask for fewer")


def check_window_rows(rows: int, at: s.Position) -> None:
    """`WINDOW n ROWS`."""
    what = "a WINDOW of {size} rows, more than {most}"
    check("window_rows", rows, what, at, "take fewer rows")


def check_window(duration: int, at: s.Position) -> None:
    """`WINDOW 1 HOUR`."""
    what = "a WINDOW of {size}, longer than {most}"
    check("window", duration, what, at, "take a shorter one", shown=days)


def check_variables(count: int, at: s.Position) -> None:
    """The variables of FOR."""
    what = "the trigger has {size} variables or more, and {most} are allowed"
    check("variables", count, what, at, "write fewer variables, or a smaller set")


def check_kept(duration: int, at: s.Position | None) -> None:
    """How long a trigger keeps readings."""
    what = "the trigger would keep readings for {size}, longer than {most}"
    hint = "bring the times closer to each other, or add WITHIN '1 hour'"
    check("window", duration, what, at, hint, shown=days)


def check_history(duration: int | None, option: s.Option | None) -> None:
    """The option `history` of a stream."""
    if duration is not None and option is not None:
        what = "a history of {size}, longer than {most}"
        check("history", duration, what, option.value.at, "keep less", shown=days)


def days(duration: int) -> str:
    """
    >>> days(36 * 3600 * 1_000_000)
    '1.5 days'
    """
    return "1 day" if duration == DAY else f"{duration / DAY:,.6g} days"


# What a query would cost


def check_cost(query: Query, catalog: Catalog, objects: Count, at: s.Position | None) -> None:
    """Raise a LimitError if a query is certain to cost more than it may."""
    meets = fanout(query, catalog, objects)
    hint = "join by equality (WHERE a.id = b.id), or join fewer of them"
    others = "other elements" if query.is_join else "rows of tables"
    check("fanout", meets, f"one object would meet {{size}} {others}, more than {{most}}", at, hint)
    if query.nearest is not None and query.nearest.is_reverse:
        among = _elements(query, query.subject, catalog, objects)
        check(
            "work",
            among * min(query.nearest.k, among),
            "{size} neighbours of all objects would have to be kept, more than {most}",
            at,
            "ask for fewer neighbours",
        )
    is_chosen = query.inside is not None or query.nearest is not None or query.query_table
    known, width = _known_rows(query), len(query.outputs) + len(conjuncts(query.where))
    if (is_chosen or meets == 1) and not known and width <= FEW:
        return
    count = _elements(query, query.subject, catalog, objects)
    nearest = query.nearest
    if nearest is not None and nearest.around is None and not nearest.is_reverse:
        count = min(count, nearest.k)
    if known:
        check(
            "answer",
            count * meets * len(query.outputs),
            "the answer would have {size} values (rows times columns), more than {most}",
            at,
            _SMALLER,
        )
    check(
        "work",
        count * width * (1 if is_chosen else meets),
        "{size} values of rows would have to be looked at, more than {most}",
        at,
        f"ask for fewer columns; {hint}",
    )


def check_combinations(query: Query, catalog: Catalog, at: s.Position | None) -> None:
    """Raise a LimitError if a trigger has more combinations of its tables' rows than it may."""
    tables = [source.relation for source in query.sources if isinstance(source.relation, Table)]
    combinations = math.prod(_rows(catalog, table) for table in tables)
    what = "each reading would meet {size} combinations of rows of tables, more than {most}"
    check("fanout", combinations, what, at, "name fewer tables, or join their rows in one table")


def answer_too_large(rows: int, columns: int, at: s.Position | None) -> LimitError:
    """What to say of the answer of a SELECT whose size is known, before its rows are made."""
    return exceeded(
        "answer",
        rows * columns,
        "the answer has {size} values (rows times columns), more than {most}",
        at,
        _SMALLER,
    )


def select_too_slow(at: s.Position | None) -> LimitError:
    """What to say of a SELECT that took too long."""
    return _too_slow("the answer takes longer than {most} seconds", at, "")


def registration_too_slow(names: Sequence[str], at: s.Position | None) -> LimitError:
    """What to say of queries that were registered together, and of which none is."""
    if len(names) == 1:
        what = f'the first answer of query "{_plain(names[0])}" takes longer than {{most}} seconds'
        return _too_slow(what, at, "")
    what = (
        f"the first answers of {len(names):,} queries take longer than {{most}} seconds together,"
        " and none of them is registered"
    )
    return _too_slow(what, at, "register fewer of them at a time; ")


def _too_slow(what: str, at: s.Position | None, hint: str) -> LimitError:
    hint += "ask for fewer objects by WHERE or INSIDE, join fewer rows, or take a shorter WINDOW"
    return exceeded("seconds", current().seconds + 1, what, at, hint)


def _plain(name: str) -> str:
    """A name within a text that is formatted."""
    return name.replace("{", "{{").replace("}", "}}")


def fanout(query: Query, catalog: Catalog, objects: Count) -> int:
    """How many combinations of other elements one object meets, on average, at least."""
    regions = query.query_table.source if query.query_table is not None else None
    others = [i for i in range(len(query.sources)) if i not in (query.subject, regions)]
    return math.prod(max(1, _met(query, place, catalog, objects)) for place in others)


def _met(query: Query, place: int, catalog: Catalog, objects: Count) -> int:
    """How many elements of a source each of the others meets, at least.

    Of a table that is joined by an equality these are the rows of one value. Where a row is a box
    for the others, or a condition binds a stream to them, nobody knows how many are left: one.
    """
    relation, conditions = query.sources[place].relation, conjuncts(query.where)
    binding = [c for c in conditions if place in sources_of(c) and len(sources_of(c)) > 1]
    if isinstance(relation, Table):
        sides = [pair for c in binding if isinstance(c, Compare) for pair in _sides(c)]
        alike = [
            _rows_alike(catalog, relation, own.index)
            for own, op, other in sides
            if op == "=" and isinstance(own, Column) and own.source == place
            if place not in sources_of(other)
        ]
        if alike:
            return min(alike)
        if _is_box(place, sides):
            return 1
    elif binding:
        return 1
    return _elements(query, place, catalog, objects)


def _elements(query: Query, place: int, catalog: Catalog, objects: Count) -> int:
    """How many elements a source has now; as many readings in a window as there are objects."""
    source = query.sources[place]
    if source.is_hidden:
        return 1
    if isinstance(source.relation, Table):
        found = _rows(catalog, source.relation)
    else:
        found = objects(source.relation.name)
    if source.window is not None and source.window.rows is not None:
        found = min(found, source.window.rows)
    if query.nearest is not None and query.nearest.among == place:
        found = min(found, query.nearest.k)
    return found


Side = tuple[Expression, str, Expression]
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _sides(condition: Compare) -> tuple[Side, Side]:
    """A comparison as either of its sides sees it."""
    left, op, right = condition.left, condition.op, condition.right
    return (left, op, right), (right, _FLIPPED.get(op, op), left)


def _is_box(place: int, sides: Sequence[Side]) -> bool:
    """Do comparisons bound the rows of a source from below and from above, or by a distance?"""
    below: set[Expression] = set()
    above: set[Expression] = set()
    for own, op, other in sides:
        read = sources_of(own), sources_of(other)
        is_size = isinstance(own, Distance) or (isinstance(own, Call) and own.function == "ABS")
        if op in ("<", "<=") and place in read[0] and is_size:
            return True
        if read[0] == {place} and place not in read[1]:
            found = above if op in ("<", "<=") else below if op in (">", ">=") else set()
            found.update((own, other))
    return bool(below & above)


def _known_rows(query: Query) -> bool:
    """Is it certain how many rows the answer has? Nothing chooses, groups or unites them."""
    chooses = query.where is not None or query.inside is not None or query.query_table is not None
    changes = query.groups is not None or query.distinct or query.holds_readings
    return not chooses and not changes


def _rows(catalog: Catalog, table: Table) -> int:
    return len(catalog.contents[fold(table.name)])


def _rows_alike(catalog: Catalog, table: Table, column: int) -> int:
    """How many rows of a table share a value of a column, on average."""
    if table.unique and column == table.key:
        return 1
    rows = catalog.contents[fold(table.name)]
    known = _alike.get((id(rows), column))
    if known is None or known[0] is not rows:
        distinct = pc.count_distinct(rows.arrow.column(column), mode="all").as_py()
        while len(_alike) >= _REMEMBERED:
            del _alike[next(iter(_alike))]
        known = _alike[id(rows), column] = rows, len(rows) // max(1, distinct)
    return known[1]
