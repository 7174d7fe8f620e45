"""Parquet's bloom filters: may a key be among the values of a column in a row group?

The filter is a number of blocks of eight words of 32 bits; a value sets one bit in each word of one
block, by the hash XXH64 of its bytes as Parquet writes them plainly.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from place.model.reading import Key

_SALT = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
_BLOCK = 32
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_ALL = (1 << 64) - 1


def hash_of(key: Key, kind: pa.DataType) -> int:
    """The hash of a key in a column of a type."""
    if pa.types.is_integer(kind):
        return xxh64(struct.pack("<q", key))
    if pa.types.is_floating(kind):
        return xxh64(struct.pack("<d", key))
    return xxh64(str(key).encode("utf-8"))


def is_in(content: bytes, value: int) -> bool:
    """May a value of this hash be in a filter, of which this is all: a header and its blocks?"""
    size = (len(content) - 1) // _BLOCK * _BLOCK
    blocks = size // _BLOCK
    first = len(content) - size + ((value >> 32) * blocks >> 32) * _BLOCK
    low = value & 0xFFFFFFFF
    words = struct.unpack_from("<8I", content, first)
    return all(
        word >> ((low * salt & 0xFFFFFFFF) >> 27) & 1
        for word, salt in zip(words, _SALT, strict=True)
    )


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _ALL


def _round(state: int, word: int) -> int:
    return _turned((state + word * _P2) & _ALL, 31) * _P1 & _ALL


def xxh64(content: bytes) -> int:
    """The hash XXH64 with seed 0.

    >>> hex(xxh64(b""))
    '0xef46db3751d8e999'
    >>> hex(xxh64(b"abc"))
    '0x44bc2cf5ad770999'
    """
    at, size = 0, len(content)
    if size >= 32:
        states = [(_P1 + _P2) & _ALL, _P2, 0, -_P1 & _ALL]
        while size - at >= 32:
            words = struct.unpack_from("<4Q", content, at)
            states = [_round(s, w) for s, w in zip(states, words, strict=True)]
            at += 32
        total = sum(_turned(s, b) for s, b in zip(states, (1, 7, 12, 18), strict=True)) & _ALL
        for state in states:
            total = ((total ^ _round(0, state)) * _P1 + _P4) & _ALL
    else:
        total = _P5
    total = (total + size) & _ALL
    while size - at >= 8:
        (word,) = struct.unpack_from("<Q", content, at)
        total = (_turned(total ^ _round(0, word), 27) * _P1 + _P4) & _ALL
        at += 8
    if size - at >= 4:
        (word,) = struct.unpack_from("<I", content, at)
        total = (_turned(total ^ word * _P1 & _ALL, 23) * _P2 + _P3) & _ALL
        at += 4
    for byte in content[at:]:
        total = _turned(total ^ byte * _P5 & _ALL, 11) * _P1 & _ALL
    total = (total ^ total >> 33) * _P2 & _ALL
    total = (total ^ total >> 29) * _P3 & _ALL
    return total ^ total >> 32
