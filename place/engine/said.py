"""What is said at an instant: the readings themselves, for windows, which hold all of them.

Objects are where their last reading says; a window counts every reading, each once, and
`WINDOW PREVIOUS` wants to know what the same object said before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.objects import Messages, Objects
from place.engine.past import ceil_all
from place.model.schema import Stream

Bools = NDArray[np.bool_]
Numbers = NDArray[np.int64]

NOTHING, KEPT = -2, -1
"""Before a reading nothing was said, or what the object kept until this instant."""


STRANGER = -2
"""The slot of an object that is not there, which is not that of a focal object elsewhere, −1."""


@dataclass(frozen=True)
class Said:
    """Readings of one instant; of those with one key and time only the last.

    `previous` is the reading before each one in its object's life, by its position, or what the
    object kept; only an object's last reading has one. `spoke` are the keys of all messages.
    """

    stream: str
    keys: Numbers
    times: Numbers
    rows: Columns
    previous: Numbers
    kept: Columns
    spoke: Numbers

    def slots(self, store: Objects) -> Numbers:
        """Where the objects are among the cell's, now that they have taken the readings."""
        found = store.find_all(self.keys)
        return np.where(found < 0, STRANGER, found)

    def ranks(self, store: Objects) -> Numbers:
        """The order of the keys."""
        return store.columns.dictionary.ranks()[self.keys] if store.is_coded else self.keys

    def before(self, readings: Numbers, needed: tuple[int, ...]) -> Columns:
        """What was said before these readings."""
        previous = self.previous[readings]
        rows = self.rows.pick(needed, np.maximum(previous, 0))
        old = np.flatnonzero(previous == KEPT)
        if len(old):
            rows.put(old, self.kept.pick(needed, readings[old]))
        return rows


def listen(messages: Messages, store: Objects, instant: int, *, pairs: bool) -> Said:
    """What messages say to the windows of a cell whose objects have not yet taken them.

    `messages` are in the order of their times. With `pairs` each object's last reading is paired
    with the one before it.
    """
    order = np.lexsort((np.arange(len(messages)), messages.times, messages.keys))
    keys, times = messages.keys[order], messages.times[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (keys[1:] != keys[:-1]) | (times[1:] != times[:-1])
    order = order[last]
    keys, times, gone = keys[last], times[last], messages.gone[order]
    position = np.cumsum(~gone) - 1
    previous = np.full(len(order), NOTHING)
    slots = store.find_all(keys)
    if pairs and len(order):
        previous = _previous(store, keys, times, gone, slots, position, instant)
    present = np.flatnonzero(~gone)
    return Said(
        store.relation.name,
        keys[present],
        times[present],
        messages.rows.take(order[present]),
        previous[present],
        store.columns.take(np.maximum(slots[present], 0)),
        np.unique(keys),
    )


def _previous(
    store: Objects,
    keys: Numbers,
    times: Numbers,
    gone: Bools,
    slots: Numbers,
    position: Numbers,
    instant: int,
) -> Numbers:
    """What was said before, in the same life, for the last reading of each key."""
    stream = store.relation
    assert isinstance(stream, Stream)
    first, final = np.ones(len(keys), np.bool_), np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    final[:-1] = first[1:]
    is_kept = first & (slots >= 0) & store.alive[slots]
    told = np.roll(times, 1)
    told[is_kept] = store.times[slots[is_kept]]
    has = np.where(first, is_kept, ~np.roll(gone, 1))
    if stream.timeout is not None:
        has &= times < told + stream.timeout
        has &= ceil_all(times + stream.timeout, stream.evaluate) > instant
    found = np.where(first, KEPT, np.roll(position, 1))
    return np.where(has & final & ~gone, found, NOTHING)
