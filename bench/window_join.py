"""`place bench window-join`: many queries over the join of two windows, beside IBS-JS and DuckDB.

Each query compares the join attributes of both streams, by an operator that is drawn at random, and
has conditions on attributes of both. A reading that arrives meets the readings of the other
stream's window (Spatial Join CQ, sections 6 and 7.4). What the queries find for it is one join: its
own conditions leave some of the queries, and those are boxes for the window's readings, in which
the join condition is one side more. IBS-JS finds the pairs of each join condition once, and asks
the trees of the queries that have it. DuckDB joins the arrival, the window and the queries anew.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.conditions import draw_readings, draw_rules
from bench.ibs import IbsJoin
from bench.rivals import library
from bench.world import calibrate
from place.errors import InternalError
from place.kernels.box_clusters import BoxClusters
from place.kernels.box_join import BoxIndex, join_boxes

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Found = tuple[Any, Any]
"""Readings of the other window, and queries that hold for them and the arrival."""

OPERATORS = (">", ">=", "=", "<", "<=")
PIECES = 4
"""Boxes into which the paper cuts the region of a join condition."""


@dataclass(frozen=True)
class Setting:
    """How many queries, attributes of each stream, and readings in each window and that arrive."""

    queries: int = 10_000
    attributes: int = 4
    window: int = 10_000
    arrivals: int = 8
    predicates: float = 1.0


@dataclass(frozen=True)
class Figures:
    """What was measured, in seconds for an arrival."""

    queries: int
    attributes: int
    window: int
    arrivals: int
    predicates: float
    join_s: float
    ibs_js_s: float
    duckdb_s: float
    ratio: float
    duckdb_ratio: float
    pairs: int
    chosen: str
    duckdb_arrivals: int
    calibration_s: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Queries(NamedTuple):
    """Conditions on the attributes of the first stream, then of the second, and the operators that
    compare the first attributes of both."""

    low: Floats
    high: Floats
    operators: Longs


def draw_queries(count: int, attributes: int, predicates: float, seed: int = 1) -> Queries:
    """Queries with conditions on a share of the attributes of both streams."""
    rules = draw_rules(count, 2 * attributes, predicates, seed)
    chance = np.random.default_rng([seed, 4])
    return Queries(rules.low, rules.high, chance.integers(0, len(OPERATORS), count))


def holds(operator: int, x: Any, y: Any) -> Any:
    """Does the join condition hold?"""
    match OPERATORS[operator]:
        case ">":
            return x > y
        case ">=":
            return x >= y
        case "=":
            return x == y
        case "<":
            return x < y
        case _:
            return x <= y


def half_lines(operators: Longs, value: float, stream: int) -> tuple[Floats, Floats]:
    """The join attribute of the other stream, as each operator wants it beside an arrival's."""
    kinds = np.array(OPERATORS, dtype=object)[operators]
    above, below = np.nextafter(value, np.inf), np.nextafter(value, -np.inf)
    # For an arrival of the second stream, the operator is read from the other side.
    lows = {">": -np.inf, ">=": -np.inf, "=": value, "<": above, "<=": value}
    highs = {">": below, ">=": value, "=": value, "<": np.inf, "<=": np.inf}
    if stream == 1:
        swapped = {">": "<", ">=": "<=", "=": "=", "<": ">", "<=": ">="}
        lows = {kind: lows[swapped[kind]] for kind in lows}
        highs = {kind: highs[swapped[kind]] for kind in highs}
    low = np.array([lows[kind] for kind in OPERATORS])[operators]
    high = np.array([highs[kind] for kind in OPERATORS])[operators]
    assert len(kinds) == len(low)
    return low, high


