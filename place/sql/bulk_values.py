"""`CREATE TABLE … AS VALUES` with many rows: they are read by one expression, not token by token.

Whatever this does not understand is left to the parser, which says where and why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from place.sql.statements import CreateTable, Literal

LONG = 4096
"""Statements that are shorter are read as all others are."""

_HEAD = re.compile(r"""\s*+CREATE\s++TABLE\s[^'"\-/]*?\bAS\s++VALUES\s*+(?=\()""", re.I)
_LITERAL = r"""(?:'[^']*+(?:''[^']*+)*+'
  | [-+]?+[0-9]++(?:\.[0-9]*+)?+(?:[eE][-+]?+[0-9]++)?+(?![\w.])
  | (?:TRUE|FALSE|NULL)\b)"""
_ROW = re.compile(rf"\s*+\(\s*+({_LITERAL}(?:\s*+,\s*+{_LITERAL})*+)\s*+\)\s*+(,)?+", re.I | re.X)
_VALUE = re.compile(_LITERAL, re.I | re.X)
_WORDS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}

Plain = tuple[int | float | str | bool | None, ...]


class BulkTable(CreateTable):
    """A table whose rows were read in bulk; each with its place only if someone asks for that."""

    def __init__(self, short: CreateTable, plain: list[Plain], read: Callable[[], Any]) -> None:
        self.__dict__.update(short.__dict__, plain=plain, _read=read)

    @property
    def rows(self) -> tuple[tuple[Literal, ...], ...]:
        """The rows with their places, or the StatementError that they deserve."""
        found: CreateTable = self.__dict__["_read"]()
        return found.rows


def split_rows(sql: str) -> tuple[str, list[Plain]] | None:
    """A statement with one row of NULL in the place of its rows, as long as it was, and the rows.

    >>> split_rows("CREATE TABLE t (a BIGINT) AS VALUES (1), (2) WITH (space = 'wgs84')")
    ("CREATE TABLE t (a BIGINT) AS VALUES (NULL)   WITH (space = 'wgs84')", [(1,), (2,)])
    """
    head = _HEAD.match(sql)
    if head is None:
        return None
    rows: list[Plain] = []
    position = head.end()
    while True:
        row = _ROW.match(sql, position)
        if row is None:
            return None
        try:
            rows.append(tuple(map(_value, _VALUE.findall(row[1]))))
        except (ValueError, OverflowError):
            return None
        position = row.end()
        if row[2] is None:
            break
    filler = "(NULL)".ljust(position - head.end())
    if len(filler) > position - head.end():
        return None
    return sql[: head.end()] + filler + sql[position:], rows


def _value(literal: str) -> int | float | str | bool | None:
    first = literal[0]
    if first == "'":
        return literal[1:-1].replace("''", "'")
    if first.isalpha():
        return _WORDS[literal.upper()]
    try:
        return int(literal)
    except ValueError:
        value = float(literal)
        if not abs(value) < float("inf"):
            raise OverflowError(literal) from None
        return value
