"""What a tick gives to the store of readings that wait, and what it gets back.

Graphs that are ALONE take a tick one after the other (place/kernels/constraint_alone.py), others
event by event, so events are dealt to them first, and what they find is put in order afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from place.kernels import constraint_tables as t
from place.kernels.arrays import Floats, Longs
from place.kernels.constraint_alone import deal, order_found


@dataclass(frozen=True)
class TriggerEvents:
    """The readings of a tick in their canonical order, and the variables each of them qualifies
    for, in ascending order."""

    times: Longs
    instants: Longs
    streams: Longs
    places: Floats
    """Three columns: x, y and 0 in the plane, unit vectors on the sphere; NaN is nowhere."""
    features: Longs
    starts: Longs
    variables: Longs


@dataclass(frozen=True)
class Found:
    """Matches, in the order of the instants at which they are told."""

    graphs: Longs
    instants: Longs
    completing: Longs
    """The sequence number of the last reading of each match."""
    slots: Longs
    """The slots of its variables, a row for each match; −1 beyond them."""
    blockers: tuple[Longs, Longs]
    """Of graphs that ask more: matches, and slots of readings that may block them."""


def deal_events(rules: t.Rules, events: TriggerEvents, slots: Longs) -> tuple[t.Arrived, t.Turns]:
    """The events of a tick with what is not for graphs that are ALONE, and the turns of those."""
    starts, variables = whole(events.starts), whole(events.variables)
    size, most = len(variables), min(len(variables), len(rules.graphs))
    lengths = (most, most + 1, size)
    turns = t.Turns(*(np.empty(length, np.int64) for length in lengths))
    others, other_starts = np.empty(size, np.int64), np.empty(len(starts), np.int64)
    counts = np.zeros(len(rules.graphs), np.int64)
    met, left = deal(rules, starts, variables, counts, turns, other_starts, others)
    ledger = np.zeros((len(slots), 3), np.int64)
    ledger[:, t.LEAVING] = -1
    arrived = t.Arrived(
        whole(events.times),
        whole(events.instants),
        whole(events.streams),
        np.require(events.places, np.float64, ("C", "W")),
        whole(events.features),
        other_starts,
        others[:left],
        whole(slots),
        ledger,
    )
    return arrived, turns._replace(graphs=turns.graphs[:met])


def put_in_order(
    rules: t.Rules, rows: Longs, blockers: Longs, alone: int, first: int, events: int
) -> Found:
    """The matches of a tick in the order of instants, as a copy. The first `alone` rows are in the
    order of graphs; the events have sequence numbers from `first` on."""
    ordered, (at, blocking) = np.empty_like(rows), blockers.T.copy()
    order_found(rows, alone, first, np.zeros(events + 1, np.int64), ordered)
    ordered[alone:] = rows[alone:]
    if 0 < alone < len(rows):
        # A match that waited until an instant is told after those of the events of this instant.
        has_waited = rules.graphs[ordered[:, 0], t.ABSENT]
        order = np.lexsort((ordered[:, 2], has_waited, ordered[:, 1]))
        places = np.empty(len(rows), np.int64)
        places[order] = np.arange(len(rows))
        ordered, at = ordered[order], places[at]
    graphs, instants, completing = (ordered[:, column] for column in range(t.FOUND_SLOTS))
    return Found(graphs, instants, completing, ordered[:, t.FOUND_SLOTS :], (at, blocking))


def whole(column: Any) -> Longs:
    """Whole numbers in one piece, which may be written: another layout is another compilation."""
    made: Longs = np.require(column, np.int64, ("C", "W"))
    return made
