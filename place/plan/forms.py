"""Statements of one form, which differ only in their literals, are bound once.

What each literal means is found by trying: the statement is read again with another value in its
place, and the part of the bound query that is different then is the part that the literal is for.
The numbers of INSIDE and kNN, the keys of focal objects, and constants in WHERE can be filled in;
any other literal belongs to the form. A form is trusted only if filling in all trial values gives
exactly what binding the statement with these values gives, and whatever cannot be filled in is
bound as if there were no forms, so that its errors are the usual ones.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from place.errors import PlaceError
from place.model.types import coerce
from place.plan.bind_nearest import bind_nearest
from place.plan.bind_possible import check_possible
from place.plan.bind_query import bind_inside, bind_query, moment_of
from place.plan.catalog import Catalog, fold
from place.plan.expression import Constant, conjuncts
from place.plan.query import Query, Source
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.lift import KnownForm, Lifted, value_of
from place.sql.limits import current

Part = TypeVar("Part")
MOST_FORMS, MOST_CHOICES = 512, 16
"""Skeletons that are remembered, and forms of one of them."""
CHEAP = 8
"""With so few literals a form is looked for at once."""
MOST_LITERALS = 64
"""A statement with more literals is bound each time: trying all of them would take too long."""

Path = tuple[tuple[str, int], ...]
"""The way to a constant in an expression: names of fields, and places within their tuples."""


@dataclass(frozen=True)
class Form:
    """A bound query, and which of its literals are filled in where."""

    token: str
    query: Query
    select: s.Select
    inside: tuple[int, ...]
    nearest: tuple[int, ...]
    constants: tuple[tuple[int, Path, Constant], ...]

    @property
    def filled(self) -> set[int]:
        """The literals that are filled in; all others are part of the form."""
        return {*self.inside, *self.nearest, *(ordinal for ordinal, _, _ in self.constants)}

    def fill(self, catalog: Catalog, name: str, literals: Sequence[str]) -> Query:
        """The query of a statement of this form; a PlaceError if a literal does not fit."""
        query = self.query
        changes: dict[str, Any] = {"name": name, "form": self.token}
        where = (query.sources, query.subject, query.space)
        if self.inside:
            clause = self.select.inside
            assert clause is not None
            values = [value_of(literals[i]) for i in self.inside]
            changes["inside"] = bind_inside(catalog, _inside_with(clause, values), *where)
        if self.nearest:
            nearest = self.select.nearest
            assert nearest is not None
            values = [value_of(literals[i]) for i in self.nearest]
            changes["nearest"] = bind_nearest(catalog, _nearest_with(nearest, values), *where)
        if self.constants:
            condition: Any = query.where
            for ordinal, path, constant in self.constants:
                value = coerce(value_of(literals[ordinal]), constant.type)
                condition = _with_constant(condition, path, Constant(value, constant.type))
            check_possible((each, None) for each in conjuncts(condition))
            changes["where"] = condition
        made = _with(query, **changes)
        if query.sources[-1].is_hidden:
            made.__dict__["sources"] = _follow(query, made)
        return made


class Forms:
    """The forms that were met lately, under the definitions that they were bound with."""

    def __init__(self) -> None:
        self._forms: OrderedDict[tuple[Any, ...], _Known] = OrderedDict()

    def bind(self, catalog: Catalog, statement: s.RegisterQuery) -> Query:
        """The query of a statement: filled into its form, or bound from nothing."""
        if not isinstance(statement, KnownForm) or len(statement.lifted.literals) > MOST_LITERALS:
            return _bind(catalog, statement)
        lifted = statement.lifted
        stands_on = (
            catalog.streams,
            catalog.tables,
            catalog.regions,
            catalog.revisions,  # as its contents, whose rows would be held
            current(),
        )
        key = (lifted.skeleton, *map(id, stands_on))
        known = self._forms.get(key)
        if known is None:
            known = self._forms[key] = _Known(stands_on)
            while len(self._forms) > MOST_FORMS:
                self._forms.popitem(last=False)
        form = known.form_of(catalog, lifted)
        if form is not None:
            try:
                return form.fill(catalog, lifted.name, lifted.literals)
            except (PlaceError, OverflowError):
                pass  # binding it says what is wrong, and where
        return _bind(catalog, statement)


class _Known:
    """A skeleton: which of its literals can be filled in, and a form for each choice of the rest.

    It holds on to the definitions that it stands on, so that their ids remain theirs.
    """

    def __init__(self, stands_on: Any) -> None:
        self._stands_on = stands_on
        self._forms: OrderedDict[tuple[str, ...], Form | None] = OrderedDict()
        self._fixed: list[int] | None = None
        self._seen = self._tried = 0

    def _choice(self, lifted: Lifted) -> tuple[str, ...]:
        return tuple(lifted.literals[i] for i in self._fixed or ())

    def form_of(self, catalog: Catalog, lifted: Lifted) -> Form | None:
        """The form of a statement, if it is known or due to be looked for."""
        self._seen += 1
        if self._fixed is not None:
            choice = self._choice(lifted)
            if choice in self._forms:
                return self._forms[choice]
        if not self._is_due(len(lifted.literals)):
            return None
        self._tried += 1
        form = _find_form(catalog, lifted)
        if form is not None:
            fixed = [i for i in range(len(lifted.literals)) if i not in form.filled]
            if self._fixed is None:
                self._fixed = fixed
            elif fixed != self._fixed:
                form = None  # forms are told apart by other literals than this one has
        elif self._fixed is None:
            return None  # a statement that is wrong, say, tells nothing about the others
        self._forms[self._choice(lifted)] = form
        while len(self._forms) > MOST_CHOICES:
            self._forms.popitem(last=False)
        return form

    def _is_due(self, literals: int) -> bool:
        """Looking for a form reads the statement twice for each literal. So it is done only once
        as many statements were read as that takes; then nobody can make it cost much more."""
        return self._tried < self._seen // max(1, 2 * literals) + (literals <= CHEAP)


FORMS = Forms()
"""One for the process: a form is bound to the definitions it stands on, not to a session."""


def _bind(catalog: Catalog, statement: s.RegisterQuery) -> Query:
    """The query of a statement, bound from nothing."""
    query = bind_query(catalog, statement.name.text, statement.select)
    if statement.since is not None:
        query = replace(query, since=moment_of(statement.since))
    return replace(query, arrivals=True) if statement.arrivals else query


# How a form is found


def _find_form(catalog: Catalog, lifted: Lifted) -> Form | None:
    """The form of a statement, or None where nothing can be filled in safely."""
    try:
        query, select = _bound(catalog, lifted, lifted.literals)
    except PlaceError:
        return None
    roles: dict[str, list[int]] = {"inside": [], "nearest": []}
    constants: list[tuple[int, Path, Constant]] = []
    trials = list(lifted.literals)
    for ordinal, literal in enumerate(lifted.literals):
        for trial in _trials(literal):
            given = [*lifted.literals[:ordinal], trial, *lifted.literals[ordinal + 1 :]]
            try:
                other, _ = _bound(catalog, lifted, given)
            except PlaceError:
                continue
            changed = [f.name for f in fields(Query) if _differ(query, other, f.name)]
            if "sources" in changed and _named(query) == _named(other):
                changed.remove("sources")  # those of focal objects follow from the clauses
            if changed == ["where"]:
                found = _one_difference(query.where, other.where)
                if found is None or found[1].value != _coerced(trial, found[1]):
                    break
                constants.append((ordinal, *found))
            elif len(changed) == 1 and changed[0] in roles:
                roles[changed[0]].append(ordinal)
            else:
                break
            trials[ordinal] = trial
            break
    inside, nearest = tuple(roles["inside"]), tuple(roles["nearest"])
    if not (_is_whole(select.inside, inside) and _is_whole(select.nearest, nearest)):
        return None
    _ = query.streams, query.tables  # they are the same for all of the form, and found once
    form = Form(uuid.uuid4().hex, query, select, inside, nearest, tuple(constants))
    try:
        wanted = [_bound(catalog, lifted, given)[0] for given in (lifted.literals, trials)]
        made = [form.fill(catalog, lifted.name, given) for given in (lifted.literals, trials)]
    except PlaceError:
        return None
    return form if made == wanted else None


def _with(value: Part, **changes: Any) -> Part:
    """What `replace` does, without looking at each field."""
    made = object.__new__(type(value))
    made.__dict__.update(value.__dict__, **changes)
    return made


def _named(query: Query) -> tuple[Source, ...]:
    return tuple(source for source in query.sources if not source.is_hidden)


def _follow(query: Query, made: Query) -> tuple[Source, ...]:
    """The sources of a query with the focal objects of another one of its form."""
    if len({*query.focals}) != len({*made.focals}):
        raise PlaceError("INSIDE and kNN follow more objects here than there")
    keys = {
        (fold(old.stream), old.key): new.key
        for old, new in zip(query.focals, made.focals, strict=True)
    }
    return tuple(
        replace(source, key=keys[fold(source.relation.name), source.key])
        if source.key is not None
        else source
        for source in query.sources
    )


def _differ(one: Query, other: Query, part: str) -> bool:
    return bool(getattr(one, part) != getattr(other, part))


def _bound(catalog: Catalog, lifted: Lifted, literals: Sequence[str]) -> tuple[Query, s.Select]:
    texts = lifted.skeleton.partition("\1")[0].split("\0")
    body = texts[0] + "".join(a + b for a, b in zip(literals, texts[1:], strict=True))
    statement = parse_one(lifted.head + body)
    assert isinstance(statement, s.RegisterQuery)
    return _bind(catalog, statement), statement.select


def _trials(literal: str) -> list[str]:
    """Other literals of the same kind, near enough to be as good as this one."""
    value = value_of(literal)
    if isinstance(value, str):
        written = value.replace("'", "''")
        return [f"'{written}x'", f"'x{written}'"]
    if isinstance(value, int):
        return [str(value + 1), str(value - 1)]
    return [repr(value * 0.9375 + 0.001953125), repr(value * 0.9375 - 0.001953125)]


def _coerced(literal: str, constant: Constant) -> Any:
    """What filling in a literal in the place of a constant gives; None if it does not fit."""
    try:
        return coerce(value_of(literal), constant.type)
    except PlaceError:
        return None


def _one_difference(one: Any, other: Any) -> tuple[Path, Constant] | None:
    """The way to the only constant in which two expressions differ, and what the other has."""
    if type(one) is not type(other):
        return None
    if isinstance(one, Constant):
        return ((), other) if one.type is other.type else None
    if not is_dataclass(one):  # a number of a region in WHERE, say
        return None
    found: list[tuple[Path, Constant]] = []
    for each in fields(one):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        if mine == theirs:
            continue
        is_many = isinstance(mine, tuple)
        if is_many and len(mine) != len(theirs):
            return None
        pairs = zip(mine, theirs, strict=True) if is_many else [(mine, theirs)]
        for place, (a, b) in enumerate(pairs):
            if a != b:
                inner = _one_difference(a, b)
                if inner is None:
                    return None
                found.append((((each.name, place if is_many else -1), *inner[0]), inner[1]))
    return found[0] if len(found) == 1 else None


def _with_constant(expression: Any, path: Path, constant: Constant) -> Any:
    if not path:
        return constant
    (name, place), rest = path[0], path[1:]
    held: Any = getattr(expression, name)
    if place < 0:
        return replace(expression, **{name: _with_constant(held, rest, constant)})
    made = _with_constant(held[place], rest, constant)
    return replace(expression, **{name: (*held[:place], made, *held[place + 1 :])})


# Clauses with other literals


def _is_whole(clause: Any, ordinals: tuple[int, ...]) -> bool:
    """Is every number of a clause filled in, or none?"""
    return not ordinals or len(ordinals) == _count(clause)


def _count(clause: s.InsideClause | s.NearestClause) -> int:
    if isinstance(clause, s.NearestClause):
        if clause.around is not None:
            return 1
        if clause.group is not None:
            return 1 + sum(1 if isinstance(p, s.Focal) else 2 for p in clause.group.places)
        return 3 if clause.focal is None else 2
    if clause.shape is not None:
        return len(clause.shape.numbers) + 2 * sum(map(len, clause.shape.rings))
    return 0 if clause.focal is None else 1 + len(clause.extents)


def _inside_with(clause: s.InsideClause, values: list[Any]) -> s.InsideClause:
    if clause.shape is not None:
        numbers = tuple(map(float, values))
        if clause.shape.kind != "POLYGON":
            return _with(clause, shape=_with(clause.shape, numbers=numbers))
        points = iter(zip(numbers[0::2], numbers[1::2], strict=True))
        rings = tuple(tuple(next(points) for _ in ring) for ring in clause.shape.rings)
        return replace(clause, shape=replace(clause.shape, rings=rings))
    assert clause.focal is not None
    focal = replace(clause.focal, key=replace(clause.focal.key, value=values[0]))
    return replace(clause, focal=focal, extents=tuple(map(float, values[1:])))


def _nearest_with(clause: s.NearestClause, values: list[Any]) -> s.NearestClause:
    k = replace(clause.k, value=values[0])
    if clause.around is not None:
        return replace(clause, k=k)
    if clause.group is not None:
        rest = iter(values[1:])
        places = tuple(
            replace(place, key=replace(place.key, value=next(rest)))
            if isinstance(place, s.Focal)
            else (float(next(rest)), float(next(rest)))
            for place in clause.group.places
        )
        return replace(clause, k=k, group=replace(clause.group, places=places))
    if clause.focal is None:
        return replace(clause, k=k, point=(float(values[1]), float(values[2])))
    focal = replace(clause.focal, key=replace(clause.focal.key, value=values[1]))
    return replace(clause, k=k, focal=focal)
