"""Files of lines, plain or in gzip, in blocks of whole lines.

A line ends where editors end it (\\n, \\r\\n or \\r), even within quotes, so that one broken
line costs no other; in a block all end by \\n. Only a block is ever held, however long the file,
however well compressed, and however long a line without end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute

BLOCK = 8 << 20
LONGEST = 1 << 20
"""How many bytes are looked at together, and how long a line may be."""

NOT_UTF8 = "invalid UTF-8"
TOO_LONG = "longer than 1 MB"
CUT_OFF = "the file is cut off: its gzip data ends too early"
DAMAGED = "the rest of the file is lost: its gzip data is damaged"

_PIECE = 1 << 16
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Whole lines, of which the first has the number `line`; or what a problem leaves of one."""

    line: int
    data: bytes
    problem: str | None = None


class Damaged(Exception):
    """Compressed data goes no further; the message says why."""


def blocks_of(chunks: Iterator[bytes]) -> Iterator[Block]:
    """The lines of a file. What cannot be read of them is a block with a problem."""
    line, rest, skips, problem = 1, b"", False, None
    gathered = _gathered(chunks)
    first = True
    while True:
        try:
            data = next(gathered, None)
        except Damaged as damage:
            data, problem = None, str(damage)
        if data is None:
            break
        data, held = _with_newlines(rest + (without_mark(data) if first else data))
        first = False
        if skips:
            end = data.find(b"\n") + 1
            skips = end == 0
            data, line = data[end if end else len(data) :], line + (not skips)
        cut = data.rfind(b"\n") + 1
        if cut:
            yield Block(line, data[:cut])
            line += data.count(b"\n")
        rest = data[cut:] + held
        if not cut and len(rest) > LONGEST:
            yield Block(line, rest[:_PIECE], TOO_LONG)
            rest, skips = held, True
    if problem:
        yield Block(line, rest, problem)
    elif rest and not skips:
        last, held = _with_newlines(rest)
        yield Block(line, last if last.endswith(b"\n") else last + b"\n")


def chunks_of(file: pa.NativeFile, path: str) -> Iterator[bytes]:
    """The bytes of a file, unpacked if they are packed; Damaged where they go no further."""
    data = file.read(BLOCK)
    if path.casefold().endswith(".gz") or data.startswith(b"\x1f\x8b"):
        yield from _unpacked(file, data)
        return
    while data:
        yield data
        data = file.read(BLOCK)


def _unpacked(file: pa.NativeFile, data: bytes) -> Iterator[bytes]:
    """The members of a gzip file, one after the other.

    It is fed by small pieces because zlib gives nothing of a piece that is damaged somewhere.
    """
    unpacker = zlib.decompressobj(wbits=31)
    begun = False
    while data:
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            while piece:
                if unpacker.eof:
                    piece = piece.lstrip(b"\0")  # some tapes and tools pad by zeros
                    unpacker, begun = zlib.decompressobj(wbits=31), False
                    continue
                begun = True
                try:
                    yield unpacker.decompress(piece, BLOCK)
                except zlib.error:
                    raise Damaged(DAMAGED) from None
                piece = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
        data = file.read(BLOCK)
    if begun and not unpacker.eof:
        raise Damaged(CUT_OFF)


def _gathered(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks of about the size of a block; what came before damage comes first."""
    parts: list[bytes] = []
    size = 0
    damage = None
    while True:
        try:
            chunk = next(chunks, None)
        except Damaged as error:
            chunk, damage = None, error
        if chunk is not None:
            parts.append(chunk)
            size += len(chunk)
        if parts and (chunk is None or size >= BLOCK):
            yield parts[0] if len(parts) == 1 else b"".join(parts)
            parts, size = [], 0
        if damage is not None:
            raise damage
        if chunk is None:
            return


def _with_newlines(data: bytes) -> tuple[bytes, bytes]:
    """Data whose lines end by \\n, and a last \\r whose \\n may still come."""
    held = b""
    if b"\r" in data:
        if data.endswith(b"\r"):
            data, held = data[:-1], b"\r"
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data, held


def without_mark(data: bytes) -> bytes:
    """The start of a file without the mark that some editors put there to say UTF-8."""
    return data.removeprefix(_MARK)


def is_utf8(data: bytes) -> bool:
    """Whether all of it is."""
    if data.isascii():
        return True
    offsets = pa.py_buffer(b"\0" * 8 + len(data).to_bytes(8, "little"))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        whole.cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def lines_are_short(data: bytes) -> bool:
    """Whether a line ends in every half of what one may be long, so that none is longer."""
    half = LONGEST // 2
    return all(data.find(b"\n", i, i + half) >= 0 for i in range(0, len(data), half))


def is_finite(table: pa.Table) -> bool:
    """Arrow takes the texts nan and inf for numbers; `coerce` does not, nor JSON -NaN."""
    return all(
        pa.compute.all(pa.compute.is_finite(column)).as_py() is not False
        for column in table.columns
        if pa.types.is_floating(column.type)
    )
