"""Which readings of the past a question needs: how far back, of which objects, and where.

An archive that is told this need not read the rest. What is said here has to be exact: whatever is
left out may change nothing in the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from place.model.reading import Key
from place.model.schema import Relation, Stream
from place.model.shape import Circle, Polygon, Rectangle, Shape
from place.model.space import METRES_PER_DEGREE, Space
from place.model.time import ceil_to
from place.model.types import Type
from place.plan.expression import Column, Compare, Constant, Expression, In, conjuncts
from place.plan.infer import constraints_of
from place.plan.past import Question
from place.plan.query import Query, Window
from place.plan.trigger import FOREVER

Box = tuple[float, float, float, float]
SLACK = 1e-9
"""The part of its size by which a box is larger than the circle in it, against rounding."""


@dataclass(frozen=True)
class Needed:
    """What is read of a stream. `keys` and `box` are None where all objects matter.

    `objects` says that its objects at the beginning count, and not only readings since.
    """

    stream: Stream
    objects: bool
    keys: frozenset[Key] | None = None
    box: Box | None = None


def floor_to(instant: int, period: int | None) -> int:
    """The last multiple of `period` not after an instant: readings until then are in effect."""
    return -ceil_to(-instant, period)


def begins_with_objects(question: Question) -> bool:
    """Are the objects at the first instant all that the answer at that instant depends on?"""
    return start_of(question) == question.begin and not question.query.needs_history


def start_of(question: Question) -> int | None:
    """The instant from which readings are needed; None is the beginning of the archive."""
    query, begin = question.query, question.begin
    if query.trigger is not None:
        kept = _kept_by(query)
        return None if kept is None else begin - kept - 1
    if query.leave is not None or query.confirm is not None:  # who came in at any time
        return None
    longest = query.dwell or 0
    relation = query.sources[query.subject].relation
    reaches = [_reach(relation, window) for window in query.windows]
    if query.reads_motion:  # the reading before the last, of any of its streams
        reaches += [_reach(stream, Window()) for stream in question.streams]
    for reach in reaches:
        if reach is None:
            return None
        longest = max(longest, reach)
    if not longest:
        return begin
    period = max((stream.evaluate or 0 for stream in question.streams), default=0)
    return begin - longest - period


def _reach(relation: Relation, window: Window) -> int | None:
    """How far back a window of a stream reads; None is as far as there is something."""
    if window.duration is not None:
        return window.duration
    timeout = relation.timeout if isinstance(relation, Stream) else None
    if window.rows is not None or timeout is None:
        return None
    period = (relation.evaluate or 0) if isinstance(relation, Stream) else 0
    return 2 * (timeout + period)


def _kept_by(query: Query) -> int | None:
    """How long before an alert its readings may be, and the alerts that silence it; None if that
    is not known."""
    trigger = query.trigger
    if trigger is None or trigger.every is not None or len(query.sources) > trigger.roles:
        return None
    constraints = constraints_of(query)
    if constraints is None:
        return 0
    bounds = [bound for row in constraints.latest for bound in row if abs(bound) < FOREVER // 2]
    spans = [relation.evaluate or 0 for relation in _streams(query)]
    if any(abs(bound) >= FOREVER // 2 for row in constraints.latest for bound in row):
        return None
    return 2 * max([0, *map(abs, bounds)]) + 2 * max(spans)


def _streams(query: Query) -> list[Stream]:
    return [s.relation for s in query.sources if isinstance(s.relation, Stream)]


def needs_of(question: Question) -> list[Needed]:
    """What is read of each stream of a question."""
    query = question.query
    return [
        Needed(
            stream,
            objects=stream.key is not None and _counts_objects(query, stream),
            keys=_keys_of(query, stream),
            box=_box_of(query, stream),
        )
        for stream in question.streams
    ]


def _counts_objects(query: Query, stream: Stream) -> bool:
    """Do objects of a stream count, and not only readings within windows?"""
    if query.trigger is not None:
        return False
    if any(focal.stream == stream.name for focal in query.focals):
        return True
    if query.query_table is not None:
        return True
    for index, source in enumerate(query.sources):
        if source.relation.name == stream.name:
            window = source.window or (query.window if index == query.subject else None)
            if window is None or window.is_previous:
                return True
    return False


# Of which objects


def _keys_of(query: Query, stream: Stream) -> frozenset[Key] | None:
    """The only objects of a stream that can matter; None if any may."""
    table = query.query_table
    if query.trigger is not None or (table is not None and table.focal_stream == stream.name):
        return None
    keys = {focal.key for focal in query.focals if focal.stream == stream.name}
    for index, source in enumerate(query.sources):
        if source.relation.name != stream.name:
            continue
        if source.key is not None:
            keys.add(source.key)
            continue
        if source.window is not None and source.window.rows is not None:
            return None  # the last rows are chosen first, whatever their keys
        chosen = _chosen(query.where, index, stream)
        if chosen is None:
            return None
        keys |= chosen
    return frozenset(keys)


def _chosen(where: Expression | None, source: int, stream: Stream) -> frozenset[Key] | None:
    """The keys that WHERE leaves of a source, if it says which."""
    for condition in conjuncts(where) if where is not None else ():
        sides: list[tuple[Expression, tuple[Expression, ...]]]
        if isinstance(condition, Compare) and condition.op == "=":
            sides = [(condition.left, (condition.right,)), (condition.right, (condition.left,))]
        elif isinstance(condition, In):
            sides = [(condition.operand, condition.values)]
        else:
            continue
        for column, values in sides:
            if (
                isinstance(column, Column)
                and (column.source, column.index) == (source, stream.key)
                and all(_is_key(value, stream) for value in values)
            ):
                return frozenset(v.value for v in values if isinstance(v, Constant))  # type: ignore[misc]
    return None


def _is_key(value: Expression, stream: Stream) -> bool:
    if not isinstance(value, Constant) or isinstance(value.value, bool):
        return False
    return isinstance(value.value, int if stream.key_type is Type.BIGINT else str)


# Where


def _box_of(query: Query, stream: Stream) -> Box | None:
    """A box outside of which the last reading of an object, or a reading, cannot matter."""
    subject = query.sources[query.subject]
    if (
        query.trigger is not None
        or subject.relation.name != stream.name
        or query.query_table is not None
        or query.counts_stays  # what leads out of the region counts
        or not isinstance(query.inside, Rectangle | Circle | Polygon)
        or sum(source.relation.name == stream.name for source in query.sources) > 1
        or any(focal.stream == stream.name for focal in query.focals)
        or (subject.window is not None and subject.window.rows is not None)
        or (query.window is not None and query.window.is_previous)
        or query.reads_motion
    ):
        return None
    return box_around(query.inside, query.space)


def box_around(shape: Shape, space: Space) -> Box | None:
    """A box that holds a shape; None where that is no one box, as across the antimeridian."""
    if isinstance(shape, Circle):
        height = width = shape.r
        if space is Space.WGS84:
            height = shape.r / METRES_PER_DEGREE
            highest = abs(shape.y) + height
            if highest >= 89.0:
                return None
            width = height / math.cos(math.radians(highest))
        width, height = width * (1 + SLACK), height * (1 + SLACK)
        dx = width + SLACK * abs(shape.x)
        dy = height + SLACK * abs(shape.y)
        box = (shape.x - dx, shape.y - dy, shape.x + dx, shape.y + dy)
    elif isinstance(shape, Rectangle):
        box = (shape.x1, shape.y1, shape.x2, shape.y2)
    else:
        xs = [x for ring in shape.rings for x, _ in ring]
        ys = [y for ring in shape.rings for _, y in ring]
        box = (min(xs), min(ys), max(xs), max(ys))
    if box[0] > box[2] or (space is Space.WGS84 and max(abs(box[0]), abs(box[2])) >= 180):
        return None
    return box
