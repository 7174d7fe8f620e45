"""How large statements may be, in one place: what is larger is refused before it costs anything.

Who asks decides how much they may ask for: a program that embeds PLACE and an operator may ask for
more than the clients of a server. So limits belong to the door that a statement comes through. The
door says which ones hold meanwhile (`within`), and whoever reads or binds a statement looks at
those that hold now (`current`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cached_property

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from place.errors import LimitError
from place.sql import statements as s

At = Callable[[int], s.Position]
"""Where a character of a statement stands in the whole text."""
_FROM_FILE = "load large tables from a file: CREATE TABLE … FROM 'file.csv'"
DAY = 24 * 3600 * 1_000_000
"""In microseconds, as all lengths of time are."""


@dataclass(frozen=True)
class Limits:
    """How large a statement may be. The defaults are those of an embedded session."""

    text: int = 64 << 20
    """Characters of a text of statements."""
    statement: int = 16 << 20
    """Characters of one statement; the rows of a table may stand in it."""
    name: int = 255
    """Characters of a name or an alias."""
    depth: int = 50
    """Brackets, calls, NOTs and signs within each other."""
    operators: int = 200
    """Operators and calls on each other, as in a + b + c + …, where AND and OR in a row are one."""
    columns: int = 1_000
    """Columns of an answer, a stream or a table, keys of GROUP BY, and places of a group of kNN."""
    terms: int = 100_000
    """Columns, numbers, texts, operators and calls of all expressions of a statement together."""
    members: int = 100_000
    """Values of one IN (…); they are no terms."""
    sources: int = 32
    """Streams and tables in FROM, and in FOR."""
    variables: int = 16
    """Variables of a trigger, with all those of sets such as V[5]."""
    corners: int = 100_000
    """Corners of a POLYGON, in all of its rings."""
    rows: int = 1_000_000
    """Rows of VALUES."""
    cells: int = 10_000_000
    """Values of VALUES, in all rows."""
    neighbours: int = 1_000_000
    """The k of kNN."""
    window_rows: int = 10_000_000
    """Rows of a WINDOW."""
    window: int = 366 * DAY
    """The length of a WINDOW of time, and how long a trigger keeps readings."""
    history: int = 366 * DAY
    """The `history` of a stream."""
    answer: int = 20_000_000
    """Values (rows times columns) of the answer of a SELECT, and of a query's first answer."""
    fanout: int = 10_000_000
    """Rows of tables, and combinations of them, that one object meets in a join."""
    work: int = 2_000_000_000
    """Objects, with the rows that each of them meets, times the columns and conditions."""
    seconds: int = 3_600
    """What the answer of a SELECT may take, and the first answers of queries that are registered
    together."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Known statements are looked up by their limits: by one number, not by all of these."""
        return hash(tuple(getattr(self, each.name) for each in fields(self)))


EMBEDDED = Limits()
"""What a session in the same process may ask for, and an operator."""
CLIENTS = Limits(
    text=1 << 20,
    statement=1 << 20,
    columns=500,
    terms=2_000,
    members=10_000,
    sources=8,
    corners=10_000,
    rows=100_000,
    cells=1_000_000,
    neighbours=10_000,
    window_rows=1_000_000,
    window=DAY,
    history=DAY,
    answer=2_000_000,
    fanout=100_000,
    work=200_000_000,
    seconds=10,
)
"""What clients of a server may ask for, unless its settings say otherwise."""
NONE = Limits(**{each.name: sys.maxsize for each in fields(Limits)})
"""For what was accepted before: a catalog that is read again."""

_CURRENT: ContextVar[Limits] = ContextVar("limits", default=EMBEDDED)


def current() -> Limits:
    """The limits that hold now."""
    return _CURRENT.get()


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """These limits hold meanwhile.

    >>> with within(CLIENTS):
    ...     current() is CLIENTS
    True
    """
    token = _CURRENT.set(limits)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check(
    name: str,
    size: int,
    what: str,
    at: s.Position | None,
    hint: str,
    *,
    shown: Callable[[int], str] = "{:,}".format,
) -> None:
    """Raise a LimitError if a size is above the limit of that name that holds now.

    `what` says what has the size, with `{size}` and `{most}` where they stand.
    """
    if size > getattr(current(), name):
        raise exceeded(name, size, what, at, hint, shown=shown)


def exceeded(
    name: str,
    size: int,
    what: str,
    at: s.Position | None,
    hint: str,
    *,
    shown: Callable[[int], str] = "{:,}".format,
) -> LimitError:
    """The error that says so."""
    most: int = getattr(current(), name)
    message = what.format(size=shown(size), most=shown(most))
    line, column = (at.line, at.column) if at is not None else (None, None)
    return LimitError(message, name, size, most, line=line, column=column, hint=hint)


# Before a statement is read


def check_text(text: str) -> None:
    """A text of statements, before it is cut into them."""
    check(
        "text",
        len(text),
        "the text has {size} characters, more than {most}",
        None,
        "send it in parts, or load large tables from a file: CREATE TABLE … FROM 'file.csv'",
    )


def check_length(sql: str, at: s.Position) -> None:
    """One statement, before anybody looks at it."""
    check(
        "statement",
        len(sql),
        "the statement has {size} characters, more than {most}",
        at,
        _FROM_FILE,
    )


_DEEPER = (TokenType.NOT, TokenType.DASH, TokenType.PLUS)
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


