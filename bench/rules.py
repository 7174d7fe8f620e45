"""`place bench rules`: which rules hold for which readings, beside IBS and DuckDB's range join.

Rules are boxes and readings are points. *Batch* joins all readings at once, *immediate* one after
the other, both with rules that stand. IBS is a tree for each attribute (`bench.ibs`), which is
asked reading by reading; it has no batches. What is too slow to be measured whole is measured for
the first readings, and scaled. All have to find the same pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.conditions import Conditions, draw_narrow_rules, draw_readings, draw_rules
from bench.ibs import Ibs
from bench.rivals import library
from bench.world import calibrate
from place.errors import InternalError
from place.kernels.box_join import BoxIndex

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]
T = TypeVar("T")

REPEATS = 5
"""All contestants in turn, so often; the least time of each counts."""
ONE_BY_ONE = 300
"""Readings for which those are measured that take them one by one."""
DUCKDB_PAIRS = 20_000_000
"""Pairs of a reading and a rule that DuckDB is asked to look at."""


@dataclass(frozen=True)
class Setting:
    """How many rules of how many attributes, with conditions on what share of them, and readings.

    With a width, all rules are intervals of that width on every attribute. A share `skew` of the
    readings is in a tenth of each attribute's values.
    """

    rules: int = 100_000
    attributes: int = 8
    readings: int = 10_000
    predicates: float = 1.0
    skew: float = 0.0
    width: float | None = None
    method: str | None = None
    threads: int = 1


@dataclass(frozen=True)
class Figures:
    """What was measured, in seconds for all readings."""

    rules: int
    attributes: int
    readings: int
    predicates: float
    skew: float
    width: float
    batch_s: float
    immediate_s: float
    ibs_s: float
    duckdb_s: float
    batch_ratio: float
    immediate_ratio: float
    duckdb_ratio: float
    prepare_s: float
    pairs: int
    chosen: str
    reason: str
    immediate_readings: int
    ibs_readings: int
    duckdb_readings: int
    calibration_s: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def draw(setting: Setting, seed: int = 1) -> tuple[Floats, Conditions]:
    """The readings and the rules of a setting."""
    readings = draw_readings(setting.readings, setting.attributes, seed, setting.skew)
    if setting.width is not None:
        return readings, draw_narrow_rules(setting.rules, setting.attributes, setting.width, seed)
    return readings, draw_rules(setting.rules, setting.attributes, setting.predicates, seed)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """What something takes, and what it gives."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def keys_of(points: Any, boxes: Any, rules: int, below: int) -> Keys:
    """The pairs of the first readings as sorted numbers."""
    some = np.asarray(points) < below
    keys = np.asarray(points)[some].astype(np.int64) * rules + np.asarray(boxes)[some]
    return np.sort(keys)


class RangeJoin:
    """DuckDB in memory: a join by all bounds, of which it takes some as its range join."""

    def __init__(self, rules: Conditions, threads: int) -> None:
        self._connection = library("duckdb").connect(":memory:")
        self._arrow = library("pyarrow")
        self._connection.execute(f"SET threads = {threads}")
        self._attributes = range(rules.low.shape[1])
        columns = {f"low{k}": np.ascontiguousarray(rules.low[:, k]) for k in self._attributes}
        columns |= {f"high{k}": np.ascontiguousarray(rules.high[:, k]) for k in self._attributes}
        self._load("rules", columns)

    def _load(self, name: str, columns: dict[str, Floats]) -> None:
        numbers = np.arange(len(next(iter(columns.values()))), dtype=np.int64)
        self._connection.register("given", self._arrow.table({"id": numbers, **columns}))
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self._connection.unregister("given")

    def find(self, readings: Floats) -> tuple[Any, Any]:
        """Pairs of a reading and a rule that holds for it."""
        self._load("readings", {f"a{k}": readings[:, k].copy() for k in self._attributes})
        within = " AND ".join(f"a{k} >= low{k} AND a{k} <= high{k}" for k in self._attributes)
        found = self._connection.execute(
            f"SELECT readings.id AS reading, rules.id AS rule FROM readings JOIN rules ON {within}"
        ).fetchnumpy()
        return found["reading"], found["rule"]


