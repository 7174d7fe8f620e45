"""The reference of trajectories: docs/history.md, "Trajectories", in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from place.model.reading import Key, Reading
from place.model.shape import contains
from place.model.space import Point, Space, distance, offset
from place.model.time import SECOND
from place.model.types import Row, Type, Value
from place.plan.evaluate import evaluate
from place.plan.functions import bounded
from place.plan.past import Question
from place.plan.query import Around, Query
from place.runtime.reference import World, histories, point_of


@dataclass(frozen=True)
class Stretch:
    """A reading, from when to when it was in effect within the time asked about (None: at its end
    it is), and whether a leg leads to the next one."""

    reading: Reading
    row: Row
    place: Point
    valid_from: int
    valid_to: int | None
    has_leg: bool = False


def trajectories(question: Question, world: World) -> list[Row]:
    """The rows that a question about trajectories is answered with, by key and time."""
    query, asked = question.query, question.trajectory
    assert asked is not None
    rows: list[Row] = []
    for key, way in sorted(ways(question, world).items()):
        if asked.measures is None:
            shown = way if asked.tolerance is None else _simple(way, asked.tolerance, query.space)
            for each in shown:
                outputs = (evaluate(o.expression, [each.row]) for o in query.outputs)
                rows.append((*outputs, each.valid_from, each.valid_to))
        else:
            measured = (key, *_measures(way, query.space, question.last))
            if asked.having is None or evaluate(asked.having, [measured]) is True:
                rows.append(tuple(evaluate(o.expression, [measured]) for o in asked.measures))
    return rows


def ways(question: Question, world: World) -> dict[Key, list[Stretch]]:
    """Of each object the readings that were chosen, in order."""
    query, begin, until = question.query, question.begin, question.last
    (stream,) = question.streams
    timeout = stream.timeout
    found: dict[Key, list[Stretch]] = {}
    for key, history in histories(world, replace(stream, evaluate=None), until).items():
        way: list[Stretch] = []
        was_chosen = False
        for reading, following in zip(history, [*history[1:], None], strict=True):
            ends = [] if following is None else [following.time]
            if timeout is not None:
                ends.append(reading.time + timeout)
            end = min(ends, default=None)
            if end is not None and end <= begin:
                continue  # it was over by then
            place = None if reading.row is None else point_of(stream, reading.row)
            is_chosen = reading.row is not None and _is_chosen(query, reading.row, place)
            if is_chosen:
                assert reading.row is not None
                assert place is not None
                previous = way[-1] if way and was_chosen else None
                if (
                    previous
                    and previous.valid_to == reading.time
                    and previous.reading.time >= begin
                ):
                    way[-1] = replace(previous, has_leg=True)
                left = None if end is None or end > until else end
                way.append(Stretch(reading, reading.row, place, max(begin, reading.time), left))
            was_chosen = is_chosen
        if way:
            found[key] = way
    return found


def _is_chosen(query: Query, row: Row, place: Point | None) -> bool:
    assert not isinstance(query.inside, Around)
    if place is None or (query.where is not None and evaluate(query.where, [row]) is not True):
        return False
    return query.inside is None or contains(query.inside, query.space, *place)


def _measures(way: list[Stretch], space: Space, until: int) -> tuple[Value, ...]:
    """LENGTH, DURATION, SPEED and TOP_SPEED."""
    length = moved = 0.0
    top = None
    for one, other in itertools.pairwise(way):
        if one.has_leg:
            far = distance(space, *one.place, *other.place)
            seconds = (other.reading.time - one.reading.time) / SECOND
            length, moved = length + far, moved + seconds
            top = far / seconds if top is None else max(top, far / seconds)
    lasted = sum((until if s.valid_to is None else s.valid_to) - s.valid_from for s in way)
    speed = length / moved if moved else None
    numbers = [None if n is None else bounded(n, Type.DOUBLE) for n in (length, speed, top)]
    return numbers[0], lasted, numbers[1], numbers[2]


def _simple(way: list[Stretch], tolerance: float, space: Space) -> Iterator[Stretch]:
    """The way without readings that are near the line between those that stay."""
    start = 0
    for index, each in enumerate(way):
        following = way[index + 1] if index + 1 < len(way) else None
        if following is None or each.valid_to != following.valid_from:
            kept = _kept(way[start : index + 1], tolerance, space)
            for one, other in zip(kept, [*kept[1:], None], strict=True):
                yield one if other is None else replace(one, valid_to=other.valid_from)
            start = index + 1


def _kept(line: list[Stretch], tolerance: float, space: Space) -> list[Stretch]:
    """Douglas and Peucker's rule: the farthest from the line stays, and both sides are asked."""
    first, last = line[0], line[-1]
    farthest, at = -math.inf, 0
    for index, each in enumerate(line[1:-1], 1):
        far = offset(space, each.place, first.place, last.place)
        if far > farthest:
            farthest, at = far, index
    if farthest <= tolerance:
        return [first] if len(line) == 1 else [first, last]
    left = _kept(line[: at + 1], tolerance, space)
    return left + _kept(line[at:], tolerance, space)[1:]
