"""Queries that come and go between two ticks, as a cell is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from place.plan.query import Query


@dataclass(frozen=True)
class Changes:
    """Queries that come and go between two ticks.

    `tables` are the rows of the tables that registered queries read, `contents` what their windows
    already hold. `stage` puts what happens at one instant in order. A query that is asked once may
    have to run in the cells of a registered one: `beside` is the name of that one.
    """

    instant: int
    register: Sequence[Query] = ()
    drop: Sequence[str] = ()
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    contents: Mapping[str, pa.Table] = field(default_factory=dict)
    stage: int = 0
    beside: str | None = None
