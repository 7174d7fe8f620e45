"""Streams of Arrow over HTTP: what they say is read, and what would blow up is refused unread."""

import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from place.server.arrow_body import read_stream
from place.server.errors import Refused


def written(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    chosen = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(out, table.schema, options=chosen) as writer:
        writer.write_table(table)
    return out.getvalue()


PLAIN = pa.table(
    {
        "id": np.arange(1000),
        "x": np.linspace(0, 1, 1000),
        "kind": pa.array(["bus", "cab"] * 500).dictionary_encode(),
        "name": pa.array([f"a rather long name of number {n}" for n in range(1000)]),
        "view": pa.array([f"a rather long name of number {n}" for n in range(1000)]).cast(
            pa.string_view()
        ),
    }
)
ONE_LONG = pa.array(["x" * 100_000])
REFUSED = {
    "compressed rows": (written(pa.table({"id": np.zeros(10**6)}), compression="zstd"), "compress"),
    "a compressed dictionary": (
        written(pa.table({"kind": ONE_LONG.dictionary_encode()}), compression="lz4"),
        "compress",
    ),
    "rows of nothing": (written(pa.table({"id": pa.nulls(1 << 28)})), "more rows than bytes"),
    "one long text for many": (
        written(
            pa.table({"k": pa.DictionaryArray.from_arrays(np.zeros(99, np.int8), ONE_LONG)}),
        ),
        "its texts stand for 9,900,000 bytes",
    ),
    "runs": (written(pa.table({"id": pc.run_end_encode(pa.array([1] * 99))})), "is of runs"),
    "a piece": (written(PLAIN)[:-2000], "no stream of Arrow"),
    "nothing": (b"", "no stream of Arrow"),
}


def test_what_is_plain_is_read() -> None:
    assert read_stream(written(PLAIN)).equals(PLAIN)
    assert read_stream(written(PLAIN.slice(10, 5))).equals(PLAIN.slice(10, 5))
    assert read_stream(written(PLAIN.slice(0, 0))).num_rows == 0


@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_blow_up_is_refused(kind: str) -> None:
    body, reason = REFUSED[kind]
    with pytest.raises(Refused, match=reason) as refused:
        read_stream(body)
    assert refused.value.status == 400


def test_damaged_bodies_are_refused_or_read() -> None:
    good, chance = written(PLAIN.slice(0, 50)), random.Random(3)
    refused = 0
    for _ in range(1500):
        body = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        try:
            read_stream(bytes(body))
        except Refused:
            refused += 1
    assert refused > 100
