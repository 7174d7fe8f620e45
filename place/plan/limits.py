"""What a bound query would cost, estimated before it is accepted, and the sizes of its clauses.

Objects are counted by the runtime and rows of tables by the catalog; what a condition or a region
leaves of them is not known beforehand. So only what is certain is refused here: an answer without
any condition, and combinations with tables that have to be looked at whatever the condition says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow.compute as pc

from place.errors import LimitError
from place.model.schema import Table
from place.plan.catalog import Catalog, fold
from place.plan.expression import Column, Compare, Expression, conjuncts, sources_of
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


def check_neighbours(k: int, at: s.Position) -> None:
    """The k of kNN."""
    check("neighbours", k, "kNN asks for {size} neighbours, more than {most}", at, "ask for fewer")


def check_window_rows(rows: int, at: s.Position) -> None:
    """`WINDOW n ROWS`."""
    what = "a WINDOW of {size} rows, more than {most}"
    check("window_rows", rows, what, at, "take fewer rows")


def check_window(duration: int, at: s.Position) -> None:
    """`WINDOW 1 HOUR`."""
    what = "a WINDOW of {size}, longer than {most}"
    check("window", duration, what, at, "take a shorter one", shown=days)


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
    meets = fanout(query, catalog)
    hint = "join tables by equality (WHERE a.id = b.id), or join fewer of them"
    check(
        "fanout", meets, "one object would meet {size} rows of tables, more than {most}", at, hint
    )
    is_chosen = query.inside is not None or query.nearest is not None or query.query_table
    known, width = _known_rows(query), len(query.outputs) + len(conjuncts(query.where))
    if (is_chosen or meets == 1) and not known and width <= FEW:
        return
    subject = query.sources[query.subject].relation
    count = _rows(catalog, subject) if isinstance(subject, Table) else objects(subject.name)
    if query.nearest is not None:
        count = min(count, query.nearest.k)
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


def fanout(query: Query, catalog: Catalog) -> int:
    """How many combinations of rows of tables one object meets, on average, at least."""
    conditions = [c for c in conjuncts(query.where) if isinstance(c, Compare) and c.op == "="]
    found = 1
    for place, source in enumerate(query.sources):
        is_regions = query.query_table is not None and place == query.query_table.source
        if place == query.subject or is_regions or not isinstance(source.relation, Table):
            continue
        by = [
            _rows_alike(catalog, source.relation, side.index)
            for condition in conditions
            for side, other in _sides(condition)
            if isinstance(side, Column) and side.source == place and place not in sources_of(other)
        ]
        found *= max(1, min(by, default=_rows(catalog, source.relation)))
    return found


def _sides(condition: Compare) -> tuple[tuple[Expression, Expression], ...]:
    return (condition.left, condition.right), (condition.right, condition.left)


def _known_rows(query: Query) -> bool:
    """Is it certain how many rows the answer has? Nothing chooses, groups or unites them."""
    chooses = query.where is not None or query.inside is not None or query.query_table is not None
    changes = query.groups is not None or query.distinct or query.window is not None
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
