"""The clauses of a SELECT: FROM, WHERE, INSIDE, kNN or RNN, WINDOW, GROUP BY and HAVING.

Their order is their meaning (WHERE and INSIDE choose before kNN does), so it is fixed; GROUP BY
and HAVING, which stand above all of them, may come before or after the spatial clauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from place.sql.areas import SEVERAL_AREAS, with_one_area
from place.sql.limits import check_items
from place.sql.neighbours import NeighbourParser
from place.sql.past import PastParser
from place.sql.statements import (
    FromItem,
    Literal,
    Name,
    PastClause,
    Position,
    Select,
    SelectItem,
    SelectTold,
    WindowClause,
    wrong,
)

WINDOW_FORMS = "WINDOW 1 HOUR, WINDOW 100 ROWS or WINDOW PREVIOUS"

_FOREIGN = {
    "ORDER": "an answer is a set of rows without an order",
    "LIMIT": "an answer has all its rows; kNN gives the k nearest",
    "UNION": "register two queries",
    "EXCEPT": "register two queries",
    "INTERSECT": "write one WHERE with AND",
    "LEFT": "only inner joins are supported",
    "RIGHT": "only inner joins are supported",
    "FULL": "only inner joins are supported",
    "CROSS": "separate the relations with a comma",
    "NATURAL": "write the condition in WHERE",
}


class ClauseParser(NeighbourParser, PastParser):
    """Parses a SELECT and its clauses."""

    spans: tuple[int, tuple[int, int] | None] = (0, None)
    """Where FROM ends in the text of the last SELECT, and from where to where the condition of its
    WHERE is."""

    def parse_select(self) -> Select:
        """SELECT … FROM … [AS OF] [WHERE] [INSIDE] [kNN or RNN] [WINDOW] [GROUP BY] [HAVING]."""
        found = self.parse_question()
        if isinstance(found, SelectTold):
            raise wrong(
                f"a {found.kind} can be asked what it told, and is no stream or table",
                found.at,
                hint=f"write SELECT * FROM {found.kind.upper()} {found.name.text} … by itself",
            )
        return found

    def parse_question(self) -> Select | SelectTold:
        """A SELECT, or a `SELECT * FROM QUERY name` about the past."""
        start = self.at()
        self.symbol(TokenType.SELECT)
        hint = self._hint()
        distinct = self.symbol(TokenType.DISTINCT)
        # Names of FROM are needed to read `O INSIDE Q` in WHERE, and aliases in SELECT are not.
        items = [self._select_item()]
        while self.symbol(TokenType.COMMA):
            items.append(self._select_item())
            check_items(len(items), start)
        if not self.symbol(TokenType.FROM):
            self.fail("FROM", hint="name the stream or table: SELECT … FROM MovingObjects")
        if self.is_told():
            return self.read_told(items)
        self._past: PastClause | None = None
        sources, condition = self._from()
        self.from_names = frozenset(source.alias.text.casefold() for source in sources)
        where = condition
        self.spans = (self._prev.end + 1, None)
        if self.symbol(TokenType.WHERE):
            begin = self._curr.start if self._curr else len(self.sql)
            written = self.parse_expression()
            self.spans = (self.spans[0], (begin, self._prev.end + 1))
            where = written if where is None else exp.And(this=where, expression=written)
        areas = nearest = window = having = None
        group_by: tuple[exp.Expr, ...] = ()
        grouped = False
        while self._curr:
            token = self._curr
            if self._begins_inside(token):
                self._once(areas, "INSIDE", before=nearest or window, later="kNN and WINDOW")
                areas = self.parse_expression()
            elif self.peek("KNN", "RNN"):
                word = "RNN" if self.peek("RNN") else "kNN"
                self._once(nearest, "kNN or RNN", before=None, later="")
                self._once(None, word, before=window, later="WINDOW")
                nearest = self.parse_nearest(word)
            elif self.peek("WINDOW"):
                self._once(window, "WINDOW", before=None, later="")
                window = self._window()
            elif self.peek("GROUP"):
                self._once(grouped or None, "GROUP BY", before=having, later="HAVING")
                grouped = True
                group_by = self._group_by()
            elif self.peek("HAVING"):
                self._once(having, "HAVING", before=None, later="")
                self._advance()
                having = self.parse_expression()
            else:
                break
        where, inside = with_one_area(where, areas)
        return Select(
            start,
            bool(distinct),
            tuple(items),
            sources,
            where,
            inside,
            nearest,
            window,
            group_by,
            having,
            hint,
            self._past,
        )

    def if_not_exists(self) -> bool:
        """Take IF NOT EXISTS, if it stands here."""
        return self.word("IF", "NOT", "EXISTS")

    def _hint(self) -> Name | None:
        """`/*+ … */`, a word to the planner."""
        token = self._curr
        if token is None or token.token_type is not TokenType.HINT:
            return None
        at = self.at()
        self._advance()
        return Name(" ".join(" ".join(token.comments).split()).upper(), at)

    def _once(self, seen: object, clause: str, *, before: object, later: str) -> None:
        if seen is not None:
            hint = SEVERAL_AREAS if clause == "INSIDE" else None
            raise wrong(f"a query has one {clause} clause", self.at(), hint=hint)
        if before is not None:
            raise wrong(
                f"{clause} stands before {later}",
                self.at(),
                hint="the order is WHERE, INSIDE, kNN, WINDOW, GROUP BY, HAVING",
            )

    def fail_after_select(self) -> NoReturn:
        """Say why the current token cannot follow a SELECT."""
        word = self._curr.text.upper()
        if word == "WHERE":
            self.fail(
                "the end of the statement",
                hint="the order is WHERE, INSIDE, kNN, WINDOW, GROUP BY, HAVING",
            )
        hint = _FOREIGN.get(word)
        if self._curr.token_type is TokenType.DOT and self._prev.text.casefold() in self.from_names:
            hint = "regions of a query table meet whole objects: write O INSIDE Q"
        if self._is_as_of() or self._curr.token_type is TokenType.BETWEEN:
            hint = "the time stands behind the names of FROM, before WHERE"
        self.fail(
            "WHERE, INSIDE, kNN, WINDOW, GROUP BY, HAVING or the end of the statement", hint=hint
        )

    # SELECT and FROM

    def _select_item(self) -> SelectItem:
        start = self._curr
        place = self.at(start)
        if self.symbol(TokenType.STAR):
            return SelectItem(place, None, None)
        if (
            start.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            and self._next.token_type is TokenType.DOT
            and self._index + 2 < len(self._tokens)
            and self._tokens[self._index + 2].token_type is TokenType.STAR
        ):
            table = self.name("a relation")
            self._advance(2)
            return SelectItem(place, None, None, table)
        expression = self.parse_expression()
        alias = None
        if self.word("AS") or self._begins_name():
            alias = self.name("an alias")
        return SelectItem(place, expression, alias)

    def _from(self) -> tuple[tuple[FromItem, ...], exp.Expr | None]:
        sources = [self._from_item()]
        condition: exp.Expr | None = None
        while True:
            if self.symbol(TokenType.COMMA):
                sources.append(self._from_item(sources))
            elif self.word("JOIN") or self.word("INNER", "JOIN"):
                sources.append(self._from_item())
                self.from_names = frozenset(source.alias.text.casefold() for source in sources)
                self.need("ON", hint="write JOIN table ON condition")
                joined = self.parse_expression()
                condition = (
                    joined if condition is None else exp.And(this=condition, expression=joined)
                )
            elif self._curr and self._curr.text.upper() in ("LEFT", "RIGHT", "FULL", "CROSS"):
                self.fail_after_select()
            else:
                return tuple(sources), condition

    def _from_item(self, before: Sequence[FromItem] = ()) -> FromItem:
        if self._curr.token_type is TokenType.L_PAREN:
            raise wrong("a query within a query is not supported", self.at())
        relation = self.name("the name of a stream or table")
        alias = relation
        self._take_past()
        is_alias = self._begins_name() and not self._names_subject(before) and not self.way_at(0)
        if self.word("AS") or is_alias:
            alias = self.name("an alias")
        is_own = self.peek("WINDOW") and self._next.text.upper() != "PREVIOUS"
        window = self._window() if is_own else None
        self._take_past()
        return FromItem(relation, alias, window)

    def _take_past(self) -> None:
        """A time behind a name of FROM is that of the whole question."""
        at, past = self.at(), self.parse_past()
        if past is not None and self._past is not None:
            raise wrong(
                "the time is given twice", at, hint="one time behind FROM is that of all its names"
            )
        self._past = past or self._past

    # WINDOW, GROUP BY

    def _window(self) -> WindowClause:
        place: Position = self.at()
        self._advance()
        if self.word("PREVIOUS"):
            return WindowClause(place)
        amount: Literal = self.literal(WINDOW_FORMS)
        if isinstance(amount.value, bool) or amount.value is None:
            raise wrong("a window has a length", amount.at, expected=WINDOW_FORMS)
        if self.word("ROWS") or self.word("ROW"):
            return WindowClause(place, rows=amount)
        if isinstance(amount.value, str):
            return WindowClause(amount.at, duration=amount.value)
        if not self._begins_name():
            self.fail("a unit of time, or ROWS", hint=f"write {WINDOW_FORMS}")
        unit: Name = self.name("a unit of time, or ROWS")
        return WindowClause(amount.at, duration=f"{amount.value} {unit.text}")

    def _group_by(self) -> tuple[exp.Expr, ...]:
        self._advance()
        self.need("BY")
        keys = [self.parse_expression()]
        while self.symbol(TokenType.COMMA):
            keys.append(self.parse_expression())
        return tuple(keys)
