"""The sqlglot dialect of PLACE.

Its tokenizer knows few keywords, so that columns may be called `open`, `type`, `date` or `key`;
every other word of the grammar is recognised where it stands.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from place.errors import StatementError
from place.sql.bulk_values import LONG, BulkTable, split_rows
from place.sql.lift import KnownForm, lift, plain_drop, position_in
from place.sql.limits import (
    Limits,
    check_length,
    check_statement,
    check_tokens,
    check_values,
    current,
)
from place.sql.parser import StatementParser
from place.sql.scan import check_closed, locate, split
from place.sql.statements import CreateTable, Literal, Name, Statement

MOST_SKELETONS = 4096
"""Skeletons of statements that are remembered; with more, all are forgotten."""


class Place(Dialect):
    """Extended SQL for continuous queries over moving objects."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"']
        QUOTES = ["'"]
        STRING_ESCAPES = ["'"]
        COMMENTS = ["--", ("/*", "*/")]
        COMMANDS: ClassVar[set[TokenType]] = set()
        COMMAND_PREFIX_TOKENS: ClassVar[set[TokenType]] = set()
        KEYWORDS = {
            "/*+": TokenType.HINT,
            "==": TokenType.EQ,
            "<>": TokenType.NEQ,
            "!=": TokenType.NEQ,
            "<=": TokenType.LTE,
            ">=": TokenType.GTE,
            "||": TokenType.DPIPE,
            "AND": TokenType.AND,
            "BETWEEN": TokenType.BETWEEN,
            "DISTINCT": TokenType.DISTINCT,
            "FALSE": TokenType.FALSE,
            "FROM": TokenType.FROM,
            "IN": TokenType.IN,
            # sqlglot has no token of this name; OVERLAPS too is a predicate between two regions.
            "INSIDE": TokenType.OVERLAPS,
            "OUTSIDE": TokenType.OVERLAPS,
            "IS": TokenType.IS,
            "LIKE": TokenType.LIKE,
            "NOT": TokenType.NOT,
            "NULL": TokenType.NULL,
            "OR": TokenType.OR,
            "SELECT": TokenType.SELECT,
            "TRUE": TokenType.TRUE,
            "WHERE": TokenType.WHERE,
        }

    Parser = StatementParser


def parse(text: str) -> list[Statement]:
    """All statements of a text; the first one that is wrong raises a StatementError."""
    return [parse_one(sql, text, offset) for offset, sql in split(text)]


def parse_one(sql: str, text: str | None = None, offset: int = 0) -> Statement:
    """The one statement `sql`, which stands at `offset` of `text`, where errors are located.

    One that differs only in its literals from a statement that was read before is not read again:
    it is read when its clauses are asked for.
    """
    whole = sql if text is None else text
    limits = current()
    if len(sql) > limits.statement:
        check_length(sql, position_in(whole, offset))
    _check_unicode(sql)
    is_long = len(sql) > LONG
    lifted = None if is_long else lift(sql)  # long ones are not worth remembering
    if lifted is None:
        simple = (_read_bulk if is_long else plain_drop)(sql, whole, offset)
        return simple or _read(sql, whole, offset)
    known = limits, lifted.skeleton
    if known in _SKELETONS and len(lifted.name) <= limits.name:
        at = position_in(whole, offset + lifted.at)
        return KnownForm(Name(lifted.name, at), lifted, lambda: _read(sql, whole, offset))
    statement: Statement = _read(sql, whole, offset)
    if len(_SKELETONS) >= MOST_SKELETONS:
        _SKELETONS.clear()
    _SKELETONS.add(known)
    return statement


_SKELETONS: set[tuple[Limits, str]] = set()
"""The skeletons of the statements that were read whole, each with the limits that it kept to."""


def _read_bulk(sql: str, whole: str, offset: int) -> Statement | None:
    """A table with many rows in the statement; None if it has to be read as others are."""
    found = split_rows(sql)
    if found is None:
        return None
    try:
        short = _read(found[0], whole, offset)
    except StatementError:
        return None
    if len(short.rows) != 1:  # after a comment, say, there are more
        return None
    check_values(len(found[1]), sum(map(len, found[1])), short.name.at)
    return BulkTable(short, found[1], lambda: _read(sql, whole, offset))


def _read(sql: str, whole: str, offset: int) -> Any:
    try:
        check_closed(sql, whole, offset)
        tokens = Place.Tokenizer(dialect=Place).tokenize(sql)
        check_tokens(tokens, sql, lambda start: position_in(whole, offset + start))
        statement = StatementParser(dialect=Place).parse_statement(tokens, sql, whole, offset)
        check_statement(statement, len(sql))
        return statement
    except SqlglotError as error:
        line, column = locate(whole, offset)
        reason = str(error).splitlines()[0][:200]
        raise StatementError(
            f"the statement cannot be read: {reason}", line=line, column=column
        ) from None
    except RecursionError:
        line, column = locate(whole, offset)
        raise StatementError(
            "the statement is nested too deeply", line=line, column=column
        ) from None


def parse_row(text: str) -> tuple[Literal, ...]:
    """A row of values as it is written in SQL: `(1, 'Car', NULL)`."""
    statement = parse_one(f"CREATE TABLE row (value STRING) AS VALUES {text}")
    if not isinstance(statement, CreateTable) or len(statement.rows) != 1 or statement.options:
        raise StatementError(f"{text} is not one row", expected="(value, value, …)")
    return statement.rows[0]


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line, column = locate(text, error.start)
        raise StatementError("the text is not valid Unicode", line=line, column=column) from None
