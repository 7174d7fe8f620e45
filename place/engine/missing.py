"""Readings that leave some columns out: `missing = 'last'` keeps what the object said before.

The value of a column that a reading leaves NULL is that of the object's reading before it, by time
and then in the order of the source, as long as the object has not disappeared or timed out between
them. So readings have to be in the order of their times first: they wait here until their instants
are complete, and go on to the history and the timelines with their gaps filled. What an object said
last is kept beside the stores of the cells, because those go on at their own pace.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.objects import Messages, Objects
from place.kernels.arrays import Bools, Longs
from place.model.schema import Stream


@dataclass
class Gaps:
    """The readings of a stream that are not complete, and what its objects said before them."""

    stream: Stream
    known: Objects
    waiting: list[Messages] = field(default_factory=list)

    @staticmethod
    def empty(stream: Stream, dictionary: Dictionary) -> Gaps:
        return Gaps(stream, Objects(stream, dictionary))

    def hear(self, messages: Messages) -> None:
        """Readings in the order of their source."""
        if len(messages):
            self.waiting.append(messages)

    def release(self, closed: int) -> Messages | None:
        """The readings up to a complete instant, in the order of their times, without gaps."""
        if not self.waiting:
            return None
        waiting = Messages.joined(self.waiting)
        ready = np.flatnonzero(waiting.times <= closed)
        if not len(ready):
            return None
        later = np.flatnonzero(waiting.times > closed)
        self.waiting = [waiting.take(later)] if len(later) else []
        messages = waiting.take(ready[np.argsort(waiting.times[ready], kind="stable")])
        if any(nulls[~messages.gone].any() for nulls in messages.rows.nulls):
            messages = self._filled(messages)
        self.known.change(messages)
        self._let_go(closed)
        return messages

    def _filled(self, messages: Messages) -> Messages:
        """The same readings; each object's last words before them stand in front of its own."""
        slots = self.known.find_all(messages.keys)
        slots = np.unique(slots[slots >= 0])
        before = Messages(
            self.known.keys[slots],
            self.known.times[slots],
            np.zeros(len(slots), np.bool_),
            self.known.columns.take(slots),
        )
        said = Messages.joined([before, messages])
        order = np.argsort(said.keys, kind="stable")
        begins = self._begins(said, order)
        place = np.arange(len(order))
        rows = Columns(self.stream.columns, said.rows.dictionary, 0)
        rows.values, rows.nulls = [], []
        for values, nulls in zip(said.rows.values, said.rows.nulls, strict=True):
            if nulls.any():
                there = begins | ~nulls[order]
                source = order[np.maximum.accumulate(np.where(there, place, 0))]
                filled, left = np.empty_like(values), np.empty_like(nulls)
                filled[order], left[order] = values[source], nulls[source]
                values, nulls = filled, left
            rows.values.append(values[len(slots) :])
            rows.nulls.append(nulls[len(slots) :])
        return Messages(messages.keys, messages.times, messages.gone, rows)

    def _begins(self, said: Messages, order: Longs) -> Bools:
        """Where, in the order of keys, an object begins to live; who is gone keeps nothing."""
        keys, times, gone = said.keys[order], said.times[order], said.gone[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]) | gone[1:] | gone[:-1]
        if self.stream.timeout is not None:
            begins[1:] |= times[1:] >= times[:-1] + self.stream.timeout
        return begins

    def _let_go(self, closed: int) -> None:
        """Forget the objects that have timed out: their next reading begins anew."""
        if self.stream.timeout is not None:
            size = self.known.size
            over = self.known.times[:size] + self.stream.timeout <= closed
            self.known.evict(np.flatnonzero(self.known.alive[:size] & over))
