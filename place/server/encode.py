"""Deltas as the texts that subscribers get: read once for each tick, and encoded once for all.

A message is a JSON array of `{"id", "sign", "row", "instant"}`. Ids are those of the outbox: tick
and position. The rows of a whole answer get positions beyond all deltas of the tick that the answer
is of. So a subscriber that resumes after any id, of a delta or of a row of the answer, misses
nothing and gets nothing twice.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.model.time import format_timestamp
from place.model.types import Row, Type
from place.runtime.durable.deltas import WHOLE, Deltas, NotKept, Placed, TickDeltas
from place.runtime.durable.outbox import Piece, rows_as_json
from place.server.errors import Refused
from place.server.store import Id

INITIAL, LAST = 1 << 52, (1 << 53) - 1
"""The positions of a whole answer's first row and of its last; JavaScript still counts so far."""

LARGEST_MESSAGE = 1 << 18
_ID = re.compile(r"(\d{1,15})-(\d{1,16})")


def parse_id(text: str) -> Id:
    """
    >>> parse_id("12-3")
    (12, 3)
    """
    found = _ID.fullmatch(text)
    if found is None:
        raise Refused(400, "wrong_id", f"{text[:60]!r} is not an id", hint="write it as in 12-3")
    return int(found[1]), int(found[2])


def gone(tick: int) -> Refused:
    """The error for a subscriber that wants to resume after deltas that are no longer kept."""
    return Refused(
        410,
        "gone",
        f"the deltas after tick {tick} are not kept any more",
        hint="subscribe without an id: it starts with the whole answer",
    )


@dataclass(frozen=True)
class Message:
    """Some deltas of one query, as one text; `last` is the id to resume after."""

    text: str
    first: str
    last: str

    @cached_property
    def event(self) -> bytes:
        """The same as an event of server-sent events."""
        number = f"id: {self.last}\n" if self.last else ""
        return f"event: deltas\n{number}data: {self.text}\n\n".encode()


UP_TO_DATE = Message("[]", "", "")
"""The message to a new subscriber when there is nothing else to send, so that it need not wait to
know that the answer is empty."""


def nothing_yet(tick: int) -> Message:
    """The same to a new subscriber of a trigger, with an id to resume after: there is no answer
    that could be sent again, so that alerts would be lost to whoever connects again without one."""
    number = id_after(tick)
    return Message("[]", number, number)


def id_after(tick: int) -> str:
    """The id after which all is that comes with later ticks."""
    return f"{tick}-{LAST}"


@dataclass
class Encoded:
    """The deltas of one query in one tick, in the order of their positions."""

    tick: int
    positions: list[int] = field(default_factory=list)
    signs: list[int] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @cached_property
    def messages(self) -> list[Message]:
        return list(_messages([f"{self.tick}-{p}" for p in self.positions], self.texts))

    def put_in_order(self) -> None:
        """A query may have deltas in several files, whose positions lie between each other."""
        if any(later < before for before, later in pairwise(self.positions)):
            order = sorted(range(len(self.positions)), key=self.positions.__getitem__)
            for part in (self.positions, self.signs, self.rows, self.texts):
                values = cast("list[object]", part)
                values[:] = [values[i] for i in order]

    def apply(self, answer: Counter[str], direction: int = 1) -> None:
        """Bring an answer from before the tick to after it, or back."""
        for sign, row in zip(self.signs, self.rows, strict=True):
            answer[row] += sign * direction
            if answer[row] == 0:
                del answer[row]


def _messages(ids: Sequence[str], texts: Sequence[str]) -> Iterator[Message]:
    """Messages of a bounded size; a delta that is larger has one of its own."""
    start = size = 0
    for end, text in enumerate(texts):
        if end > start and size + len(text) > LARGEST_MESSAGE:
            yield Message("[" + ",".join(texts[start:end]) + "]", ids[start], ids[end - 1])
            start, size = end, 0
        size += len(text)
    if start < len(texts):
        yield Message("[" + ",".join(texts[start:]) + "]", ids[start], ids[-1])


def iso(instant: int) -> str:
    """
    >>> iso(1_500_000)
    '1970-01-01T00:00:01.5Z'
    """
    return format_timestamp(instant).replace(" ", "T") + "Z"


def whole_answer(
    answer: Counter[str], tick: int, instant: int, start: int = 0
) -> Iterator[Message]:
    """An answer as positive deltas, from its row of number `start` on."""
    rows = sorted(answer.elements())
    at = iso(instant)
    places = [INITIAL + i for i in range(start, len(rows) - 1)] + [LAST] * (start < len(rows))
    ids = [f"{tick}-{place}" for place in places]
    texts = [
        f'{{"id":"{number}","sign":1,"row":{row},"instant":"{at}"}}'
        for number, row in zip(ids, rows[start:], strict=True)
    ]
    return _messages(ids, texts)


