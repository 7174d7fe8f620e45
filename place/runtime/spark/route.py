"""The route stage: sources are read and checked, into segments that cells read.

A single cell reads files itself. For several cells, and for rows that pass through Spark, tasks of
an ordinary Spark job write segments, and the cells get their names. Where there are several rows of
cells, segments are cut into slices, so that a cell reads only its own (durable/slice_file.py).
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.fs

from place.engine.slices import Segment, Told
from place.errors import InternalError
from place.model.reading import Advance
from place.model.schema import Stream
from place.plan.catalog import fold
from place.runtime.durable.slice_file import Cutting, read_whole, write_cut
from place.runtime.durable.storage import Storage
from place.runtime.intake.check import Rejected, Routed
from place.runtime.intake.files import read_file
from place.runtime.intake.generated import Steps
from place.runtime.intake.quarantine import pack
from place.runtime.spark.inputs import (
    AdvanceInput,
    BegunInput,
    FileInput,
    FloorsInput,
    MovedInput,
    PackInput,
    StepsInput,
    TickInput,
)
from place.runtime.spark.worker_process import hush_broken_pipes, spare_the_collector


@dataclass(frozen=True)
class Routing:
    """What has to be known to read the sources of a tick: its streams by their folded names, and
    the last complete instants of streams before it."""

    storage: Storage
    tick: int
    attempt: str
    streams: Mapping[str, Stream]
    clocks: Mapping[str, int | None] = field(default_factory=dict)
    cutting: Cutting | None = None
    """How segments are cut, where there are several rows of cells."""

    def arrival(self, stream: Stream, at: int) -> int:
        """When readings come that have no time of their own, if a clock says that it was `at`.

        Where that clock has gone back so far that they would be late, they come right after what
        their stream has reached.
        """
        closed = self.clocks.get(stream.name)
        return at if closed is None or at > closed else closed + stream.lateness + 1

    def read(self, item: FileInput) -> Routed:
        """The readings of a file, and the rows of it that are none."""
        stream = self.streams[fold(item.stream)]
        filesystem, path = _opened(item.path)
        arrival = None if item.arrival is None else self.arrival(stream, item.arrival)
        return read_file(stream, path, filesystem, arrival=arrival, latest=item.latest)

    def make(self, item: StepsInput) -> list[Told]:
        """The readings of a generator's steps."""
        stream = self.streams[fold(item.stream)]
        return Steps(self.storage, stream).told(item.first, item.after)

    def set_aside(self, stream: str, rejected: list[Rejected]) -> tuple[str, ...]:
        """Write rows that could not be taken to a file of the quarantine; its name."""
        if not rejected:
            return ()
        file = f"quarantine/{self.tick:012d}-{self.attempt}-{uuid.uuid4().hex[:12]}.jsonl"
        content = pack(stream, self.tick, rejected)
        self.storage.write(file, lambda out: out.write(content))
        return (file,)

    def keep(self, told: Sequence[Told]) -> str:
        """Write segments and advances for the cells; the name of the file."""
        file = f"segments/{self.tick:012d}-{self.attempt}-{uuid.uuid4().hex[:12]}.arrow"
        write = write_cut(self.storage, self.cutting, self.streams.values(), told)
        self.storage.write(file, write)
        return file


def route(routing: Routing, inputs: Iterable[TickInput]) -> Iterator[TickInput]:
    """Read files, and make what is generated, into segments in the storage for several cells."""
    for item in inputs:
        start = time.perf_counter()
        if isinstance(item, FileInput):
            routed = routing.read(item)
            yield keep_routed(routing, item.stream, {None: routed}, item.order, start)
        elif isinstance(item, StepsInput):
            file = routing.keep(routing.make(item))
            seconds = time.perf_counter() - start
            yield PackInput(file, item.first, item.stream, seconds=seconds)
        else:
            yield item


def gathered(routing: Routing, inputs: Iterable[TickInput]) -> list[Told]:
    """What a tick of the log has taken in, in its order."""
    told: list[Told] = []
    for item in inputs:
        if isinstance(item, PackInput):
            told += read_whole(routing.storage, item.file)
        elif isinstance(item, StepsInput):
            told += routing.make(item)
        elif isinstance(item, AdvanceInput):
            told.append(Advance(item.time, item.stream))
        elif isinstance(item, MovedInput | FloorsInput | BegunInput):
            continue  # what cells have told each other, of readings of earlier ticks
        else:
            raise InternalError(f"{item} was committed as it came")
    return told


def kept(
    routing: Routing, stream: str, parts: Mapping[str | None, Routed], order: int, start: float
) -> PackInput:
    """Write what was read of a source, by its partitions, and what has to be set aside."""
    file = routing.keep([Segment(stream, routed.segment, part) for part, routed in parts.items()])
    rejected = [bad for routed in parts.values() for bad in routed.rejected]
    aside = routing.set_aside(stream, rejected)
    seconds = time.perf_counter() - start
    reason = str(rejected[0]) if rejected else None
    return PackInput(file, order, stream, len(rejected), aside, seconds, reason)


def keep_routed(
    routing: Routing, stream: str, parts: Mapping[str | None, Routed], order: int, start: float
) -> PackInput:
    """The same in a task of Spark, which may be asked for much before it ends."""
    made = kept(routing, stream, parts, order, start)
    hush_broken_pipes()
    spare_the_collector()
    return made


def _opened(path: str) -> tuple[pa.fs.FileSystem, str]:
    """The file system of a path. Spark writes those of this machine as `file:/…`, not encoded."""
    if path.startswith("file:"):
        return pa.fs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        # Hadoop's names of the schemes are not always Arrow's.
        found: tuple[pa.fs.FileSystem, str] = pa.fs.FileSystem.from_uri(
            re.sub("^s3[an]:", "s3:", path)
        )
        return found
    return pa.fs.LocalFileSystem(), path
