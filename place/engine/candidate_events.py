"""What happens to the candidates of kNN, and to its centres, at each instant of a tick."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from place.engine.flow import Flow
from place.engine.operators.contract import NEVER
from place.engine.tick import Tick
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Floats, Ints, Longs

LedBy = Callable[[Longs], tuple[Longs, Longs]]
"""What each of some focal objects leads, by rows, and its position among these."""


class CandidateEvents:
    """What happens to points and centres at each instant of a tick."""

    def __init__(
        self, versions: Versions, flow: Flow, tick: Tick, moves: Longs, instants: Longs
    ) -> None:
        self.versions = versions
        self.instants = instants
        self.slots = versions.slots
        self._starts = np.searchsorted(versions.instants, np.append(instants, NEVER))
        self._toggled = np.empty(0, np.int64) if flow.slots is None else flow.slots
        self._are = flow.weights > 0
        self._toggles = np.searchsorted(flow.instants, np.append(instants, NEVER))
        self._focals = tick.focals.numbers[moves]
        self._centres = tick.focals.places[moves]
        self._moves = np.searchsorted(tick.focals.instants[moves], np.append(instants, NEVER))

    def at(self, step: int) -> Longs:
        """The slots that say something at an instant."""
        return self.slots[self._starts[step] : self._starts[step + 1]]

    def toggles_at(self, step: int) -> tuple[Longs, Bools]:
        """The slots that become candidates, or are none any more; the last word counts."""
        part = slice(self._toggles[step], self._toggles[step + 1])
        return self._toggled[part], self._are[part]

    def centres_at(self, step: int) -> tuple[Longs, Floats]:
        """The focal objects that move at an instant, and where to."""
        part = slice(self._moves[step], self._moves[step + 1])
        return self._focals[part], self._centres[part]

    def all_centres(self) -> tuple[Longs, Floats]:
        """All moves of focal objects, in order."""
        return self._focals, self._centres

    def walk_points(
        self, columns: tuple[int, int], candidates: Bools | None
    ) -> tuple[Longs, Ints, Floats]:
        """Where points go at each step; NaN for those that are no candidates (any more).

        `candidates` become what they are after the last step.
        """
        versions = self.versions
        if candidates is None:
            to = versions.places(np.arange(len(versions)), columns)
            return self._starts.astype(np.int64), self.slots.astype(np.int32), to
        steps = len(self.instants)
        own = np.repeat(np.arange(steps), np.diff(self._starts))
        other = np.repeat(np.arange(steps), np.diff(self._toggles))
        size = versions.store.size
        keys = np.unique(np.concatenate([own * size + self.slots, other * size + self._toggled]))
        at, slots = keys // size, keys % size
        instants = self.instants[at]
        to = versions.places(versions.around(slots, instants)[1], columns)
        # Whether a slot is a candidate at a step is what was said of it last, by then.
        told = np.lexsort((np.arange(len(other)), other, self._toggled))
        known = self._toggled[told] * (steps + 1) + other[told]
        wanted = slots * (steps + 1) + at
        found = np.searchsorted(known, wanted, "right") - 1
        are = candidates[slots].copy()
        hit = np.flatnonzero(found >= 0)
        hit = hit[self._toggled[told[found[hit]]] == slots[hit]]
        are[hit] = self._are[told[found[hit]]]
        to[~are] = np.nan
        candidates[self._toggled] = self._are
        starts = np.searchsorted(at, np.arange(steps + 1))
        return starts.astype(np.int64), slots.astype(np.int32), to

    def walk_centres(self, led_by: LedBy) -> tuple[Longs, Ints, Floats]:
        """Where the centres of queries go at each step."""
        queries, which = led_by(self._focals)
        steps = np.repeat(np.arange(len(self.instants)), np.diff(self._moves))[which]
        order = np.argsort(steps, kind="stable")
        starts = np.searchsorted(steps[order], np.arange(len(self.instants) + 1))
        return starts.astype(np.int64), queries[order].astype(np.int32), self._centres[which[order]]
