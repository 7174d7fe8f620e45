"""Objects of JSON, one a line or one a message, read and checked.

A member is found by name in any case; one that an object does not have is NULL there, or the time
of arrival if it is the time and there is one. The objects of a file are also a table: if none of
them has a member, the file has no such column, and all of it is rejected.

As with csv, many objects are first read at once by Arrow, and each by itself if anything is odd.
Python's NaN and Infinity, which JSON does not have, are taken for what they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.json

from place.errors import ReadingError
from place.model.schema import Stream
from place.model.types import Type
from place.runtime.intake.check import (
    OP,
    Described,
    Layout,
    Rejections,
    examine_table,
    joined,
    line_text,
    missing_column,
    reads_op,
)
from place.runtime.intake.convert import Converted, convert_objects
from place.runtime.intake.judge import Arrival, examine
from place.runtime.intake.lines import (
    LONGEST,
    NOT_UTF8,
    TOO_LONG,
    Block,
    is_finite,
    is_utf8,
    lines_are_short,
)
from place.runtime.intake.values import UNITS

TOGETHER = 50_000
DEEP = 500

_READ_AS = {Type.BIGINT: pa.int64(), Type.DOUBLE: pa.float64(), Type.BOOLEAN: pa.bool_()}
_WORDS = {list: "array", str: "text", bool: "boolean", type(None): "null"}

Item = Mapping[Any, Any] | ReadingError | str
"""An object by the names of its members, or a row by the places of its values; or why a text is
neither."""


class ObjectReader:
    """Reads the objects of one source, and remembers which members it has seen."""

    def __init__(self, stream: Stream, latest: int | None = None) -> None:
        self._stream = stream
        self._latest = latest
        self._names = [stream.names_of(index) for index in range(len(stream.columns))]
        self._names += [(OP,)] if reads_op(stream) else []
        self._types = [*(column.type for column in stream.columns), Type.STRING]
        self._shapes: dict[tuple[Any, ...], list[Any]] = {}
        self._seen: set[int] = set()
        self._example: list[str] = []

    def missing(self, arrival: Arrival) -> tuple[ReadingError, str] | None:
        """Why the objects that were read are no table of the stream's columns, and their names."""
        if not self._example:
            return None
        for index in range(len(self._stream.columns)):
            is_arrival = index == self._stream.time and arrival is not None
            if index not in self._seen and not is_arrival:
                error = missing_column(self._stream, index, self._example)
                return error, ", ".join(self._example)
        return None

    # The quick way

    def all_good(self, data: bytes, rows: int, arrival: Arrival) -> pa.Table | None:
        """The segment of so many lines, if there is nothing at all wrong or odd about them."""
        if not is_utf8(data) or not lines_are_short(data) or _may_be_deep(data, rows):
            return None
        if data.count(b"}\n{") != rows - 1:  # to Arrow the end of a line is a space like others
            return None
        first = parse_object(data[: data.find(b"\n")])
        if not isinstance(first, dict):
            return None
        keys = list(self._keys_of(tuple(first)))
        for index, key in enumerate(keys):
            if self._has_two_names(index, data):
                return None
            if key is None:
                spellings = _spellings(self._names[index], data)
                if len(spellings) > 1:
                    return None
                keys[index] = next(iter(spellings), None)
        types: dict[str, pa.DataType] = {}
        for key, kind in zip(keys, self._types, strict=False):
            if key is not None:
                wanted = self._type(kind, first.get(key))
                if types.setdefault(key, wanted) != wanted:
                    return None
        try:
            table = _parse_lines(data, pa.schema(list(types.items())))
        except (pa.ArrowException, ValueError):
            return None
        if table.num_rows != rows or not is_finite(table) or self._is_rounded(table, keys):
            return None
        return self._segment(table, keys, first, data, arrival)

    def _is_rounded(self, table: pa.Table, keys: list[Any]) -> bool:
        """Whether a number that is a time, and has to be exact, may have been read as a double."""
        for key, kind in zip(keys, self._types, strict=False):
            if kind is Type.TIMESTAMP and key is not None:
                column = table.column(key)
                if pa.types.is_floating(column.type):
                    largest = pa.compute.max(pa.compute.abs(column)).as_py()
                    if largest is not None and largest >= 2.0**53:
                        return True
        return False

    def _segment(
        self,
        table: pa.Table,
        keys: list[str | None],
        first: dict[str, Any],
        data: bytes,
        arrival: Arrival,
    ) -> pa.Table | None:
        time = self._stream.time
        columns: list[pa.ChunkedArray] = []
        for index, key in enumerate(keys):
            if key is None:
                columns.append(pa.chunked_array([pa.nulls(table.num_rows)]))
                continue
            column = table.column(key)
            if column.null_count:  # NULL, absent, spelled in another way, or a member of a member?
                if key not in first and column.null_count == len(column):
                    return None
                if len(_spellings(self._names[index], data)) > 1:
                    return None
            columns.append(column)
        count = len(self._stream.columns)
        places: list[int | None] = list(range(count))
        if time is not None and keys[time] is None and arrival is not None:
            places[time] = None
        layout = Layout(tuple(places), count if len(keys) > count else None)
        found = pa.table(columns, names=[str(i) for i in range(len(columns))])
        parts = []
        for _, examined in examine_table(self._stream, found, layout, arrival, self._latest):
            if len(examined.bad):
                return None
            parts.append(examined.segment)
        self._seen |= {index for index, key in enumerate(keys) if key is not None}
        return joined(self._stream, parts)

    def _has_two_names(self, index: int, data: bytes) -> bool:
        """Whether objects may call a column by more than one of the names that it may have."""
        names = self._names[index]
        if len(names) == 1:
            return False
        folded = data.lower()
        return sum(b'"%b"' % name.casefold().encode() in folded for name in names) > 1

    def _type(self, kind: Type, sample: Any) -> pa.DataType:
        if kind is not Type.TIMESTAMP:
            return _READ_AS.get(kind, pa.string())
        if not isinstance(sample, int | float):
            return pa.string()
        unit = self._stream.timestamps
        is_whole = UNITS[unit][0] == 1 if unit in UNITS else isinstance(sample, int)
        return pa.int64() if is_whole else pa.float64()

    # The thorough way

    def sort_out(
        self,
        items: list[Item],
        rejections: Rejections,
        text_of: Callable[[int], tuple[int | None, str]],
        arrival: Arrival,
    ) -> pa.Table:
        """The segment of the items that are good; the others are rejected."""
        rows = [index for index, item in enumerate(items) if isinstance(item, Mapping)]
        arrived = arrival.take(pa.array(rows)) if isinstance(arrival, pa.Array) else arrival
        objects = [item for item in items if isinstance(item, Mapping)]
        columns, ops = self._columns(objects, arrived)
        examined = examine(self._stream, columns, ops, len(rows), arrived, self._latest)
        wrong = {rows[bad]: bad for bad in examined.bad.tolist()}

        def describe(index: int) -> Described:
            line, text = text_of(index)
            item = items[index]
            if isinstance(item, str):
                return line, item, text, ""
            if isinstance(item, ReadingError):
                return line, item.message, text, item.hint or ""
            row = wrong[index]
            return line, examined.reason(row), text, examined.expected(row)

        broken = [index for index, item in enumerate(items) if not isinstance(item, Mapping)]
        rejections.extend(sorted([*broken, *wrong]), describe)
        return examined.segment

    def _columns(
        self, objects: list[Mapping[Any, Any]], arrival: Arrival
    ) -> tuple[list[Converted], Converted | None]:
        shapes = [self._keys_of(shape) for shape in dict.fromkeys(map(tuple, objects))]
        lists = []
        for index in range(len(self._names)):
            spellings = {keys[index] for keys in shapes} - {None}
            if len(spellings) > 1:
                own = [self._keys_of(tuple(members))[index] for members in objects]
                lists.append(
                    [
                        None if key is None else m.get(key)
                        for m, key in zip(objects, own, strict=True)
                    ]
                )
                continue
            name = next(iter(spellings), None)
            lists.append([None if name is None else members.get(name) for members in objects])
        converted = [
            convert_objects(values, kind, self._stream.timestamps)
            for values, kind in zip(lists, self._types, strict=False)
        ]
        count = len(self._stream.columns)
        ops = converted[count] if len(converted) > count else None
        time = self._stream.time
        if time is not None and arrival is not None and objects:
            absent = pa.array([self._keys_of(tuple(members))[time] is None for members in objects])
            given = converted[time]
            filled = pa.compute.if_else(absent, arrival, given.array)
            converted[time] = replace(given, array=filled)
        return converted[:count], ops

    def _keys_of(self, shape: tuple[Any, ...]) -> list[Any]:
        """How an object with these members spells each of the names; a row has places instead."""
        keys = self._shapes.get(shape)
        if keys is None:
            if len(self._shapes) > 1000:  # objects whose members are made up
                self._shapes.clear()
            if shape and isinstance(shape[0], int):
                keys = [index if index in shape else None for index in range(len(self._names))]
            else:
                folded = {member.casefold(): member for member in reversed(shape)}
                keys = [
                    next((folded[n.casefold()] for n in names if n.casefold() in folded), None)
                    for names in self._names
                ]
            self._shapes[shape] = keys
            self._seen |= {index for index, key in enumerate(keys) if key is not None}
            self._example = self._example or [str(member) for member in shape]
        return keys


