"""The grammar of statements that define something: CREATE STREAM to REGISTER QUERY.

`GRAMMAR` is the list of them. Whatever else speaks of kinds of definitions, such as DROP, SHOW and
the catalog, takes them from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from place.sql.statements import (
    ColumnSpec,
    CreatePin,
    CreateRegion,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateTrigger,
    Creation,
    ExternalSpec,
    Literal,
    Option,
    RegisterQuery,
    wrong,
)
from place.sql.triggers import TriggerParser


class DefinitionParser(TriggerParser):
    """Parses what stands after CREATE STREAM, REGISTER QUERY and their like."""

    def read_stream(self) -> CreateStream:
        quiet = self.if_not_exists()
        name = self.name("the name of a stream")
        columns = self._columns()
        source = None
        if self.symbol(TokenType.FROM):
            source = self._external("FILES, KAFKA or GENERATOR")
        return CreateStream(name, quiet, columns, source, self._with_options())

    def read_table(self) -> CreateTable:
        quiet = self.if_not_exists()
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
            rows = self.value_rows()
        else:
            late = "WITH (…) stands at the end" if self.peek("WITH") else None
            self.fail("FROM 'file' or AS VALUES (…)", hint=late)
        return CreateTable(name, quiet, columns, path, rows, self._with_options())

    def value_rows(self) -> tuple[tuple[Literal, ...], ...]:
        """`(1, 'a'), (2, 'b')`."""
        return tuple(self.listed(self._value_row))

    def _value_row(self) -> tuple[Literal, ...]:
        self.need_symbol(TokenType.L_PAREN, "(")
        values = tuple(self.listed(self.literal))
        self.need_symbol(TokenType.R_PAREN, ")")
        return values

    def read_region(self) -> CreateRegion:
        quiet = self.if_not_exists()
        name = self.name("the name of a region")
        self.need("AS")
        if not self.peek("RECTANGLE", "CIRCLE", "POLYGON"):
            self.fail("RECTANGLE, CIRCLE or POLYGON")
        return CreateRegion(name, quiet, self.parse_shape())

    def read_sink(self) -> CreateSink:
        quiet = self.if_not_exists()
        name = self.name("the name of a sink")
        self.need("FOR", hint="write CREATE SINK name FOR query, … TO PARQUET ('changes/')")
        queries = None
        if not self.word("ALL"):
            queries = tuple(
                self.listed(lambda: self.name("the name of a query or trigger, or ALL"))
            )
        self.need("TO")
        return CreateSink(name, quiet, queries, self._external("PARQUET, KAFKA or WEBHOOK"))

    def read_pin(self) -> CreatePin:
        quiet = self.if_not_exists()
        name = self.name("the name of a pin")
        self.need("ON", hint="write CREATE PIN name ON stream AS OF '2026-01-31 12:00:00'")
        stream = self.name("the name of a stream")
        self.need("AS")
        self.need("OF")
        moment = self.literal("a time in single quotes")
        return CreatePin(name, quiet, stream, moment)

    def _columns(self) -> tuple[ColumnSpec, ...]:
        self.need_symbol(TokenType.L_PAREN, "(", hint="list the columns: (id BIGINT KEY, x DOUBLE)")
        columns = tuple(self.listed(self._column))
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
                options = self.listed(self._option)
        elif self._curr.token_type is not TokenType.R_PAREN:
            options = self.listed(self._option)
        self.need_symbol(TokenType.R_PAREN, ")")
        return ExternalSpec(kind, argument, tuple(options))

    def _with_options(self) -> tuple[Option, ...]:
        if not self.word("WITH"):
            return ()
        return self.options("WITH (timeout = '60 seconds')")

    def options(self, example: str) -> tuple[Option, ...]:
        """`(name = value, …)`."""
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {example}")
        options = tuple(self.listed(self._option))
        self.need_symbol(TokenType.R_PAREN, ")")
        return options

    def _option(self) -> Option:
        name = self.name("the name of an option")
        if not self.symbol(TokenType.EQ):
            self.fail('"="', hint=f"write {name.text} = '…'")
        return Option(name, self.literal("a value: a number or a text in single quotes"))

    def read_query(self) -> RegisterQuery:
        quiet = self.if_not_exists()
        name = self.name("the name of a query")
        arrivals = self.word("EMIT")
        if arrivals:
            self.need("ARRIVALS", hint="EMIT ARRIVALS tells the rows that join the answer")
        emit = " EMIT ARRIVALS" if arrivals else ""
        since = self._moment() if self.symbol(TokenType.FROM) else None
        self.need("AS", hint=f"write REGISTER QUERY {name.text}{emit} AS SELECT …")
        if self._curr.token_type is not TokenType.SELECT:
            self.fail("SELECT")
        select = self.parse_select()
        if select.past is not None:
            raise wrong(
                "a registered query goes on, and is not about one time",
                select.past.at,
                hint=f"ask once: SELECT …; or REGISTER QUERY {name.text}{emit} FROM 'time' AS …",
            )
        return RegisterQuery(name, quiet, select, arrivals, since)


@dataclass(frozen=True)
class Definition:
    """The words of one kind of definition, and the method that reads what follows them."""

    kind: str
    plural: str
    verb: str
    statement: type[Creation]
    read: Callable[[DefinitionParser], Creation]
    example: str


GRAMMAR = (
    Definition(
        "stream",
        "streams",
        "CREATE",
        CreateStream,
        DefinitionParser.read_stream,
        "CREATE STREAM name (id BIGINT KEY, x DOUBLE, y DOUBLE)",
    ),
    Definition(
        "table",
        "tables",
        "CREATE",
        CreateTable,
        DefinitionParser.read_table,
        "CREATE TABLE name FROM 'file'",
    ),
    Definition(
        "region",
        "regions",
        "CREATE",
        CreateRegion,
        DefinitionParser.read_region,
        "CREATE REGION name AS CIRCLE (x, y, r)",
    ),
    Definition(
        "query",
        "queries",
        "REGISTER",
        RegisterQuery,
        DefinitionParser.read_query,
        "REGISTER QUERY name AS SELECT …",
    ),
    Definition(
        "trigger",
        "triggers",
        "CREATE",
        CreateTrigger,
        DefinitionParser.read_trigger,
        "CREATE TRIGGER name FOR stream AS V1, stream AS V2 WHEN …",
    ),
    Definition(
        "sink",
        "sinks",
        "CREATE",
        CreateSink,
        DefinitionParser.read_sink,
        "CREATE SINK name FOR query TO PARQUET ('changes/')",
    ),
    Definition(
        "pin",
        "pins",
        "CREATE",
        CreatePin,
        DefinitionParser.read_pin,
        "CREATE PIN name ON stream AS OF '2026-01-31 12:00:00'",
    ),
)
"""All kinds of definitions, those that others stand on first."""


def listed(words: list[str]) -> str:
    """
    >>> listed(["STREAM", "TABLE", "SINK"])
    'STREAM, TABLE or SINK'
    """
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
