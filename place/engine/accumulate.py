"""What is known of the values of each group: counts, exact sums, least and greatest values.

Values come as whole numbers (`as_numbers`) with weights; a value without weight is not there.
Groups are slots, and every accumulator is an array by slot.
"""

from __future__ import annotations

from bisect import bisect
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import DTYPES, Dictionary
from place.engine.multiset import Multiset, longer
from place.engine.vector import Vector
from place.kernels.exact import (
    BITS,
    ROOM,
    add_terms,
    carry_all,
    nearest_doubles,
    whole_numbers,
)
from place.kernels.heaps import least_items, put_items
from place.kernels.multiset import add_counts
from place.model.types import Type

Bools = NDArray[np.bool_]
Numbers = NDArray[np.int64]

LIMB_OF_ONE = 31
"""Where the sums of DOUBLE begin, before a value needs more."""


class Counts:
    """How many values each group has."""

    def __init__(self) -> None:
        self._counts = np.zeros(8, np.int64)

    def add(self, slots: Numbers, weights: Numbers, size: int) -> None:
        self._counts = longer(self._counts, size)
        add_counts(self._counts, slots, weights)

    def at(self, slots: Numbers) -> Numbers:
        return self._counts[slots]

    def keep(self, kept: Numbers) -> None:
        """Groups get new numbers: those at these slots, in order, and no others."""
        self._counts = longer(self._counts[kept], 8)


class Sums:
    """The exact sum of the values of each group."""

    def __init__(self, is_double: bool) -> None:
        self._is_double = is_double
        self._low = LIMB_OF_ONE if is_double else 0
        self._limbs = np.zeros((8, ROOM), np.int64)

    def add(
        self, slots: Numbers, numbers: Numbers, weights: Numbers, touched: Numbers, size: int
    ) -> None:
        """Add weighted values; `touched` are all the slots among them."""
        self._limbs = longer(self._limbs, size)
        terms = (slots, numbers, weights, touched, self._is_double)
        first, last = add_terms(self._limbs, self._low, *terms)
        if first <= last:
            self._widen(first, last)
            add_terms(self._limbs, self._low, *terms)

    def _widen(self, first: int, last: int) -> None:
        """Make room for terms whose lowest bits lie in these limbs."""
        width = self._limbs.shape[1]
        low, high = min(first, self._low), max(last + ROOM, self._low + width)
        limbs = np.zeros((len(self._limbs), high - low), np.int64)
        limbs[:, self._low - low : self._low - low + width] = self._limbs
        carry_all(limbs)
        self._low, self._limbs = low, limbs

    def doubles(self, slots: Numbers) -> NDArray[np.float64]:
        """The sums of DOUBLEs, rounded once; infinite where they are too large."""
        found: NDArray[np.float64] = nearest_doubles(self._limbs, self._low, slots)
        return found

    def wholes(self, slots: Numbers) -> tuple[Numbers, Bools]:
        """The sums of whole numbers, and where they are within 64 bits."""
        found: tuple[Numbers, Bools] = whole_numbers(self._limbs, slots)
        return found

    def exact(self, slot: int) -> int:
        """The sum of whole numbers, of any size."""
        return sum(limb << (BITS * j) for j, limb in enumerate(self._limbs[slot].tolist()))

    def keep(self, kept: Numbers) -> None:
        self._limbs = longer(self._limbs[kept], 8)


class Crossed(NamedTuple):
    """Values that came (sign +1) or went (−1): their groups, themselves, and their own slots."""

    slots: Numbers
    numbers: Numbers
    signs: Numbers
    items: Numbers


class Values(Multiset):
    """The different values of each group, and how often each is there: rows of group and value."""

    def __init__(self) -> None:
        super().__init__(2)

    def change(self, slots: Numbers, numbers: Numbers, weights: Numbers) -> Crossed:
        """Add weights to the counts of values."""
        rows = np.empty((len(slots), 2), np.int64)
        rows[:, 0] = slots
        rows[:, 1] = numbers
        added = self.add(rows, weights)
        signs = (added.now > 0).astype(np.int64) - (added.before > 0)
        (changed,) = signs.nonzero()
        items = added.touched[changed]
        crossed = self.rows[items]
        return Crossed(crossed[:, 0].copy(), crossed[:, 1].copy(), signs[changed], items)

    def renumber(self, kept: Numbers, size: int) -> None:
        """Groups get new numbers: those at these slots of `size`, in order, and no others."""
        numbers = np.full(size, -1, np.int64)
        numbers[kept] = np.arange(len(kept))
        groups = numbers[self.rows[: self.used, 0]]
        left = np.flatnonzero((self.counts[: self.used] != 0) & (groups >= 0))
        self.rows[: self.used, 0] = groups
        self.keep(left)


class TextOrder:
    """Ranks of texts in the order of the texts, given as the texts come.

    A new text gets a rank between those of its neighbours; where there is none left, all ranks are
    given anew, and `version` tells it.
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

    def ranks(self, codes: Numbers) -> Numbers:
        """The ranks of codes."""
        self._ranks = longer(self._ranks, len(self._dictionary.texts), self.UNKNOWN)
        found: Numbers = self._ranks[codes]
        unknown = found == self.UNKNOWN
        if not unknown.any():
            return found
        fresh = np.unique(codes[unknown]).tolist()
        if len(fresh) > self.FEW or not all(self._insert(code) for code in fresh):
            self._rank_all(fresh)
        return self._ranks[codes]

    def known(self, codes: Numbers) -> Numbers:
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
        self._roots = np.full(8, -1, np.int64)

    def appear(self, items: Numbers, groups: Numbers, size: int) -> None:
        """Values are there that were not; those that are gone are found to be so when needed."""
        self._reserve(size)
        numbers = self._values.rows[items, 1]
        self._ranks[items] = self._rank(numbers)
        if self._kind is Type.STRING and self._version != self._order.version:
            self._version = self._order.version
            every = self._values.rows[: self._values.used, 1]
            self._ranks[: len(every)] = self._signed(self._order.known(every))
        put_items(self._ranks, self._after, self._held, self._roots, items, groups)

    def at(self, slots: Numbers) -> Vector:
        """The value of each group."""
        counts = self._values.counts
        items = least_items(self._ranks, self._after, self._held, self._roots, counts, slots)
        nulls = items < 0
        numbers = np.where(nulls, 0, self._values.rows[items, 1])
        if self._kind is Type.DOUBLE:
            return Vector(numbers.view(np.float64), nulls)
        return Vector(numbers.astype(DTYPES[self._kind], copy=False), nulls)

    def start_again(self, size: int) -> None:
        """The slots of values, or of groups, have new numbers: put all of them in again."""
        self._held[:] = False
        self._roots = np.full(size, -1, np.int64)
        items = np.flatnonzero(self._values.counts[: self._values.used] > 0)
        self.appear(items, self._values.rows[items, 0], size)

    def _reserve(self, groups: int) -> None:
        self._roots = longer(self._roots, groups, -1)
        if len(self._held) < self._values.used:
            self._ranks = longer(self._ranks, self._values.used)
            self._after = longer(self._after, self._values.used)
            self._held = longer(self._held, self._values.used)

    def _rank(self, numbers: Numbers) -> Numbers:
        if self._kind is Type.STRING:
            return self._signed(self._order.ranks(numbers))
        if self._kind is Type.DOUBLE:  # the bits of negative ones grow with their size
            numbers = numbers ^ ((numbers >> 63) & np.iinfo(np.int64).max)
        return self._signed(numbers)

    def _signed(self, ranks: Numbers) -> Numbers:
        return ~ranks if self._greatest else ranks
