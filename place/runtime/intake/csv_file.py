"""Lines of csv, read and checked.

The first line that is not blank names the columns, or the option `header` does. A field may be
quoted, and then hold commas (or what the option `separator` says) and doubled quotes, but no end of
a line. An empty field is NULL; a quoted one is NULL too, except in a STRING column, where it is the
empty text.

A block of lines is first read straight into the types of the columns. Arrow's reader does that, and
is trusted only with what means the same to `coerce`. If anything is odd, the block's lines are told
apart by hand, still as whole columns, and read as texts, so that each bad one is found.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from place.errors import InternalError, ReadingError
from place.model.schema import Stream
from place.model.types import Type
from place.plan.external import SEPARATORS, names_of_fields
from place.runtime.intake.check import (
    Described,
    Layout,
    Rejections,
    empty_segment,
    examine_table,
    find_layout,
    joined,
    line_text,
)
from place.runtime.intake.convert import Converted, Mask, convert
from place.runtime.intake.judge import Examined, examine
from place.runtime.intake.lines import (
    LONGEST,
    NOT_UTF8,
    TOO_LONG,
    Block,
    is_finite,
    is_utf8,
    lines_are_short,
)
from place.runtime.intake.values import DATES, UNITS

Codes = npt.NDArray[np.int8]
Counts = npt.NDArray[np.int64]

NOT_CLOSED = "a quote is not closed on its line"

# A quoted field may go on unquoted, and a quote within an unquoted one is a letter like others.
_FIELD = r'(?:[^",\n][^,\n]*|"(?:[^"\n]|"")*"(?:[^",\n][^,\n]*)?)?'
_CLOSED = rf"^{_FIELD}(?:,{_FIELD})*\n?$"
_QUOTED = r'(^|,)"(?:[^"]|"")*"'
_ZONED = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")
_PARSED_TOGETHER = 2 << 20
_TRUE = ["true", "True", "TRUE", "t", "T", "1"]
_FALSE = ["false", "False", "FALSE", "f", "F", "0"]
_READ_AS = {Type.BIGINT: pa.int64(), Type.DOUBLE: pa.float64(), Type.BOOLEAN: pa.bool_()}


def read_csv(
    stream: Stream,
    blocks: Iterable[Block],
    rejections: Rejections,
    arrival: int | None,
    latest: int | None = None,
) -> pa.Table:
    """The segment of a csv file's good rows; the others go to the rejections."""
    parts: list[pa.Table] = []
    reader: CsvReader | None = None
    given = stream.source.option("header") if stream.source is not None else None
    if isinstance(given, str):
        names = list(names_of_fields(given))
        try:
            reader = _reader_of(stream, names, arrival, latest)
        except ReadingError as error:
            rejections.refuse(error, given)
            return joined(stream, parts)
    for block in blocks:
        if block.problem:
            rejections.add(block.line, block.problem, line_text(block.data))
            if reader is None:
                break
            continue
        line, data = block.line, block.data
        if reader is None:
            skipped = len(data) - len(data.lstrip(b" \t\n"))
            start = data.rfind(b"\n", 0, skipped) + 1
            line += data.count(b"\n", 0, start)
            end = data.find(b"\n", start) + 1
            if not data[start:end].strip():
                continue
            try:
                reader = _reader(stream, data[start:end], arrival, latest)
            except ReadingError as error:
                rejections.refuse(error, line_text(data[start:end]), line)
                break
            line, data = line + 1, data[end:]
        if data:
            parts.append(reader.read(line, data, rejections))
    return joined(stream, parts)


def _reader(stream: Stream, header: bytes, arrival: int | None, latest: int | None) -> CsvReader:
    problem = None
    if len(header) > LONGEST:
        problem = TOO_LONG
    elif not is_utf8(header):
        problem = NOT_UTF8
    elif not _are_closed(pa.array([header]), separator_of(stream)).all():
        problem = NOT_CLOSED
    names: list[str] = []
    if problem is None:
        try:
            line = header.decode().rstrip("\n")
            names = next(csv.reader([line], delimiter=separator_of(stream)))
        except csv.Error as error:
            problem = str(error)
    if problem:
        raise ReadingError(f"no line with the names of the columns: {problem}")
    return _reader_of(stream, names, arrival, latest)


