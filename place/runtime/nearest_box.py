"""A box that holds the nearest objects of a time of the past, found by growing it.

kNN without INSIDE speaks of all objects, but only those near its centre matter. Where an archive
knows how wide its readings lie, a circle is drawn around the centre that should hold enough of
them. If as many objects as are asked for lie within it, the nearest do; otherwise it grows.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.vector import holds
from place.kernels.distances import distances
from place.model.reading import Key
from place.model.schema import Stream
from place.model.shape import Circle
from place.model.space import METRES_PER_DEGREE, Point, Space
from place.plan.past import Question
from place.plan.past_reads import Needed, box_around
from place.plan.query import Query
from place.runtime.archive import Archive, Extent
from place.runtime.archive_reads import Reads

ROOM = 1.5
"""So much wider than the circle that holds k objects on average is the first one."""
WIDER = 2.5


def asks_nearest(question: Question) -> bool:
    """Is it a question about the nearest of one stream's objects, wherever these are?"""
    query = question.query
    return (
        question.until is None
        and query.nearest is not None
        and query.nearest.around is None
        and query.nearest.group is None
        and not query.nearest.is_reverse
        and query.inside is None
        and query.query_table is None
        and len(query.sources) == 1
        and isinstance(query.sources[0].relation, Stream)
        and not query.needs_history
        and not query.reads_motion
    )


def around_nearest(
    archive: Archive, question: Question, need: Needed, centre: Point, at: int, reads: Reads
) -> Needed:
    """What is needed of the stream: objects in a box, or all of them where none is found."""
    stream, space = need.stream, question.query.space
    extent = archive.extent(stream, at)
    nearest = question.query.nearest
    if extent is None or nearest is None or need.keys is not None or need.box is not None:
        return need
    radius = _first_radius(extent, nearest.k, space)
    while radius > 0 and math.isfinite(radius):
        box = box_around(Circle(*centre, radius), space)
        if box is None or _holds(box, extent.box):
            break
        found = reads.add(archive.objects(stream, at, box))
        if _within(question.query, stream, found, centre, radius, question.begin) >= nearest.k:
            return replace(need, box=box)
        radius *= WIDER
    return need


def _first_radius(extent: Extent, k: int, space: Space) -> float:
    left, bottom, right, top = extent.box
    width, height = right - left, top - bottom
    if space is Space.WGS84:
        width *= METRES_PER_DEGREE * math.cos(math.radians((bottom + top) / 2))
        height *= METRES_PER_DEGREE
    return ROOM * math.sqrt(width * height * k / (math.pi * max(1, extent.objects)))


def _holds(outer: tuple[float, ...], inner: tuple[float, ...]) -> bool:
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and outer[2] >= inner[2]
        and outer[3] >= inner[3]
    )


def _within(
    query: Query, stream: Stream, table: pa.Table, centre: Point, radius: float, at: int
) -> int:
    """How many objects that are there at a time, and that WHERE leaves, lie in a circle."""
    if not table.num_rows or stream.x is None or stream.y is None or stream.key is None:
        return 0
    dictionary = Dictionary()
    rows = Columns.from_arrow(stream.columns, dictionary, table.columns[:-2])
    x, y = (rows.values[index].astype(np.float64) for index in (stream.x, stream.y))
    around_x, around_y = (np.full(len(x), each) for each in centre)
    chosen = distances(x, y, around_x, around_y, query.space is Space.WGS84) <= radius
    chosen &= ~(rows.nulls[stream.x] | rows.nulls[stream.y])
    if stream.timeout is not None:
        chosen &= table.column(table.num_columns - 2).to_numpy() + stream.timeout > at
    if query.where is not None:
        chosen &= holds(query.where, [rows], len(x), dictionary)
    focal: set[Key] = {each.key for each in query.focals if each.stream == stream.name}
    count = int(chosen.sum())
    return count - len(focal)  # the focal object is never its own neighbour
