"""Expressions of WHERE, SELECT and HAVING, on sqlglot's ladder of precedences.

sqlglot climbs from OR down to the sign of a number; here stand the lowest rung, which knows just
the operands of this language and always says what it expected, and the few predicates.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from place.sql.limits import check_members
from place.sql.statements import Inside, Literal, Name, Position, wrong

RESERVED = frozenset(
    """SELECT FROM WHERE INSIDE KNN RNN WINDOW GROUP HAVING AND OR NOT IN IS LIKE BETWEEN NULL
    TRUE FALSE AS DISTINCT JOIN INNER LEFT RIGHT FULL CROSS NATURAL ON USING ORDER LIMIT UNION
    EXCEPT INTERSECT OF""".split()
)
"""Words that no bare name may be; in double quotes they may."""

OUTSIDE = "OUTSIDE"
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_VALUES = (
    *_NAMES,
    *(TokenType.NUMBER, TokenType.STRING, TokenType.TRUE, TokenType.FALSE, TokenType.NULL),
    *(TokenType.L_PAREN, TokenType.DASH, TokenType.NOT),
)
"""What a value may begin with."""
T = TypeVar("T")


class ExpressionParser(Parser):
    """The rungs of sqlglot's expression ladder that this language changes."""

    BITWISE = {}
    JSON_OPERATORS = {}
    TERM = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add}
    FACTOR = {TokenType.MOD: exp.Mod, TokenType.SLASH: exp.Div, TokenType.STAR: exp.Mul}
    EQUALITY = {TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ}
    RANGE_PARSERS = {
        TokenType.BETWEEN: lambda self, this: self._parse_between(this),
        TokenType.IN: lambda self, this: self._parse_in(this),
        TokenType.IS: lambda self, this: self._parse_is(this),
        TokenType.LIKE: lambda self, this: self._parse_like(this),
        TokenType.OVERLAPS: lambda self, this: self._parse_inside_predicate(this),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offset = 0
        self.line_starts: Sequence[int] = [0]
        self.from_names: frozenset[str] = frozenset()

    # Places and errors

    def at(self, token: Token | None = None) -> Position:
        """The place of a token (the current one if none is given) in the whole text."""
        token = token if token is not None else self._curr
        return self.at_character(token.start if token else len(self.sql.rstrip()))

    def at_character(self, start: int) -> Position:
        """The place of a character of the statement in the whole text."""
        offset = self.offset + start
        line = bisect_right(self.line_starts, offset)
        return Position(line, offset - self.line_starts[line - 1] + 1)

    def found(self) -> str:
        """The current token as an error shows it."""
        if not self._curr:
            return "the statement ends"
        written = self.sql[self._curr.start : self._curr.end + 1]
        return f"found {written if len(written) <= 40 else written[:37] + '…'}"

    def fail(self, expected: str, *, hint: str | None = None) -> NoReturn:
        """Say what was expected instead of the current token."""
        message = self.found()
        raise wrong(message, self.at(), expected=expected, hint=hint)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Whatever sqlglot itself finds wrong, in our words."""
        raise wrong(f"{self.found()}: {message[:1].lower()}{message[1:]}", self.at(token))

    def placed(self, expression: Any, token: Token) -> Any:
        """The expression with the place of its token."""
        expression.meta["position"] = self.at(token)
        return expression

    # Tokens

    def word(self, *texts: str) -> bool:
        """Take the next words if they are these."""
        return self._match_text_seq(*texts)

    def peek(self, *texts: str) -> bool:
        """Is the next word one of these?"""
        return bool(self._curr) and self._match_texts(frozenset(texts), advance=False)

    def need(self, text: str, *, hint: str | None = None) -> None:
        """Take this word or fail."""
        if not self.word(text):
            self.fail(text, hint=hint)

    def symbol(self, kind: TokenType) -> bool:
        return bool(self._match(kind))

    def need_symbol(self, kind: TokenType, shown: str, *, hint: str | None = None) -> None:
        if not self.symbol(kind):
            self.fail(f'"{shown}"', hint=hint)

    def listed(self, item: Callable[[], T]) -> list[T]:
        """Take one or more of something, with commas between them."""
        items = [item()]
        while self.symbol(TokenType.COMMA):
            items.append(item())
        return items

    def name(self, what: str) -> Name:
        """Take a name; a reserved word is none unless it is quoted."""
        token = self._curr
        reserved = bool(token) and token.text.upper() in RESERVED
        if reserved and token.token_type is not TokenType.IDENTIFIER:
            self.fail(what, hint=f'{token.text} is a word of the language; write "{token.text}"')
        is_name = token.token_type in _NAMES or token.text.upper() == OUTSIDE
        if not is_name or not token.text.strip():
            self.fail(what)
        self._advance()
        return Name(token.text, self.at(token))

    def literal(self, what: str = "a number or a text in single quotes") -> Literal:
        """Take a number (perhaps signed), a text, TRUE, FALSE or NULL."""
        start = self._curr
        sign = -1 if self.symbol(TokenType.DASH) else 1
        signed = sign == -1 or self.symbol(TokenType.PLUS)
        token = self._curr
        place = self.at(start)
        if token.token_type is TokenType.NUMBER:
            self._advance()
            return Literal(sign * self.number_of(token), place)
        if signed:
            self.fail("a number")
        constants: dict[TokenType, bool | None] = {
            TokenType.TRUE: True,
            TokenType.FALSE: False,
            TokenType.NULL: None,
        }
        if token.token_type in constants:
            self._advance()
            return Literal(constants[token.token_type], place)
        if token.token_type is not TokenType.STRING:
            self.fail(what)
        self._advance()
        return Literal(token.text, place)

    def number_of(self, token: Token) -> int | float:
        """The number of a token: an int if it is written as one, otherwise a finite float."""
        text = token.text
        try:
            value = int(text) if text.isdecimal() and len(text) < 400 else float(text)
        except ValueError:
            raise wrong(f"{text[:40]} is not a number", self.at(token)) from None
        if isinstance(value, float) and not abs(value) < float("inf"):
            raise wrong(f"{text[:40]} is too large a number", self.at(token))
        return value

    # The lowest rung

    def _parse_unary(self) -> exp.Expr:
        token = self._curr
        if self.symbol(TokenType.NOT):
            return self.placed(exp.Not(this=self._parse_equality()), token)  # type: ignore[no-any-return]
        if self.symbol(TokenType.PLUS):
            return self._parse_unary()
        if self.symbol(TokenType.DASH):
            return self.placed(exp.Neg(this=self._parse_unary()), token)  # type: ignore[no-any-return]
        return self._parse_operand()

    def _parse_operand(self) -> exp.Expr:
        token = self._curr
        kind = token.token_type if token else None
        result: exp.Expr
        if kind is TokenType.NUMBER:
            self._advance()
            result = exp.Literal.number(str(self.number_of(token)))
        elif kind is TokenType.STRING:
            self._advance()
            result = exp.Literal.string(token.text)
        elif kind in (TokenType.TRUE, TokenType.FALSE):
            self._advance()
            result = exp.Boolean(this=kind is TokenType.TRUE)
        elif kind is TokenType.NULL:
            self._advance()
            result = exp.Null()
        elif self.symbol(TokenType.L_PAREN):
            if self._curr.token_type is TokenType.SELECT:
                raise wrong("a query within a query is not supported", self.at())
            inner = self._parse_disjunction()
            self.need_symbol(TokenType.R_PAREN, ")")
            result = exp.Paren(this=inner)
        elif (
            kind is TokenType.VAR and token.text.upper() == "INTERVAL" and self._next_is_interval()
        ):
            result = self._parse_interval_literal()
        elif self.way_at(0):
            result = self._parse_area_predicate(None)
        elif kind in _NAMES and self.way_at(1):
            self._advance()
            result = self._parse_area_predicate(Name(token.text, self.at(token)))
        elif kind is TokenType.VAR and self._begins_special(token):
            result = self._parse_special(token.text.upper())
        elif kind in _NAMES and not (kind is TokenType.VAR and token.text.upper() in RESERVED):
            result = self._parse_reference()
        elif kind is TokenType.OVERLAPS and self._begins_area(token):
            result = self._parse_area_predicate(None)
        elif kind is TokenType.OVERLAPS:
            result = self._parse_reference()
        else:
            self.fail("a value: a column, a number or a text in single quotes")
        return self.placed(result, token)  # type: ignore[no-any-return]

    def _next_is_interval(self) -> bool:
        return bool(self._next) and self._next.token_type in (TokenType.STRING, TokenType.NUMBER)

    def _parse_interval_literal(self) -> exp.Expr:
        """`INTERVAL '5 minutes'` or `INTERVAL 5 MINUTES`; the binder reads the text."""
        self._advance()
        text = self._curr.text
        counted = self._curr.token_type is TokenType.NUMBER
        self._advance()
        if counted or (self._curr.token_type is TokenType.VAR and text.strip().isdecimal()):
            text = f"{text} {self.name('a unit of time').text}"
        return exp.Interval(this=exp.Literal.string(text))

    # What is written in another way than a function of arguments

    def _begins_special(self, token: Token) -> bool:
        """Do CASE, `TIMESTAMP '…'`, `DATE '…'`, CAST(, EXTRACT(, LEFT( or RIGHT( stand here?"""
        word, following = token.text.upper(), self._next
        if following is None:
            return False
        if word in ("TIMESTAMP", "DATE"):
            return following.token_type is TokenType.STRING
        if word in ("CAST", "EXTRACT", "LEFT", "RIGHT"):
            return following.token_type is TokenType.L_PAREN
        if word != "CASE" or following.text.upper() == "AS":
            return False
        is_name = following.token_type is TokenType.VAR and following.text.upper() in RESERVED
        return following.token_type in _VALUES and not is_name

    def _parse_special(self, word: str) -> exp.Expr:
        self._advance()
        if word in ("TIMESTAMP", "DATE"):
            text = self._curr.text
            self._advance()
            return exp.Cast(this=exp.Literal.string(text), to=word)
        if word == "CASE":
            return self._parse_case()
        self.need_symbol(TokenType.L_PAREN, "(")
        if word in ("LEFT", "RIGHT"):  # which are words of joins everywhere else
            return self._parse_call(Name(word, self.at()))
        if word == "CAST":
            value = self.parse_expression()
            self.need("AS", hint="write CAST(value AS DOUBLE)")
            made: exp.Expr = exp.Cast(this=value, to=self.name("a type").text)
        else:
            field = self._curr.text
            if self._curr.token_type not in (*_NAMES, TokenType.STRING):
                self.fail("what to extract", hint="write EXTRACT(HOUR FROM ts)")
            self._advance()
            if not self.symbol(TokenType.FROM):
                self.fail("FROM", hint="write EXTRACT(HOUR FROM ts)")
            made = exp.Extract(this=exp.Literal.string(field), expression=self.parse_expression())
        self.need_symbol(TokenType.R_PAREN, ")")
        return made

    def _parse_case(self) -> exp.Expr:
        """CASE WHEN condition THEN value … ELSE value END, or CASE value WHEN value THEN …"""
        form = "write CASE WHEN condition THEN value ELSE value END"
        operand = None if self.peek("WHEN") else self.parse_expression()
        whens: list[exp.Expr] = []
        while self.word("WHEN"):
            condition = self.parse_expression()
            self.need("THEN", hint=form)
            whens.append(exp.If(this=condition, true=self.parse_expression()))
        if not whens:
            self.fail("WHEN", hint=form)
        default = self.parse_expression() if self.word("ELSE") else None
        if not self.word("END"):
            self.fail("WHEN, ELSE or END", hint=form)
        return exp.Case(this=operand, ifs=whens, default=default)

    def _parse_reference(self) -> exp.Expr:
        """A column, a column of a named relation, or a function of arguments."""
        first = self.name("a column")
        if self.symbol(TokenType.L_PAREN):
            return self._parse_call(first)
        first = self._parse_member(first)
        if not self.symbol(TokenType.DOT):
            return exp.Column(this=exp.to_identifier(first.text, quoted=True))
        second = self.name(f'a column of "{first.text}"')
        return exp.Column(
            this=exp.to_identifier(second.text, quoted=True),
            table=exp.to_identifier(first.text, quoted=True),
        )

    def _parse_member(self, name: Name) -> Name:
        """`V[2]` where V is a set of variables; elsewhere the name alone."""
        return name

    def _parse_call(self, name: Name) -> exp.Expr:
        distinct = self.symbol(TokenType.DISTINCT)
        arguments: list[exp.Expr] = []
        if self._curr.token_type is TokenType.STAR:
            arguments.append(self.placed(exp.Star(), self._curr))
            self._advance()
        elif self._curr.token_type is not TokenType.R_PAREN:
            arguments.append(self.parse_expression())
            while self.symbol(TokenType.COMMA):
                arguments.append(self.parse_expression())
        self.need_symbol(TokenType.R_PAREN, ")")
        call = exp.Anonymous(this=name.text.upper(), expressions=arguments)
        call.meta["distinct"] = bool(distinct)
        return call

    # Predicates

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        if not self.symbol(TokenType.AND):
            self.fail("AND", hint="write x BETWEEN low AND high")
        return exp.Between(this=this, low=low, high=self._parse_bitwise())

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        self.need_symbol(TokenType.L_PAREN, "(", hint="write x IN (1, 2, 3)")
        if self._curr.token_type is TokenType.SELECT:
            raise wrong(
                "a query within a query is not supported", self.at(), hint="join the table in FROM"
            )
        place = self.at()
        values = [self.parse_expression()]
        while self.symbol(TokenType.COMMA):
            values.append(self.parse_expression())
            check_members(len(values), place)
        self.need_symbol(TokenType.R_PAREN, ")")
        return exp.In(this=this, expressions=values)

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr:
        negated = self.symbol(TokenType.NOT)
        token = self._curr
        if self.symbol(TokenType.NULL):
            test: exp.Expr = exp.Null()
        elif token.token_type in (TokenType.TRUE, TokenType.FALSE):
            self._advance()
            test = exp.Boolean(this=token.token_type is TokenType.TRUE)
        else:
            self.fail("NULL, TRUE or FALSE", hint="write x IS NULL or x IS NOT NULL")
        result = exp.Is(this=this, expression=test)
        return exp.Not(this=result) if negated else result

    def _parse_like(self, this: exp.Expr | None) -> exp.Expr:
        result = exp.Like(this=this, expression=self._parse_bitwise())
        if self.peek("ESCAPE"):
            raise wrong("LIKE … ESCAPE is not supported", self.at())
        return result

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return exp.Not(this=this)

    def _parse_inside_predicate(self, this: exp.Expr | None) -> exp.Expr | None:
        """`O INSIDE Q`, if O is a name of FROM; otherwise INSIDE begins the clause after WHERE."""
        bare = isinstance(this, exp.Column) and not this.table
        if not bare or this is None or this.name.casefold() not in self.from_names:
            self._retreat(self._index - 1)
            return None
        is_outside = self._prev.text.upper() == OUTSIDE
        if is_outside or self._curr.text.casefold() not in self.from_names:
            self._retreat(self._index - 1)
            return self._parse_area_predicate(Name(this.name, this.meta["position"]))
        table = self.placed(exp.to_identifier(self._curr.text, quoted=True), self._curr)
        self._advance()
        predicate = Inside(this=this, expression=table)
        if self.word("OF"):
            stream = self.name("the stream of the focal objects")
            identifier = exp.to_identifier(stream.text, quoted=True)
            identifier.meta["position"] = stream.at
            predicate.set("stream", identifier)
        return predicate

    def way_at(self, offset: int) -> bool:
        """Do `PATH INSIDE` or `CROSSING LINE` stand so many tokens ahead?"""
        tokens = self._tokens[self._index + offset : self._index + offset + 2]
        if len(tokens) < 2 or tokens[0].token_type is not TokenType.VAR:
            return False
        word, following = tokens[0].text.upper(), tokens[1]
        if word.casefold() in self.from_names:
            return False
        if word == "PATH":
            return following.token_type is TokenType.OVERLAPS
        return word == "CROSSING" and following.text.upper() == "LINE"

    def _begins_area(self, token: Token) -> bool:
        """INSIDE always does; something may be called `outside`, unless an area follows."""
        areas = (*_NAMES, TokenType.L_PAREN)
        return token.text.upper() != OUTSIDE or (
            self._next is not None and self._next.token_type in areas
        )

    def _parse_area_predicate(self, subject: Name | None) -> exp.Expr:
        """`INSIDE area`, `OUTSIDE area` or `name INSIDE area` as a condition among others."""
        self.fail(
            "a value: a column, a number or a text in single quotes",
            hint="INSIDE stands behind the name of a variable: V1 INSIDE (…)",
        )

    def parse_expression(self) -> exp.Expr:
        """A whole expression."""
        result = self._parse_disjunction()
        if result is None:
            self.fail("a value: a column, a number or a text in single quotes")
        return result
