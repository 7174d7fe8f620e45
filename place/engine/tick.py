"""A tick: all that happens to a cell between two instants, as versions of what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from place.engine.focals import FocalMoves
from place.engine.objects import Messages
from place.engine.operators.contract import Span
from place.engine.tick_readings import TickReadings
from place.engine.versions import Versions
from place.kernels.arrays import Longs, merged_values

NO_FOCAL_MOVES = FocalMoves.joined([])

Due = tuple[Messages, Longs]
"""Messages with their instants, in order."""


@dataclass(frozen=True)
class Tick(Span):
    """The versions of the objects of this cell's row, and of the regions of query tables that
    stream in; the readings, for windows; and where focal objects go. Streams that say nothing are
    missing."""

    objects: Mapping[str, Versions] = field(default_factory=dict)
    regions: Mapping[str, Versions] = field(default_factory=dict)
    readings: Mapping[str, TickReadings] = field(default_factory=dict)
    focals: FocalMoves = NO_FOCAL_MOVES
    elsewhere: Mapping[str, Versions] = field(default_factory=dict)
    """The versions of the objects of other rows."""
    heard: Mapping[str, Due] = field(default_factory=dict)
    """All messages of streams of whose readings the windows of joins hold some, with their
    instants: those of other rows among them, and without expiries."""

    @cached_property
    def instants(self) -> Longs:
        """All instants at which something happens, in order."""
        found = [
            *(versions.instants for versions in self.objects.values()),
            *(versions.instants for versions in self.regions.values()),
            *(readings.instants for readings in self.readings.values()),
            self.focals.instants,
        ]
        return merged_values(found)


def by_instants(
    told: Mapping[str, Due], heard: Mapping[str, Due]
) -> Iterator[tuple[int, dict[str, Due], dict[str, Due]]]:
    """The messages of each stream, one instant after the other."""
    dues = [due for _, due in (*told.values(), *heard.values())]
    for instant in np.unique(np.concatenate(dues)).tolist():
        yield instant, _due_at(told, instant), _due_at(heard, instant)


def _due_at(told: Mapping[str, Due], instant: int) -> dict[str, Due]:
    """The messages of each stream at one instant."""
    found = {}
    for name, (messages, due) in told.items():
        low, high = np.searchsorted(due, [instant, instant + 1]).tolist()
        if low < high:
            found[name] = (messages.take(slice(low, high)), due[low:high])
    return found
