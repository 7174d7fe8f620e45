"""The grammar of CREATE TRIGGER: its variables, its conditions, and what is told of a match.

Conditions are expressions as in WHERE, and a few words more: `V[2]` for a member of a set of
variables, `IN [a, b]` for a closed interval, and `V INSIDE area` as one of the conditions. The
clauses behind WHEN may stand in any order.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from place.errors import suggestion
from place.sql.clauses import ClauseParser
from place.sql.expressions import ExpressionParser
from place.sql.limits import check_items
from place.sql.statements import (
    CreateTrigger,
    Duration,
    EveryClause,
    Inside,
    InsideClause,
    Literal,
    Name,
    SelectItem,
    UnlessClause,
    VariableSpec,
    wrong,
)

_CLAUSES = ("WITHIN", "UNLESS", "ALERT", "REPORT", "EVERY")
_ENDS = frozenset((*_CLAUSES, "FOR", "WHEN", "PER"))
"""Words that begin a clause, and so are no alias that stands without AS."""
_HINT = re.compile(r"/\*\+(.*?)\*/", re.DOTALL)
_INTERVALS = "IN [0, 5], IN (0, 5], IN [0, 5) or IN (1, 2, 3)"


class TriggerParser(ClauseParser):
    """Parses what stands after CREATE TRIGGER."""

    _is_trigger = False
    _sets: dict[str, int]
    """The sets of variables in FOR by folded name, and how many variables each of them is."""

    def read_trigger(self) -> CreateTrigger:
        """`[IF NOT EXISTS] name [hint] FOR … WHEN …`, and the clauses behind it."""
        quiet = self.if_not_exists()
        name = self.name("the name of a trigger")
        hint = self._hint_of_trigger()
        self._is_trigger, self._sets = True, {}
        self.need("FOR", hint=f"write CREATE TRIGGER {name.text} FOR stream AS V1 WHEN …")
        variables = tuple(self.listed(self._variable))
        self.need("WHEN", hint="say when it is a match: … WHEN V1.speed > 50")
        when = self.parse_expression()
        return self._clauses(name, quiet, hint, variables, when)

    def _hint_of_trigger(self) -> Name | None:
        """`/*+ … */` behind the name. Only behind SELECT is it a token; here it is a comment."""
        begins = self._prev.end + 1
        found = _HINT.search(self.sql, begins, self._curr.start if self._curr else begins)
        if found is None:
            return None
        return Name(" ".join(found[1].split()).upper(), self.at_character(found.start()))

    def _clauses(
        self,
        name: Name,
        quiet: bool,
        hint: Name | None,
        variables: tuple[VariableSpec, ...],
        when: exp.Expr,
    ) -> CreateTrigger:
        areas: list[InsideClause] = []
        within: Duration | None = None
        unless: UnlessClause | None = None
        every: EveryClause | None = None
        alert: tuple[SelectItem, ...] = ()
        is_first = False
        seen: set[str] = set()
        while self._curr:
            if self._curr.token_type is TokenType.OVERLAPS or self._names_subject():
                areas.append(self._inside())
                continue
            clause = next((each for each in _CLAUSES if self.peek(each)), None)
            if clause is None:
                self._fail_behind_when()
            if clause in seen:
                raise wrong(f"a trigger has one {clause} clause", self.at())
            seen.add(clause)
            match clause:
                case "WITHIN":
                    self._advance()
                    within = self._duration("WITHIN '5 minutes'")
                case "UNLESS":
                    unless = self._unless()
                case "ALERT":
                    alert = self._alert()
                case "REPORT":
                    is_first = self._report()
                case _:
                    every = self._every()
        return CreateTrigger(
            name,
            quiet,
            variables,
            when,
            tuple(areas),
            within,
            unless,
            alert,
            is_first,
            every,
            hint,
        )

    def _fail_behind_when(self) -> NoReturn:
        hints = {
            "PER": "PER stands behind EVERY: EVERY '10 minutes' PER V1.id",
            "WHERE": "the conditions of a trigger stand behind WHEN; join them by AND",
            "WINDOW": "WITHIN '5 minutes' bounds the time of a match",
            "GROUP": "EVERY '10 minutes' PER V1.id tells one alert of each group",
            "HAVING": "the conditions of a trigger stand behind WHEN; join them by AND",
            "KNN": "a trigger tells what happens, not who is nearest",
            "RNN": "a trigger tells what happens, not who is nearest",
        }
        word = self._curr.text.upper()
        hint = hints.get(word)
        if self._curr.token_type is TokenType.L_BRACKET:
            hint = "V[2] is a member of a set of variables: FOR stream AS V[5]"
        expected = "INSIDE, WITHIN, UNLESS, ALERT, REPORT, EVERY or the end of the statement"
        self.fail(expected, hint=hint)

    # FOR

    def _variable(self) -> VariableSpec:
        if self._curr and self._curr.token_type is TokenType.L_PAREN:
            raise wrong("a query within a query is not supported", self.at())
        relation = self.name("the name of a stream")
        alias = relation
        if self.word("AS") or (self._begins_name() and self._curr.text.upper() not in _ENDS):
            alias = self.name("a variable, such as V1")
        count: Literal | None = None
        if self.symbol(TokenType.L_BRACKET):
            count = self.literal("how many variables: V[5]")
            self.need_symbol(TokenType.R_BRACKET, "]", hint=f"write {alias.text}[5]")
        known = {alias.text.casefold()}
        if count is not None and type(count.value) is int:
            self._sets[alias.text.casefold()] = count.value
            known |= {f"{alias.text.casefold()}[{i + 1}]" for i in range(min(count.value, 64))}
        self.from_names |= known
        return VariableSpec(relation, alias, count)

    # Conditions

    def _parse_member(self, name: Name) -> Name:
        if self._curr is None or self._curr.token_type is not TokenType.L_BRACKET:
            return name
        size = self._sets.get(name.text.casefold()) if self._is_trigger else None
        if size is None:
            return name
        self._advance()
        member = self.literal("the number of a variable of the set")
        value = member.value
        if type(value) is not int or not 1 <= value <= size:
            raise wrong(
                f"{name.text}[{value}] is no variable of the set {name.text}[{size}]",
                member.at,
                expected=f"a number from 1 to {size}",
            )
        self.need_symbol(TokenType.R_BRACKET, "]")
        return Name(f"{name.text}[{value}]", name.at)

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr:  # type: ignore[override]
        """`IN (1, 2, 3)`, or an interval: `IN [a, b]`, `IN (a, b]`, `IN [a, b)`."""
        if not self._is_trigger or this is None:
            return super()._parse_in(this, alias)
        begins, start = self._index, self._curr
        is_closed = self.symbol(TokenType.L_BRACKET)
        if not is_closed and not self._ends_in_bracket():
            self._retreat(begins)
            return super()._parse_in(this, alias)
        if not is_closed:
            self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {_INTERVALS}")
        low = self._parse_bound()
        if not self.symbol(TokenType.COMMA):
            self.fail('"," and the upper bound', hint=f"write {_INTERVALS}")
        high = self._parse_bound()
        if self.symbol(TokenType.R_PAREN):
            upper: type[exp.Binary] = exp.LT
        else:
            self.need_symbol(TokenType.R_BRACKET, "]", hint=f"write {_INTERVALS}")
            upper = exp.LTE
        if is_closed and upper is exp.LTE:
            return exp.Between(this=this, low=low, high=high)
        lower: type[exp.Binary] = exp.GTE if is_closed else exp.GT
        both = exp.And(
            this=lower(this=this, expression=low),
            expression=upper(this=this.copy(), expression=high),
        )
        return self.placed(exp.Paren(this=both), start)  # type: ignore[no-any-return]

    def _parse_bound(self) -> exp.Expr:
        bound = self._parse_bitwise()
        if bound is None:
            self.fail("a bound: a number of seconds, or a duration in single quotes")
        return bound

    def _ends_in_bracket(self) -> bool:
        """Is the ( that stands here closed by a ]?"""
        depth = 0
        for token in self._tokens[self._index :]:
            kind = token.token_type
            if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
                depth += 1
            elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
                depth -= 1
                if depth == 0:
                    return kind is TokenType.R_BRACKET
        return False

    def _parse_area_predicate(self, subject: Name | None) -> exp.Expr:
        if not self._is_trigger:
            return super()._parse_area_predicate(subject)
        return ExpressionParser._parse_area_predicate(self, subject)

    def _parse_inside_predicate(self, this: exp.Expr | None) -> exp.Expr | None:
        if not self._is_trigger:
            return super()._parse_inside_predicate(this)
        self._retreat(self._index - 1)
        if not isinstance(this, exp.Column) or this.table:
            return None
        if this.name.casefold() not in self.from_names:
            raise wrong(
                f'"{this.name}" is not in FOR',
                this.meta.get("position"),
                hint=suggestion(this.name, sorted(self.from_names), "variables"),
            )
        start = self._curr
        if start.text.upper() == "OUTSIDE":
            raise wrong(
                "a trigger does not know OUTSIDE", self.at(start), hint="write INSIDE another area"
            )
        predicate = Inside(this=this, expression=exp.to_identifier("area", quoted=True))
        predicate.meta["area"] = replace(
            self._area(), subject=Name(this.name, this.meta["position"])
        )
        return self.placed(predicate, start)  # type: ignore[no-any-return]

    # The clauses behind WHEN

    def _unless(self) -> UnlessClause:
        at = self.at()
        self._advance()
        variable = self._variable()
        if self._curr and self._curr.token_type is TokenType.COMMA:
            raise wrong(
                "UNLESS has one variable", self.at(), hint="create a trigger for each of them"
            )
        self.need("WHEN", hint="say which reading must not be there: UNLESS Guards AS g WHEN …")
        return UnlessClause(at, variable, self.parse_expression())

    def _alert(self) -> tuple[SelectItem, ...]:
        at = self.at()
        self._advance()
        items = [self._alert_item()]
        while self.symbol(TokenType.COMMA):
            items.append(self._alert_item())
            check_items(len(items), at, "ALERT")
        return tuple(items)

    def _alert_item(self) -> SelectItem:
        place = self.at()
        if self._curr and self._curr.token_type is TokenType.STAR:
            raise wrong("ALERT names its columns", place, hint="write ALERT V1.id, V2.id")
        expression = self.parse_expression()
        alias = None
        if self.word("AS") or (
            self._begins_name()
            and self._curr.text.upper() not in _ENDS
            and not self._names_subject()
        ):
            alias = self.name("an alias")
        return SelectItem(place, expression, alias)

    def _report(self) -> bool:
        self._advance()
        if self.word("FIRST"):
            return True
        self.need("ALL", hint="write REPORT ALL, or REPORT FIRST for one of each reading")
        return False

    def _every(self) -> EveryClause:
        self._advance()
        duration = self._duration("EVERY '10 minutes'")
        per = tuple(self.listed(self.parse_expression)) if self.word("PER") else ()
        return EveryClause(duration, per)
