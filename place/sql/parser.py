"""The grammar of statements, from CREATE STREAM to EXPLAIN, in the order of the design.

Each method takes the tokens of one statement or clause and yields its dataclass; whatever stands
in the wrong place is answered with what was expected there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from place.sql.clauses import ClauseParser
from place.sql.statements import (
    ColumnSpec,
    CreateRegion,
    CreateSink,
    CreateStream,
    CreateTable,
    Describe,
    Drop,
    Explain,
    ExternalSpec,
    Literal,
    Name,
    Option,
    RefreshTable,
    RegisterQuery,
    Select,
    Show,
    Statement,
    wrong,
)

T = TypeVar("T")

BEGINNINGS = "CREATE, REGISTER, DROP, REFRESH, SHOW, DESCRIBE, EXPLAIN or SELECT"
KINDS = ("STREAM", "TABLE", "REGION", "QUERY", "SINK")
PLURALS = {"STREAMS", "TABLES", "REGIONS", "QUERIES", "SINKS"}
FOREIGN = {
    "INSERT": "a table is loaded from a file: change the file, then REFRESH TABLE; readings are"
    " pushed to a stream, not inserted",
    "UPDATE": "readings are pushed to a stream; a table is loaded again by REFRESH TABLE",
    "DELETE": "an object leaves by a disappear message or by the stream's timeout",
    "ALTER": "drop it and create it again",
    "WITH": "a query is one SELECT",
}


@lru_cache(maxsize=1)  # statements of one text come one after the other
def _line_starts(text: str) -> Sequence[int]:
    return [0, *(match.end() for match in re.finditer(r"\n", text))]


class StatementParser(ClauseParser):
    """Parses one statement of the language."""

    def parse_statement(self, tokens: list[Token], sql: str, text: str, offset: int) -> Statement:
        """The statement that `tokens` are the whole of."""
        self.reset()
        self.sql, self.offset = sql, offset
        self.line_starts = _line_starts(text)
        self._chunks = [tokens]
        self._advance_chunk()
        statement = self._statement()
        if self._curr:
            if isinstance(statement, Select | RegisterQuery | Explain):
                self.fail_after_select()
            self.fail("the end of the statement")
        return statement

    def _statement(self) -> Statement:
        if self._curr.token_type is TokenType.SELECT:
            return self.parse_select()
        if self.word("CREATE"):
            return self._create()
        if self.word("REGISTER"):
            return self._register()
        if self.word("DROP"):
            return self._drop()
        if self.word("REFRESH"):
            self.need("TABLE")
            return RefreshTable(self.name("the name of a table"))
        if self.word("SHOW"):
            return self._show()
        if self.word("DESCRIBE"):
            return Describe(self.name("the name of a stream, table, region, query or sink"))
        if self.word("EXPLAIN"):
            return self._explain()
        self.fail(BEGINNINGS, hint=FOREIGN.get(self._curr.text.upper() if self._curr else ""))

    # CREATE

    def _create(self) -> Statement:
        makers: dict[str, Callable[[], Statement]] = {
            "STREAM": self._create_stream,
            "TABLE": self._create_table,
            "REGION": self._create_region,
            "SINK": self._create_sink,
        }
        for kind, make in makers.items():
            if self.word(kind):
                return make()
        if self.peek("TRIGGER"):
            raise wrong("triggers are not supported yet", self.at())
        hint = "write REGISTER QUERY name AS SELECT …" if self.peek("QUERY") else None
        if self.peek("OR"):
            hint = "drop it first, then create it again"
        self.fail("STREAM, TABLE, REGION or SINK", hint=hint)

    def _if_not_exists(self) -> bool:
        return self.word("IF", "NOT", "EXISTS")

    def _create_stream(self) -> CreateStream:
        quiet = self._if_not_exists()
        name = self.name("the name of a stream")
        columns = self._columns()
        source = None
        if self.symbol(TokenType.FROM):
            source = self._external("FILES, KAFKA or GENERATOR")
        return CreateStream(name, columns, source, self._with_options(), quiet)

    def _create_table(self) -> CreateTable:
        quiet = self._if_not_exists()
        name = self.name("the name of a table")
        columns = self._columns() if self._curr.token_type is TokenType.L_PAREN else ()
        path: Literal | None = None
        rows: tuple[tuple[Literal, ...], ...] = ()
        if self.symbol(TokenType.FROM):
            path = self.literal("the path of a csv, parquet or json file in single quotes")
            if not isinstance(path.value, str):
                raise wrong("a table is loaded from a file", path.at, hint="write FROM 'cars.csv'")
        elif self.word("AS"):
            self.need("VALUES", hint="write AS VALUES (1, 'a'), (2, 'b')")
            rows = tuple(self._listed(self._value_row))
        else:
            late = "WITH (…) stands at the end" if self.peek("WITH") else None
            self.fail("FROM 'file' or AS VALUES (…)", hint=late)
        return CreateTable(name, columns, path, rows, self._with_options(), quiet)

    def _value_row(self) -> tuple[Literal, ...]:
        self.need_symbol(TokenType.L_PAREN, "(")
        values = tuple(self._listed(self.literal))
        self.need_symbol(TokenType.R_PAREN, ")")
        return values

    def _create_region(self) -> CreateRegion:
        quiet = self._if_not_exists()
        name = self.name("the name of a region")
        self.need("AS")
        if not self.peek("RECTANGLE", "CIRCLE", "POLYGON"):
            self.fail("RECTANGLE, CIRCLE or POLYGON")
        return CreateRegion(name, self.parse_shape(), quiet)

    def _create_sink(self) -> CreateSink:
        quiet = self._if_not_exists()
        name = self.name("the name of a sink")
        self.need("FOR", hint="write CREATE SINK name FOR query, … TO PARQUET ('changes/')")
        queries = None
        if not self.word("ALL"):
            queries = tuple(self._listed(lambda: self.name("the name of a query, or ALL")))
        self.need("TO")
        return CreateSink(name, queries, self._external("PARQUET, KAFKA or WEBHOOK"), quiet)

    def _columns(self) -> tuple[ColumnSpec, ...]:
        self.need_symbol(TokenType.L_PAREN, "(", hint="list the columns: (id BIGINT KEY, x DOUBLE)")
        columns = tuple(self._listed(self._column))
        self.need_symbol(TokenType.R_PAREN, ")")
        return columns

    def _column(self) -> ColumnSpec:
        name = self.name("the name of a column")
        kind = self.name(f'the type of column "{name.text}"')
        if self._curr.token_type is TokenType.L_PAREN:
            raise wrong(
                f"type {kind.text} takes no length", self.at(), hint="write STRING or DOUBLE"
            )
        key = self.word("KEY") or self.word("PRIMARY", "KEY")
        return ColumnSpec(name, kind, key)

    def _external(self, kinds: str) -> ExternalSpec:
        kind = self.name(kinds)
        argument: Literal | None = None
        options: list[Option] = []
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {kind.text} (…)")
        if self._curr.token_type in (TokenType.STRING, TokenType.NUMBER):
            argument = self.literal()
            if self.symbol(TokenType.COMMA):
                options = self._listed(self._option)
        elif self._curr.token_type is not TokenType.R_PAREN:
            options = self._listed(self._option)
        self.need_symbol(TokenType.R_PAREN, ")")
        return ExternalSpec(kind, argument, tuple(options))

    def _with_options(self) -> tuple[Option, ...]:
        if not self.word("WITH"):
            return ()
        self.need_symbol(TokenType.L_PAREN, "(", hint="write WITH (timeout = '60 seconds')")
        options = tuple(self._listed(self._option))
        self.need_symbol(TokenType.R_PAREN, ")")
        return options

    def _option(self) -> Option:
        name = self.name("the name of an option")
        if not self.symbol(TokenType.EQ):
            self.fail('"="', hint=f"write {name.text} = '…'")
        return Option(name, self.literal("a value: a number or a text in single quotes"))

    def _listed(self, item: Callable[[], T]) -> list[T]:
        items = [item()]
        while self.symbol(TokenType.COMMA):
            items.append(item())
        return items

    # The others

    def _register(self) -> RegisterQuery:
        self.need("QUERY", hint="write REGISTER QUERY name AS SELECT …")
        quiet = self._if_not_exists()
        name = self.name("the name of a query")
        self.need("AS", hint=f"write REGISTER QUERY {name.text} AS SELECT …")
        if self._curr.token_type is not TokenType.SELECT:
            self.fail("SELECT")
        return RegisterQuery(name, self.parse_select(), quiet)

    def _drop(self) -> Drop:
        if self.peek("TRIGGER"):
            raise wrong("triggers are not supported yet", self.at())
        for kind in KINDS:
            if self.word(kind):
                quiet = self.word("IF", "EXISTS")
                name: Name = self.name(f"the name of a {kind.lower()}")
                return Drop(kind.lower(), name, quiet)
        self.fail("STREAM, TABLE, REGION, QUERY or SINK")

    def _show(self) -> Show:
        if not self.peek(*PLURALS):
            self.fail("QUERIES, STREAMS, TABLES, REGIONS or SINKS")
        kind = self._curr.text.lower()
        self._advance()
        return Show(kind)

    def _explain(self) -> Explain:
        analyze = self.word("ANALYZE")
        if self.word("QUERY"):
            return Explain(self.name("the name of a query"), analyze)
        if self.word("REGISTER"):
            return Explain(self._register(), analyze)
        if self._curr.token_type is TokenType.SELECT:
            return Explain(self.parse_select(), analyze)
        self.fail("REGISTER QUERY …, QUERY name or SELECT …")
