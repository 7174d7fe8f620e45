"""What conditions ask about areas, without the area: a function whose last argument is its text.

Queries that ask the same about different areas are then asked together.
"""

from __future__ import annotations

from typing import NamedTuple

from place.engine.area_table import Line
from place.model.shape import Shape
from place.model.space import Space
from place.plan.expression import Crossing, Lies, Near, Sweeps

OF_AREA = "AREA "


class Question(NamedTuple):
    """A question about places or ways and an area; some have a length, of metres or of time."""

    question: str
    area: Shape | Line
    space: Space
    length: float | None = None

    @property
    def function(self) -> str:
        """The name of the function that stands for all but the area."""
        return f"{OF_AREA}{self.question} {self.space.value} {self.length}"


def question_of(expression: Lies | Near | Sweeps | Crossing) -> Question:
    """What an expression asks."""
    match expression:
        case Lies(area=area, space=space):
            return Question("LIES", area, space)
        case Near(area=area, space=space, distance=distance):
            return Question("NEAR", area, space, distance)
        case Sweeps(area=area, space=space, ahead=ahead):
            return Question("SWEEPS", area, space, ahead)
        case Crossing(line=line, space=space):
            return Question("CROSSING", line, space)


def parts_of_question(function: str) -> tuple[str, Space, float | None]:
    """The question, the space and the length that the name of a function says.

    >>> parts_of_question("AREA NEAR planar 50.0")
    ('NEAR', <Space.PLANAR: 'planar'>, 50.0)
    """
    question, space, length = function.removeprefix(OF_AREA).split()
    return question, Space(space), None if length == "None" else float(length)
