"""What operators are made from: one step for each node of a plan, without the constants of queries.

Steps are values that can be compared, so that queries of one shape find the operators they share.
"""

from __future__ import annotations

from dataclasses import dataclass

from place.model.schema import Relation
from place.model.shape import Shape
from place.model.space import Space
from place.plan.expression import Aggregate, Expression
from place.plan.query import Around, Window


@dataclass(frozen=True)
class JoinSpec:
    """Rows beside every row of tables for which conditions hold.

    `tables` are the source in FROM, the name and the needed columns of each. With `only_qualifies`
    rows pass as they are if they have any row beside them.
    """

    conditions: tuple[Expression, ...]
    tables: tuple[tuple[int, str, tuple[int, ...]], ...]
    width: int
    only_qualifies: bool = False


@dataclass(frozen=True)
class ElementSpec:
    """A source of a join: whose elements they are, and in which window; `is_spread` where each row
    of cells has its own share of them."""

    relation: Relation
    window: Window | None
    is_spread: bool


@dataclass(frozen=True)
class AreaSpec:
    """INSIDE of a join: which source lies within, and around which source the region moves."""

    subject: int
    area: Shape | Around
    focal: int | None


@dataclass(frozen=True)
class RankSpec:
    """By what kNN of a join chooses: the elements of `among` by their distance to those of `around`
    (or to a point), for each element of the source `each`, or for the query as a whole.

    Around a group it is the `total` of the distances to `places`: points, and sources of one
    element each.
    """

    among: int
    around: int | None
    point: tuple[float, float] | None
    each: int | None
    total: str | None = None
    places: tuple[tuple[float, float] | int, ...] = ()

    @property
    def around_sources(self) -> tuple[int, ...]:
        """The sources of which it reads where their elements are."""
        led = tuple(place for place in self.places if isinstance(place, int))
        return led if self.around is None else (self.around,)


@dataclass(frozen=True)
class StreamJoinSpec:
    """All combinations of elements for which conditions hold.

    `needed` are the columns of each source that anybody reads, and `shown` those of them, by their
    positions, that are read above the join. Constants of queries are columns of the source `width`.
    """

    sources: tuple[ElementSpec, ...]
    needed: tuple[tuple[int, ...], ...]
    shown: tuple[tuple[int, ...], ...]
    conditions: tuple[Expression, ...]
    width: int
    space: Space
    area: AreaSpec | None
    rank: RankSpec | None
    method: str | None


@dataclass(frozen=True)
class NearestJoinSpec(StreamJoinSpec):
    """For each element of one source the k nearest of the other, where no condition is between the
    two; `is_apart` says that no object is its own neighbour.

    It holds the constants of conditions: queries that differ in them have joins of their own.
    """

    k: int
    is_apart: bool


@dataclass(frozen=True)
class ReverseSpec(StreamJoinSpec):
    """The elements of a source to whom the place of a query is one of the k nearest; `led` is the
    source of its focal object.

    It holds the constants of conditions: queries that differ in them have circles of their own.
    """

    subject: int
    led: int | None


@dataclass(frozen=True)
class NearestEachSpec:
    """Of the combinations of each centre those with the nearest elements."""


@dataclass(frozen=True)
class NearestSpec:
    """The nearest objects to the centre of each query, or to its group of places."""

    subject: int
    is_group: bool = False


@dataclass(frozen=True)
class DwellSpec:
    """Objects that have been in their regions, which stand still or move, for so long; or, with a
    condition `entered`, since it held of them, or of so many readings in a row."""

    duration: int
    is_standing: bool
    entered: Expression | None = None
    confirm: int | None = None


@dataclass(frozen=True)
class WindowSpec:
    """Readings of the last time, or the last so many."""

    subject: int
    window: Window


@dataclass(frozen=True)
class PreviousSpec:
    """Each object's last reading beside the one before it, which is a source of its own."""

    subject: int
    previous: int


@dataclass(frozen=True)
class FirstSpec:
    """The first of the rows that several cells have chosen."""

    latest: bool


@dataclass(frozen=True)
class GroupSpec:
    """Groups and their aggregates, and the condition of HAVING that chooses among them."""

    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expression | None
    width: int


@dataclass(frozen=True)
class ProjectSpec:
    """The columns of the answer, by their names."""

    outputs: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class DistinctSpec:
    """Of equal rows of the answer only one."""


Spec = (
    JoinSpec
    | StreamJoinSpec
    | NearestJoinSpec
    | ReverseSpec
    | NearestEachSpec
    | NearestSpec
    | DwellSpec
    | WindowSpec
    | PreviousSpec
    | FirstSpec
    | GroupSpec
    | ProjectSpec
    | DistinctSpec
)
