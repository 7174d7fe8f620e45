"""kNN and RNN: how many neighbours, and of which point, object, source or group of places."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from place.sql.areas import AreaParser
from place.sql.limits import check_places
from place.sql.statements import Focal, GroupClause, Literal, Name, NearestClause, Position, wrong

FORMS = {
    "kNN": "kNN (k, x, y), kNN ('M', k, id), kNN (k, name) or kNN (k, SUM OF (POINT (x, y), …))",
    "RNN": "RNN (k, x, y) or RNN ('M', k, id)",
}
TOTALS = ("SUM", "MAX", "MIN")
GROUP_FORM = "SUM OF (POINT (x, y), FOCAL id, FOCAL id OF stream)"


class NeighbourParser(AreaParser):
    """Parses kNN and RNN."""

    def parse_nearest(self, word: str) -> NearestClause:
        """`kNN (…)` or `RNN (…)`, whichever word stands here."""
        place, forms, is_reverse = self.at(), FORMS[word], word == "RNN"
        self._advance()
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {forms}")
        if self._moving():
            if not self.symbol(TokenType.COMMA):
                self.fail(", and the number of neighbours", hint=f"write {forms}")
            k = self.literal("the number of neighbours")
            focal = self._focal(forms)
            self.need_symbol(TokenType.R_PAREN, ")", hint=f"write {forms}")
            return NearestClause(place, k, None, focal, is_reverse=is_reverse)
        k = self.literal("the number of neighbours")
        if not self.symbol(TokenType.COMMA):
            self.fail(", and a point", hint=f"write {forms}")
        if self._begins_name():
            return self._of_several(place, k, word)
        point = self._numbers(forms)
        if len(point) != 2:
            raise wrong(
                f"{word} has {len(point)} {'coordinate' if len(point) == 1 else 'coordinates'}",
                place,
                expected="a point",
                hint=f"write {forms}",
            )
        return NearestClause(place, k, (point[0], point[1]), None, is_reverse=is_reverse)

    def _of_several(self, place: Position, k: Literal, word: str) -> NearestClause:
        """The neighbours of each element of a source, or of several places together."""
        is_group = self.peek(*TOTALS) and self._next.text.upper() == "OF"
        if word == "RNN":
            raise wrong(
                f"RNN is about one place, and not about {'several' if is_group else 'a source'}",
                self.at(),
                expected="a point, or 'M' and the id of a focal object",
                hint=f"write {FORMS[word]}",
            )
        if is_group:
            return NearestClause(place, k, None, None, group=self._group())
        return NearestClause(place, k, None, None, self._centre())

    def _centre(self) -> Name:
        centre = self.name("a relation")
        if self._curr.token_type is TokenType.COMMA:
            raise wrong(
                "kNN is around one name",
                self.at(),
                expected=")",
                hint=f"write kNN (k, {centre.text}), and register another query for another name",
            )
        self.need_symbol(TokenType.R_PAREN, ")", hint=f"write {FORMS['kNN']}")
        return centre

    def _group(self) -> GroupClause:
        at, total = self.at(), self._curr.text.upper()
        self._advance(2)
        self.need_symbol(TokenType.L_PAREN, "(", hint=f"write {GROUP_FORM}")
        places = [self._group_place()]
        while self.symbol(TokenType.COMMA):
            places.append(self._group_place())
            check_places(len(places), at)
        for _ in range(2):
            self.need_symbol(TokenType.R_PAREN, ")", hint=f"write kNN (k, {GROUP_FORM})")
        return GroupClause(at, total, tuple(places))

    def _group_place(self) -> tuple[float, float] | Focal:
        at = self.at()
        if self.word("FOCAL"):
            return self.parse_focal(f"kNN (k, {GROUP_FORM})")
        if not self.word("POINT"):
            self.fail("POINT (x, y) or FOCAL id", hint=f"write {GROUP_FORM}")
        self.need_symbol(TokenType.L_PAREN, "(", hint="write POINT (x, y)")
        point = self._numbers("POINT (x, y)")
        if len(point) != 2:
            raise wrong("a POINT is an x and a y", at, hint="write POINT (x, y)")
        return point[0], point[1]
