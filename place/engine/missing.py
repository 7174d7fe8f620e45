"""Readings that leave some columns out: `missing = 'last'` keeps what the object said before.

The value of a column that a reading leaves NULL is that of the object's reading before it, by time
and then in the order of the source, as long as the object has not disappeared or timed out between
them. So readings have to be in the order of their times first: they wait here until their instants
are complete, and go on to the history and the timelines with their gaps filled. What an object said
last is kept beside the stores of the cells, because those go on at their own pace.

Readings of a stream with `motion = TRUE` wait here for the same reason, and get columns more: where
their objects were at the reading before, and how long ago that was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.objects import Messages, Objects
from place.kernels.arrays import Bools, Longs
from place.model.schema import Stream, tracked


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
        has_gaps = any(nulls[~messages.gone].any() for nulls in messages.rows.nulls)
        if has_gaps and self.stream.fills_gaps:
            messages = self._filled(messages)
        complete = self._with_motion(messages) if self.stream.keeps_motion else messages
        self.known.change(messages)
        self._let_go(closed)
        return complete

    def _filled(self, messages: Messages) -> Messages:
        """The same readings; each object's last words before them stand in front of its own."""
        said = self._behind_last_words(messages)
        first = len(said) - len(messages)
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
            rows.values.append(values[first:])
            rows.nulls.append(nulls[first:])
        return Messages(messages.keys, messages.times, messages.gone, rows)

    def _with_motion(self, messages: Messages) -> Messages:
        """The same readings, each with where its object was before and how long ago; of several
        with one time only the last has it, which is the one that counts."""
        said = self._behind_last_words(messages)
        first = len(said) - len(messages)
        order = np.argsort(said.keys, kind="stable")
        counts = np.ones(len(order), np.bool_)
        keys, times = said.keys[order], said.times[order]
        counts[:-1] = (keys[1:] != keys[:-1]) | (times[1:] != times[:-1])
        kept = order[counts]
        lives = np.flatnonzero(~self._begins(said, kept))
        now, before = kept[lives], kept[lives - 1]
        made = Columns(tracked(self.stream).columns, said.rows.dictionary, 0)
        made.values = [values[first:] for values in said.rows.values]
        made.nulls = [nulls[first:] for nulls in said.rows.nulls]
        assert self.stream.x is not None
        assert self.stream.y is not None
        unknown = np.ones(len(said), np.bool_)
        unknown[now] = False
        for column in (self.stream.x, self.stream.y):
            place = np.zeros(len(said))
            place[now] = said.rows.values[column][before]
            made.values.append(place[first:])
            made.nulls.append(unknown[first:])
        since = np.zeros(len(said), np.int64)
        since[now] = said.times[now] - said.times[before]
        made.values.append(since[first:])
        made.nulls.append(unknown[first:])
        return Messages(messages.keys, messages.times, messages.gone, made)

    def _behind_last_words(self, messages: Messages) -> Messages:
        """The readings behind what their objects said last before them."""
        slots = self.known.find_all(messages.keys)
        slots = np.unique(slots[slots >= 0])
        before = Messages(
            self.known.keys[slots],
            self.known.times[slots],
            np.zeros(len(slots), np.bool_),
            self.known.columns.take(slots),
        )
        return Messages.joined([before, messages])

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
