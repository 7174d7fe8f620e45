"""What a cell takes in for a tick: its inputs, read in their order.

What comes as it is, and is in no segment yet, is written for the log beside the tick.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from place.engine.slices import Segment, Told
from place.engine.worker import Worker
from place.model.reading import Advance
from place.runtime.durable.pack import read_pack
from place.runtime.durable.slice_file import read_share, read_whole
from place.runtime.durable.told import told_in
from place.runtime.intake.check import Rejected
from place.runtime.spark.inputs import (
    AdvanceInput,
    EnclosedInput,
    FileInput,
    PackInput,
    StepsInput,
    TickInput,
)
from place.runtime.spark.requests import CellResult
from place.runtime.spark.route import Routing


class Keeping(threading.Thread):
    """Writes readings for the log, while they are taken."""

    def __init__(self, routing: Routing, told: Segment, done: Callable[[str], object]) -> None:
        super().__init__(daemon=True)
        self._routing, self._told, self._done = routing, told, done
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._done(self._routing.keep([self._told]))
        except Exception as error:  # told to whoever waits
            self._error = error

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if self._error is not None:
            raise self._error


def gather(
    routing: Routing, inputs: Sequence[TickInput], worker: Worker, result: CellResult
) -> tuple[list[Told], dict[str, list[Rejected]], list[Keeping]]:
    """The inputs in their order, what could not be read, and who writes what is in no segment."""
    told: list[Told] = []
    rejected: dict[str, list[Rejected]] = {}
    keeping: list[Keeping] = []
    for place, item in enumerate(inputs):
        if isinstance(item, FileInput):
            routed = routing.read(item)
            segment = Segment(item.stream, routed.segment)
            told.append(segment)
            keeping.append(Keeping(routing, segment, partial(result.taken.__setitem__, place)))
            rejected.setdefault(item.stream, []).extend(routed.rejected)
        elif isinstance(item, PackInput):
            some, read = _read(routing, item.file, worker)
            told += some
            result.read += read
            result.quarantine += item.quarantine
            result.times["route"] = max(result.times.get("route", 0.0), item.seconds)
            if item.stream is not None:
                result.bad[item.stream] = result.bad.get(item.stream, 0) + item.bad
                if item.reason:
                    result.reasons[item.stream] = item.reason
        elif isinstance(item, EnclosedInput):
            told += told_in(read_pack(pa.BufferReader(item.content)))
            result.read += len(item.content)
        elif isinstance(item, StepsInput):
            told += routing.make(item)
        elif isinstance(item, AdvanceInput):
            told.append(Advance(item.time, item.stream))
    result.rows = sum(item.table.num_rows for item in told if isinstance(item, Segment))
    return told, rejected, keeping


def _read(routing: Routing, file: str, worker: Worker) -> tuple[list[Told], int]:
    """What a cell reads of a file of readings, and how many bytes that is."""
    if worker.place.matrix.rows == 1:
        told = read_whole(routing.storage, file)
        return told, sum(item.table.nbytes for item in told if isinstance(item, Segment))
    streams = {stream.name: stream for stream in routing.streams.values()}
    return read_share(routing.storage, file, worker.share, streams, worker.catalog.version)
