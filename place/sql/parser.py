"""The grammar of statements, from CREATE STREAM to EXPLAIN.

Each method takes the tokens of one statement or clause and yields its dataclass; whatever stands
in the wrong place is answered with what was expected there.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from place.sql.definitions import GRAMMAR, DefinitionParser, listed
from place.sql.lift import line_starts
from place.sql.statements import (
    AlterStream,
    CreateTrigger,
    Creation,
    DeleteRows,
    Describe,
    Drop,
    Explain,
    InsertRows,
    Name,
    RefreshTable,
    RegisterQuery,
    ResetTime,
    Select,
    SelectTold,
    Show,
    Statement,
)

KINDS = {each.kind: each.plural for each in GRAMMAR}
REPLACEABLE = ("query", "trigger")
"""Who takes deltas of one of these goes on with those of its successor."""
VERBS = tuple(dict.fromkeys(each.verb for each in GRAMMAR))
OTHERS = ("DROP", "INSERT", "DELETE", "REFRESH", "ALTER", "SHOW", "DESCRIBE", "EXPLAIN", "SELECT")
BEGINNINGS = listed([*VERBS, *OTHERS])
FOREIGN = {
    "UPDATE": "readings are pushed to a stream; of a table, DELETE FROM the rows and INSERT INTO it"
    " what they are now",
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
        if self.word("INSERT"):
            return self._insert()
        if self.word("DELETE"):
            return self._delete()
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
        if self.word("OR"):
            return self._replacement(verb)
        for each in kinds:
            if self.word(each.kind.upper()):
                return each.read(self)
        others = [each for each in GRAMMAR if each.verb != verb and self.peek(each.kind.upper())]
        hint = f"write {others[0].example}" if others else None
        self.fail(listed([each.kind.upper() for each in kinds]), hint=hint)

    def _replacement(self, verb: str) -> Creation:
        """What stands behind `REGISTER OR`."""
        self.need("REPLACE", hint=f"write {verb} OR REPLACE …")
        for each in GRAMMAR:
            if each.kind in REPLACEABLE and self.peek(each.kind.upper()):
                form = f"{each.verb} OR REPLACE {each.kind.upper()}"
                if each.verb != verb:
                    self.fail(self._replaceable(verb), hint=f"write {form}")
                self._advance()
                if self.peek("IF"):
                    self.fail(f"the name of a {each.kind}", hint=f"{form} needs no IF NOT EXISTS")
                return replace(each.read(self), or_replace=True)
        self.fail(
            self._replaceable(verb),
            hint="queries and triggers can be replaced; drop all else first and create it again",
        )

    def _replaceable(self, verb: str) -> str:
        found = [e.kind.upper() for e in GRAMMAR if e.kind in REPLACEABLE and e.verb == verb]
        return listed(found)

    # The others

    def _drop(self) -> Drop:
        for kind in KINDS:
            if self.word(kind.upper()):
                quiet = self.word("IF", "EXISTS")
                return Drop(kind, self.name(f"the name of a {kind}"), quiet)
        self.fail(listed([kind.upper() for kind in KINDS]))

    def _insert(self) -> InsertRows:
        example = "write INSERT INTO name VALUES (1, 'a'), (2, 'b')"
        self.need("INTO", hint=example)
        name = self.name("the name of a table")
        columns: tuple[Name, ...] = ()
        if self.symbol(TokenType.L_PAREN):
            columns = tuple(self.listed(lambda: self.name("the name of a column")))
            self.need_symbol(TokenType.R_PAREN, ")")
        self.need("VALUES", hint=example)
        return InsertRows(name, columns, self.value_rows())

    def _delete(self) -> DeleteRows:
        if not self.symbol(TokenType.FROM):
            self.fail("FROM", hint="write DELETE FROM name WHERE …")
        name = self.name("the name of a table")
        self.from_names = frozenset((name.text.casefold(),))
        where = self.parse_expression() if self.symbol(TokenType.WHERE) else None
        return DeleteRows(name, where)

    def _alter(self) -> ResetTime | AlterStream:
        hint = "options of a stream can be set; drop all else and create it again"
        if not self.word("STREAM"):
            self.fail("STREAM", hint=hint)
        name = self.name("the name of a stream")
        if self.word("SET"):
            return AlterStream(name, self.options("SET (max_future = '1 hour')"))
        if not self.word("RESET", "TIME"):
            self.fail("SET (option = …) or RESET TIME", hint=hint)
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
        for verb in ("CREATE", "REGISTER"):
            if self.word(verb, "OR"):
                made = self._replacement(verb)
                assert isinstance(made, RegisterQuery | CreateTrigger)
                is_trigger = isinstance(made, CreateTrigger)
                return Explain(made, analyze, "trigger" if is_trigger else "query")
        if self.word("QUERY"):
            return Explain(self.name("the name of a query"), analyze)
        if self.word("REGISTER", "QUERY"):
            return Explain(self.read_query(), analyze)
        if self._curr.token_type is TokenType.SELECT:
            return Explain(self.parse_question(), analyze)
        self.fail("QUERY name, TRIGGER name, REGISTER QUERY …, CREATE TRIGGER … or SELECT …")
