"""A step: all that happens to a cell at one instant, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from place.engine.changes import Change
from place.engine.objects import Messages
from place.engine.part import Part
from place.plan.query import Query


@dataclass(frozen=True)
class Step:
    """All that happens at one instant.

    `messages` are what the keys of each stream say, of which the last word counts; `readings` are
    those that were told, without expiries, for windows, which hold all of them. `tables` are the
    rows of the tables that registered queries read, `contents` what windows hold already. `stage`
    puts what happens at one instant in order.
    """

    instant: int
    messages: Mapping[str, Messages] = field(default_factory=dict)
    readings: Mapping[str, Messages] = field(default_factory=dict)
    register: Sequence[Query] = ()
    drop: Sequence[str] = ()
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    contents: Mapping[str, pa.Table] = field(default_factory=dict)
    stage: int = 0


Found = Change | Part
