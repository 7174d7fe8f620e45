"""What is known of the values of each group: counts, exact sums, least and greatest values.

Values come as whole numbers (`as_numbers`) with weights; a value whose weights add up to 0 is not
there. Groups are slots, and every accumulator is an array by slot. Entries of a whole tick come
sorted into segments (`place.kernels.segments`), and an accumulator returns what it knows at the end
of every segment.
"""

from __future__ import annotations

from bisect import bisect
from typing import NamedTuple

import numpy as np

from place.engine.columns import Dictionary
from place.engine.multiset import Multiset, longer
from place.kernels.arrays import Bools, Longs
from place.kernels.exact import ROOM, carry_all, sum_doubles, sum_wholes
from place.kernels.heaps import least_in_segments, put_items
from place.kernels.row_table import find_rows
from place.kernels.segments import Segments, add_in_segments, cross_zero
from place.model.types import Type

LIMB_OF_ONE = 31
"""The limb of the lowest bit of 1.0: sums of DOUBLE begin there, and widen as values need."""


class Known(NamedTuple):
    """Values as whole numbers, 0 where they are NULL; `nulls` is None if none of them is."""

    numbers: Longs
    nulls: Bools | None


class Slots(Multiset):
    """Packed rows at slots. What a count means is up to the caller, but a row whose count is 0 may
    lose its slot."""

    def find(self, rows: Longs, weights: Longs) -> Longs:
        """The slot of each row, a new one if it has none; −1 of a row without weight."""
        slots: Longs
        self._table, self.rows, self.used, slots = find_rows(
            self._table, self.rows, self.used, rows, weights
        )
        self.counts = longer(self.counts, self.used)
        return slots

    def settle(self, slots: Longs, before: Longs, now: Longs) -> None:
        """Set the counts of slots, which may come several times: what they were and are then."""
        self.counts[slots] = now
        self.hold(int(np.count_nonzero(now)) - int(np.count_nonzero(before)))

    def hold(self, more: int) -> None:
        """Note that `more` slots have got a count other than 0; a negative number says that some
        lost it."""
        self._live += more


class Counts:
    """How many values each group has."""

    def __init__(self) -> None:
        self._counts = np.zeros(8, np.int64)

    def run(self, segments: Segments, weights: Longs, size: int) -> tuple[Longs, Longs]:
        """Add weights, where there are `size` slots: the counts before and after each segment."""
        self._counts = longer(self._counts, size)
        found: tuple[Longs, Longs] = add_in_segments(
            self._counts, segments.slots, weights, segments.starts
        )
        return found

    def keep(self, kept: Longs) -> None:
        """Groups get new numbers: those at these slots, in order, and no others."""
        self._counts = longer(self._counts[kept], 8)


class Sums:
    """The exact sum and the mean of the values of each group.

    Values are DOUBLEs, whole numbers, or intervals, whose mean is an interval.
    """

    def __init__(self, is_double: bool, is_interval: bool = False) -> None:
        self._is_double = is_double
        self._is_interval = is_interval
        self._low = LIMB_OF_ONE if is_double else 0
        self._limbs = np.zeros((8, ROOM), np.int64)

    def run(
        self, segments: Segments, numbers: Longs, weights: Longs, counts: Longs, size: int
    ) -> tuple[Known, Known]:
        """Add weighted values: the sum and the mean after each segment.

        `counts` are how many values the group of each segment has then.
        """
        self._limbs = longer(self._limbs, size)
        terms = (segments.slots, numbers, weights, segments.starts, counts)
        if not self._is_double:
            sums, no_sum, means, no_mean = sum_wholes(self._limbs, *terms, self._is_interval)
            return Known(sums, no_sum), Known(means, no_mean)
        sums, none, means, first, last = sum_doubles(self._limbs, self._low, *terms)
        if first <= last:
            self._widen(first, last)
            sums, none, means, _, _ = sum_doubles(self._limbs, self._low, *terms)
        return Known(sums, none), Known(means, none)

    def _widen(self, first: int, last: int) -> None:
        """Make room for terms whose lowest bits lie in these limbs."""
        width = self._limbs.shape[1]
        low, high = min(first, self._low), max(last + ROOM, self._low + width)
        limbs = np.zeros((len(self._limbs), high - low), np.int64)
        limbs[:, self._low - low : self._low - low + width] = self._limbs
        carry_all(limbs)
        self._low, self._limbs = low, limbs

    def keep(self, kept: Longs) -> None:
        """Groups get new numbers: those at these slots, in order, and no others."""
        self._limbs = longer(self._limbs[kept], 8)


class Values(Slots):
    """The different values of each group, and how often each is there: rows of group and value."""

    def __init__(self) -> None:
        super().__init__(2)

    def run(self, segments: Segments, numbers: Longs, weights: Longs) -> tuple[Longs, Longs]:
        """Add weights to the counts of values.

        Returns, for each entry, the slot of its value (−1 of one without weight) and whether the
        value thereby comes to its group (+1), leaves it (−1) or neither (0).
        """
        items = self.find(_pairs(segments.entries, numbers), weights)
        signs: Longs
        signs, more = cross_zero(self.counts, items, weights)
        self.hold(more)
        return items, signs

    def renumber(self, kept: Longs, size: int) -> None:
        """Groups get new numbers: those at these slots of `size`, in order, and no others."""
        numbers = np.full(size, -1, np.int64)
        numbers[kept] = np.arange(len(kept))
        groups = numbers[self.rows[: self.used, 0]]
        left = np.flatnonzero((self.counts[: self.used] != 0) & (groups >= 0))
        self.rows[: self.used, 0] = groups
        self.keep(left)


