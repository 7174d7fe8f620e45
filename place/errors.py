"""One hierarchy of errors, by whose fault they are.

Whoever catches an error has to know only who can mend it: the author of a statement, the sender
of a reading, whoever configures the system, or us. Every error is written for the person who
reads it: what was wrong, where, what was expected, and what to write instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PlaceError(Exception):
    """Any error that PLACE raises on purpose; `str()` of it is one readable message."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class StatementError(PlaceError):
    """A statement is wrong: its author can mend it.

    >>> print(StatementError('stream "Cabs" does not exist', line=1, column=35, hint="streams: A"))
    stream "Cabs" does not exist (line 1, column 35); streams: A
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column
        self.expected = expected

    def __str__(self) -> str:
        text = self.message
        if self.expected:
            text += f", expected {self.expected}"
        if self.line is not None:
            text += f" (line {self.line}, column {self.column})"
        return f"{text}; {self.hint}" if self.hint else text


class LimitError(StatementError):
    """A statement asks for more than it may: a size is above the limit of a name.

    >>> print(LimitError("there are 2,000 columns, more than 1,000", "columns", 2000, 1000))
    there are 2,000 columns, more than 1,000 (the limit "columns")
    """

    def __init__(
        self,
        message: str,
        limit: str,
        size: int,
        most: int,
        *,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        said = f'{message} (the limit "{limit}")'
        super().__init__(said, line=line, column=column, hint=hint)
        self.limit = limit
        self.size = size
        self.most = most


class ReadingError(PlaceError):
    """A reading is wrong: it is set aside with this reason, and the stream goes on."""


class ConfigurationError(PlaceError):
    """The machine, a setting or a file outside the language is wrong."""


class InternalError(PlaceError):
    """A bug of ours: an invariant does not hold."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, if one is like it at all.

    >>> nearest("MovingObject", ["Fences", "MovingObjects"])
    'MovingObjects'
    """
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def suggestion(name: str, candidates: Iterable[str], kind: str) -> str:
    """A hint for a name that does not exist: the nearest one, or the ones there are.

    >>> suggestion("Cabs", ["Cars"], "streams")
    'did you mean "Cars"?'
    """
    known = list(candidates)
    close = nearest(name, known)
    if close is not None:
        return f'did you mean "{close}"?'
    if not known:
        return f"there are no {kind} yet"
    shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
    return f"{kind}: {shown}"
