"""Source data, checked: a table of any origin becomes a segment, and the rows that do not fit.

Every door has these checks and no others: readings that are pushed, files, messages, DataFrames and
recordings. Each value means what `settle` takes it for, and rows are judged by whole columns; a row
that is wrong is set aside with the reason, what would mend it, and its own text, and stops nothing.

A reading's time must lie in the years 1900 to 2200, and before the latest time that its door lets
in: a clock that says otherwise is broken, and would drag the stream's time along. Other TIMESTAMP
columns may say what they like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from place.errors import InternalError, ReadingError, suggestion
from place.model.schema import Stream, find_column
from place.model.segment import segment_schema
from place.model.space import Space
from place.model.time import format_timestamp, parse_timestamp
from place.model.types import Type, shown
from place.runtime.intake.convert import Converted, Mask, convert, convert_objects, python_value
from place.runtime.intake.values import EXPECTED, is_infinite, is_nan, mismatch

FIRST_TIME = parse_timestamp("1900-01-01")
LAST_TIME = parse_timestamp("2201-01-01") - 1
"""The times that a reading may have."""

MOST_REJECTED = 10_000
LONGEST_TEXT = 2_000
"""How many rejected rows of a source are listed, and how much of each one's text."""

Arrival: TypeAlias = int | pa.Array | None
"""When readings arrived, in microseconds: all at once, or each at its own time."""

KEY_EXPECTED = "a reading with no key is of no object"
POSITION_EXPECTED = "a reading needs a position: x and y are numbers, not NULL or NaN"
DEGREES_EXPECTED = "x is the longitude and y the latitude, in degrees"
OP_EXPECTED = "any other operation does not exist"
YEARS_EXPECTED = "the option timestamps of the stream says what its numbers count"
LATE_EXPECTED = "the option lateness of the stream says how long it waits for readings"
FUTURE_EXPECTED = "the option max_future of the stream says how far it may be ahead"

Described: TypeAlias = tuple[int | None, str, str, str]
"""A row that is wrong: its line, the reason, its text, and what would mend it."""

SMALL_BATCH, LARGE_BATCH = 1 << 15, 1 << 20
OP = "op"

DISAPPEAR = "disappear"
OPERATIONS = (DISAPPEAR, "reading", "", None)
"""What a column `op` may say of a row."""


