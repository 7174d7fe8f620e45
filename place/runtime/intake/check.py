"""Source data, checked: a table of any origin becomes a segment, and the rows that do not fit.

Every door has these checks and no others: readings that are pushed, files, messages, DataFrames and
recordings. Each value means what `settle` takes it for, and rows are judged by whole columns; a row
that is wrong is set aside with the reason, what would mend it, and its own text, and stops nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from place.errors import ReadingError, suggestion
from place.model.schema import Stream, find_column
from place.model.segment import segment_schema
from place.model.time import format_timestamp
from place.model.types import Type
from place.runtime.intake.convert import Converted, convert, convert_objects, python_value
from place.runtime.intake.judge import Arrival, Examined, examine

MOST_REJECTED = 10_000
LONGEST_TEXT = 2_000
"""How many rejected rows of a source are listed, and how much of each one's text."""

LATE_EXPECTED = "the option lateness of the stream says how long it waits for readings"

Described: TypeAlias = tuple[int | None, str, str, str]
"""A row that is wrong: its line, the reason, its text, and what would mend it."""

SMALL_BATCH, LARGE_BATCH = 1 << 15, 1 << 20
OP = "op"


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