class SpatialJoin:
    """The queries as boxes: an arrival's own sides choose queries, the others meet the window."""

    def __init__(self, queries: Queries) -> None:
        half = queries.low.shape[1] // 2
        sides = (slice(0, half), slice(half, 2 * half))
        self._low = [np.ascontiguousarray(queries.low[:, side]) for side in sides]
        self._high = [np.ascontiguousarray(queries.high[:, side]) for side in sides]
        self._own = [BoxIndex(low, high) for low, high in zip(self._low, self._high, strict=True)]
        self._operators = queries.operators
        self.chosen = ""

    def prepare(self, readings: Floats) -> None:
        for index in self._own:
            index.prepare(readings, 1)

    def arrive(self, stream: int, arrival: Floats, window: Floats) -> Found:
        left = self._own[stream].find(arrival[None]).boxes
        low, high = self._low[1 - stream][left], self._high[1 - stream][left]
        floor, ceiling = half_lines(self._operators[left], float(arrival[0]), stream)
        low[:, 0], high[:, 0] = np.maximum(low[:, 0], floor), np.minimum(high[:, 0], ceiling)
        found = join_boxes(window, low, high)
        self.chosen = found.method
        return found.points, left[found.boxes]


class PaperJoin:
    """SJ-Join as the paper has it: pairs of the arrival and the window's readings are points, in
    clusters, and the region of a join condition is cut into boxes along the first stream's axis."""

    def __init__(self, queries: Queries, size: int | None = None) -> None:
        count, half = len(queries.low), queries.low.shape[1] // 2
        names = np.repeat(np.arange(count, dtype=np.int32), PIECES)
        low, high = queries.low[names].copy(), queries.high[names].copy()
        piece = np.tile(np.arange(PIECES), count)
        operators = queries.operators[names]
        edges = np.linspace(0.0, 1.0, PIECES + 1)
        begin, end = edges[piece], edges[piece + 1]
        begin = np.where(piece == 0, -np.inf, begin)
        last = np.where(piece == PIECES - 1, np.inf, np.nextafter(end, -np.inf))
        kinds = np.array(OPERATORS)[operators]
        less, more = np.isin(kinds, ("<", "<=", "=")), np.isin(kinds, (">", ">=", "="))
        low[:, 0], high[:, 0] = np.maximum(low[:, 0], begin), np.minimum(high[:, 0], last)
        low[:, half] = np.where(less, np.maximum(low[:, half], begin), low[:, half])
        high[:, half] = np.where(more, np.minimum(high[:, half], last), high[:, half])
        self._names, self._operators = names, queries.operators
        self._boxes = BoxClusters(low, high, size)

    def arrive(self, stream: int, arrival: Floats, window: Floats) -> Found:
        own = np.broadcast_to(arrival, window.shape)
        sides = (own, window) if stream == 0 else (window, own)
        met = self._boxes.find(np.ascontiguousarray(np.hstack(sides)))
        queries = self._names[met.boxes]
        x = arrival[0] if stream == 0 else window[met.points, 0]
        y = window[met.points, 0] if stream == 0 else arrival[0]
        kept = np.zeros(len(queries), np.bool_)
        operators = self._operators[queries]
        for operator in range(len(OPERATORS)):
            kept |= (operators == operator) & holds(operator, x, y)
        return met.points[kept], queries[kept]


class DuckDbJoin:
    """DuckDB in memory: the arrival, the window and all queries in one join, evaluated anew."""

    def __init__(self, queries: Queries) -> None:
        self._connection = library("duckdb").connect(":memory:")
        self._arrow = library("pyarrow")
        self._connection.execute("SET threads = 1")
        self._half = queries.low.shape[1] // 2
        columns = {f"low{k}": queries.low[:, k].copy() for k in range(2 * self._half)}
        columns |= {f"high{k}": queries.high[:, k].copy() for k in range(2 * self._half)}
        self._load("queries", {"operator": queries.operators, **columns})

    def _load(self, name: str, columns: dict[str, Any]) -> None:
        numbers = np.arange(len(next(iter(columns.values()))), dtype=np.int64)
        self._connection.register("given", self._arrow.table({"id": numbers, **columns}))
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self._connection.unregister("given")

    def arrive(self, stream: int, arrival: Floats, window: Floats) -> Found:
        half = self._half
        self._load("others", {f"b{k}": window[:, k].copy() for k in range(half)})
        own, other = stream * half, (1 - stream) * half
        value = [repr(float(v)) for v in arrival]
        mine = [f"{value[k]} BETWEEN low{own + k} AND high{own + k}" for k in range(half)]
        theirs = [f"b{k} BETWEEN low{other + k} AND high{other + k}" for k in range(half)]
        x, y = (value[0], "b0") if stream == 0 else ("b0", value[0])
        compared = " OR ".join(
            f"(operator = {number} AND {x} {operator} {y})"
            for number, operator in enumerate(OPERATORS)
        )
        found = self._connection.execute(
            f"SELECT others.id AS reading, chosen.id AS query FROM others JOIN "
            f"(SELECT * FROM queries WHERE {' AND '.join(mine)}) AS chosen "
            f"ON {' AND '.join(theirs)} AND ({compared})"
        ).fetchnumpy()
        return found["reading"], found["query"]