@dataclass(frozen=True)
class Rejected:
    """One row that was set aside; `line` counts from 1, and is None for a whole source."""

    source: str
    line: int | None
    reason: str
    text: str
    hint: str = ""
    """What should have stood there instead, or what to do about it."""

    def __str__(self) -> str:
        """All but its text, for a person."""
        line = "" if self.line is None else f", line {self.line:,}"
        return f"{self.source}{line}: {self.reason}" + (f"; {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class Routed:
    """What became of source data: its readings in the source's order, and what was wrong."""

    segment: pa.Table
    rejected: list[Rejected]


@dataclass
class Rejections:
    """The rejected rows of one source, so many of them at most; the rest is counted."""

    source: str
    listed: list[Rejected] = field(default_factory=list)
    more: int = 0

    def add(self, line: int | None, reason: str, text: str, hint: str = "") -> None:
        self.extend([0], lambda _: (line, reason, text, hint))

    def refuse(self, error: ReadingError, text: str, line: int | None = None) -> None:
        """Reject a whole source, or a line that all the others need."""
        self.add(line, error.message, text, error.hint or "")

    def extend(self, rows: Sequence[int], describe: Callable[[int], Described]) -> None:
        """Reject these rows; only those that are listed are described."""
        room = MOST_REJECTED - len(self.listed)
        for row in rows[:room]:
            line, reason, text, hint = describe(row)
            self.listed.append(Rejected(self.source, line, reason, text[:LONGEST_TEXT], hint))
        self.more += max(len(rows) - room, 0)

    def clear(self) -> None:
        self.listed, self.more = [], 0

    def all(self) -> list[Rejected]:
        if not self.more:
            return self.listed
        last = Rejected(self.source, None, f"{self.more:,} more rows, which are not listed", "")
        return [*self.listed, last]


@dataclass(frozen=True)
class Layout:
    """Which column of a source each of a stream's is (None: the time of arrival), and its `op`."""

    columns: tuple[int | None, ...]
    op: int | None

    @property
    def needed(self) -> list[int]:
        """The columns of the source that are read, each once."""
        return sorted({i for i in (*self.columns, self.op) if i is not None})


@dataclass(frozen=True)
class Examined:
    """Rows that were judged: the segment of the good ones, and why the others are bad."""

    segment: pa.Table
    bad: npt.NDArray[np.intp]
    reason: Callable[[int], str]
    expected: Callable[[int], str]


def check_table(
    stream: Stream,
    table: pa.Table,
    source: str,
    *,
    arrival: Arrival = None,
    latest: int | None = None,
    text_of: Callable[[int], tuple[int | None, str]] | None = None,
    objects: Mapping[int, list[Any]] | None = None,
) -> Routed:
    """The readings of a table whose columns are found by name, in any order and case.

    The option `columns` of the stream gives other names. Columns that the stream does not have are
    ignored; where one of the stream's is missing, the whole table is rejected, except that
    `arrival` stands in for the time. A column `op` that is not the stream's own says `disappear`.
    `objects` are columns, by their places, that Arrow cannot hold; `latest` is the latest time that
    a reading may have.
    """
    rejections = Rejections(source)
    if table.num_columns == 0:
        return Routed(empty_segment(stream), [])
    try:
        layout = find_layout(stream, table.column_names, arrival)
    except ReadingError as error:
        rejections.refuse(error, ", ".join(table.column_names))
        return Routed(empty_segment(stream), rejections.all())
    parts = []
    for start, examined in examine_table(stream, table, layout, arrival, latest, objects or {}):
        parts.append(examined.segment)

        def describe(row: int, start: int = start, part: Examined = examined) -> Described:
            line, text = (text_of or _numbered(table))(start + row)
            return line, part.reason(row), text, part.expected(row)

        rejections.extend(examined.bad.tolist(), describe)
    return Routed(joined(stream, parts), rejections.all())


def empty_segment(stream: Stream) -> pa.Table:
    return segment_schema(stream.columns).empty_table()


def joined(stream: Stream, segments: Iterable[pa.Table]) -> pa.Table:
    """Segments of one stream, one after the other."""
    parts = [segment for segment in segments if segment.num_rows]
    return pa.concat_tables(parts) if parts else empty_segment(stream)


def line_text(data: bytes) -> str:
    """As much of a line as is kept, also of one that is no text."""
    return data[: 4 * LONGEST_TEXT].decode("utf-8", "replace").rstrip("\n")


def reads_op(stream: Stream) -> bool:
    """Whether a source's column `op` says what a row is, rather than being one of the stream's."""
    own = {name.casefold() for i in range(len(stream.columns)) for name in stream.names_of(i)}
    return find_column(stream.columns, OP) is None and OP not in own


def find_layout(stream: Stream, names: Sequence[str], arrival: Arrival) -> Layout:
    """Where a source with these columns has the stream's, or a ReadingError that names one."""
    places = {name.strip().casefold(): i for i, name in reversed(list(enumerate(names)))}
    columns: list[int | None] = []
    for index in range(len(stream.columns)):
        found = (places.get(name.casefold()) for name in stream.names_of(index))
        columns.append(next((place for place in found if place is not None), None))
        if columns[index] is None and not (index == stream.time and arrival is not None):
            raise missing_column(stream, index, names)
    return Layout(tuple(columns), places.get(OP) if reads_op(stream) else None)


def missing_column(stream: Stream, index: int, names: Sequence[str]) -> ReadingError:
    """What to say of a source with columns of these names that has none for the stream's."""
    own, wanted = stream.columns[index].name, stream.names_of(index)[0]
    purpose = "" if own.casefold() == wanted.casefold() else f' for "{own}"'
    near = [other[:60] for other in names[:200]]  # noise may look like a header of any size
    hint = suggestion(wanted, near, "columns")
    if not purpose:
        hint += f", or say what it is called there: WITH (columns = '{own} = …')"
    return ReadingError(f'no column "{wanted}"{purpose}', hint=hint)


def examine_table(
    stream: Stream,
    table: pa.Table,
    layout: Layout,
    arrival: Arrival,
    latest: int | None = None,
    objects: Mapping[int, list[Any]] = MappingProxyType({}),
) -> Iterator[tuple[int, Examined]]:
    """A table's rows, judged in batches; with each one the row at which it starts."""
    needed = table.select(layout.needed)
    place = {column: i for i, column in enumerate(layout.needed)}
    if needed.num_rows < SMALL_BATCH * max(c.num_chunks for c in needed.columns):
        needed = needed.combine_chunks()
    start = 0
    for batch in needed.to_batches(max_chunksize=LARGE_BATCH):
        rows = slice(start, start + batch.num_rows)

        def converted(
            at: int, kind: Type, batch: pa.RecordBatch = batch, rows: slice = rows
        ) -> Converted:
            if at in objects:
                return convert_objects(objects[at][rows], kind, stream.timestamps)
            return convert(batch.column(place[at]), kind, stream.timestamps)

        columns = [
            None if i is None else converted(i, column.type)
            for i, column in zip(layout.columns, stream.columns, strict=True)
        ]
        ops = None if layout.op is None else converted(layout.op, Type.STRING)
        arrived = arrival.slice(start, batch.num_rows) if isinstance(arrival, pa.Array) else arrival
        yield start, examine(stream, columns, ops, batch.num_rows, arrived, latest)
        start = rows.stop


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
        gone = leaves[places]
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


def _numbered(table: pa.Table) -> Callable[[int], tuple[int | None, str]]:
    """The rows of a table as JSON, with their numbers."""

    def text_of(row: int) -> tuple[int | None, str]:
        values = {name: python_value(table[i][row]) for i, name in enumerate(table.column_names)}
        return row + 1, json.dumps(values, ensure_ascii=False, default=_written)

    return text_of


def _written(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def late_readings(stream: Stream, table: pa.Table) -> list[Rejected]:
    """The readings of a segment, which came too late, as they are set aside."""
    found = []
    times = table.column(table.num_columns - 2).slice(0, MOST_REJECTED).to_pylist()
    rows = table.select(range(len(stream.columns))).slice(0, MOST_REJECTED).to_pylist()
    for moment, row in zip(times, rows, strict=True):
        text = json.dumps(row, default=str)[:LONGEST_TEXT]
        found.append(late_reading(stream, moment, text))
    if table.num_rows > MOST_REJECTED:
        more = table.num_rows - MOST_REJECTED
        found.append(Rejected(stream.name, None, f"late: {more:,} more that are not listed", ""))
    return found


def late_reading(stream: Stream, moment: int, text: str = "") -> Rejected:
    """A reading that came too late."""
    reason = f"late: its time {format_timestamp(moment)} was over when it came"
    return Rejected(stream.name, None, reason, text, LATE_EXPECTED)


def last_late(stream: Stream, table: pa.Table) -> str:
    """Why the last reading of a segment, all of which came too late, was set aside."""
    times = table.column(table.num_columns - 2)
    return str(late_reading(stream, times[len(times) - 1].as_py()))