def _reader_of(
    stream: Stream, names: list[str], arrival: int | None, latest: int | None
) -> CsvReader:
    layout = find_layout(stream, names, arrival)
    return CsvReader(stream, len(names), layout, arrival, latest, separator_of(stream))


def separator_of(stream: Stream) -> str:
    """What stands between the fields of a stream's lines."""
    given = stream.source.option("separator") if stream.source is not None else None
    return SEPARATORS[str(given)] if given is not None else ","


@dataclass
class CsvReader:
    """Reads the lines of one file below its header, which has so many fields."""

    stream: Stream
    fields: int
    layout: Layout
    arrival: int | None
    latest: int | None
    separator: str = ","

    def read(self, line: int, data: bytes, rejections: Rejections) -> pa.Table:
        """The segment of lines, of which the first has this number."""
        segment = self._all_good(data)
        return self._sorted_out(line, data, rejections) if segment is None else segment

    # The quick way

    def _all_good(self, data: bytes) -> pa.Table | None:
        """The segment if there is nothing at all wrong or odd about the lines."""
        rows = data.count(b"\n")
        if not is_utf8(data) or not lines_are_short(data) or self._may_be_hexadecimal(data):
            return None
        last = data[data.rfind(b"\n", 0, len(data) - 1) + 1 :]
        if b'"' in last and not _are_closed(pa.array([last]), self.separator).all():
            return None
        try:
            table = self._parse(data, self._types(data))
        except (pa.ArrowException, ValueError):
            return None
        if table.num_rows != rows or not is_finite(table):
            return None
        parts = []
        judged = examine_table(self.stream, table, self._within, self.arrival, self.latest)
        for _, examined in judged:
            if len(examined.bad):
                return None
            parts.append(examined.segment)
        return joined(self.stream, parts)

    def _may_be_hexadecimal(self, data: bytes) -> bool:
        """Arrow takes 0x1F for 31; SQL does not."""
        if not any(column.type is Type.BIGINT for column in self.stream.columns):
            return False
        return any(x in data and b"0" + x in data for x in (b"x", b"X"))  # one letter is found fast

    def _types(self, data: bytes) -> dict[str, pa.DataType]:
        """The type to read each needed column as; a text where two columns want it differently."""
        types: dict[int, pa.DataType] = {}
        if self.layout.op is not None:
            types[self.layout.op] = pa.string()
        first = data[: data.find(b"\n")].decode().split(self.separator)
        for place, column in zip(self.layout.columns, self.stream.columns, strict=True):
            if place is not None:
                sample = first[place] if place < len(first) else ""
                kind = self._type(column.type, sample.strip('"'))
                types[place] = kind if types.get(place, kind) == kind else pa.string()
        return {str(place): kind for place, kind in types.items()}

    def _type(self, kind: Type, sample: str) -> pa.DataType:
        if kind is Type.TIMESTAMP:
            unit = self.stream.timestamps
            if unit in UNITS:
                return pa.int64() if UNITS[unit][0] == 1 else pa.float64()
            if unit in DATES:
                return pa.string()
            if unit is None and sample.isdecimal():
                return pa.int64()
            return pa.timestamp("us", "UTC" if _ZONED.search(sample) else None)
        return _READ_AS.get(kind, pa.string())

    def _parse(self, data: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        return pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=pa.csv.ReadOptions(
                column_names=self._names, block_size=min(_PARSED_TOGETHER, len(data) + 1)
            ),
            parse_options=pa.csv.ParseOptions(delimiter=self.separator),
            convert_options=pa.csv.ConvertOptions(
                check_utf8=False,
                column_types=types,
                include_columns=[str(place) for place in self.layout.needed],
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=_TRUE,
                false_values=_FALSE,
            ),
        )

    @cached_property
    def _names(self) -> list[str]:
        return [str(place) for place in range(self.fields)]

    @cached_property
    def _within(self) -> Layout:
        """The layout of what is read, which is only what is needed."""
        place = {column: i for i, column in enumerate(self.layout.needed)}
        columns = tuple(None if c is None else place[c] for c in self.layout.columns)
        return Layout(columns, None if self.layout.op is None else place[self.layout.op])

    # The thorough way

    def _sorted_out(self, line: int, data: bytes, rejections: Rejections) -> pa.Table:
        lines, codes, counts = _told_apart(data, self.fields, self.separator)
        rows = np.flatnonzero(codes == _GOOD)
        examined = self._examine_texts(lines.take(pa.array(rows)))
        codes[rows[examined.bad]] = _VALUE

        def describe(index: int) -> Described:
            text = line_text(lines[index].as_py())
            if codes[index] == _VALUE:
                row = int(np.searchsorted(rows, index))
                return line + index, examined.reason(row), text, examined.expected(row)
            if codes[index] == _FIELDS:
                fields = f"{counts[index]} field" + "s" * int(counts[index] != 1)
                return line + index, f"{fields}, but the header has {self.fields}", text, ""
            return line + index, _REASONS[int(codes[index])], text, ""

        rejections.extend(np.flatnonzero(codes > _GOOD).tolist(), describe)
        return examined.segment

    def _examine_texts(self, lines: pa.Array) -> Examined:
        """Judge lines of which each is sure to be one row."""
        if len(lines) == 0:
            return Examined(empty_segment(self.stream), np.empty(0, np.intp), str, str)
        types = {str(place): pa.string() for place in self.layout.needed}
        table = self._parse(lines.buffers()[2], types).combine_chunks()
        if table.num_rows != len(lines):
            raise InternalError(f"{len(lines)} lines of csv are read as {table.num_rows} rows")
        columns: list[Converted | None] = []
        for place, column in zip(self._within.columns, self.stream.columns, strict=True):
            if place is None:
                columns.append(None)
                continue
            texts = table.column(place).chunk(0)
            if column.type is not Type.STRING:  # a quoted field that is empty
                empty = pa.compute.equal(texts, "")
                texts = pa.compute.if_else(empty, pa.scalar(None, pa.string()), texts)
            columns.append(convert(texts, column.type, self.stream.timestamps))
        ops = None
        if self._within.op is not None:
            ops = convert(table.column(self._within.op).chunk(0), Type.STRING)
        return examine(self.stream, columns, ops, len(lines), self.arrival, self.latest)


