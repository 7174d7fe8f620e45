"""What a statement answers, wherever it was executed."""

from __future__ import annotations

from dataclasses import dataclass

from place.model.delta import Delta
from place.model.types import Row, Type


@dataclass(frozen=True)
class Result:
    """What a statement answers: a message, or rows under columns; and the deltas it caused."""

    message: str
    columns: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    rows: tuple[Row, ...] = ()
    deltas: tuple[Delta, ...] = ()