def check_tokens(tokens: Sequence[Token], sql: str, at: At) -> None:
    """The words of a statement: how long names are, and how deep it is nested."""
    limits = current()
    if len(tokens) <= limits.depth and len(sql) <= limits.name:
        return
    depth = row = 0
    for token in tokens:
        kind = token.token_type
        row = row + 1 if kind in _DEEPER else 0
        if kind is TokenType.L_PAREN:
            depth += 1
        elif kind is TokenType.R_PAREN:
            depth -= 1
        elif kind in _NAMES and len(token.text) > limits.name:
            check(
                "name",
                len(token.text),
                "a name has {size} characters, more than {most}",
                at(token.start),
                "write a shorter one",
            )
        if depth + row > limits.depth:
            check(
                "depth",
                depth + row,
                "the statement is nested {size} deep, deeper than {most}",
                at(token.start),
                "write it with fewer brackets within brackets",
            )


# While it is read: lists are refused where they become too long, not when they end


def check_items(count: int, at: s.Position, clause: str = "SELECT") -> None:
    """The columns that a SELECT or an ALERT lists."""
    what = f"{clause} has more than {{most}} columns"
    check("columns", count, what, at, "ask for fewer columns")


def check_members(count: int, at: s.Position) -> None:
    """The values of IN."""
    what = "IN has more than {most} values"
    check("members", count, what, at, "join a table that has them")


def check_places(count: int, at: s.Position) -> None:
    """The places of kNN (k, SUM OF (…))."""
    what = "kNN has more than {most} places in one group"
    check("columns", count, what, at, "name fewer places")


def check_corners(count: int, at: s.Position) -> None:
    """The corners of a polygon."""
    what = "the polygon has more than {most} corners"
    check("corners", count, what, at, "simplify it: fewer corners are tested faster, too")


# Once it is read


def check_statement(statement: s.Statement, size: int) -> None:
    """The parts of a statement of so many characters, before it is bound."""
    if isinstance(statement, s.Explain) and not isinstance(statement.target, s.Name):
        statement = statement.target
    if isinstance(statement, s.RegisterQuery):
        statement = statement.select
    if isinstance(statement, s.Select):
        _check_select(statement, size)
    elif isinstance(statement, s.CreateTrigger):
        _check_trigger(statement, size)
    elif isinstance(statement, s.CreateStream | s.CreateTable):
        _check_columns(len(statement.columns), statement.name.at, "declare fewer columns")
        if isinstance(statement, s.CreateTable):
            check_values(len(statement.rows), sum(map(len, statement.rows)), statement.name.at)
    elif isinstance(statement, s.InsertRows):
        check_values(len(statement.rows), sum(map(len, statement.rows)), statement.name.at)
    elif isinstance(statement, s.DeleteRows):
        _check_terms([statement.where], size, statement.name.at)


def _check_select(select: s.Select, size: int) -> None:
    _check_columns(len(select.group_by), select.at, "group by fewer keys")
    check(
        "sources",
        len(select.sources),
        "FROM has {size} sources, more than {most}",
        select.sources[0].relation.at,
        "join fewer tables, or load a table that is joined already",
    )
    written = [*(item.expression for item in select.items), *select.group_by]
    _check_terms([*written, select.where, select.having], size, select.at)


def _check_trigger(trigger: s.CreateTrigger, size: int) -> None:
    at = trigger.variables[0].relation.at
    what = "FOR has {size} sources, more than {most}"
    check("sources", len(trigger.variables), what, at, "name fewer of them")
    written = [trigger.when, *(item.expression for item in trigger.alert)]
    written += trigger.every.per if trigger.every is not None else ()
    written += [trigger.unless.when] if trigger.unless is not None else []
    _check_terms(written, size, trigger.name.at)


def check_outputs(count: int, at: s.Position) -> None:
    """The columns of an answer, with those that a * stands for."""
    _check_columns(count, at, "ask for fewer columns")


def _check_columns(count: int, at: s.Position, hint: str) -> None:
    check("columns", count, "there are {size} columns, more than {most}", at, hint)


def _check_terms(written: Sequence[exp.Expr | None], size: int, at: s.Position) -> None:
    # A term takes two characters at least, so a short statement cannot have too many.
    if size <= 2 * min(current().terms, current().operators):
        return
    terms = deepest = 0
    waiting: list[tuple[exp.Expr, int]] = [(each, 0) for each in written if each is not None]
    while waiting:
        node, depth = waiting.pop()
        is_member = isinstance(node.parent, exp.In) and isinstance(node, exp.Literal)
        terms += not (is_member or isinstance(node, exp.Paren | exp.Identifier))
        in_a_row = isinstance(node, exp.And | exp.Or) and type(node) is type(node.parent)
        depth += not (in_a_row or isinstance(node, exp.Paren | exp.Identifier))
        deepest = max(deepest, depth)
        waiting += [(child, depth) for child in node.iter_expressions()]
    hint = "write x IN (…) for many comparisons of one column, or join a table"
    check("terms", terms, "the expressions have {size} terms, more than {most}", at, hint)
    check(
        "operators",
        deepest,
        "an expression has {size} operators on each other, more than {most}",
        at,
        "write fewer operators in a row",
    )


def check_values(rows: int, cells: int, at: s.Position) -> None:
    """The rows of VALUES, and the values in them."""
    check("rows", rows, "VALUES has {size} rows, more than {most}", at, _FROM_FILE)
    check("cells", cells, "VALUES has {size} values, more than {most}", at, _FROM_FILE)
