"""Where regions go within a tick: those around focal objects, and those that stream in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns
from place.engine.focals import FocalMoves
from place.engine.layout import Laid, Polygons, fan_of, lay_out_around, lay_out_rows
from place.engine.operators.contract import NEVER
from place.engine.regions import RegionIndex
from place.engine.versions import Versions
from place.kernels.arrays import Bytes, Floats, Longs, runs_of
from place.model.space import Space
from place.plan.query import QueryTable


@dataclass(frozen=True)
class RegionMoves:
    """Rows of a region index that change within a tick, in the order of instants."""

    rows: Longs
    instants: Longs
    boxes: Floats
    kinds: Bytes
    params: Floats

    def __len__(self) -> int:
        return len(self.rows)

    @staticmethod
    def of(rows: Longs, instants: Longs, laid: Laid) -> RegionMoves:
        """Regions that go somewhere; `rows` (n × fan) are the rows of each."""
        fan = rows.shape[1]
        return RegionMoves(
            rows.reshape(-1),
            np.repeat(instants, fan),
            laid.boxes.reshape(-1, 4),
            np.repeat(laid.kinds, fan),
            np.repeat(laid.params, fan, axis=0),
        )

    @staticmethod
    def joined(parts: Sequence[RegionMoves]) -> RegionMoves:
        """All of them, in the order of instants."""
        some = [part for part in parts if len(part)]
        if not some:
            return NO_MOVES
        instants = np.concatenate([part.instants for part in some])
        order = np.argsort(instants, kind="stable")
        return RegionMoves(
            np.concatenate([part.rows for part in some])[order],
            instants[order],
            np.concatenate([part.boxes for part in some])[order],
            np.concatenate([part.kinds for part in some])[order],
            np.concatenate([part.params for part in some])[order],
        )

    def between(self, low: int, high: int) -> RegionMoves:
        """Those from one position to before another."""
        at = slice(low, high)
        return RegionMoves(
            self.rows[at], self.instants[at], self.boxes[at], self.kinds[at], self.params[at]
        )

    def apply(self, index: RegionIndex) -> None:
        """Put the regions where they are after all of these moves."""
        if len(self):
            index.touch(self.rows)
            index.shown[self.rows[~np.isnan(self.boxes[:, 0])]] = True
            index.now.boxes[self.rows] = self.boxes
            index.now.kinds[self.rows] = self.kinds
            index.now.params[self.rows] = self.params


NO_MOVES = RegionMoves(
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty((0, 4)),
    np.empty(0, np.uint8),
    np.empty((0, 4)),
)


@dataclass(frozen=True)
class Leadership:
    """Regions (n × fan rows) that follow focal objects, each for a part of the tick: after one
    instant and before another."""

    rows: Longs
    focals: Longs
    extents: Floats
    after: Longs
    before: Longs

    def moves(self, focal_moves: FocalMoves, space: Space) -> RegionMoves:
        """Where the regions go as their focal objects move."""
        instants, starts = runs_of(focal_moves.instants)
        steps = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(focal_moves)))
        width = len(instants) + 2
        order = np.argsort(focal_moves.numbers, kind="stable")
        keys = focal_moves.numbers[order] * width + steps[order] + 1
        begin = self.focals * width + np.searchsorted(instants, self.after, "right") + 1
        end = self.focals * width + np.searchsorted(instants, self.before, "left") + 1
        first = np.searchsorted(keys, begin)
        counts = np.maximum(np.searchsorted(keys, end) - first, 0)
        counts[self.focals < 0] = 0
        which = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        at = order[first[which] + within]
        laid = lay_out_around(focal_moves.places[at], self.extents[which], space)
        return RegionMoves.of(self.rows[which], focal_moves.instants[at], laid)


def followed(index: RegionIndex, space: Space, except_for: Longs) -> Leadership:
    """Regions that follow the same focal objects through the whole tick."""
    rows, focals = index.led()
    if len(except_for):
        kept = ~np.isin(rows, except_for)
        rows, focals = rows[kept], focals[kept]
    fan = fan_of(space)
    if fan > 1:  # the boxes of one region stand together
        order = np.lexsort((rows, index.owner[rows], index.queries[rows]))
        rows, focals = rows[order], focals[order]
    first = rows[::fan]
    count = len(first)
    return Leadership(
        rows.reshape(-1, fan),
        focals[::fan],
        index.extents[first],
        np.full(count, -NEVER),
        np.full(count, NEVER),
    )


@dataclass(frozen=True)
class StreamedRegions:
    """The regions of a query whose query table is a stream of regions, and what the tick changes in
    them.

    `gone` are the rows of regions that no longer exist at the end of the tick. Where regions follow
    focal objects, `leaders` and `extents` are those of each version of a region.
    """

    query: int
    moves: RegionMoves
    told: Longs
    gone: Longs
    last: Longs
    leaders: Longs | None = None
    extents: Floats | None = None


def streamed(
    query: int,
    table: QueryTable,
    space: Space,
    index: RegionIndex,
    mode: int,
    owners: Versions,
    polygons: Polygons,
    focals_of: Longs | None,
    focal_moves: FocalMoves,
    places: Floats,
) -> StreamedRegions:
    """How messages to a query table change the regions of a query.

    `focals_of` has the number of the focal object that each version names, −1 for none; `places`
    are where the focal objects were before the tick.
    """
    fan = fan_of(space)
    mine = index.grouped(index.rows_of(query))
    known = index.owner[mine[::fan]]
    arriving = np.setdiff1d(owners.slots[~owners.messages.gone], known)
    if len(arriving):
        index.add(query, arriving, fan, mode)
        mine = index.grouped(index.rows_of(query))
        known = index.owner[mine[::fan]]
    rows = mine.reshape(-1, fan)
    has = np.isin(owners.slots, known)
    chosen = np.flatnonzero(has)  # those that disappear and were not there have no region
    at = np.searchsorted(known, owners.slots[chosen])
    present = ~owners.messages.gone[chosen]
    instants = owners.instants[chosen]
    last = owners.after[chosen] < 0
    told = rows[at].reshape(-1)
    gone = rows[at[last & ~present]].reshape(-1)
    columns = owners.messages.rows
    if focals_of is None:
        laid = lay_out_rows(table.layout, table.columns, columns.take(chosen), space, polygons)
        laid.kinds[~present], laid.params[~present], laid.boxes[~present] = 1, np.nan, np.nan
        return StreamedRegions(
            query, RegionMoves.of(rows[at], instants, laid), told, gone, rows[at[last]]
        )
    extents = extents_of(table, columns.take(chosen))
    leaders = np.where(present & ~np.isnan(extents[:, 0]), focals_of[chosen], -1)
    after = owners.after[chosen]
    until = np.where(after < 0, NEVER, owners.instants[after])
    first = owners.before[chosen] < 0
    old = rows[at[first], 0]
    before = Leadership(
        rows[at[first]],
        index.now.focals[old],
        index.extents[old],
        np.full(len(old), -NEVER),
        instants[first],
    )
    now = Leadership(rows[at], leaders, extents, instants, until)
    begin = lay_out_around(_places_at(leaders, instants, focal_moves, places), extents, space)
    moves = [
        before.moves(focal_moves, space),
        RegionMoves.of(rows[at], instants, begin),
        now.moves(focal_moves, space),
    ]
    return StreamedRegions(
        query,
        RegionMoves.joined(moves),
        told,
        gone,
        rows[at[last]],
        leaders[last],
        extents[last],
    )


def extents_of(table: QueryTable, rows: Columns) -> Floats:
    """The extents of regions around focal objects; NaN where they make no region."""
    sizes = [rows.numbers(c) for c in table.columns[1:]]
    bad = np.isnan(sizes[0]) | (sizes[0] < 0)
    other = np.full(len(sizes[0]), np.nan)
    if len(sizes) == 2:
        bad |= np.isnan(sizes[1]) | (sizes[1] < 0)
        other = sizes[1]
    extents = np.stack([sizes[0], other], axis=1)
    extents[bad] = np.nan
    return extents


def _places_at(numbers: Longs, instants: Longs, moves: FocalMoves, places: Floats) -> Floats:
    """Where focal objects are at instants."""
    found = places[numbers]
    found[numbers < 0] = np.nan
    if not len(moves):
        return found
    order = np.lexsort((moves.instants, moves.numbers))
    moved, when = moves.numbers[order], moves.instants[order]
    steps, rank = np.unique(when, return_inverse=True)
    width = len(steps) + 2
    keys = moved * width + rank + 1
    wanted = numbers * width + np.searchsorted(steps, instants, "right")
    at = np.searchsorted(keys, wanted, "right") - 1
    hit = (at >= 0) & (numbers >= 0)
    hit[hit] = moved[at[hit]] == numbers[hit]
    found[hit] = moves.places[order[at[hit]]]
    return found
