"""The statements of the language, as the parser yields them: names and numbers not yet checked.

Every part that an error may speak of carries the place where it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from place.errors import StatementError


@dataclass(frozen=True)
class Position:
    """A place in the statement's text; both count from 1."""

    line: int
    column: int


def wrong(
    message: str,
    position: Position | None,
    *,
    expected: str | None = None,
    hint: str | None = None,
) -> StatementError:
    """A StatementError at a position, to be raised."""
    line, column = (position.line, position.column) if position else (None, None)
    return StatementError(message, line=line, column=column, expected=expected, hint=hint)


@dataclass(frozen=True)
class Name:
    text: str
    at: Position


@dataclass(frozen=True)
class Literal:
    """A number, text or truth value as written; numbers with a point or exponent are floats."""

    value: int | float | str | bool | None
    at: Position


class Statement:
    """What one statement of the language says."""


class Change(Statement):
    """A statement that makes another version of the catalog."""


@dataclass(frozen=True)
class Creation(Change):
    """A statement that defines something by a name."""

    name: Name
    """What it is called from now on."""
    if_not_exists: bool
    or_replace: bool = field(default=False, kw_only=True)
    """Whether it may take the place of one of the same name."""


@dataclass(frozen=True)
class Option:
    name: Name
    value: Literal


@dataclass(frozen=True)
class ColumnSpec:
    name: Name
    type: Name
    key: bool


@dataclass(frozen=True)
class ExternalSpec:
    """`FILES ('incoming/', format = 'csv')`: a kind, at most one bare argument, named options."""

    kind: Name
    argument: Literal | None
    options: tuple[Option, ...]


@dataclass(frozen=True)
class ShapeSpec:
    """`RECTANGLE`, `CIRCLE` (flat numbers) or `POLYGON` (rings of pairs)."""

    kind: str
    numbers: tuple[float, ...]
    rings: tuple[tuple[tuple[float, float], ...], ...]
    at: Position


@dataclass(frozen=True)
class Focal:
    """The focal object of a moving query: its key, and its stream where it is another one."""

    key: Literal
    stream: Name | None


@dataclass(frozen=True)
class Duration:
    """A length of time as written: `'5 minutes'` or `5 MINUTES`."""

    text: str
    at: Position


@dataclass(frozen=True)
class InsideClause:
    """One of: a named region, a shape, or extents (r, or xdist and ydist) around a focal object.

    `subject` is the name of FROM that it speaks of, where one was written: `a INSIDE Downtown`.
    `OUTSIDE` asks for the contrary; as the one clause of a query it is always INSIDE. `dwell` is
    how long an object must have been there: `INSIDE Dock FOR '5 minutes'`. `ahead` is how soon it
    will be there: `INSIDE Dock WITHIN NEXT '5 minutes'`. With `is_path` it is the way between two
    readings that meets the area, or the `line` of `CROSSING LINE ((…))`. `leave` is how far from
    the area who was in it has to be to have left it: `INSIDE Dock LEAVE BEYOND 50`. `confirm` is
    how many readings have to agree: `INSIDE Dock CONFIRM 3 READINGS`.
    """

    at: Position
    region: Name | None = None
    shape: ShapeSpec | None = None
    focal: Focal | None = None
    extents: tuple[float, ...] = ()
    subject: Name | None = None
    is_outside: bool = False
    dwell: Duration | None = None
    ahead: Duration | None = None
    is_path: bool = False
    line: tuple[tuple[float, float], ...] = ()
    leave: Literal | None = None
    confirm: Literal | None = None

    @property
    def is_way(self) -> bool:
        """Does it speak of a way, and not of a place?"""
        return self.is_path or self.ahead is not None or len(self.line) > 0


@dataclass(frozen=True)
class GroupClause:
    """`SUM OF (POINT (x, y), FOCAL id, …)`: several places, and what of the distances to them
    counts: their SUM, MAX or MIN."""

    at: Position
    total: str
    places: tuple[tuple[float, float] | Focal, ...]


@dataclass(frozen=True)
class NearestClause:
    """`kNN (k, x, y)`, `kNN ('M', k, id)`, `kNN (k, name)`: around each element of a source, or
    `kNN (k, SUM OF (…))`; and `RNN (k, x, y)` or `RNN ('M', k, id)`, the other way round."""

    at: Position
    k: Literal
    point: tuple[float, float] | None
    focal: Focal | None
    around: Name | None = None
    group: GroupClause | None = None
    is_reverse: bool = False

    @property
    def name(self) -> str:
        """What the clause is called in errors."""
        return "RNN" if self.is_reverse else "kNN"


@dataclass(frozen=True)
class WindowClause:
    """`WINDOW 1 HOUR` (a duration's text), `WINDOW 100 ROWS`, or `WINDOW PREVIOUS` (neither)."""

    at: Position
    duration: str | None = None
    rows: Literal | None = None


@dataclass(frozen=True)
class SelectItem:
    """An expression with an alias; `expression` is None for `*`, of `table` if one is named."""

    at: Position
    expression: exp.Expr | None
    alias: Name | None
    table: Name | None = None


@dataclass(frozen=True)
class FromItem:
    """A stream or table, with a window of its own where one was written behind its name."""

    relation: Name
    alias: Name
    window: WindowClause | None = None


@dataclass(frozen=True)
class PastClause:
    """`AS OF 'time'`, or `BETWEEN 'time' AND 'time'`: then `until` is the second one."""

    at: Position
    begin: Literal
    until: Literal | None = None


