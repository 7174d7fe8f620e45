"""The graphs of triggers as tables: what each asks of pairs of readings, and where they are kept.

A graph is a trigger with a row of each of its tables: variables, and bounds between any two of
them. The kernels (place/kernels/constraint_events.py) read all graphs from a few arrays, in which
each graph has blocks of rows; blocks of graphs that are gone are given to others of the same size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from place.kernels import constraint_tables as t
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.constraint_entries import bit_of
from place.kernels.near_changes import SURE
from place.model.space import EARTH_RADIUS

T = TypeVar("T", bound=np.generic)

FIRST_ROWS = 64
"""Rows for which a table has room at first."""
LINE = 8
"""Numbers in a line of memory."""
WIDEST = 200
"""Squares whose side would be a greater power of two are one square."""


@dataclass(frozen=True)
class Graph:
    """What the readings of a match have to be to each other. The roles are the variables of a match
    and, if `has_absent`, one more of which no reading may fit."""

    streams: Longs
    """The stream of each role, as a number."""
    periods: Longs
    """How often the stream of each role is evaluated, in microseconds; 0 if it is progressive."""
    latest: Longs
    """The greatest time of the second less the time of the first; `UNBOUNDED` if there is none."""
    least: Floats
    most: Floats
    """The bounds of DISTANCE; 0 and infinity where there are none."""
    least_open: Bools
    most_open: Bools
    order: NDArray[np.int8]
    """1 where the reading of the first has to precede that of the second."""
    comparisons: Longs
    """Rows of a role, its feature, an operator, another role, and its feature."""
    has_absent: bool
    asks_more: bool
    """Readings that may block a match are told beside it, as more has to be asked of them."""
    sphere: bool
    strategy: int

    @property
    def roles(self) -> int:
        """How many variables there are, with the absent one."""
        return len(self.streams)

    @property
    def matched(self) -> int:
        """How many variables a match has."""
        return self.roles - self.has_absent


class Blocks:
    """Which rows of a table are in use, in blocks."""

    def __init__(self) -> None:
        self.used = 0
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        """The first row of a block."""
        if size and self._free.get(size):
            return self._free[size].pop()
        self.used += size
        return self.used - size

    def give(self, begin: int, size: int) -> None:
        """A block is free again."""
        if size:
            self._free.setdefault(size, []).append(begin)


class GraphTables:
    """All graphs of a store."""

    def __init__(self) -> None:
        self.rules = t.Rules(
            variables=np.zeros((FIRST_ROWS, t.VARIABLE_COLUMNS), np.int64),
            owners=np.full(FIRST_ROWS, -1, np.int64),
            graphs=np.zeros((FIRST_ROWS, t.GRAPH_COLUMNS), np.int64),
            pairs=np.zeros((FIRST_ROWS, t.PAIR_COLUMNS), np.int64),
            bounds=np.zeros((FIRST_ROWS, 6)),
            comparisons=np.zeros((FIRST_ROWS, 3), np.int64),
            layers=np.zeros((FIRST_ROWS, 5), np.int64),
            lengths=np.zeros((FIRST_ROWS, 2)),
        )
        self.widest = 1
        self._graphs, self._variables, self._pairs = Blocks(), Blocks(), Blocks()
        self._comparisons, self._layers = Blocks(), Blocks()
        self._shared: dict[tuple[int, bool, int], int] = {}
        self._sharing: dict[int, int] = {}
        """How many graphs share a layer."""

    def add(self, graph: Graph) -> int:
        """Enter a graph; its number."""
        roles, matched = graph.roles, graph.matched
        if not 1 <= matched <= t.MOST_VARIABLES:
            raise ValueError(f"{matched} variables in a match, 1 to {t.MOST_VARIABLES} expected")
        number, first = self._graphs.take(1), self._variables.take(roles)
        pairs, layer = self._pairs.take(roles * roles), self._layer_of(graph)
        self._grow()
        self.widest = max(self.widest, matched)
        flags, reachable = self._enter_pairs(graph, pairs)
        has_place = (flags & (t.HAS_MOST | t.HAS_LEAST)).astype(bool)[:, :matched].any(axis=1)
        rows = self.rules.variables[first : first + roles]
        rows[:, t.GRAPH], rows[:, t.ROLE] = number, np.arange(roles)
        rows[:, t.FIRST], rows[:, t.BEYOND] = first, first + roles
        rows[:, t.LIST], rows[:, t.KEPT], rows[:, t.ROOM] = -1, 0, 0
        rows[:, t.SOONEST], rows[:, t.ALARM] = t.NEVER, t.BEGINNING
        rows[:, t.PERIOD], rows[:, t.NEEDS_PLACE] = graph.periods, has_place
        bits = np.array([bit_of(first + j) for j in range(matched)], np.int64)
        for i in range(matched):
            wanted = bits[reachable[i, :matched]]
            rows[i, t.WANTED] = np.bitwise_or.reduce(wanted) if len(wanted) else 0
        self.rules.graphs[number] = (
            first,
            matched,
            roles,
            graph.strategy,
            layer,
            pairs,
            graph.has_absent,
            graph.asks_more,
            0,
            0,
            0,
            0,
        )
        self._set_alone(number, graph, layer)
        return number

    def remove(self, number: int) -> None:
        """A graph is no more; nothing is kept for it."""
        row = self.rules.graphs[number]
        roles, pairs = int(row[t.ROLES]), int(row[t.PAIRS])
        begin = int(self.rules.pairs[pairs, t.BEGIN])
        end = int(self.rules.pairs[pairs + roles * roles - 1, t.END])
        self._comparisons.give(begin, end - begin)
        self._pairs.give(pairs, roles * roles)
        self._variables.give(int(row[t.ORIGIN]), roles)
        self._graphs.give(number, 1)
        self._leave(int(row[t.LAYER]))

    def set_strategy(self, number: int, graph: Graph) -> None:
        """Readings of a graph are found in another way; nothing is kept for it now."""
        layer = self._layer_of(graph)
        self._leave(int(self.rules.graphs[number, t.LAYER]))
        self.rules.graphs[number, [t.STRATEGY, t.LAYER]] = graph.strategy, layer
        self._set_alone(number, graph, layer)

    def _set_alone(self, number: int, graph: Graph, layer: int) -> None:
        """Write whether a graph has nothing to do with others while a tick is taken."""
        is_alone, row = layer < 0 and not graph.has_absent, self.rules.graphs[number]
        row[t.ALONE], first = is_alone, int(row[t.ORIGIN])
        owners = number << t.ROLE_BITS | np.arange(graph.roles)
        self.rules.owners[first : first + graph.roles] = owners if is_alone else -1

    def _leave(self, layer: int) -> None:
        """A graph is in a layer no more."""
        if layer >= 0:
            self._sharing[layer] -= 1
            if not self._sharing[layer]:
                del self._sharing[layer]
                self._shared = {key: each for key, each in self._shared.items() if each != layer}
                self._layers.give(layer, 1)

    def forget_numbers(self) -> None:
        """Sequence numbers may begin anew."""
        self.rules.layers[:, [t.ASKED, t.STORED]] = -1

    def _enter_pairs(self, graph: Graph, offset: int) -> tuple[Longs, Bools]:
        """Write what is asked of pairs; their flags, and which can be reached backwards."""
        roles = graph.roles
        most, most_open = _symmetric(graph.most, graph.most_open, 1.0)
        least, least_open = _symmetric(graph.least, graph.least_open, -1.0)
        apart = ~np.eye(roles, dtype=bool)
        has_most, has_least = apart & (most < np.inf), apart & ((least > 0) | least_open)
        before = graph.order == 1
        flags = np.zeros((roles, roles), np.int64)
        for bit, holds in (
            (t.HAS_MOST, has_most),
            (t.HAS_LEAST, has_least & (least >= 0)),
            (t.MOST_OPEN, most_open),
            (t.LEAST_OPEN, least_open),
            (t.BEFORE, before),
            (t.AFTER, before.T),
        ):
            flags |= np.where(holds, bit, 0)
        if graph.sphere:
            flags |= t.ON_SPHERE
        # Where both streams have one rhythm, a reading that came before is not later.
        one_rhythm = graph.periods[:, None] == graph.periods[None, :]
        reachable = apart & ~before & ~(one_rhythm & (graph.latest.T < 0))
        rows = slice(offset, offset + roles * roles)
        pairs, bounds = self.rules.pairs[rows], self.rules.bounds[rows]
        pairs[:, t.LATER], pairs[:, t.EARLIER] = graph.latest.ravel(), graph.latest.T.ravel()
        pairs[:, t.FLAGS], pairs[:, t.REACHABLE] = flags.ravel(), reachable.ravel()
        pairs[:, t.TURN] = _turns(graph).ravel()
        for lengths, column in ((most.ravel(), t.MOST), (least.ravel(), t.LEAST)):
            measures = _chord(lengths, graph.sphere) ** 2
            bounds[:, column] = lengths
            bounds[:, column + 1] = np.where(lengths < 0, -1.0, measures * (1 - SURE))
            bounds[:, column + 2] = np.where(lengths < 0, -1.0, measures * (1 + SURE) + 1e-300)
        self._enter_comparisons(graph, offset)
        return flags, reachable

    def _enter_comparisons(self, graph: Graph, offset: int) -> None:
        """Write the comparisons, each for its pair and, turned around, for the pair backwards."""
        turned = np.array([t.EQUAL, t.UNEQUAL, t.GREATER, t.AT_LEAST, t.LESS, t.AT_MOST])
        i, left, op, j, right = graph.comparisons.reshape(-1, 5).T
        if (i == j).any():
            raise ValueError("a comparison is between two variables")
        places = np.concatenate([i * graph.roles + j, j * graph.roles + i])
        rows = np.stack(
            [
                np.concatenate([left, right]),
                np.concatenate([op, turned[op]]),
                np.concatenate([right, left]),
            ],
            axis=1,
        )
        begin = self._comparisons.take(len(rows))
        self._grow()
        ordered = np.argsort(places, kind="stable")
        self.rules.comparisons[begin : begin + len(rows)] = rows[ordered]
        ends = begin + np.searchsorted(places[ordered], np.arange(graph.roles**2), "right")
        pairs = self.rules.pairs[offset : offset + graph.roles**2]
        pairs[:, t.END] = ends
        pairs[:, t.BEGIN] = np.append(begin, ends[:-1])

    def _layer_of(self, graph: Graph) -> int:
        """The layer in which a graph's readings are kept, −1 if they are in lists."""
        if graph.strategy == t.NO_INDEX or graph.matched == 1:
            return -1
        kind, level, span = _level_of(graph)
        key = (graph.strategy, graph.sphere, level)
        layer = self._shared.get(key) if kind else None
        if layer is None:
            # Readings that may be anywhere are kept for their graph alone: they are a single
            # square, and what others keep would be looked at in vain.
            layer = self._layers.take(1)
            self._grow()
            self.rules.layers[layer] = kind, -1, 0, -1, 0
            self.rules.lengths[layer] = 2.0**-level if kind else 0.0, 0.0
            if kind:
                self._shared[key] = layer
        self._sharing[layer] = self._sharing.get(layer, 0) + 1
        lengths = self.rules.lengths[layer]
        lengths[t.REACHED] = max(lengths[t.REACHED], span)
        return layer

    def _grow(self) -> None:
        """Make room for all that is in use."""
        self.rules = t.Rules(
            grown(self.rules.variables, self._variables.used),
            grown(self.rules.owners, self._variables.used, -1),
            grown(self.rules.graphs, self._graphs.used),
            grown(self.rules.pairs, self._pairs.used),
            grown(self.rules.bounds, self._pairs.used),
            grown(self.rules.comparisons, self._comparisons.used),
            grown(self.rules.layers, self._layers.used),
            grown(self.rules.lengths, self._layers.used),
        )