def read_json(
    stream: Stream,
    blocks: Iterable[Block],
    rejections: Rejections,
    arrival: Arrival,
    latest: int | None = None,
) -> pa.Table:
    """The segment of the good objects of a file with one a line; the others are rejected."""
    reader = ObjectReader(stream, latest)
    parts = []
    for block in blocks:
        if block.problem:
            rejections.add(block.line, block.problem, line_text(block.data))
            continue
        part = reader.all_good(block.data, block.data.count(b"\n"), arrival)
        if part is None:
            part = _read_each(reader, block, rejections, arrival)
        parts.append(part)
    return as_table(stream, parts, rejections, reader.missing(arrival))


def _read_each(
    reader: ObjectReader, block: Block, rejections: Rejections, arrival: Arrival
) -> pa.Table:
    lines = block.data.split(b"\n")
    places = [place for place, line in enumerate(lines) if line.strip(b" \t")]
    items: list[Item] = [parse_object(lines[place]) for place in places]

    def text_of(index: int) -> tuple[int | None, str]:
        return block.line + places[index], line_text(lines[places[index]])

    return reader.sort_out(items, rejections, text_of, arrival)


def as_table(
    stream: Stream,
    parts: list[pa.Table],
    rejections: Rejections,
    missing: tuple[ReadingError, str] | None,
) -> pa.Table:
    """The segment of all that was read of a file; nothing if a column is missing."""
    if missing is None:
        return joined(stream, parts)
    rejections.clear()
    rejections.refuse(*missing)
    return joined(stream, [])


