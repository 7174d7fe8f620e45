"""The grammar of statements, from CREATE STREAM to EXPLAIN.

Each method takes the tokens of one statement or clause and yields its dataclass; whatever stands
in the wrong place is answered with what was expected there.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from place.sql.definitions import GRAMMAR, DefinitionParser, listed
from place.sql.lift import line_starts
from place.sql.statements import (
    Creation,
    Describe,
    Drop,
    Explain,
    RefreshTable,
    RegisterQuery,
    ResetTime,
    Select,
    SelectTold,
    Show,
    Statement,
)

KINDS = {each.kind: each.plural for each in GRAMMAR}
VERBS = tuple(dict.fromkeys(each.verb for each in GRAMMAR))
BEGINNINGS = listed([*VERBS, "DROP", "REFRESH", "ALTER", "SHOW", "DESCRIBE", "EXPLAIN", "SELECT"])
FOREIGN = {
    "INSERT": "a table is loaded from a file: change the file, then REFRESH TABLE; readings are"
    " pushed to a stream, not inserted",
    "UPDATE": "readings are pushed to a stream; a table is loaded again by REFRESH TABLE",
    "DELETE": "an object leaves by a disappear message or by the stream's timeout",
    "WITH": "a query is one SELECT",
}


class StatementParser(DefinitionParser):
    """Parses one statement of the language."""

    def parse_statement(self, tokens: list[Token], sql: str, text: str, offset: int) -> Statement:
        """The statement that `tokens` are the whole of."""
        self.reset()
        self.sql, self.offset = sql, offset
        self.line_starts = line_starts(text)
        self._chunks = [tokens]
        self._advance_chunk()
        statement = self._statement()
        if self._curr:
            is_select = isinstance(statement, Explain) and statement.kind == "query"
            is_select &= not isinstance(getattr(statement, "target", None), SelectTold)
            if is_select or isinstance(statement, Select | RegisterQuery):
                self.fail_after_select()
            self.fail("the end of the statement")
        return statement

    def _statement(self) -> Statement:
        if self._curr.token_type is TokenType.SELECT:
            return self.parse_question()
        for verb in VERBS:
            if self.word(verb):
                return self._definition(verb)
        if self.word("DROP"):
            return self._drop()
        if self.word("REFRESH"):
            self.need("TABLE")
            return RefreshTable(self.name("the name of a table"))
        if self.word("ALTER"):
            return self._alter()
        if self.word("SHOW"):
            return self._show()
        if self.word("DESCRIBE"):
            return Describe(self.name(f"the name of a {listed(list(KINDS))}"))
        if self.word("EXPLAIN"):
            return self._explain()
        self.fail(BEGINNINGS, hint=FOREIGN.get(self._curr.text.upper() if self._curr else ""))

    # Definitions

    def _definition(self, verb: str) -> Creation:
        kinds = [each for each in GRAMMAR if each.verb == verb]
        for each in kinds:
            if self.word(each.kind.upper()):
                return each.read(self)
        others = [each for each in GRAMMAR if each.verb != verb and self.peek(each.kind.upper())]
        hint = f"write {others[0].example}" if others else None
        if self.peek("OR"):
            hint = "drop it first, then create it again"
        self.fail(listed([each.kind.upper() for each in kinds]), hint=hint)

    # The others

    def _drop(self) -> Drop:
        for kind in KINDS:
            if self.word(kind.upper()):
                quiet = self.word("IF", "EXISTS")
                return Drop(kind, self.name(f"the name of a {kind}"), quiet)
        self.fail(listed([kind.upper() for kind in KINDS]))

    def _alter(self) -> ResetTime:
        hint = "only the time of a stream can be reset; drop all else and create it again"
        if not self.word("STREAM"):
            self.fail("STREAM", hint=hint)
        name = self.name("the name of a stream")
        if not self.word("RESET", "TIME"):
            self.fail("RESET TIME", hint=hint)
        return ResetTime(name)

    def _show(self) -> Show:
        for kind, plural in KINDS.items():
            if self.word(plural.upper()):
                return Show(kind)
        self.fail(listed([plural.upper() for plural in KINDS.values()]))

    def _explain(self) -> Explain:
        analyze = self.word("ANALYZE")
        if self.word("TRIGGER"):
            return Explain(self.name("the name of a trigger"), analyze, "trigger")
        if self.word("CREATE", "TRIGGER"):
            return Explain(self.read_trigger(), analyze, "trigger")
        if self.word("QUERY"):
            return Explain(self.name("the name of a query"), analyze)
        if self.word("REGISTER", "QUERY"):
            return Explain(self.read_query(), analyze)
        if self._curr.token_type is TokenType.SELECT:
            return Explain(self.parse_question(), analyze)
        self.fail("QUERY name, TRIGGER name, REGISTER QUERY …, CREATE TRIGGER … or SELECT …")