def _turns(graph: Graph) -> Longs:
    """For each role, the others in the order in which their domains are looked for, and itself.

    A domain that is empty and stays so spares the others: first come those that no later reading
    can fill, and of these the ones whose readings lie in the least time.
    """
    later, earlier = graph.latest, graph.latest.T
    width = np.minimum(later, t.UNBOUNDED >> 1) + np.minimum(earlier, t.UNBOUNDED >> 1)
    most = np.minimum(graph.most, graph.most.T)
    roles = np.arange(graph.roles)
    last = np.eye(graph.roles, dtype=bool) | (roles >= graph.matched)[None, :]
    found: Longs = np.lexsort((most, width, later >= 0, last), axis=1)
    return found


def grown(table: NDArray[T], rows: int, fill: int = 0) -> NDArray[T]:
    """A table with room for so many rows: itself, or one that is at least twice as long."""
    if rows <= len(table):
        return table
    more = max(rows, 2 * len(table))
    if table.shape[1:] == (LINE,):
        made = lined(more, LINE).view(table.dtype)
    else:
        made = np.full((more, *table.shape[1:]), fill, table.dtype)
    made[: len(table)] = table
    return made


def _level_of(graph: Graph) -> tuple[int, int, float]:
    """How many coordinates tell the squares of a graph apart, their side as a power of two, and how
    far coordinates of near places are apart at most."""
    others = ~np.eye(graph.matched, dtype=bool)
    most, _ = _symmetric(graph.most, graph.most_open, 1.0)
    longest = float(most[: graph.matched, : graph.matched][others].max())
    if longest == np.inf:
        return 0, 0, math.inf
    chord = float(_chord(np.array([max(longest, 0.0)]), graph.sphere)[0])
    span = chord * (1 + SURE) + 1e-12
    level = math.frexp(span)[1]
    return (3 if graph.sphere else 2) if level <= WIDEST else 0, level, span


def scale_of(graph: Graph) -> float:
    """One over the side of the squares of a graph; 0 if all places are one square."""
    kind, level, _ = _level_of(graph)
    return 2.0**-level if kind else 0.0


def lined(rows: int, columns: int) -> Longs:
    """A table of zeros that begins with a line of memory, so that a row of eight is one."""
    flat = np.zeros(rows * columns + LINE, np.int64)
    skipped = -(flat.ctypes.data // 8) % LINE
    return flat[skipped : skipped + rows * columns].reshape(rows, columns)


def _symmetric(lengths: Floats, is_open: Bools, sign: float) -> tuple[Floats, Bools]:
    """The stricter of the bounds of both directions: the lesser one if the sign is positive."""
    one, other = lengths * sign, lengths.T * sign
    bounds = np.minimum(one, other) * sign
    return bounds, (is_open & (one <= other)) | (is_open.T & (other <= one))


def _chord(lengths: Floats, sphere: bool) -> Floats:
    """How far coordinates of places are apart at most that are so far from each other."""
    if not sphere:
        return lengths
    chords: Floats = 2 * np.sin(np.minimum(lengths / (2 * EARTH_RADIUS), math.pi / 2))
    return chords
