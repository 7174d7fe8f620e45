"""What is read of an archive for a question, counted, and of which objects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from place.plan.past_reads import Needed, floor_to
from place.runtime.archive import Archive, Found, Span

MOST_KEYS = 100_000
"""With more objects than these in a region, all readings of the time are read instead of theirs."""


@dataclass
class Reads:
    """What was read of a stream for a question."""

    rows: int = 0
    files_read: int = 0
    files_skipped: int = 0
    bytes_read: int = 0

    def add(self, found: Found) -> pa.Table:
        """Count something that was found; its readings."""
        self.rows += found.table.num_rows
        self.files_read += found.files_read
        self.files_skipped += found.files_skipped
        self.bytes_read += found.bytes_read
        return found.table


def since_of(need: Needed, span: Span, start: int | None) -> int:
    """The time after which readings of a stream are read, at which its objects are known if they
    count; `start` is where the question begins, None with the archive."""
    since = span.begin - 1
    if start is not None:
        since = max(since, floor_to(start, need.stream.evaluate))
    return max(since, span.begin) if need.objects else since  # before that nobody knows them


def keys_within(archive: Archive, need: Needed, begin: int, until: int, reads: Reads) -> Needed:
    """What is needed of a region that stands still: only objects that were in it at some time.

    They are found by place, and then read by key: what leads them out of it counts, too.
    """
    stream = need.stream
    span = archive.span(stream, begin)
    if need.box is None or span is None or stream.key is None:
        return need
    since = max(floor_to(begin, stream.evaluate), span.begin)
    keys: set[int | str] = set()
    for found in (
        archive.objects(stream, since, need.box, need.keys),
        archive.readings(stream, since, until, need.box, need.keys),
    ):
        keys.update(reads.add(found).column(stream.key).unique().to_pylist())
    chosen = frozenset(keys) if len(keys) <= MOST_KEYS else need.keys
    return replace(need, box=None, keys=chosen)


def told_of(need: Needed, reads: Reads) -> str:
    """What was read of a stream, in words."""
    parts = [f"{reads.rows:,} {'reading' if reads.rows == 1 else 'readings'}"]
    if need.keys is not None:
        parts.append(f"of {len(need.keys):,} {'object' if len(need.keys) == 1 else 'objects'}")
    if need.box is not None:
        parts.append("within ({:g}, {:g}, {:g}, {:g})".format(*need.box))
    if reads.files_read or reads.files_skipped:
        parts.append(
            f"from {reads.files_read:,} files, {reads.files_skipped:,} skipped,"
            f" {reads.bytes_read:,} bytes"
        )
    return f"read of the past of {need.stream.name}: " + " ".join(parts)