@dataclass(frozen=True)
class Select(Statement):
    at: Position
    distinct: bool
    items: tuple[SelectItem, ...]
    sources: tuple[FromItem, ...]
    where: exp.Expr | None
    inside: InsideClause | None
    nearest: NearestClause | None
    window: WindowClause | None
    group_by: tuple[exp.Expr, ...]
    having: exp.Expr | None
    hint: Name | None = None
    past: PastClause | None = None
    """When it is asked about; None is now."""


@dataclass(frozen=True)
class SelectTold(Statement):
    """`SELECT * FROM QUERY name AS OF …`: what a query or trigger of the catalog answered."""

    at: Position
    kind: str
    name: Name
    past: PastClause


@dataclass(frozen=True)
class CreateStream(Creation):
    columns: tuple[ColumnSpec, ...]
    source: ExternalSpec | None
    options: tuple[Option, ...]


@dataclass(frozen=True)
class CreateTable(Creation):
    """Rows come from a file (`FROM 'cars.csv'`) or stand in the statement (`AS VALUES …`)."""

    columns: tuple[ColumnSpec, ...]
    path: Literal | None
    rows: tuple[tuple[Literal, ...], ...]
    options: tuple[Option, ...]
    plain: Sequence[tuple[int | float | str | bool | None, ...]] | None = None
    """The rows without their places, where they were read in bulk."""


@dataclass(frozen=True)
class RefreshTable(Change):
    name: Name


@dataclass(frozen=True)
class InsertRows(Change):
    """`INSERT INTO name (columns) VALUES …`: without columns, rows have all of them."""

    name: Name
    columns: tuple[Name, ...]
    rows: tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True)
class DeleteRows(Change):
    """`DELETE FROM name WHERE …`: without a condition, all rows."""

    name: Name
    where: exp.Expr | None


@dataclass(frozen=True)
class AlterStream(Change):
    """`ALTER STREAM name SET (option = …)`."""

    name: Name
    options: tuple[Option, ...]


@dataclass(frozen=True)
class ResetTime(Change):
    """`ALTER STREAM name RESET TIME`: the stream is as if it had told nothing yet."""

    name: Name


@dataclass(frozen=True)
class CreateRegion(Creation):
    shape: ShapeSpec


@dataclass(frozen=True)
class RegisterQuery(Creation):
    """`arrivals`: EMIT ARRIVALS, by which only rows that join the answer are told. `since` is the
    time in the past at which it begins; None is now."""

    select: Select
    arrivals: bool = False
    since: Literal | None = None


@dataclass(frozen=True)
class CreatePin(Creation):
    """`CREATE PIN name ON stream AS OF 'time'`: the past of that time is kept beyond `keep`."""

    stream: Name
    moment: Literal


@dataclass(frozen=True)
class CreateSink(Creation):
    queries: tuple[Name, ...] | None
    target: ExternalSpec


@dataclass(frozen=True)
class VariableSpec:
    """`Buoys AS V`, or `Buoys AS V[5]`: then `count` is how many variables it stands for."""

    relation: Name
    alias: Name
    count: Literal | None = None


@dataclass(frozen=True)
class UnlessClause:
    """`UNLESS Guards AS g WHEN …`: the reading that must not be there."""

    at: Position
    variable: VariableSpec
    when: exp.Expr


@dataclass(frozen=True)
class EveryClause:
    """`EVERY '10 minutes' PER …`."""

    duration: Duration
    per: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class CreateTrigger(Creation):
    """`areas` are those of INSIDE behind WHEN; without `alert` keys and times are told."""

    variables: tuple[VariableSpec, ...]
    when: exp.Expr
    areas: tuple[InsideClause, ...]
    within: Duration | None
    unless: UnlessClause | None
    alert: tuple[SelectItem, ...]
    is_first: bool
    every: EveryClause | None
    hint: Name | None


Registration = RegisterQuery | CreateTrigger
"""What has deltas, and on a server an owner."""


@dataclass(frozen=True)
class Drop(Change):
    """`kind` is what is dropped: a stream, a query …"""

    kind: str
    name: Name
    if_exists: bool


@dataclass(frozen=True)
class Show(Statement):
    """`kind` is what is listed: `stream`, `query` …"""

    kind: str


@dataclass(frozen=True)
class Describe(Statement):
    name: Name


@dataclass(frozen=True)
class Explain(Statement):
    """The plan of a registered query (a Name), of one to be registered, or of a SELECT.

    `kind` is `query` or `trigger`.
    """

    target: Name | RegisterQuery | CreateTrigger | Select | SelectTold
    analyze: bool
    kind: str = "query"


class Inside(exp.Expression, exp.Predicate):
    """`O INSIDE Q [OF stream]` in WHERE: the objects of O meet the regions of query table Q.

    In the WHEN of a trigger it is `V INSIDE area`; its `InsideClause` is `meta["area"]`.
    """

    arg_types = {"this": True, "expression": True, "stream": False}


class InsideArea(exp.Expression, exp.Predicate):
    """`INSIDE area` or `OUTSIDE area` as a condition; its `InsideClause` is `meta["area"]`.

    The binder leaves in `meta["bound"]` which source it speaks of and what the area is.
    """

    arg_types = {"this": False}


def position_of(expression: exp.Expr) -> Position | None:
    """Where an expression begins: the leftmost of its parts that knows its place."""
    found = None
    for node in expression.walk():
        place = node.meta.get("position")
        if place is not None and (found is None or (place.line, place.column) < found):
            found = (place.line, place.column)
    return Position(*found) if found else None
