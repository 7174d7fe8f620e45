"""kNN around each element of another source, where nothing else ties the two together.

`SELECT … FROM Calls c, Drivers d WHERE d.free = TRUE kNN (3, c)` needs no combinations but those
that it tells: the kernels keep the nearest candidates of every centre, and find them again only
where something changed. What is asked of either source alone decides who is a centre, and who a
candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns
from place.engine.elements import NONE
from place.engine.flow import NOTHING, Flow
from place.engine.operator_specs import NearestJoinSpec
from place.engine.operators.contract import NEVER
from place.engine.placed_elements import Placed
from place.engine.tick import Tick
from place.engine.vector import same_rows
from place.kernels.arrays import Bools, Longs, merged_values
from place.kernels.nearest import Nearby, NearestMatcher
from place.kernels.staying import staying_members
from place.model.space import Space

FEW = 16
"""A centre has room for so many, however few candidates there are."""


@dataclass(frozen=True)
class _Pairs:
    """Pairs of a centre and a candidate by their numbers, with the instants at which they came (+1)
    or went (−1), or said something while they stayed (0)."""

    instants: Longs
    centers: Longs
    candidates: Longs
    signs: Longs

    @staticmethod
    def joined(parts: Sequence[_Pairs]) -> _Pairs:
        if len(parts) == 1:
            return parts[0]
        return _Pairs(
            *(
                np.concatenate([NONE, *(getattr(part, name) for part in parts)])
                for name in ("instants", "centers", "candidates", "signs")
            )
        )

    def take(self, chosen: Longs) -> _Pairs:
        return _Pairs(
            self.instants[chosen],
            self.centers[chosen],
            self.candidates[chosen],
            self.signs[chosen],
        )


class NearestJoin:
    """The nearest candidates of each centre, for queries that ask exactly the same of both."""

    name = "choose"

    def __init__(
        self, spec: NearestJoinSpec, centers: Placed, candidates: Placed, threads: int
    ) -> None:
        self._spec = spec
        self._centers = centers
        self._candidates = candidates
        self._sources = centers, candidates
        self._threads = threads
        self._matcher = NearestMatcher(sphere=spec.space is Space.WGS84)
        self._k = 0
        self._marks = np.zeros(16, np.bool_)
        self._active: list[int] = []
        self._begun: list[int] = []
        self._ended: list[int] = []

    # Queries come and go

    def begin(self, query: int, content: pa.Table | None) -> None:
        """A query begins; its answer follows from the objects."""
        self._begun.append(query)

    def end(self, query: int) -> None:
        """A query ends; its whole answer leaves."""
        if query in self._begun:
            self._begun.remove(query)
        else:
            self._ended.append(query)

    def save(self) -> pa.Table | None:
        """Everything follows from the objects."""
        return None

    def next_expiry(self) -> int:
        """Timeouts come as messages."""
        return NEVER

    def explained(self) -> tuple[str, ...]:
        """How many centres and candidates there are."""
        sources, rank = self._spec.sources, self._spec.rank
        assert rank is not None
        assert rank.around is not None
        names = sources[rank.around].relation.name, sources[rank.among].relation.name
        return (
            f"{len(self._centers)} elements of {names[0]} are centres",
            f"{len(self._candidates)} elements of {names[1]} are candidates,"
            " of which the nearest are kept",
        )

    # A tick

    def take(self, flow: Flow, tick: Tick) -> Flow:
        """The pairs that come and go."""
        parts = [Flow.of_marks(flow.marks)]
        if self._ended:
            parts.append(self._whole(self._ended, tick.until, -1))
            gone = set(self._ended)
            self._active = [query for query in self._active if query not in gone]
        if self._begun:
            if not self._active:
                self._load()
            self._active += self._begun
            parts.append(self._whole(self._begun, tick.until, 1))
        self._begun, self._ended = [], []
        if self._active:
            parts.append(self._changes(tick))
        return Flow.joined(parts)

    def _load(self) -> None:
        """Look at all centres and candidates anew."""
        self._centers.load()
        self._candidates.load()
        self._matcher.reset()
        self._k = 0
        every = (np.ones(len(source.places), np.bool_) for source in self._sources)
        self._match(*every)

    def _whole(self, queries: Sequence[int], instant: int, weight: int) -> Flow:
        """The whole answer, for some queries."""
        starts, members = self._matcher.starts, self._matcher.members
        centers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        present = np.flatnonzero(members >= 0)
        ids = ~centers[present], ~members[present].astype(np.int64)
        count = len(present)
        return self._told(queries, np.full(count, instant), np.full(count, weight), *ids)

    def _match(self, shifted: Bools, moved: Bools) -> Nearby:
        """Who came and who left as some centres and candidates changed."""
        centers, points = self._centers.places, self._candidates.places
        count = len(centers)
        k = min(self._spec.k, _power_of_two(max(FEW, len(points))))
        if k != self._k:
            self._k = k
            shifted = np.ones(count, np.bool_)
        excluded = np.full(count, -1, np.int64)
        if self._spec.is_apart:
            excluded = np.arange(count) * self._candidates.stride
        return self._matcher.match(
            points,
            self._candidates.ranks,
            moved,
            centers,
            excluded,
            np.full(count, k),
            shifted,
            threads=self._threads,
        )

    def _changes(self, tick: Tick) -> Flow:
        """What follows from what centres and candidates say within a tick."""
        instants = merged_values([source.open(tick) for source in self._sources])
        if not len(instants):
            return NOTHING
        for source in self._sources:
            source.divide(instants)
        pairs = [self._step(step, instant) for step, instant in enumerate(instants.tolist())]
        return self._rows(_Pairs.joined(pairs))

    def _step(self, step: int, instant: int) -> _Pairs:
        """What happens at one instant."""
        matcher = self._matcher
        shifted, moved = self._centers.step(step), self._candidates.step(step)
        is_watched = [source.is_watched for source in self._sources]
        old = (matcher.starts, matcher.members.copy()) if any(is_watched) else None
        found = self._match(shifted, moved)
        centers, candidates = found.queries.astype(np.int64), found.slots.astype(np.int64)
        signs = found.signs.astype(np.int64)
        if old is not None:
            if len(self._marks) < len(moved):
                self._marks = np.zeros(2 * len(moved), np.bool_)
            spoke, named = (
                flags if watched else np.zeros_like(flags)
                for flags, watched in zip((shifted, moved), is_watched, strict=True)
            )
            now = matcher.starts, matcher.members
            stays = staying_members(*old, *now, spoke, named, self._marks)
            centers = np.concatenate([centers, stays[0]])
            candidates = np.concatenate([candidates, stays[1]])
            signs = np.concatenate([signs, np.zeros(len(stays[0]), np.int64)])
        return _Pairs(np.full(len(signs), instant), centers, candidates, signs)

    # From pairs to rows

    def _rows(self, pairs: _Pairs) -> Flow:
        """What pairs were goes, and what they are comes."""
        if not len(pairs.signs):
            return NOTHING
        centers = self._centers.around(pairs.centers, pairs.instants)
        candidates = self._candidates.around(pairs.candidates, pairs.instants)
        differs = self._differs(pairs.signs, centers, candidates)
        left = np.flatnonzero((pairs.signs < 0) | differs)
        come = np.flatnonzero((pairs.signs > 0) | differs)
        both = np.concatenate([left, come])
        return self._told(
            self._active,
            pairs.instants[both],
            np.repeat(np.array([-1, 1]), [len(left), len(come)]),
            np.concatenate([centers[0][left], centers[1][come]]),
            np.concatenate([candidates[0][left], candidates[1][come]]),
        )

    def _differs(
        self, signs: Longs, centers: tuple[Longs, Longs], candidates: tuple[Longs, Longs]
    ) -> Bools:
        """The pairs that stay and of which something else is shown now."""
        found = np.zeros(len(signs), np.bool_)
        stays = np.flatnonzero(signs == 0)
        for source, (before, after) in (
            (self._centers, centers),
            (self._candidates, candidates),
        ):
            if source.is_watched and len(stays):
                rows = source.pick(before[stays]), source.pick(after[stays])
                found[stays] |= ~same_rows(*rows)
        return found

    def _told(
        self, queries: Sequence[int], instants: Longs, weights: Longs, centers: Longs, others: Longs
    ) -> Flow:
        """Pairs of versions as rows of queries."""
        spec, count = self._spec, len(weights)
        if not count:
            return NOTHING
        assert spec.rank is not None
        assert spec.rank.around is not None
        rows: list[Columns | None] = [None] * spec.width
        for source, elements, ids in (
            (spec.rank.around, self._centers, centers),
            (spec.rank.among, self._candidates, others),
        ):
            if spec.shown[source]:
                rows[source] = elements.pick(ids)
        flow = Flow(np.full(count, queries[0]), instants, weights, tuple(rows))
        if len(queries) > 1:
            flow = flow.take(np.tile(np.arange(count), len(queries)))
            flow.queries[:] = np.repeat(np.array(queries), count)
        return flow.in_order()


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
