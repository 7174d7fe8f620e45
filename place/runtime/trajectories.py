"""Trajectories from an archive: readings of each object in order, by columns.

docs/history.md says what a trajectory, its legs and its measures are. The readings that matter are
read at once, sorted by object and time, and chosen by the query's conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.engine.columns import Columns, Dictionary, Vector
from place.engine.validity import STILL
from place.engine.vector import as_columns, holds, outputs
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.distances import distances
from place.kernels.trajectories import measures_of_ways, simplified
from place.model import deadline
from place.model.reading import Key
from place.model.schema import Column, Stream
from place.model.shape import Circle, Polygon, Rectangle
from place.model.space import Space
from place.model.time import SECOND
from place.model.types import Row
from place.plan.expression import Column as ColumnOf
from place.plan.expression import Lies
from place.plan.past import Question
from place.plan.past_reads import needs_of
from place.plan.query import Output, Query
from place.plan.trajectory import MEASURES, Trajectory
from place.runtime.archive import Archive
from place.runtime.archive_reads import Reads, keys_within, told_of
from place.runtime.interface import Recalled, check_rows


def trajectories(archive: Archive, question: Question, most: int | None = None) -> Recalled:
    """What a question about trajectories is answered with; its range was checked before."""
    (stream,) = question.streams
    (need,) = needs_of(question)
    reads = Reads()
    if archive.span(stream, question.begin) is None:  # nothing is archived of it
        return Recalled([], (told_of(need, reads),))
    need = keys_within(archive, need, question.begin, question.last, reads)
    table = pa.concat_tables(
        [
            reads.add(archive.objects(stream, question.begin, None, need.keys)),
            reads.add(archive.readings(stream, question.begin, question.last, None, need.keys)),
        ]
    )
    deadline.check()
    ways = _ways(stream, table, question)
    asked = question.trajectory
    assert asked is not None
    if asked.measures is not None:
        rows, keys = _measured(ways, question, asked)
        check_rows(len(rows), most)
    else:
        if asked.tolerance is not None:
            ways = _simple(ways, asked.tolerance, question.query.space)
        check_rows(len(ways.times), most)
        rows, keys = _rows(ways, question.query.outputs), _keys_of(ways.rows, ways.key)
    return Recalled(rows, (told_of(need, reads),), keys)


@dataclass(frozen=True)
class _Ways:
    """The readings that were chosen, by object and time.

    Each is in effect from `valid_from` until `valid_to`, STILL if that is after the time asked
    about; `has_leg` says that a leg leads to the next one.
    """

    rows: Columns
    key: int
    x: Floats
    y: Floats
    times: Longs
    valid_from: Longs
    valid_to: Longs
    has_leg: Bools
    starts: Longs
    """Where each object begins, and the end."""

    def take(self, chosen: Bools, valid_to: Longs) -> _Ways:
        """Some of the readings, with other ends."""
        at = np.flatnonzero(chosen)
        return _Ways(
            self.rows.take(at),
            self.key,
            self.x[at],
            self.y[at],
            self.times[at],
            self.valid_from[at],
            valid_to,
            self.has_leg[at],
            np.searchsorted(at, self.starts),
        )


def _ways(stream: Stream, table: pa.Table, question: Question) -> _Ways:
    """The readings that the query chooses, with what is known of each."""
    assert stream.key is not None
    assert stream.x is not None
    assert stream.y is not None
    begin, until = question.begin, question.last
    names = [str(index) for index in range(table.num_columns)]
    table = table.rename_columns(names)
    by = [(names[stream.key], "ascending"), (names[-2], "ascending")]
    table = table.take(pc.sort_indices(table, sort_keys=by))
    times = table.column(table.num_columns - 2).to_numpy()
    keys = table.column(stream.key).combine_chunks().dictionary_encode().indices.to_numpy()
    is_last = np.ones(len(times), np.bool_)  # of an object and a time
    is_last[:-1] = (keys[1:] != keys[:-1]) | (times[1:] != times[:-1])
    if not is_last.all():
        table, times, keys = table.filter(pa.array(is_last)), times[is_last], keys[is_last]
    ends = np.full(len(times), STILL)
    is_same = keys[1:] == keys[:-1]
    ends[:-1][is_same] = times[1:][is_same]
    if stream.timeout is not None:
        ends = np.minimum(ends, times + stream.timeout)
    dictionary = Dictionary()
    rows = Columns.from_arrow(stream.columns, dictionary, table.columns[:-2])
    gone = table.column(table.num_columns - 1).to_numpy()
    chosen = ~gone & (ends > begin) & _chosen(question.query, stream, rows, dictionary)
    continues = np.zeros(len(times), np.bool_)  # the next one is chosen, and there is no gap
    continues[:-1] = chosen[:-1] & chosen[1:] & is_same & (ends[:-1] == times[1:])
    at = np.flatnonzero(chosen)
    keys = keys[at]
    is_first = np.ones(len(at) + 1, np.bool_)
    is_first[1:-1] = keys[1:] != keys[:-1]
    if not len(at):
        is_first[:] = False
    ends = np.where(ends > until, STILL, ends)
    return _Ways(
        rows.take(at),
        stream.key,
        rows.values[stream.x][at].astype(np.float64),
        rows.values[stream.y][at].astype(np.float64),
        times[at],
        np.maximum(times[at], begin),
        ends[at],
        continues[at] & (times[at] >= begin),
        np.flatnonzero(is_first),
    )


def _chosen(query: Query, stream: Stream, rows: Columns, dictionary: Dictionary) -> Bools:
    """Which readings have a place, fulfil WHERE and lie in the region of INSIDE."""
    assert stream.x is not None
    assert stream.y is not None
    size = rows.capacity
    chosen: Bools = ~(rows.nulls[stream.x] | rows.nulls[stream.y])
    if query.where is not None:
        chosen &= holds(query.where, [rows], size, dictionary)
    if isinstance(query.inside, Rectangle | Circle | Polygon):
        x, y = (ColumnOf(0, i, stream.columns[i].type, "") for i in (stream.x, stream.y))
        chosen &= holds(Lies(x, y, query.inside, query.space), [rows], size, dictionary)
    return chosen


def _rows(ways: _Ways, asked: Sequence[Output]) -> list[Row]:
    size = len(ways.times)
    found = outputs(asked, [ways.rows], size, ways.rows.dictionary)
    ends = pa.array(ways.valid_to, mask=ways.valid_to == STILL).to_pylist()
    rows = found.rows(np.arange(size))
    times = zip(ways.valid_from.tolist(), ends, strict=True)
    return [(*row, *valid) for row, valid in zip(rows, times, strict=True)]


def _simple(ways: _Ways, tolerance: float, space: Space) -> _Ways:
    """Without readings that are near the line between those that stay."""
    size = len(ways.times)
    is_first = np.ones(size + 1, np.bool_)
    is_first[1:-1] = ways.valid_to[:-1] != ways.valid_from[1:]
    is_first[ways.starts] = True
    lines = np.flatnonzero(is_first) if size else np.zeros(1, np.int64)
    kept = simplified(lines, ways.x, ways.y, tolerance, space is Space.WGS84) > 0
    at = np.flatnonzero(kept)
    valid_to = ways.valid_to[at]
    if len(at):
        goes_on = ~is_first[at[1:]]
        valid_to[:-1][goes_on] = ways.valid_from[at[1:]][goes_on]
    return ways.take(kept, valid_to)


def _keys_of(rows: Columns, key: int) -> tuple[Key, ...]:
    return tuple(rows.array(key, slice(None)).to_pylist())


def _measured(
    ways: _Ways, question: Question, asked: Trajectory
) -> tuple[list[Row], tuple[Key, ...]]:
    """One row for each object, of its key and measures; and the keys."""
    if not len(ways.times):
        return [], ()
    assert asked.measures is not None
    following = np.minimum(np.arange(len(ways.times)) + 1, len(ways.times) - 1)
    sphere = question.query.space is Space.WGS84
    far = distances(ways.x, ways.y, ways.x[following], ways.y[following], sphere)
    seconds = np.where(ways.has_leg, (ways.times[following] - ways.times) / SECOND, 0.0)
    valid = np.minimum(ways.valid_to, question.last) - ways.valid_from
    lengths, moved, tops, lasted = measures_of_ways(ways.starts, far, seconds, valid)
    count = len(lengths)
    none = np.zeros(count, np.bool_)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        speeds = lengths / moved
    first = ways.starts[:-1]
    vectors = [
        Vector(ways.rows.values[ways.key][first], none),
        Vector(np.nan_to_num(lengths), ~np.isfinite(lengths)),
        Vector(lasted, none),
        Vector(np.nan_to_num(speeds), ~np.isfinite(speeds)),
        Vector(np.nan_to_num(tops), ~np.isfinite(tops)),
    ]
    kinds = [ways.rows.columns[ways.key].type, *MEASURES.values()]
    columns = tuple(Column(str(i), kind) for i, kind in enumerate(kinds))
    dictionary = ways.rows.dictionary
    rows = as_columns(columns, vectors, dictionary)
    if asked.having is not None:
        at = np.flatnonzero(holds(asked.having, [rows], count, dictionary))
        rows, count = rows.take(at), len(at)
    found = outputs(asked.measures, [rows], count, dictionary)
    return found.rows(np.arange(count)), _keys_of(rows, 0)
