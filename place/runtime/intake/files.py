"""Files and messages of a stream's source, read and checked: the step *route* of the pipeline.

Whatever is in a file, it becomes a segment and a list of rejected rows; only if the file cannot be
read at all, because the disk or the network fails, is that an error, so that it is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from place.errors import ReadingError
from place.model.schema import Stream
from place.plan.external import FORMATS
from place.runtime.intake.check import (
    Rejections,
    Routed,
    check_table,
    empty_segment,
    find_layout,
)
from place.runtime.intake.csv_file import read_csv
from place.runtime.intake.geojson import read_geojson
from place.runtime.intake.gpx import read_gpx
from place.runtime.intake.json_array import read_array
from place.runtime.intake.json_file import read_json, read_messages
from place.runtime.intake.judge import Arrival
from place.runtime.intake.lines import LONGEST, Damaged, blocks_of, chunks_of, without_mark
from place.runtime.intake.nmea import read_nmea

ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".geojson": "geojson",
    ".gpx": "gpx",
    ".nmea": "nmea",
}


def read_file(
    stream: Stream,
    path: str,
    filesystem: pyarrow.fs.FileSystem,
    *,
    arrival: int | None = None,
    latest: int | None = None,
) -> Routed:
    """The readings of one file, in its order, and the rows that are none.

    Its format is the source's option `format`, or else told by its name; gzip is seen by itself.
    `latest` is the latest time that a reading may have.
    """
    rejections = Rejections(path)
    form = format_of(stream, path)
    if form is None:
        endings = ", ".join(ENDINGS)
        hint = f"give the option format, or a name that ends in {endings}"
        rejections.add(None, "the format is not known", "", hint)
        return Routed(empty_segment(stream), rejections.all())
    if form == "parquet":
        return _read_parquet(stream, path, filesystem, arrival, latest)
    with filesystem.open_input_stream(path, compression=None) as file:
        chunks = chunks_of(file, path)
        if form == "csv":
            segment = read_csv(stream, blocks_of(chunks), rejections, arrival, latest)
        elif form == "nmea":
            segment = read_nmea(stream, blocks_of(chunks), rejections, arrival, latest)
        elif form == "geojson":
            segment = read_geojson(stream, chunks, rejections, arrival, latest)
        elif form == "gpx":
            segment = read_gpx(stream, chunks, rejections, arrival, latest)
        else:
            head, chunks = _peek(chunks)
            if _is_array(head):
                segment = read_array(stream, chunks, rejections, arrival, latest)
            else:
                segment = read_json(stream, blocks_of(chunks), rejections, arrival, latest)
    return Routed(segment, rejections.all())


def check_json(
    stream: Stream,
    texts: pa.ChunkedArray | pa.Array,
    source: str,
    *,
    arrival: Arrival = None,
    latest: int | None = None,
) -> Routed:
    """The readings of messages, an object of JSON each, and the messages that are none.

    Each message may have arrived at its own time.
    """
    rejections = Rejections(source)
    chunked = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
    segment = read_messages(stream, chunked, rejections, arrival, latest)
    return Routed(segment, rejections.all())


def format_of(stream: Stream, path: str) -> str | None:
    """The format of a file, None if nothing tells it."""
    option = stream.source.option("format") if stream.source else None
    if stream.source is not None and stream.source.kind == "NMEA":
        return "nmea"
    if option in FORMATS:
        return str(option)
    name = path.casefold().removesuffix(".gz")
    return next((form for ending, form in ENDINGS.items() if name.endswith(ending)), None)


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The start of a file, as far as it says something, and all of it."""
    head = b""
    try:
        for chunk in chunks:
            head += chunk
            if len(head.strip()) > 100 or len(head) > LONGEST:
                break
    except Damaged as damage:
        return head, _broken(head, damage)
    return head, chain([head], chunks)


def _broken(head: bytes, damage: Damaged) -> Iterator[bytes]:
    yield head
    raise damage


def _is_array(head: bytes) -> bool:
    """Whether a file is one array of objects, rather than lines of which the first is an array."""
    start = without_mark(head).lstrip()
    return start.startswith(b"[") and start[1:].lstrip()[:1] in (b"{", b"]", b"")


def _read_parquet(
    stream: Stream,
    path: str,
    filesystem: pyarrow.fs.FileSystem,
    arrival: int | None,
    latest: int | None,
) -> Routed:
    try:
        with filesystem.open_input_file(path) as file:
            if file.size() == 0:
                return Routed(empty_segment(stream), [])
            if not path.casefold().endswith(".gz"):
                return _check_parquet(stream, file, path, arrival, latest)
    except (pa.ArrowException, OSError):
        pass  # damaged, or the disk or the network fails: reading all of it tells which
    try:
        with filesystem.open_input_stream(path, compression=None) as file:
            data = b"".join(chunks_of(file, path))
    except Damaged as damage:
        return _reject(stream, path, str(damage))
    try:
        return _check_parquet(stream, pa.BufferReader(data), path, arrival, latest)
    except (pa.ArrowException, OSError) as error:
        what = (str(error) or type(error).__name__).splitlines()[0]
        return _reject(stream, path, f"no readable Parquet file: {what[:200]}")


def _check_parquet(
    stream: Stream, file: pa.NativeFile, path: str, arrival: int | None, latest: int | None
) -> Routed:
    """The readings of a Parquet file, of which only the columns that are needed are read."""
    parquet = pa.parquet.ParquetFile(file, coerce_int96_timestamp_unit="us")
    names = parquet.schema_arrow.names
    try:
        needed = find_layout(stream, names, arrival).needed
    except ReadingError as error:
        rejections = Rejections(path)
        rejections.refuse(error, ", ".join(names))
        return Routed(empty_segment(stream), rejections.all())
    table = parquet.read(columns=[names[place] for place in needed])
    return check_table(stream, table, path, arrival=arrival, latest=latest)


def _reject(stream: Stream, path: str, reason: str) -> Routed:
    rejections = Rejections(path)
    rejections.add(None, reason, "")
    return Routed(empty_segment(stream), rejections.all())