def keys_of(found: Found, queries: int) -> Longs:
    """Pairs as sorted numbers."""
    return np.sort(np.asarray(found[0]).astype(np.int64) * queries + np.asarray(found[1]))


class Windows:
    """Two windows of rows, full from the beginning; readings arrive in turn, the oldest leave."""

    def __init__(self, setting: Setting, seed: int = 1) -> None:
        size = (setting.window, setting.attributes)
        self.held = [draw_readings(*size, seed=seed + stream) for stream in (0, 1)]
        self._coming = draw_readings(setting.arrivals, setting.attributes, seed + 2)
        self._oldest = [0, 0]

    def arrivals(self) -> Any:
        """Each arrival: its stream, its values, and the window of the other stream."""
        for number, arrival in enumerate(self._coming):
            stream = number % 2
            yield stream, arrival, self.held[1 - stream]
            place = self._oldest[stream]
            self.held[stream][place] = arrival
            self._oldest[stream] = (place + 1) % len(self.held[stream])


def measure(setting: Setting) -> Figures:
    """All contestants take the arrivals in turn; all have to find the same."""
    calibration = calibrate()
    queries = draw_queries(setting.queries, setting.attributes, setting.predicates)
    windows, ours, trees = Windows(setting), SpatialJoin(queries), IbsJoin(*queries)
    duckdb = DuckDbJoin(queries)
    ours.prepare(windows.held[0])
    warm = (np.full(setting.attributes, 0.5), windows.held[1][:64].copy())
    for contestant in (ours, duckdb):
        contestant.arrive(0, *warm)
        contestant.arrive(1, *warm)
    trees.arrive(0, *warm, holds)
    times: dict[str, list[float]] = {"ours": [], "ibs": [], "duckdb": []}
    pairs = 0
    for number, (stream, arrival, window) in enumerate(windows.arrivals()):
        seconds = [time.perf_counter()]
        found = ours.arrive(stream, arrival, window)
        seconds.append(time.perf_counter())
        by_trees = trees.arrive(stream, arrival, window, holds)
        seconds.append(time.perf_counter())
        by_duckdb = duckdb.arrive(stream, arrival, window)
        seconds.append(time.perf_counter())
        for name, taken in zip(times, np.diff(seconds), strict=True):
            times[name].append(float(taken))
        expected = keys_of(found, setting.queries)
        for name, other in (("IBS-JS", by_trees), ("DuckDB", by_duckdb)):
            if not np.array_equal(keys_of(other, setting.queries), expected):
                raise InternalError(f"the join and {name} differ at arrival {number}")
        pairs += len(expected)
    seconds_of = {name: float(np.median(found)) for name, found in times.items()}
    return Figures(
        queries=setting.queries,
        attributes=setting.attributes,
        window=setting.window,
        arrivals=setting.arrivals,
        predicates=setting.predicates,
        join_s=seconds_of["ours"],
        ibs_js_s=seconds_of["ibs"],
        duckdb_s=seconds_of["duckdb"],
        ratio=seconds_of["ibs"] / seconds_of["ours"],
        duckdb_ratio=seconds_of["duckdb"] / seconds_of["ours"],
        pairs=pairs,
        chosen=ours.chosen,
        duckdb_arrivals=setting.arrivals,
        calibration_s=min(calibration, calibrate()),
    )
