"""Literals lifted out of statements: what remains is the same for statements of one form.

People register queries by the thousand that differ in a rectangle and a name. Such a statement is
read whole once; of the others only the literals are looked at, and the rest of the system takes
them from here (see `place/plan/forms.py`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from place.sql.expressions import RESERVED
from place.sql.statements import Drop, Name, Position, RegisterQuery, Select

_HEAD = re.compile(
    r"\s*+REGISTER\s++QUERY\s++([A-Za-z_][A-Za-z0-9_]*+)(\s++EMIT\s++ARRIVALS)?+"
    r"\s++AS\s++(?=SELECT\b)",
    re.I,
)
ARRIVALS = "+"
"""The end of the skeleton of a query that tells arrivals only."""
_LITERAL = re.compile(
    r"""('[^']*+(?:''[^']*+)*+'
       | (?:(?<=[(,])-|(?<=[(,]\ )-)?+
         (?<![\w.]) [0-9]++(?:\.[0-9]*+)?(?:[eE][-+]?[0-9]++)? (?![\w.])
      )""",
    re.VERBOSE,
)
_UNUSUAL = re.compile(r"""["']|--|/\*""")
"""Names in quotes, comments, hints, and quotes that are never closed: such statements are read
whole, each of them."""


@dataclass(frozen=True)
class Lifted:
    """A statement in two parts: its skeleton, and its literals as they are written.

    The name of the query stands at `at` of the statement. EMIT ARRIVALS is part of the skeleton.
    """

    name: str
    at: int
    skeleton: str
    literals: tuple[str, ...]

    @property
    def arrivals(self) -> bool:
        return self.skeleton.endswith(ARRIVALS)

    @property
    def head(self) -> str:
        """The words before the SELECT."""
        return f"REGISTER QUERY {self.name}{' EMIT ARRIVALS' if self.arrivals else ''} AS "


def lift(sql: str) -> Lifted | None:
    """The two parts of a REGISTER QUERY; None of any other statement, and of unusual ones.

    >>> found = lift("REGISTER QUERY q AS SELECT id FROM Cars INSIDE (0, -1, 2.5)")
    >>> found.skeleton.replace("\\0", "?").partition("\\1")[0], found.literals
    ('SELECT id FROM Cars INSIDE (?, ?, ?)', ('0', '-1', '2.5'))
    """
    head = _HEAD.match(sql)
    if head is None or "\0" in sql or "\1" in sql or head[1].upper() in RESERVED:
        return None
    parts = _LITERAL.split(sql[head.end() :])
    rest = "\0".join(parts[0::2])
    literals = parts[1::2]
    if _UNUSUAL.search(rest):
        return None
    kinds = "".join(["s" if x[0] == "'" else "f" if _is_broken(x) else "i" for x in literals])
    skeleton = f"{rest}\1{kinds}{ARRIVALS if head[2] else ''}"
    return Lifted(head[1], head.start(1), skeleton, tuple(literals))


def _is_broken(number: str) -> bool:
    """Has a number a point or an exponent?"""
    return "." in number or "e" in number or "E" in number


def value_of(literal: str) -> int | float | str:
    """What a literal means; an OverflowError where a number is too large.

    >>> value_of("'it''s'"), value_of("-2"), value_of("2.")
    ("it's", -2, 2.0)
    """
    if literal[0] == "'":
        return literal[1:-1].replace("''", "'")
    if len(literal) < 400 and not _is_broken(literal):
        return int(literal)
    value = float(literal)
    if not abs(value) < float("inf"):
        raise OverflowError(literal)
    return value


_DROP = re.compile(r"\s*+DROP\s++QUERY\s++([A-Za-z_][A-Za-z0-9_]*+)\s*+", re.IGNORECASE)


def plain_drop(sql: str, text: str, offset: int) -> Drop | None:
    """A DROP QUERY of a plain name, which needs no parser; None of any other statement."""
    found = _DROP.fullmatch(sql)
    if found is None or found[1].upper() in (*RESERVED, "IF"):
        return None
    return Drop("query", Name(found[1], position_in(text, offset + found.start(1))), False)


class KnownForm(RegisterQuery):
    """A statement whose skeleton was read before. It is read whole only if someone asks for it."""

    def __init__(self, name: Name, lifted: Lifted, read: Callable[[], RegisterQuery]) -> None:
        self.__dict__.update(name=name, if_not_exists=False, lifted=lifted, _read=read)
        self.__dict__["arrivals"] = lifted.arrivals

    lifted: Lifted

    @property
    def select(self) -> Select:
        """The SELECT, or the StatementError that it deserves."""
        read: Callable[[], RegisterQuery] = self.__dict__["_read"]
        return read().select


@lru_cache(maxsize=1)  # statements of one text come one after the other
def line_starts(text: str) -> Sequence[int]:
    """Where the lines of a text begin."""
    return [0, *(match.end() for match in re.finditer(r"\n", text))]


def position_in(text: str, offset: int) -> Position:
    """The place of an offset in a text that is asked for many of them."""
    starts = line_starts(text)
    line = bisect_right(starts, offset)
    return Position(line, offset - starts[line - 1] + 1)
