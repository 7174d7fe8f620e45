"""Areas: the regions of INSIDE and OUTSIDE, in their clause and as conditions among others.

One area of a query finds its objects: the clause INSIDE, or the first area that must hold. All
others are conditions, which may be joined by AND, OR and NOT as any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from place.sql.expressions import OUTSIDE, RESERVED, ExpressionParser
from place.sql.limits import check_corners
from place.sql.statements import (
    Duration,
    Focal,
    FromItem,
    InsideArea,
    InsideClause,
    Name,
    Position,
    ShapeSpec,
    wrong,
)

INSIDE_FORMS = (
    "INSIDE (x1, y1, x2, y2), INSIDE (x, y, r), INSIDE ('M', id, xdist, ydist),"
    " INSIDE ('M', id, r) or INSIDE region"
)
SEVERAL_AREAS = "join areas by AND, OR and NOT: INSIDE Downtown AND NOT INSIDE Park"


def with_one_area(
    where: exp.Expr | None, areas: exp.Expr | None
) -> tuple[exp.Expr | None, InsideClause | None]:
    """WHERE, and the one area by which objects are found: of those that must hold, one with FOR,
    LEAVE or CONFIRM, one that moves, or the first. All other areas are conditions."""
    parts: list[exp.Expr] = []
    stack = [part for part in (areas, where) if part is not None]
    while stack:
        part = stack.pop()
        if isinstance(part, exp.And):
            stack.extend((part.expression, part.this))
        elif isinstance(part, exp.Paren) and isinstance(part.this, exp.And | InsideArea):
            stack.append(part.this)
        else:
            parts.append(part)
    found: list[tuple[bool, bool, int]] = []
    for i, part in enumerate(parts):
        if isinstance(part, InsideArea) and not part.meta["area"].is_outside:
            area: InsideClause = part.meta["area"]
            if area.is_way:
                continue
            plain = area.dwell is None and area.leave is None and area.confirm is None
            found.append((plain, area.focal is None, i))
    if not found:
        whole = (exp.And(this=where, expression=areas) if where is not None else areas) or where
        return (where if areas is None else whole), None
    *_, chosen = min(found)
    clause: InsideClause = parts.pop(chosen).meta["area"]
    rest = parts[0] if parts else None
    for part in parts[1:]:
        rest = exp.And(this=rest, expression=part)
    return rest, clause


class AreaParser(ExpressionParser):
    """Parses areas and shapes."""

    def _begins_name(self) -> bool:
        token = self._curr
        return token.token_type is TokenType.IDENTIFIER or (
            token.token_type is TokenType.VAR and token.text.upper() not in RESERVED
        )

    def _names_subject(self, known: Sequence[FromItem] | None = None) -> bool:
        """Does `name INSIDE` stand here, of a name that is known already?"""
        if not self._begins_name() or self._next.token_type is not TokenType.OVERLAPS:
            return False
        name = self._curr.text.casefold()
        return known is None or any(name == item.alias.text.casefold() for item in known)

    def _begins_inside(self, token: Token) -> bool:
        """Does the INSIDE clause begin here: INSIDE, OUTSIDE, `name INSIDE`, or NOT before them?"""
        if self.way_at(0) or self.way_at(1):
            return True
        if token.token_type is TokenType.NOT:
            return self._next is not None and self._next.token_type is TokenType.OVERLAPS
        if not self._names_subject():
            return token.token_type is TokenType.OVERLAPS
        if token.text.casefold() not in self.from_names:
            known = ", ".join(sorted(self.from_names))
            raise wrong(
                f'"{token.text}" is not in FROM', self.at(), hint=f"relations in FROM: {known}"
            )
        return True

    def _parse_area_predicate(self, subject: Name | None) -> exp.Expr:
        token = self._curr
        predicate = InsideArea()
        if self.word("CROSSING"):
            predicate.meta["area"] = replace(self._line(), subject=subject)
            return self.placed(predicate, token)  # type: ignore[no-any-return]
        is_path = self.word("PATH")
        is_outside = self._curr.text.upper() == OUTSIDE
        area = replace(self._area(), subject=subject, is_outside=is_outside, is_path=is_path)
        if not is_path and self.word("WITHIN", "NEXT"):
            area = replace(area, ahead=self._duration("INSIDE area WITHIN NEXT '60 seconds'"))
        elif not is_path and self.word("FOR"):
            area = replace(area, dwell=self._duration("INSIDE area FOR '5 minutes'"))
        elif not is_path and self.word("LEAVE"):
            form = "write INSIDE area LEAVE BEYOND 50"
            self.need("BEYOND", hint=form)
            area = replace(area, leave=self.literal("a distance"))
        elif not is_path and self.word("CONFIRM"):
            area = replace(area, confirm=self.literal("a number of readings"))
            self.need("READINGS", hint="write INSIDE area CONFIRM 3 READINGS")
        predicate.meta["area"] = area
        return self.placed(predicate, token)  # type: ignore[no-any-return]

    def _line(self) -> InsideClause:
        """`LINE ((x y, x y, …))`."""
        place, form = self.at(), "CROSSING LINE ((x y, x y))"
        self.need("LINE", hint=f"write {form}")
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {form}")
        points = self._ring(form, place, 0)
        self.need_symbol(TokenType.R_PAREN, ")", hint=f"write {form}")
        return InsideClause(place, line=points)

    def _inside(self) -> InsideClause:
        subject = self.name("a relation") if self._begins_name() else None
        return replace(self._area(), subject=subject)

    def _duration(self, form: str) -> Duration:
        amount = self.literal(f"a duration: {form}")
        if isinstance(amount.value, bool) or amount.value is None:
            raise wrong("a duration is a number of units", amount.at, hint=f"write {form}")
        if isinstance(amount.value, str):
            return Duration(amount.value, amount.at)
        if not self._begins_name():
            self.fail("a unit of time", hint=f"write {form}")
        unit = self.name("a unit of time")
        return Duration(f"{amount.value} {unit.text}", amount.at)

    def _area(self) -> InsideClause:
        place = self.at()
        self._advance()
        if self.peek("RECTANGLE", "CIRCLE", "POLYGON") and (
            self._next.token_type is TokenType.L_PAREN
        ):
            return InsideClause(place, shape=self.parse_shape())
        if self._begins_name():
            return InsideClause(place, region=self.name("the name of a region"))
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {INSIDE_FORMS}")
        if self._moving():
            focal = self._focal(INSIDE_FORMS)
            extents = []
            while self.symbol(TokenType.COMMA):
                extents.append(self._number("a length", INSIDE_FORMS))
            self.need_symbol(TokenType.R_PAREN, ")", hint=f"write {INSIDE_FORMS}")
            if len(extents) not in (1, 2):
                raise wrong(
                    f"a moving INSIDE has {len(extents)} lengths",
                    place,
                    expected="a radius, or xdist and ydist",
                    hint=f"write {INSIDE_FORMS}",
                )
            return InsideClause(place, focal=focal, extents=tuple(extents))
        if self._curr.token_type not in (TokenType.NUMBER, TokenType.DASH, TokenType.PLUS):
            self.fail("a number, or 'M' for a moving query", hint=f"write {INSIDE_FORMS}")
        numbers = self._numbers(INSIDE_FORMS)
        if len(numbers) not in (3, 4):
            raise wrong(
                f"INSIDE has {len(numbers)} numbers",
                place,
                expected="four (two opposite corners) or three (centre and radius)",
                hint=f"write {INSIDE_FORMS}",
            )
        kind = "RECTANGLE" if len(numbers) == 4 else "CIRCLE"
        return InsideClause(place, shape=ShapeSpec(kind, numbers, (), place))

    def _moving(self) -> bool:
        """Take the 'M' that marks a moving query, if it stands here."""
        if self._curr.token_type is TokenType.STRING and self._curr.text.upper() == "M":
            self._advance()
            return True
        return False

    def _focal(self, forms: str) -> Focal:
        if not self.symbol(TokenType.COMMA):
            self.fail(", and the id of the focal object", hint=f"write {forms}")
        return self.parse_focal(forms)

    def parse_focal(self, forms: str) -> Focal:
        """`id`, or `id OF stream`: the focal object of a moving query."""
        key = self.literal("the id of the focal object")
        if key.value is None or isinstance(key.value, bool):
            raise wrong(
                "a moving query has no focal object",
                key.at,
                expected="its id",
                hint=f"write {forms}",
            )
        stream = self.name("the stream of the focal object") if self.word("OF") else None
        return Focal(key, stream)

    def _number(self, what: str, forms: str) -> float:
        if self._curr.token_type not in (
            TokenType.NUMBER,
            TokenType.DASH,
            TokenType.PLUS,
            TokenType.STRING,
        ):
            self.fail(what, hint=f"write {forms}")
        value = self.literal(what)
        if isinstance(value.value, bool) or not isinstance(value.value, int | float):
            raise wrong(
                f"{value.value!r} is not a number", value.at, expected=what, hint=f"write {forms}"
            )
        try:
            return float(value.value)
        except OverflowError:
            raise wrong("the number is too large", value.at) from None

    def _numbers(self, forms: str) -> tuple[float, ...]:
        numbers = [self._number("a number", forms)]
        while self.symbol(TokenType.COMMA):
            numbers.append(self._number("a number", forms))
        self.need_symbol(TokenType.R_PAREN, ")", hint=f"write {forms}")
        return tuple(numbers)

    def parse_shape(self) -> ShapeSpec:
        """RECTANGLE (x1, y1, x2, y2), CIRCLE (x, y, r) or POLYGON ((x y, …), (x y, …))."""
        place = self.at()
        kind = self._curr.text.upper()
        self._advance()
        form = {
            "RECTANGLE": "RECTANGLE (x1, y1, x2, y2)",
            "CIRCLE": "CIRCLE (x, y, r)",
            "POLYGON": "POLYGON ((x y, x y, x y))",
        }[kind]
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {form}")
        if kind == "POLYGON":
            return ShapeSpec(kind, (), self._rings(form, place), place)
        numbers = self._numbers(form)
        wanted = 4 if kind == "RECTANGLE" else 3
        if len(numbers) != wanted:
            raise wrong(
                f"{kind} has {len(numbers)} numbers",
                place,
                expected="four: two opposite corners"
                if wanted == 4
                else "three: centre and radius",
                hint=f"write {form}",
            )
        return ShapeSpec(kind, numbers, (), place)

    def _rings(self, form: str, place: Position) -> tuple[tuple[tuple[float, float], ...], ...]:
        rings = [self._ring(form, place, 0)]
        corners = len(rings[0])
        while self.symbol(TokenType.COMMA):
            rings.append(self._ring(form, place, corners))
            corners += len(rings[-1])
        self.need_symbol(TokenType.R_PAREN, ")", hint=f"write {form}")
        return tuple(rings)

    def _ring(self, form: str, place: Position, before: int) -> tuple[tuple[float, float], ...]:
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {form}")
        points = [(self._number("x", form), self._number("y", form))]
        while self.symbol(TokenType.COMMA):
            points.append((self._number("x", form), self._number("y", form)))
            check_corners(before + len(points), place)
        self.need_symbol(TokenType.R_PAREN, ")", hint=f"write {form}")
        return tuple(points)