Tally = Callable[[Sequence[str], NDArray[Any], NDArray[Any]], object]
"""Is told by how many rows the answers of queries have grown, and of how many deltas."""


def encode_tick(
    found: TickDeltas, names: Collection[str], tally: Tally | None = None
) -> dict[str, Encoded]:
    """The deltas of a tick, of queries of these names."""
    encoded: dict[str, Encoded] = {}
    for piece, positions in found.placed:
        wanted = _wanted(piece.names, names)
        if tally is not None or wanted.any():
            codes = piece.codes.to_numpy()
            if tally is not None:
                signs, size = piece.signs.to_numpy(), len(piece.names)
                growth, counts = np.bincount(codes, signs, size), np.bincount(codes, None, size)
                tally(piece.names, growth, counts)
            chosen = np.flatnonzero(wanted[codes])
            if len(chosen):
                _encode(encoded, Placed(piece, positions), found.tick, codes, chosen)
    if len(found.placed) > 1:
        for each in encoded.values():
            each.put_in_order()
    return encoded


def _wanted(names: Sequence[str], chosen: Collection[str]) -> NDArray[np.bool_]:
    """Which of the names are among the chosen."""
    if len(chosen) > 4:
        return np.fromiter((name in chosen for name in names), np.bool_)
    found = np.zeros(len(names), np.bool_)
    for name in chosen:
        with contextlib.suppress(ValueError):
            found[names.index(name)] = True
    return found


def _encode(
    found: dict[str, Encoded],
    placed: Placed,
    tick: int,
    codes: NDArray[np.int32],
    chosen: NDArray[np.intp],
) -> None:
    piece = placed.piece
    chosen = chosen[np.argsort(codes[chosen], kind="stable")]
    places = pa.array(chosen)
    signs, instants = piece.signs.take(places), piece.instants.take(places)
    rows = rows_as_json(_part(piece, places))
    moments = instants.dictionary_encode()
    written = pa.array([iso(instant) for instant in moments.dictionary.to_pylist()], pa.string())
    positions = pa.array(placed.positions[chosen])
    texts = pc.binary_join_element_wise(
        *(f'{{"id":"{tick}-', positions.cast(pa.string()), '","sign":'),
        *(signs.cast(pa.string()), ',"row":', rows, ',"instant":"'),
        *(written.take(moments.indices), '"}', ""),
    )
    own, firsts = np.unique(codes[chosen], return_index=True)
    ends = [*firsts[1:].tolist(), len(chosen)]
    lists = [column.to_pylist() for column in (positions, signs, rows, texts)]
    for code, first, end in zip(own.tolist(), firsts.tolist(), ends, strict=True):
        encoded = found.setdefault(piece.names[code], Encoded(tick))
        parts = (encoded.positions, encoded.signs, encoded.rows, encoded.texts)
        for part, values in zip(parts, lists, strict=True):
            cast("list[object]", part).extend(values[first:end])


def _part(piece: Piece, places: pa.Array) -> Piece:
    """Some rows of a piece; of dictionaries only the words that they use."""
    columns = []
    for column, kind in zip(piece.columns, piece.types, strict=True):
        taken = column.take(places)
        if kind is Type.STRING and len(taken.dictionary) > len(taken):
            taken = taken.dictionary_decode().dictionary_encode()
        columns.append(taken)
    heads = [pa.nulls(len(places))] * 3
    names = [str(i) for i in range(len(columns) + 3)]
    return Piece(piece.names, piece.types, pa.Table.from_arrays([*heads, *columns], names=names))


def backlog(deltas: Deltas, query: str, after: Id, until: int) -> Iterator[Encoded]:
    """The deltas of a query after an id, tick by tick, up to a tick; an error if some are gone."""
    try:
        for found in deltas.after(in_outbox(after), until):
            encoded = encode_tick(found, {query}).get(query)
            if encoded is not None:
                yield encoded
    except NotKept:
        raise gone(after[0]) from None


def in_outbox(after: Id) -> Id:
    """The id in the outbox that a subscriber's id stands for: a whole answer is after its tick."""
    tick, position = after
    return tick, WHOLE if position >= INITIAL else position


def row_texts(rows: Mapping[Row, int]) -> Counter[str]:
    """An answer by the texts of its rows, as they stand in deltas."""
    return Counter({json.dumps(row): count for row, count in rows.items()})
