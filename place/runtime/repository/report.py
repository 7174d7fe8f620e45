"""What a repository holds and costs, read beside whoever writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from place.errors import PlaceError
from place.model.schema import Stream
from place.plan.catalog import Catalog
from place.runtime.durable.storage import Storage
from place.runtime.repository.delta import APPLICATION, Delta
from place.runtime.repository.footers import Footers
from place.runtime.repository.late import late_files
from place.runtime.repository.layout import Layout
from place.runtime.repository.parquet import Wanted
from place.runtime.repository.repository import DIRECTORY, MARK, archived
from place.runtime.repository.stream_archive import AMENDED, AMENDED_READINGS, ArchivedFile


@dataclass(frozen=True)
class StreamReport:
    """The archive of one stream. `plain` is what its readings would take as plain Parquet, by what
    one of its files takes so; `copies` are the rows of snapshots."""

    stream: str
    directory: str
    begin: int | None = None
    end: int | None = None
    readings: int = 0
    copies: int = 0
    files: int = 0
    size: int = 0
    plain: int | None = None
    tick: int | None = None
    pins: Mapping[str, int] | None = None
    late: int = 0
    """Late readings that are kept beside the table, and were not put into it."""
    amended: int = 0
    """Late readings that were put into the table."""
    fault: str | None = None


def report(storage: Storage, catalog: Catalog) -> tuple[list[StreamReport], int]:
    """What is kept of each stream; and the bytes of archives of streams that are there no more."""
    marks: dict[str, str] = {}
    if storage.exists(MARK):
        marks = json.loads(storage.read(MARK))
    found = [_report(storage, catalog, each, marks.get(each.name)) for each in archived(catalog)]
    current = [f"{each.directory}/" for each in found if each.directory]
    earlier = sum(
        size
        for name, size in storage.list(DIRECTORY)
        if not name.startswith((*current, f"{DIRECTORY}/_"))
    )
    return found, earlier


def _report(
    storage: Storage, catalog: Catalog, stream: Stream, directory: str | None
) -> StreamReport:
    pins = {pin.name: pin.at for pin in catalog.pins.values() if pin.stream == stream.name}
    if directory is None:
        return StreamReport(stream.name, "", pins=pins)
    layout = Layout(stream)
    delta = Delta(storage.root, directory, layout.table_schema, layout.day)
    try:
        if not delta.open():
            return StreamReport(stream.name, directory, pins=pins, fault="its table is gone")
        files = [ArchivedFile.of(file) for file in delta.files()]
        readings = sum(each.file.nulls.get(layout.snapshot, 0) for each in files)
        rows = sum(each.file.rows for each in files)
        plain = _plain_size(storage, layout, directory, files)
    except PlaceError as error:
        return StreamReport(stream.name, directory, pins=pins, fault=str(error))
    return StreamReport(
        stream.name,
        directory,
        min((each.begin for each in files), default=None),
        max((each.end for each in files), default=None),
        readings,
        rows - readings,
        len(files),
        sum(each.file.size for each in files),
        None if plain is None else int(plain * readings),
        delta.tick(APPLICATION),
        pins,
        sum(file.rows for file in late_files(storage, directory, delta.tick(AMENDED))),
        delta.tick(AMENDED_READINGS) or 0,
    )


def faults_of(storage: Storage, catalog: Catalog) -> dict[str, str]:
    """Streams whose past is damaged or gone, and what is wrong with it, as the files tell."""
    marks = json.loads(storage.read(MARK)) if storage.exists(MARK) else {}
    found: dict[str, str] = {}
    for stream in archived(catalog):
        directory = marks.get(stream.name)
        if directory is None:
            continue
        layout = Layout(stream)
        delta = Delta(storage.root, directory, layout.table_schema, layout.day)
        try:
            is_there = delta.open()
            names = {name for name, _ in storage.list(directory)}
            missing = [f.path for f in delta.files() if f"{directory}/{f.path}" not in names]
        except PlaceError as error:
            found[stream.name] = str(error)
            continue
        if not is_there:
            found[stream.name] = f"its table {directory} is gone"
        elif missing:
            found[stream.name] = f"{directory}/{missing[0]} is missing"
    return found


def _plain_size(
    storage: Storage, layout: Layout, directory: str, files: list[ArchivedFile]
) -> float | None:
    """The bytes of a reading in a Parquet file as it is written by default, in the order of times,
    with the stream's own columns: by the readings of the largest file."""
    largest = max(files, key=lambda each: each.file.rows, default=None)
    if largest is None:
        return None
    name = f"{directory}/{largest.file.path}"
    rows, _ = Footers(storage).read(layout, name, Wanted(until=largest.end))
    return plain_bytes(layout, rows)


def plain_bytes(layout: Layout, rows: pa.Table) -> float | None:
    """The bytes that a reading takes in a plain Parquet file of these rows."""
    readings = layout.in_order(rows.filter(rows.column(layout.snapshot).is_null()))
    if not readings.num_rows:
        return None
    names = [column.name for column in layout.stream.columns]
    names += [] if layout.stream.time is not None else [layout.time]
    out: Any = pa.BufferOutputStream()
    pq.write_table(readings.select(names), out)
    return float(out.getvalue().size / readings.num_rows)