def read_messages(
    stream: Stream,
    texts: pa.ChunkedArray,
    rejections: Rejections,
    arrival: Arrival,
    latest: int | None = None,
) -> pa.Table:
    """The same of texts that hold an object each. They make no table: any member may be absent.

    Otherwise it would depend on how messages fall into ticks what becomes of one.
    """
    reader = ObjectReader(stream, latest)
    parts = []
    start = 0
    for chunk in texts.cast(pa.large_binary()).chunks:
        for offset in range(0, len(chunk), TOGETHER):
            some = chunk.slice(offset, TOGETHER)
            arrived = arrival
            if isinstance(arrival, pa.Array):
                arrived = arrival.slice(start, len(some))
            parts.append(_read_some(reader, some, start, rejections, arrived))
            start += len(some)
    return joined(stream, parts)


def _read_some(
    reader: ObjectReader, some: pa.Array, start: int, rejections: Rejections, arrival: Arrival
) -> pa.Table:
    if some.null_count == 0:
        data = b"\n".join([*some.to_pylist(), b""])
        if b"\r" not in data and data.count(b"\n") == len(some):
            part = reader.all_good(data, len(some), arrival)
            if part is not None:
                return part
    values = some.to_pylist()

    def text_of(index: int) -> tuple[int | None, str]:
        return start + index + 1, line_text(values[index] or b"")

    items: list[Item] = [parse_object(value) for value in values]
    return reader.sort_out(items, rejections, text_of, arrival)


def parse_object(text: bytes | None) -> dict[str, Any] | str:
    """The object that a text is, or why it is none.

    >>> parse_object(b'{"a": 1}'), parse_object(b"[1]")
    ({'a': 1}, 'a JSON array, not an object')
    """
    if text is None:
        return "no text, so no JSON object"
    if len(text) > LONGEST:
        return TOO_LONG
    try:
        return as_object(json.loads(text.decode()))
    except UnicodeDecodeError:
        return NOT_UTF8
    except (RecursionError, ValueError) as error:
        return why_not_json(error)


def as_object(value: Any) -> dict[str, Any] | str:
    """A value of JSON if it is an object, or else what it is."""
    if isinstance(value, dict):
        return value
    return f"a JSON {_WORDS.get(type(value), 'number')}, not an object"


def why_not_json(error: Exception) -> str:
    """What is wrong with a text that Python cannot read as JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} (column {error.colno})"
    if isinstance(error, RecursionError):
        return "JSON that is nested too deeply"
    return "a number of too many digits"


def _parse_lines(data: bytes, schema: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(block_size=min(2 * LONGEST, len(data) + 1)),
        parse_options=pa.json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore"
        ),
    )


def _spellings(names: tuple[str, ...], data: bytes) -> set[str]:
    """How the members of these names are spelled; more than one way if that is hard to say."""
    if not all(name.isascii() for name in names):
        return {*names, ""}
    pattern = b"|".join(re.escape(name.encode()) for name in names)
    found = re.findall(b'"(' + pattern + rb')"\s*:', data, re.IGNORECASE)
    return {spelling.decode() for spelling in set(found)}


def _may_be_deep(data: bytes, rows: int) -> bool:
    """Whether a line may be nested too deeply for Python, though Arrow can read it."""
    if data.count(b"[") + data.count(b"{") - rows <= DEEP:
        return False
    letters = np.frombuffer(data, np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(letters == ord("\n"))[:-1] + 1])
    opens = (letters == ord("[")) | (letters == ord("{"))
    return bool(np.add.reduceat(opens.astype(np.int32), starts).max() > DEEP)