def one_by_one(index: BoxIndex, readings: Floats) -> list[Any]:
    """What the rules that stand find for each reading, asked alone."""
    return [index.find(readings[i : i + 1]).boxes for i in range(len(readings))]


class Batch(NamedTuple):
    """What a batch found: the pairs of the first readings, how many there are in all, and how."""

    points: Any
    boxes: Any
    pairs: int
    method: str
    reason: str


def in_batch(index: BoxIndex, readings: Floats, setting: Setting, kept: int) -> Batch:
    """All pairs, in pieces that are passed on; those of the first readings are kept."""
    pairs, some, last = 0, [], None
    for piece in index.pieces(readings, setting.threads):
        pairs += len(piece.points)
        if len(piece.points) and int(piece.points.min()) < kept:
            some.append(piece)
        last = piece
    assert last is not None
    points, boxes = (np.concatenate([piece[side] for piece in some]) for side in (0, 1))
    return Batch(points, boxes, pairs, last.method, last.reason)


def measure(setting: Setting) -> Figures:
    """All contestants in turn, over the same readings and rules; all find the same pairs."""
    calibration = calibrate()
    readings, rules = draw(setting)
    some = readings[:ONE_BY_ONE]
    few = readings[: max(1, min(len(readings), DUCKDB_PAIRS // setting.rules))]
    batches = BoxIndex(*rules, setting.method)
    singles, ibs = BoxIndex(*rules, setting.method), Ibs(*rules)
    batches.prepare(readings[:1], len(readings))  # compiles
    prepare, _ = timed(lambda: BoxIndex(*rules, setting.method).prepare(readings, len(readings)))
    batches.prepare(readings, len(readings))
    singles.prepare(readings, 1)
    best: dict[str, float] = {}
    kept = max(len(some), len(few))

    def least(name: str, work: Callable[[], T], share: float) -> T:
        seconds, found = timed(work)
        best[name] = min(best.get(name, np.inf), seconds * share)
        return found

    for _ in range(REPEATS):
        batch = least("batch", lambda: in_batch(batches, readings, setting, kept), 1.0)
        alone = least("immediate", lambda: one_by_one(singles, some), len(readings) / len(some))
        trees = least("ibs", lambda: ibs.find(some), len(readings) / len(some))
    duckdb = RangeJoin(rules, setting.threads)
    duckdb.find(few[:1])
    joined = least("duckdb", lambda: duckdb.find(few), len(readings) / len(few))

    expected = keys_of(batch.points, batch.boxes, setting.rules, len(some))
    apart = np.repeat(np.arange(len(some)), [len(found) for found in alone])
    for name, points, boxes, below in (
        ("immediate", apart, np.concatenate(alone), len(some)),
        ("IBS", *trees, len(some)),
        ("DuckDB", *joined, len(few)),
    ):
        whole = expected if below == len(some) else keys_of(*batch[:2], setting.rules, below)
        if not np.array_equal(keys_of(points, boxes, setting.rules, below), whole):
            raise InternalError(f"batch and {name} find different pairs")
    return Figures(
        rules=setting.rules,
        attributes=setting.attributes,
        readings=setting.readings,
        predicates=setting.predicates,
        skew=setting.skew,
        width=setting.width or 0.0,
        batch_s=best["batch"],
        immediate_s=best["immediate"],
        ibs_s=best["ibs"],
        duckdb_s=best["duckdb"],
        batch_ratio=best["ibs"] / best["batch"],
        immediate_ratio=best["ibs"] / best["immediate"],
        duckdb_ratio=best["duckdb"] / best["batch"],
        prepare_s=prepare,
        pairs=batch.pairs,
        chosen=batch.method,
        reason=batch.reason,
        immediate_readings=len(some),
        ibs_readings=len(some),
        duckdb_readings=len(few),
        calibration_s=min(calibration, calibrate()),
    )
