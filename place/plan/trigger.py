"""A bound trigger: which readings make a match together, and what is told of it.

A trigger is a query whose rows are alerts: each of its matches is told once, as a positive delta
that is never taken back. It stands in the catalog as a `Query` (place/plan/query.py) with a
`Trigger`. The sources of that query are, in this order: the variables of the match, the variable
of UNLESS if there is one, and the tables. `V[3]` stands there as three variables.

Beside the columns of its stream, a variable has one more: the time of its reading, which is not a
column of every stream. It follows the last column, see `time_column`. Where the stream has a
column of time, that column is always read as this one.
"""

from __future__ import annotations

from dataclasses import dataclass

from place.model.schema import Stream
from place.model.shape import Shape
from place.model.types import Type
from place.plan.expression import Column, CompareOp, Expression

FOREVER = 1 << 62
"""A time difference without a bound, in microseconds."""

STRATEGIES = ("LOOSE", "TIGHT", "NO INDEX")
"""How readings are kept and found; one of them may be a hint."""


@dataclass(frozen=True)
class Trigger:
    """`conditions` are joined by AND, and so are those of the `absence`, which also read the
    variable of UNLESS. Both may read the columns of tables."""

    variables: int
    """How many of the sources are variables of a match."""
    conditions: tuple[Expression, ...]
    absence: tuple[Expression, ...] | None
    """None without UNLESS; otherwise the source after the variables is its variable."""
    regions: tuple[tuple[int, Shape], ...]
    """`V INSIDE …`: the source that lies in the region."""
    sets: tuple[tuple[int, ...], ...]
    """Variables that are interchangeable: a set of readings is given to them in the order of times,
    then of keys."""
    within: int | None
    """The longest time between any two readings of a match."""
    is_first: bool
    """REPORT FIRST: at most one match is told for each completing reading."""
    every: int | None
    """How long a group is silent after an alert."""
    groups: tuple[Expression, ...]
    """PER: what alerts have in common that are silenced together."""
    hint: str | None
    """One of the strategies, or None: then it is chosen."""
    region_names: tuple[str, ...] = ()
    """The regions of the catalog that INSIDE names, which therefore cannot be dropped."""

    @property
    def roles(self) -> int:
        """How many sources are readings: the variables, and that of UNLESS."""
        return self.variables + (self.absence is not None)


def time_column(source: int, stream: Stream, alias: str) -> Column:
    """The time of a variable's reading, as a column."""
    return Column(source, len(stream.columns), Type.TIMESTAMP, f"{alias}.t")


@dataclass(frozen=True)
class Reach:
    """From which DISTANCE to which two readings may be; `open` bounds are excluded themselves."""

    least: float = 0.0
    most: float = float("inf")
    least_open: bool = False
    most_open: bool = False


ANYWHERE = Reach()


@dataclass(frozen=True)
class Comparison:
    """What must hold between two variables, each side an expression over one of them."""

    first: int
    left: Expression
    op: CompareOp
    second: int
    right: Expression


@dataclass(frozen=True)
class Constraints:
    """What the conditions of a trigger say once a row of each table is given.

    Rows and columns of `latest` and `reaches` are the variables, that of UNLESS last. The bounds
    are closed under inference: `latest[i][j]` is the greatest time of j less the time of i, in
    microseconds, FOREVER where there is none. What the variable of UNLESS needs never bounds the
    others. `comparisons` are between variables of the match alone. `others` are asked of whole
    matches, `absence` of a match and a reading of UNLESS, beside the bounds that its row and column
    of the matrices and its entry of `unary` are. The matrices hold whatever the conditions say of
    times and distances, so nothing of that has to be asked again.

    Members of a set are in the order of times, and then of keys; `latest` knows of the times only.
    """

    unary: tuple[Expression | None, ...]
    latest: tuple[tuple[int, ...], ...]
    reaches: tuple[tuple[Reach, ...], ...]
    comparisons: tuple[Comparison, ...]
    others: tuple[Expression, ...]
    absence: tuple[Expression, ...]
