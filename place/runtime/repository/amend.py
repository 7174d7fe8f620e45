"""Late readings are put into the table of their stream, as a version of its own.

The intervals in which they lie are arranged anew, and so are those after them for as long as they
begin with other objects than before. One commit replaces all of these files. It carries the tick of
the newest file of late readings that is in it, as a transaction of its own: so whoever is killed
before it has changed nothing, and whoever comes after it knows that nothing is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.runtime.durable.crash import point
from place.runtime.repository.delta import RepositoryFault, TableFile
from place.runtime.repository.interval import arranged, open_rows
from place.runtime.repository.layout import Layout
from place.runtime.repository.parquet import Wanted
from place.runtime.repository.stream_archive import (
    AMENDED,
    AMENDED_READINGS,
    ArchivedFile,
    StreamArchive,
    View,
)


@dataclass(frozen=True)
class Amended:
    """What became of the late readings of a stream: put in, or older than all that is kept."""

    stream: str
    readings: int
    too_old: int = 0
    files: int = 0


def amend(archive: StreamArchive) -> Amended:
    """Put the late readings of a stream into its table, if there are some."""
    files = archive.late.files
    if not files:
        archive.late.sweep()  # somebody may have been killed before that
        return Amended(archive.stream.name, 0)
    late = _rows(archive.layout, archive.late.read())
    with archive.reading() as view:
        if view.recent:
            raise RepositoryFault(
                f"readings of {archive.stream.name} are on their way to the repository",
                hint="open the home once and close it, then try again",
            )
        made = _Amendment(archive, view, late)
        made.run()
        tick = max(file.tick for file in files)
        before = archive.delta.tick(AMENDED_READINGS) or 0
        point("amending", tick)
        archive.amend(
            made.added,
            made.removed,
            {AMENDED: tick, AMENDED_READINGS: before + made.taken},
            f"{made.taken} late readings",
        )
        point("amended", tick)
    archive.late.sweep()
    return Amended(archive.stream.name, made.taken, late.num_rows - made.taken, len(made.removed))


def _rows(layout: Layout, segment: pa.Table) -> pa.Table:
    """Late readings as rows by time; those of one time in the order in which they came."""
    times = segment.column(segment.num_columns - 2).to_numpy()
    segment = segment.take(pa.array(np.argsort(times, kind="stable")))
    return layout.rows(segment, np.zeros(segment.num_rows, np.int32))


class _Amendment:
    """The files of one stream's table, made anew where late readings change them."""

    def __init__(self, archive: StreamArchive, view: View, late: pa.Table) -> None:
        self._archive, self._view, self._late = archive, view, late
        self._layout = archive.layout
        self._times = self._layout.times(late)
        self.added: list[TableFile] = []
        self.removed: list[TableFile] = []
        self.taken = 0

    def run(self) -> None:
        """Write what is different, to files that are part of nothing yet."""
        base: pa.Table | None = None
        end = None
        for each in self._view.intervals:
            base = self._interval(each, base if each.begin == end else None)
            end = each.end
        loose = self._view.loose
        begins = [end] if end is not None else [file.begin for file in loose[:1]]
        if begins:
            self._loose(self._chosen(begins[0], None), loose)

    def _chosen(self, begin: int, end: int | None) -> pa.Table:
        """The late readings of a time."""
        chosen = self._times >= begin
        if end is not None:
            chosen &= self._times < end
        found = self._late.filter(pa.array(chosen))
        self.taken += found.num_rows
        return found

    def _interval(self, each: ArchivedFile, base: pa.Table | None) -> pa.Table | None:
        """Arrange an interval anew, if something is different in it: its late readings, or the
        objects that it begins with. What the next one begins with, if that is different."""
        late = self._chosen(each.begin, each.end)
        if not late.num_rows and base is None:
            return None
        layout = self._layout
        rows = self._archive.rows_of(each, Wanted(until=each.end))
        is_reading = rows.column(layout.snapshot).is_null()
        if base is None:
            base = rows.filter(pc.invert(is_reading))
        readings = _merged(layout, rows.filter(is_reading), late)
        made = arranged(layout, base, readings, each.begin, each.end)
        self.added.append(self._archive.write_interval(made))
        self.removed.append(each.file)
        then = open_rows(layout, pa.concat_tables(made.pieces), each.end)
        return None if _is_same(layout, open_rows(layout, rows, each.end), then) else then

    def _loose(self, late: pa.Table, files: list[ArchivedFile]) -> None:
        """Readings since the last interval become one file, in the order of times."""
        if not late.num_rows:
            return
        found = [self._archive.rows_of(each, Wanted(until=each.end)) for each in files]
        rows = pa.concat_tables([self._layout.schema.empty_table(), *found])
        self.added.append(self._archive.write_loose(_merged(self._layout, rows, late)))
        self.removed += [each.file for each in files]


def _merged(layout: Layout, readings: pa.Table, late: pa.Table) -> pa.Table:
    """All readings by time; at one time the late ones come after the others."""
    rows = pa.concat_tables([layout.in_order(readings), late])
    times = layout.times(rows)
    order = np.argsort(times, kind="stable")
    times = times[order]
    place = np.arange(len(times))
    first = np.ones(len(times), np.bool_)
    first[1:] = times[1:] != times[:-1]
    sequence = place - np.maximum.accumulate(np.where(first, place, 0))
    at = layout.schema.get_field_index(layout.sequence)
    return rows.take(pa.array(order)).set_column(
        at, layout.schema.field(at), pa.array(sequence, pa.int32())
    )


def _is_same(layout: Layout, one: pa.Table, other: pa.Table) -> bool:
    """Are two tables about the same objects, which say the same?"""
    if layout.key is None:
        return True
    kept = [
        name
        for name in layout.schema.names
        if name not in (layout.valid_to, layout.snapshot, layout.sequence)
    ]
    ordered = [
        table.select(kept).take(pc.sort_indices(table, sort_keys=[(layout.key, "ascending")]))
        for table in (one, other)
    ]
    return bool(ordered[0].combine_chunks().equals(ordered[1].combine_chunks()))