def _pairs(slots: Longs, numbers: Longs) -> Longs:
    rows = np.empty((len(slots), 2), np.int64)
    rows[:, 0] = slots
    rows[:, 1] = numbers
    return rows


class TextOrder:
    """Ranks of texts in the order of the texts, assigned as new texts arrive.

    A new text gets a rank between those of its neighbours. Where there is none left, all texts get
    new ranks and `version` grows, so that those who keep ranks know that theirs are out of date.
    """

    STEP = 1 << 32
    FEW = 16
    UNKNOWN = np.iinfo(np.int64).min

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._codes: list[int] = []
        self._texts: list[str] = []
        self._ranks = np.full(8, self.UNKNOWN, np.int64)
        self.version = 0

    def ranks(self, codes: Longs) -> Longs:
        """The ranks of codes."""
        self._ranks = longer(self._ranks, len(self._dictionary.texts), self.UNKNOWN)
        found: Longs = self._ranks[codes]
        unknown = found == self.UNKNOWN
        if not unknown.any():
            return found
        fresh = np.unique(codes[unknown]).tolist()
        if len(fresh) > self.FEW or not all(self._insert(code) for code in fresh):
            self._rank_all(fresh)
        return self._ranks[codes]

    def known(self, codes: Longs) -> Longs:
        """The ranks of codes as they are; those that never were ranked may be anything."""
        return self._ranks[codes]

    def _insert(self, code: int) -> bool:
        """Give a code a rank between others, if there is one."""
        text = self._dictionary.texts[code]
        at = bisect(self._texts, text)
        below = int(self._ranks[self._codes[at - 1]]) if at else None
        above = int(self._ranks[self._codes[at]]) if at < len(self._codes) else None
        if below is None:
            rank = 0 if above is None else above - self.STEP
        elif above is None:
            rank = below + self.STEP
        else:
            rank = (below + above) // 2
        if rank in (below, above):
            return False
        self._texts.insert(at, text)
        self._codes.insert(at, code)
        self._ranks[code] = rank
        return True

    def _rank_all(self, fresh: list[int]) -> None:
        texts = self._dictionary.texts
        self._codes += [code for code in fresh if self._ranks[code] == self.UNKNOWN]
        self._codes.sort(key=texts.__getitem__)
        self._texts = [texts[code] for code in self._codes]
        self._ranks[self._codes] = np.arange(len(self._codes)) * self.STEP
        self.version += 1


class Extremes:
    """The least, or the greatest, value of each group; items are the slots of its `Values`."""

    def __init__(self, values: Values, kind: Type, order: TextOrder, *, greatest: bool) -> None:
        self._values = values
        self._kind = kind
        self._order = order
        self._version = order.version
        self._greatest = greatest
        self._ranks = np.zeros(8, np.int64)
        self._after = np.empty((8, 2), np.int64)
        self._held = np.zeros(8, np.bool_)
        self._present = np.zeros(8, np.bool_)
        self._roots = np.full(8, -1, np.int64)

    def run(
        self, segments: Segments, numbers: Longs, items: Longs, signs: Longs, size: int
    ) -> Known:
        """Take values that come to groups and leave them, as `Values` found. Returns the extreme
        value after each segment."""
        self._reserve(size)
        ranks = self._ranks_of(numbers, signs)
        heaps = (self._ranks, self._after, self._held, self._roots, self._present)
        values = (self._values.rows, items, signs, ranks)
        found, none = least_in_segments(*heaps, *values, segments.slots, segments.starts)
        return Known(found, none)

    def start_again(self, size: int) -> None:
        """The slots of values, or of groups, have new numbers: put all of them in again."""
        self._held[:] = False
        self._present = self._values.counts > 0
        self._roots = np.full(size, -1, np.int64)
        self._reserve(size)
        items = np.flatnonzero(self._present[: self._values.used])
        groups, numbers = self._values.rows[items, 0], self._values.rows[items, 1]
        self._ranks[items] = self._ranks_of(numbers, np.ones(len(items), np.int64))
        put_items(self._ranks, self._after, self._held, self._roots, items, groups)

    def _reserve(self, groups: int) -> None:
        self._roots = longer(self._roots, groups, -1)
        if min(len(self._held), len(self._present)) < self._values.used:
            self._ranks = longer(self._ranks, self._values.used)
            self._after = longer(self._after, self._values.used)
            self._held = longer(self._held, self._values.used)
            self._present = longer(self._present, self._values.used)

    def _ranks_of(self, numbers: Longs, signs: Longs) -> Longs:
        """The ranks of values that come (sign +1); those of others may be anything."""
        ranks = numbers
        if self._kind is Type.DOUBLE:
            ranks = ascending(numbers)
        elif self._kind is Type.STRING:
            come = np.flatnonzero(signs > 0)
            ranks = np.zeros(len(numbers), np.int64)
            ranks[come] = self._order.ranks(numbers[come])
            self._rank_again()
        return ~ranks if self._greatest else ranks

    def _rank_again(self) -> None:
        """All texts may have got other ranks since they came: sort them again."""
        if self._version != self._order.version:
            self._version = self._order.version
            every = self._order.known(self._values.rows[: self._values.used, 1])
            self._ranks[: len(every)] = ~every if self._greatest else every


def ascending(bits: Longs) -> Longs:
    """Whole numbers in the order of the DOUBLEs whose bits are given."""
    # The bits of negative ones grow with their size.
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)
