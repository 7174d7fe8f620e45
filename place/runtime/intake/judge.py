"""Judges rows by their columns: which are readings, and what is wrong with the others.

A reading's time must lie in the years 1900 to 2200, and before the latest time that its door lets
in: a clock that says otherwise is broken, and would drag the stream's time along. Other TIMESTAMP
columns may say what they like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from place.errors import InternalError, ReadingError
from place.model.schema import Stream
from place.model.segment import segment_schema
from place.model.space import Space
from place.model.time import format_timestamp, parse_timestamp
from place.model.types import Type, shown
from place.runtime.intake.convert import Converted, Mask
from place.runtime.intake.values import EXPECTED, is_infinite, is_nan, mismatch

FIRST_TIME = parse_timestamp("1900-01-01")
LAST_TIME = parse_timestamp("2201-01-01") - 1
"""The times that a reading may have."""

Arrival: TypeAlias = int | pa.Array | None
"""When readings arrived, in microseconds: all at once, or each at its own time."""

KEY_EXPECTED = "a reading with no key is of no object"
POSITION_EXPECTED = "a reading needs a position: x and y are numbers, not NULL or NaN"
DEGREES_EXPECTED = "x is the longitude and y the latitude, in degrees"
OBJECTS_EXPECTED = "only an object disappears, and the stream has no KEY"
OP_EXPECTED = "any other operation does not exist"
YEARS_EXPECTED = "the option timestamps of the stream says what its numbers count"
FUTURE_EXPECTED = "the option max_future of the stream says how far it may be ahead"


DISAPPEAR = "disappear"
OPERATIONS = (DISAPPEAR, "reading", "", None)
"""What a column `op` may say of a row."""


@dataclass(frozen=True)
class Examined:
    """Rows that were judged: the segment of the good ones, and why the others are bad."""

    segment: pa.Table
    bad: npt.NDArray[np.intp]
    reason: Callable[[int], str]
    expected: Callable[[int], str]


def examine(
    stream: Stream,
    columns: Sequence[Converted | None],
    ops: Converted | None,
    rows: int,
    arrival: Arrival,
    latest: int | None = None,
) -> Examined:
    """Judge rows by their columns; a column of None is the time of arrival.

    `latest` is the latest time that a reading may have.

    >>> examine(cars, [keys, x, y, None], None, 100, arrival=0).bad  # doctest: +SKIP
    """
    if arrival is None and (stream.time is None or columns[stream.time] is None):
        raise InternalError(f'readings of stream "{stream.name}" have no time, not even an arrival')
    judge = _Judge(stream, columns, rows)
    gone = judge.operations(ops) if ops is not None else None
    times = judge.values(arrival, gone)
    if stream.time is not None and columns[stream.time] is not None:
        judge.years(times)
        if latest is not None:
            judge.future(times, latest)
    bad = judge.bad()
    arrays = []
    for index, column in enumerate(columns):
        array = times if column is None else column.array
        if gone is not None and index != stream.key:
            array = pa.compute.if_else(pa.array(gone), pa.scalar(None, array.type), array)
        arrays.append(array)
    flags = pa.array(np.zeros(rows, np.bool_) if gone is None else gone)
    schema = segment_schema(stream.columns)
    segment = pa.Table.from_arrays([*arrays, times, flags], schema=schema)
    if bad is None:
        return Examined(segment, np.empty(0, np.intp), judge.reason, judge.expected)
    good = segment.filter(pa.array(~bad))
    return Examined(good, np.flatnonzero(bad), judge.reason, judge.expected)


class _Judge:
    """What is wrong with which rows; of several things that are, the first found is told."""

    def __init__(self, stream: Stream, columns: Sequence[Converted | None], rows: int) -> None:
        self.stream = stream
        self.columns = columns
        self.rows = rows
        self._findings: list[tuple[Mask, Callable[[int], str], str]] = []

    def operations(self, ops: Converted) -> Mask | None:
        """Which objects disappear; an operation that does not exist is a finding."""
        if ops.array.null_count == self.rows and ops.bad is None:
            return None
        codes = ops.array.dictionary_encode()
        known = codes.dictionary.to_pylist()
        unknown = np.array([*(code not in OPERATIONS for code in known), False])
        leaves = np.array([*(code == DISAPPEAR for code in known), False])
        places = codes.indices.fill_null(len(known)).to_numpy()
        wrong = unknown[places] if ops.bad is None else unknown[places] | ops.bad
        self._find(
            wrong,
            lambda row: f"unknown op {shown(ops.raw(row))}: write '{DISAPPEAR}', or nothing",
            OP_EXPECTED,
        )
        gone: Mask = leaves[places]
        if self.stream.key is None:
            self._find(
                gone, lambda _: f'stream "{self.stream.name}" has no objects', OBJECTS_EXPECTED
            )
            return None
        return gone if gone.any() else None

    def values(self, arrival: Arrival, gone: Mask | None) -> pa.Array:
        """Judge all values; the times of the readings."""
        stream = self.stream
        for index, column in enumerate(self.columns):
            if column is not None and column.bad is not None:
                # of an object that disappears only the key and the time count
                counts = index in (stream.key, stream.time)
                bad = column.bad if counts else _but(column.bad, gone)
                self._find(bad, self._misfit(index), EXPECTED[stream.columns[index].type])
        if stream.key is not None:
            self._absent(stream.key, None, "the key is missing", KEY_EXPECTED)
        if stream.x is not None and stream.y is not None:
            for index in (stream.x, stream.y):
                self._absent(index, gone, "the position is missing", POSITION_EXPECTED)
            if stream.space is Space.WGS84:
                self._degrees(stream.y, 90, "latitude", gone)
                self._degrees(stream.x, 180, "longitude", gone)
        column = self.columns[stream.time] if stream.time is not None else None
        if column is None:
            each = isinstance(arrival, pa.Array)
            return arrival if each else pa.array(np.full(self.rows, arrival, np.int64))
        assert stream.time is not None
        self._absent(stream.time, None, "the time is missing", EXPECTED[Type.TIMESTAMP])
        return column.array

    def bad(self) -> Mask | None:
        if not self._findings:
            return None
        bad: Mask = np.logical_or.reduce([mask for mask, *_ in self._findings])
        return bad

    def reason(self, row: int) -> str:
        return next(reason(row) for mask, reason, _ in self._findings if mask[row])

    def expected(self, row: int) -> str:
        """What should have stood there instead."""
        return next(expected for mask, _, expected in self._findings if mask[row])

    def _find(self, mask: Mask, reason: Callable[[int], str], expected: str) -> None:
        if mask.any():
            self._findings.append((mask, reason, expected))

    def _misfit(self, index: int) -> Callable[[int], str]:
        column, converted = self.stream.columns[index], self.columns[index]
        assert converted is not None
        positions = (self.stream.x, self.stream.y)

        def reason(row: int) -> str:
            raw = converted.raw(row)
            if index in positions and is_nan(raw):
                what = "the position is NaN"
            elif index in positions and is_infinite(raw):
                what = "the position is infinite"
            else:
                what = mismatch(raw, column.type, converted.timestamps)
            return f'column "{column.name}": {what}'

        return reason

    def _absent(self, index: int, gone: Mask | None, what: str, expected: str) -> None:
        column = self.columns[index]
        if column is None or not column.array.null_count:
            return
        raw = column.raw
        name = self.stream.columns[index].name
        self._find(
            _but(column.array.is_null().to_numpy(zero_copy_only=False), gone),
            lambda row: f'column "{name}": {_as_nan(what) if is_nan(raw(row)) else what}',
            expected,
        )

    def _degrees(self, index: int, limit: int, what: str, gone: Mask | None) -> None:
        column = self.columns[index]
        assert column is not None
        degrees = column.array.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
        if len(degrees) and (degrees.min() < -limit or degrees.max() > limit):
            name = self.stream.columns[index].name
            self._find(
                _but(np.abs(degrees) > limit, gone),
                lambda row: (
                    f'column "{name}": {what} {degrees[row]:g} is not between -{limit} and {limit}'
                ),
                DEGREES_EXPECTED,
            )

    def years(self, times: pa.Array) -> None:
        """Judge whether the times of readings lie in years that a working clock shows."""
        instants = times.fill_null(FIRST_TIME).to_numpy()
        if len(instants) and (instants.min() < FIRST_TIME or instants.max() > LAST_TIME):
            self._find(
                (instants < FIRST_TIME) | (instants > LAST_TIME),
                lambda row: f"{self._time_column}: {in_no_year(int(instants[row]))}",
                YEARS_EXPECTED,
            )

    def future(self, times: pa.Array, latest: int) -> None:
        """Judge whether the times of readings have come, as far as their door can tell."""
        instants = times.fill_null(latest).to_numpy()
        if len(instants) and instants.max() > latest:
            self._find(
                instants > latest,
                lambda row: f"{self._time_column}: {in_the_future(int(instants[row]))}",
                FUTURE_EXPECTED,
            )

    @property
    def _time_column(self) -> str:
        assert self.stream.time is not None
        return f'column "{self.stream.columns[self.stream.time].name}"'


def check_moment(moment: int, latest: int | None) -> None:
    """Raise a ReadingError if a stream cannot have reached a time, by the rules for readings."""
    if not FIRST_TIME <= moment <= LAST_TIME:
        raise ReadingError(f"time: {in_no_year(moment)}", hint=YEARS_EXPECTED)
    if latest is not None and moment > latest:
        raise ReadingError(f"time: {in_the_future(moment)}", hint=FUTURE_EXPECTED)


def in_no_year(instant: int) -> str:
    return f"{format_timestamp(instant)} is not in the years 1900 to 2200"


def in_the_future(instant: int) -> str:
    return f"{format_timestamp(instant)} is too far in the future"


def _but(mask: Mask, exempt: Mask | None) -> Mask:
    return mask if exempt is None else mask & ~exempt


def _as_nan(what: str) -> str:
    return what.replace("missing", "NaN")
