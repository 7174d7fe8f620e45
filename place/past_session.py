"""A session of a time of the past: `session.at("2026-01-01 14:00")`.

It can be asked as a session can be asked now, and nothing can be done in it: the past is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from place.errors import StatementError
from place.model.result import Result
from place.model.tabular import Rows
from place.model.time import format_timestamp
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.scan import split
from place.sql.statements import wrong
from place.statements import Statements

READ_ONLY = "SELECT … FROM … and EXPLAIN SELECT …"


class PastSession:
    """Answers SELECTs as of one time, with the tables, regions and queries of now."""

    def __init__(self, statements: Statements, time: int) -> None:
        self._statements = statements
        self.time = time
        """Microseconds since 1970."""

    def __repr__(self) -> str:
        return f"<session of {format_timestamp(self.time)}>"

    def sql(self, text: str) -> Result:
        """Execute the SELECTs of a text in order; the last one's result."""
        results = list(self.execute(text))
        return results[-1] if results else Result("nothing to do")

    def execute(self, text: str) -> Iterator[Result]:
        """Execute the SELECTs of a text one by one."""
        for offset, sql in split(text):
            yield self.ask(self.of_then(parse_one(sql, text, offset)))

    def ask(self, statement: s.Statement) -> Result:
        """The result of a statement about then."""
        return self._statements.inform(statement)

    def answer(self, query: str) -> Rows:
        """The rows that a registered query answered then."""
        nowhere = s.Position(1, 1)
        told = s.SelectTold(nowhere, "query", s.Name(query, nowhere), self._clause(nowhere))
        found = self._statements.inform(told)
        return Rows(found.columns, found.types, found.rows)

    def of_then(self, statement: s.Statement) -> s.Statement:
        """A statement about now as one about then."""
        if isinstance(statement, s.Explain) and isinstance(statement.target, s.Select):
            target = self.of_then(statement.target)
            assert isinstance(target, s.Select)
            return replace(statement, target=target)
        given = getattr(statement, "past", None)
        if given is not None:
            raise wrong(
                f"this session is of {format_timestamp(self.time)}, and the SELECT of another time",
                given.at,
                hint="leave the time out, or ask the session of now",
            )
        if not isinstance(statement, s.Select):
            raise StatementError(
                f"the session of {format_timestamp(self.time)} can only be read",
                expected=READ_ONLY,
                hint="whatever changes something is for the session of now",
            )
        return replace(statement, past=self._clause(statement.at))

    def _clause(self, at: s.Position) -> s.PastClause:
        return s.PastClause(at, s.Literal(format_timestamp(self.time), at))
