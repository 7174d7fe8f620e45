"""Files that are one array of JSON objects, read and checked.

An array is one value, so a file with one is held whole, and may not be large. Its elements are told
apart one by one: what breaks it off somewhere leaves those before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa

from place.model.schema import Stream
from place.runtime.intake.check import Rejections, joined, line_text
from place.runtime.intake.json_file import (
    TOGETHER,
    Item,
    ObjectReader,
    as_object,
    as_table,
    why_not_json,
)
from place.runtime.intake.lines import LONGEST, NOT_UTF8, TOO_LONG, Damaged, is_utf8, without_mark

LARGEST_ARRAY = 256 << 20

_SPACE = re.compile(r"[ \t\n\r]*")


def read_array(
    stream: Stream,
    chunks: Iterator[bytes],
    rejections: Rejections,
    arrival: int | None,
    latest: int | None = None,
) -> pa.Table:
    """The segment of the good objects of such a file; what is not good is rejected."""
    reader = ObjectReader(stream, latest)
    found = whole_text(chunks, rejections)
    if found is None:
        return joined(stream, [])
    text, problem = found
    parts = []
    elements = Elements(text, text.index("["), problem)
    while batch := elements.take():
        items = [item for _, item, _ in batch]
        texts = [(line, text) for line, _, text in batch]
        parts.append(reader.sort_out(items, rejections, texts.__getitem__, arrival))
    return as_table(stream, parts, rejections, reader.missing(arrival))


def whole_text(chunks: Iterator[bytes], rejections: Rejections) -> tuple[str, str | None] | None:
    """All of a file as a text, and what has cut it off; None, after saying why, if it is none."""
    pieces: list[bytes] = []
    size, problem = 0, None
    try:
        for chunk in chunks:
            pieces.append(chunk)
            size += len(chunk)
            if size > LARGEST_ARRAY:
                problem = "an array of more than 256 MB: write an object a line"
                rejections.add(None, problem, line_text(pieces[0]))
                return None
    except Damaged as damage:
        problem = str(damage)
    data = without_mark(b"".join(pieces))
    if not is_utf8(data):
        rejections.add(None, NOT_UTF8, line_text(data))
        return None
    return data.decode(), problem


class Elements:
    """The elements of the array that begins somewhere in a text, with their lines; what breaks it
    off is the last one, and so is what follows it, if it should stand alone."""

    def __init__(self, text: str, at: int, problem: str | None, *, is_alone: bool = True) -> None:
        self._text = text
        self._problem = problem
        self._is_alone = is_alone
        self._decoder = json.JSONDecoder()
        self._at = at + 1
        self._line = 1 + text.count("\n", 0, self._at)
        self._ended = False
        self._first = True

    def take(self) -> list[tuple[int, Item, str]]:
        batch: list[tuple[int, Item, str]] = []
        while not self._ended and len(batch) < TOGETHER:
            batch.extend(self._next())
        return batch

    def _next(self) -> list[tuple[int, Item, str]]:
        try:
            self._skip_space()
            start = self._at
            if self._text.startswith("]", start):
                self._at += 1
                return self._end()
            if not self._first:
                if not self._text.startswith(",", start):
                    raise json.JSONDecodeError("Expecting ',' delimiter", self._text, start)
                self._at += 1
                self._skip_space()
                start = self._at
            self._first = False
            value, end = self._decoder.raw_decode(self._text, start)
        except (RecursionError, ValueError) as error:
            self._ended = True
            reason = self._problem or f"{why_not_json(error)}; the rest of the array is lost"
            return [(self._line, reason, self._text[start : start + LONGEST])]
        text = self._text[start:end]
        line = self._line
        self._line += text.count("\n")
        self._at = end
        return [(line, TOO_LONG if len(text) > LONGEST else as_object(value), text)]

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._line += space[0].count("\n")
        self._at = space.end()

    def _end(self) -> list[tuple[int, Item, str]]:
        self._ended = True
        if not self._is_alone:
            return []
        self._skip_space()
        rest = self._text[self._at : self._at + LONGEST]
        return [(self._line, "text after the end of the array", rest)] if rest else []