_BLANK, _GOOD, _FIELDS, _QUOTE, _BYTES, _LONG, _VALUE = range(-1, 6)
_REASONS = {_QUOTE: NOT_CLOSED, _BYTES: NOT_UTF8, _LONG: TOO_LONG}


def _told_apart(data: bytes, fields: int, separator: str) -> tuple[pa.Array, Codes, Counts]:
    """Lines one by one, what is wrong with each by its form alone, and how many fields it has."""
    letters = np.frombuffer(data, np.uint8)
    offsets = np.concatenate([[0], np.flatnonzero(letters == ord("\n")) + 1]).astype(np.int64)
    lengths = np.diff(offsets) - 1
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    lines = pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)

    counts = pa.compute.count_substring(lines, separator).to_numpy().astype(np.int64) + 1
    codes = np.zeros(len(lengths), np.int8)
    if b'"' in data:
        has_quote = pa.compute.match_substring(lines, '"').to_numpy(zero_copy_only=False)
        quoted = np.flatnonzero(has_quote & (lengths <= LONGEST))
        some = lines.take(pa.array(quoted))
        bare = pa.compute.replace_substring_regex(some, _patterns(separator)[1], r"\1")
        counts[quoted] = pa.compute.count_substring(bare, separator).to_numpy() + 1
        codes[quoted[~_are_closed(some, separator)]] = _QUOTE
    codes[(counts != fields) & (codes == _GOOD)] = _FIELDS
    if not is_utf8(data):
        for index in np.flatnonzero(np.maximum.reduceat(letters, offsets[:-1]) >= 0x80):
            try:
                str(data[offsets[index] : offsets[index + 1]], "utf-8")
            except UnicodeDecodeError:
                codes[index] = _BYTES
    codes[lengths > LONGEST] = _LONG
    blank = pa.compute.match_substring_regex(lines, r"^[ \t]*\n$")
    codes[blank.to_numpy(zero_copy_only=False)] = _BLANK
    return lines, codes, counts


@lru_cache
def _patterns(separator: str) -> tuple[str, str]:
    """What a line looks like all of whose quotes are closed, and a quoted field."""
    letter = re.escape(separator)
    return _CLOSED.replace(",", letter), _QUOTED.replace(",", letter)


def _are_closed(lines: pa.Array, separator: str) -> Mask:
    closed = pa.compute.match_substring_regex(lines, _patterns(separator)[0])
    return closed.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
