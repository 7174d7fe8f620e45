"""What TRAJECTORY asks for: the readings of each object in order, or measures of them.

docs/history.md defines a trajectory, its legs and its measures. Here is what a statement asks for,
as it was bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from place.model.types import Type
from place.plan.expression import Expression
from place.plan.query import Output

FUNCTION = "TRAJECTORY"
MEASURES = {
    "LENGTH": Type.DOUBLE,
    "DURATION": Type.INTERVAL,
    "SPEED": Type.DOUBLE,
    "TOP_SPEED": Type.DOUBLE,
}
"""What a trajectory can be asked, in the order of the row that the outputs of `measures` read:
the key of an object, and then these."""


@dataclass(frozen=True)
class Trajectory:
    """Readings as rows, those without which the line stays within `tolerance` left out; or, with
    `measures`, one row for each object, of those for which `having` is true."""

    key: str
    """The name of the column that has the key of an object."""
    tolerance: float | None = None
    measures: tuple[Output, ...] | None = None
    having: Expression | None = None

    @property
    def line(self) -> str | None:
        """The column by which rows, in their order, are lines."""
        return self.key if self.measures is None else None
