"""Words about the past: `AS OF 'time'` and `BETWEEN 'time' AND 'time'` behind FROM.

They say when a SELECT is asked about. `SELECT * FROM QUERY name` and `FROM TRIGGER name` ask what
something that is registered has told, and need one of them.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from place.sql.expressions import ExpressionParser
from place.sql.statements import Literal, PastClause, SelectItem, SelectTold, wrong

PAST_FORMS = "AS OF '2026-01-01 14:00' or BETWEEN '2026-01-01 14:00' AND '2026-01-01 15:00'"
TOLD = ("QUERY", "TRIGGER")


class PastParser(ExpressionParser):
    """Parses the times of a question about the past."""

    def parse_past(self) -> PastClause | None:
        """AS OF or BETWEEN with its times, if one of them stands here."""
        at = self.at()
        if self._is_as_of():
            self._advance(2)
            return PastClause(at, self._moment())
        if self._curr and self._curr.token_type is TokenType.BETWEEN:
            self._advance()
            begin = self._moment()
            if not self.symbol(TokenType.AND):
                self.fail("AND and the second time", hint=f"write {PAST_FORMS}")
            return PastClause(at, begin, self._moment())
        return None

    def _is_as_of(self) -> bool:
        """Does AS OF stand here, which is no alias? OF in double quotes is one."""
        return (
            self.peek("AS")
            and bool(self._next)
            and self._next.token_type is not TokenType.IDENTIFIER
            and self._next.text.upper() == "OF"
        )

    def _moment(self) -> Literal:
        self.word("TIMESTAMP")
        if not self._curr or self._curr.token_type is not TokenType.STRING:
            self.fail("a time in single quotes", hint=f"write {PAST_FORMS}")
        return self.literal()

    def is_told(self) -> bool:
        """Does `QUERY name` or `TRIGGER name` stand here, and no relation of such a name?"""
        return (
            self.peek(*TOLD)
            and self._curr.token_type is TokenType.VAR
            and bool(self._next)
            and self._next.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            and self._is_time(self._index + 2)
        )

    def _is_time(self, index: int) -> bool:
        """Does a time stand at a token?"""
        words = [token.text.upper() for token in self._tokens[index : index + 2]]
        return words[:1] == ["BETWEEN"] or words == ["AS", "OF"]

    def read_told(self, items: list[SelectItem]) -> SelectTold:
        """The rest of `SELECT * FROM QUERY name AS OF 'time'`."""
        start = self.at()
        kind = self._curr.text.lower()
        self._advance()
        name = self.name(f"the name of a {kind}")
        if len(items) != 1 or items[0].expression is not None or items[0].table is not None:
            raise wrong(
                f"FROM {kind.upper()} gives the {kind}'s own columns",
                items[0].at,
                expected="*",
                hint=f"write SELECT * FROM {kind.upper()} {name.text} …",
            )
        past = self.parse_past()
        if past is None:
            self.fail("AS OF or BETWEEN", hint=f"write {PAST_FORMS}")
        if kind == "trigger" and past.until is None:
            raise wrong(
                "a trigger has no answer at a time, it tells alerts",
                past.at,
                expected="BETWEEN 'time' AND 'time'",
            )
        return SelectTold(start, kind, name, past)
