"""The reference: `answer(q, t)` straight from its definition, in plain Python.

No index, no increment, no state: every answer is computed from all readings. It is what all
other runtimes are held against, so it has to be obviously right. docs/design.md says the same in
words. The sections named are those of PLACE (GeoInformatica 2005), PLACE04 (STDBM 2004) and GPAC
(MDM 2005).
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from place.errors import InternalError
from place.model.delta import Answer
from place.model.path import is_near
from place.model.reading import Key, Reading
from place.model.regions import around, region_of
from place.model.schema import Relation, Stream, Table
from place.model.shape import Circle, Polygon, Rectangle, Shape, ShapeError, contains
from place.model.time import BEGINNING, ceil_to
from place.model.types import Row, Value
from place.plan.catalog import Catalog, fold
from place.plan.evaluate import aggregate, evaluate
from place.plan.query import Around, Focal, Query, Source, Window
from place.runtime.reference_nearest import nearest_to, nearest_together, reverse_nearest

Point = tuple[float, float]
Trace = dict[str, int]


@dataclass(frozen=True)
class World:
    """Everything that an answer is a function of: the catalog, and each stream's readings in the
    order of its source, without those that came too late."""

    catalog: Catalog
    readings: Mapping[str, Sequence[Reading]]

    def stream(self, name: str) -> Stream:
        return self.catalog.streams[fold(name)]


@dataclass(frozen=True)
class Subject:
    """What a row of the answer speaks of: an object now, a reading in a window, or a table's row.

    `moment` is the instant at which its region counts; `order` puts subjects in (time, key) order.
    """

    key: Value
    row: Row
    moment: int
    order: tuple[int, Value]
    previous: Row | None = None


# Objects (PLACE, section 3.1)


def effect(stream: Stream, time: int) -> int:
    """The instant at which what happens at `time` takes effect."""
    return ceil_to(time, stream.evaluate)


def histories(world: World, stream: Stream, t: int) -> dict[Key, list[Reading]]:
    """Each key's readings in effect at t, by time; of two with one time the later in the source
    counts."""
    told: dict[tuple[Key, int], Reading] = {}
    readings = world.readings.get(stream.name, ())
    for reading in without_gaps(stream, readings) if stream.fills_gaps else readings:
        if effect(stream, reading.time) <= t:
            told[reading.key, reading.time] = reading
    by_key: dict[Key, list[Reading]] = defaultdict(list)
    for reading in sorted(told.values(), key=lambda reading: reading.time):
        by_key[reading.key].append(reading)
    if stream.keeps_motion:
        return {key: with_motion(stream, history) for key, history in by_key.items()}
    return by_key


def with_motion(stream: Stream, history: list[Reading]) -> list[Reading]:
    """An object's readings, each with where it was before in the same life and how long ago."""
    made = []
    for count, reading in enumerate(history, 1):
        if reading.row is not None:
            *_, before, _ = (None, *last_life(stream, history[:count]))
            motion: Row = (None, None, None)
            if before is not None and before.row is not None:
                x, y = point_of(stream, before.row) or (None, None)
                motion = (x, y, reading.time - before.time)
            reading = replace(reading, row=reading.row + motion)
        made.append(reading)
    return made


def without_gaps(stream: Stream, readings: Sequence[Reading]) -> list[Reading]:
    """Readings by time, then as told; what one leaves NULL is as in the one of its key before it.

    An object that disappeared or timed out between the two starts anew.
    """
    filled: list[Reading] = []
    last: dict[Key, Reading] = {}
    for reading in sorted(readings, key=lambda reading: reading.time):
        life = last_life(stream, [last[reading.key], reading]) if reading.key in last else []
        if len(life) == 2 and life[0].row is not None and reading.row is not None:
            pairs = zip(life[0].row, reading.row, strict=True)
            row = tuple(old if value is None else value for old, value in pairs)
            reading = replace(reading, row=row)
        last[reading.key] = reading
        filled.append(reading)
    return filled


def objects(world: World, stream: Stream, t: int) -> dict[Key, Reading]:
    """The latest reading of each key that is still alive at t; without KEY there are none."""
    if stream.key is None:
        return {}
    latest = {key: history[-1] for key, history in histories(world, stream, t).items()}
    return {key: last for key, last in latest.items() if is_alive(stream, last, t)}


def is_alive(stream: Stream, last: Reading, t: int) -> bool:
    """An object is gone when it disappears, or `timeout` after its last reading."""
    if last.disappears:
        return False
    return stream.timeout is None or t < effect(stream, last.time + stream.timeout)


def position(world: World, stream_name: str, key: Key, t: int) -> Point | None:
    """Where an object is at t; None if it is not there."""
    stream = world.stream(stream_name)
    found = objects(world, stream, t).get(key)
    return None if found is None or found.row is None else point_of(stream, found.row)


def point_of(relation: Stream | Table, row: Row) -> Point | None:
    if relation.x is None or relation.y is None:
        return None
    x, y = row[relation.x], row[relation.y]
    return None if x is None or y is None else (float(x), float(y))


# Windows (PLACE, section 4)


def subjects(query: Query, world: World, t: int) -> list[Subject]:
    """What the answer at t may speak of, before any condition."""
    relation, window = query.sources[query.subject].relation, query.window
    if isinstance(relation, Stream) and window is not None and window.is_previous:
        return [  # predicate-based expiration, section 4.3
            _subject(life[-1], effect(relation, life[-1].time), life[-2].row)
            for history in histories(world, relation, t).values()
            if is_alive(relation, history[-1], t)
            if len(life := last_life(relation, history)) > 1
        ]
    return elements(relation, window, world, t)


def elements(relation: Relation, window: Window | None, world: World, t: int) -> list[Subject]:
    """A table's rows, a stream's objects now, or the readings in a window of time."""
    if isinstance(relation, Table):
        rows = world.catalog.rows_of(relation.name)
        return [Subject(row[relation.key], row, t, (i, 0)) for i, row in enumerate(rows)]
    if window is None:  # a NOW query: spatial expiration, section 4.2
        return [_subject(reading, t) for reading in objects(world, relation, t).values()]
    return [  # temporal expiration, section 4.1
        _subject(reading, effect(relation, reading.time))
        for reading in itertools.chain.from_iterable(histories(world, relation, t).values())
        if not reading.disappears
        if window.duration is None or t < effect(relation, reading.time + window.duration)
    ]


def _subject(reading: Reading, moment: int, previous: Row | None = None) -> Subject:
    if reading.row is None:
        raise InternalError("an object that disappeared is no subject")
    return Subject(reading.key, reading.row, moment, (reading.time, reading.key), previous)


def last_life(stream: Stream, history: list[Reading]) -> list[Reading]:
    """The readings since the object last appeared: after it disappeared or timed out."""
    life: list[Reading] = []
    for reading in history:
        gap = bool(life) and stream.timeout is not None
        if gap and stream.timeout is not None and reading.time >= life[-1].time + stream.timeout:
            life = []
        life = [] if reading.disappears else [*life, reading]
    return life


# Conditions (PLACE, sections 3.2 and 5.2; the query table is section 6)


def combinations(query: Query, world: World, subject: Subject) -> Iterator[tuple[Row, ...]]:
    """All rows of FROM for a subject: itself beside each row of every other relation."""
    choices: list[Sequence[Row]] = []
    for index, source in enumerate(query.sources):
        if index == query.subject:
            choices.append([subject.row])
        elif isinstance(source.relation, Table):
            choices.append(world.catalog.rows_of(source.relation.name))
        elif subject.previous is not None:
            choices.append([subject.previous])
        else:
            present = objects(world, source.relation, subject.moment).values()
            choices.append([reading.row for reading in present if reading.row is not None])
    return itertools.product(*choices)


def is_focal(query: Query, subject: Subject, focal: Focal) -> bool:
    return query.sources[query.subject].relation.name == focal.stream and subject.key == focal.key


def is_inside(query: Query, world: World, subject: Subject) -> bool:
    """Does the subject lie in the region of INSIDE, and is it not the query's own focal object?"""
    if any(is_focal(query, subject, focal) for focal in query.focals):
        return False
    region: Shape | None
    if isinstance(query.inside, Around):
        focal = query.inside.focal
        center = position(world, focal.stream, focal.key, subject.moment)
        region = None if center is None else around(query.space, center, query.inside.extents)
    else:
        region = query.inside
        if region is None:
            return True
    return lies_in(query, subject, region)


def lies_in(query: Query, subject: Subject, region: Shape | None) -> bool:
    point = point_of(query.sources[query.subject].relation, subject.row)
    return region is not None and point is not None and contains(region, query.space, *point)


def has_stayed(query: Query, world: World, subject: Subject, t: int) -> bool:
    """`INSIDE … FOR`: was the object in the region at all instants of the last time?"""
    stream = query.sources[query.subject].relation
    if query.dwell is None or not isinstance(stream, Stream):
        return True
    since = t
    for instant in reversed(instants(query, world, BEGINNING, t)):
        then = objects(world, stream, instant).get(subject.order[1])  # type: ignore[arg-type]
        if then is None or not is_inside(query, world, _subject(then, instant)):
            break
        since = instant
    return effect(stream, since + query.dwell) <= t


def is_confirmed(query: Query, world: World, subject: Subject, t: int) -> bool:
    """Is the subject inside; with `CONFIRM`, by the last so many readings in a row that agreed, and
    with `LEAVE BEYOND` until it is too far away?"""
    stream = query.sources[query.subject].relation
    if query.confirm is None or not isinstance(stream, Stream):
        return is_inside(query, world, subject) or has_not_left(query, world, subject, t)
    confirmed, run, last, before = False, 0, None, None
    for instant in instants(query, world, BEGINNING, t):
        then = objects(world, stream, instant).get(subject.order[1])  # type: ignore[arg-type]
        if then is None:
            confirmed, run, last = False, 0, None
        elif then.time != last:
            inside = is_inside(query, world, _subject(then, instant))
            run, before = (run + 1 if run and inside == before else 1), inside
            confirmed, last = (inside if run >= query.confirm else confirmed), then.time
    return confirmed


def has_not_left(query: Query, world: World, subject: Subject, t: int) -> bool:
    """`LEAVE BEYOND`: was the object in the region at an instant since which it was always near?"""
    stream = query.sources[query.subject].relation
    if query.leave is None or not isinstance(stream, Stream):
        return False
    for instant in reversed(instants(query, world, BEGINNING, t)):
        then = objects(world, stream, instant).get(subject.order[1])  # type: ignore[arg-type]
        point = None if then is None or then.row is None else point_of(stream, then.row)
        if then is None or point is None or not _is_near(query, point):
            return False
        if is_inside(query, world, _subject(then, instant)):
            return True
    return False


def _is_near(query: Query, point: Point) -> bool:
    assert query.leave is not None
    assert isinstance(query.inside, Rectangle | Circle | Polygon)
    return is_near(query.inside, query.space, *point, query.leave)


def is_in_query_table(query: Query, world: World, subject: Subject, rows: tuple[Row, ...]) -> bool:
    """`O INSIDE Q`: does the subject lie in the region of this row of the query table?"""
    table = query.query_table
    if table is None:
        return True
    values = [rows[table.source][column] for column in table.columns]
    stream = table.focal_stream
    focal = Focal(stream, values[0]) if stream and isinstance(values[0], int | str) else None
    if focal is not None and is_focal(query, subject, focal):
        return False
    try:
        region = region_of(
            table.layout,
            values,
            query.space,
            lambda key: position(world, stream or "", key, subject.moment),
        )
    except ShapeError:
        return False  # a stream may send what is no region; it then has none
    return lies_in(query, subject, region)


# The answer


def answer(query: Query, world: World, t: int, trace: Trace | None = None) -> Answer:
    """The rows that the query holds at instant t. `trace` collects how many passed each clause."""
    trace = {} if trace is None else trace
    window = query.window or query.sources[query.subject].window
    if window is None and any(
        position(world, focal.stream, focal.key, t) is None for focal in query.focals
    ):
        return Counter()  # while its focal object is gone, a moving query has no region
    if query.is_join:
        output = rows_of(query, meetings(query, world, t, trace))
        trace["group"] = len(output)
        return Counter(dict.fromkeys(output, 1)) if query.distinct else Counter(output)
    found = subjects(query, world, t)
    trace["scan"] = len(found)
    joined = [(s, rows) for s in found for rows in combinations(query, world, s)]
    trace["join"] = len(joined)
    chosen = [
        (s, rows)
        for s, rows in joined
        if query.where is None or evaluate(query.where, rows) is True
    ]
    trace["select"] = len(chosen)
    matches = [
        (s, rows)
        for s, rows in chosen
        if is_confirmed(query, world, s, t)
        if is_in_query_table(query, world, s, rows)
        if has_stayed(query, world, s, t)
    ]
    trace["inside"] = len(matches)
    if query.window is not None and query.window.rows is not None:
        last = sorted({s.order for s, _ in matches})[-query.window.rows :]
        matches = [(s, rows) for s, rows in matches if s.order in last]
    if query.nearest is not None:
        near = nearest(query, world, [s for s, _ in matches], t)
        matches = [(s, rows) for s, rows in matches if s in near]
    trace["choose"] = len(matches)
    output = rows_of(query, [rows for _, rows in matches])
    trace["group"] = len(output)
    return Counter(dict.fromkeys(output, 1)) if query.distinct else Counter(output)


def nearest(query: Query, world: World, candidates: list[Subject], t: int) -> set[Subject]:
    """Of candidates those that kNN or RNN chooses: around a point or a focal object, or around a
    group of both."""
    clause = query.nearest
    if clause is None:
        raise InternalError("a query without kNN has no nearest")
    relation = query.sources[query.subject].relation
    placed = placed_of(relation, candidates)
    written = (clause.focal or clause.point,) if clause.group is None else clause.group.places
    centers = [
        position(world, place.stream, place.key, t) if isinstance(place, Focal) else place
        for place in written
    ]
    there = [center for center in centers if center is not None]
    if len(there) < len(centers):
        return set()
    if clause.group is not None:
        return nearest_together(there, clause.group.total, clause.k, query.space, placed)
    if clause.is_reverse:
        focal = clause.focal if clause.focal and clause.focal.stream == relation.name else None
        key = None if focal is None else focal.key
        return reverse_nearest(there[0], key, clause.k, query.space, placed)
    return nearest_to(there[0], clause.k, query.space, placed)


def placed_of(relation: Relation, candidates: list[Subject]) -> dict[Subject, Point]:
    """The different ones that have a place, and where they are."""
    places = {subject: point_of(relation, subject.row) for subject in candidates}
    return {subject: point for subject, point in places.items() if point is not None}


# Streams that meet (docs/design.md, "Streams meet"; Spatial Join CQ, section 3)


def elements_of(source: Source, world: World, t: int) -> list[Subject]:
    """The bag of elements that a name in FROM stands for at t."""
    found = elements(source.relation, source.window, world, t)
    if source.window is not None and source.window.rows is not None:
        found = sorted(found, key=lambda element: element.order)[-source.window.rows :]
    if source.is_hidden:
        found = [element for element in found if element.key == source.key]
    return found


def meetings(query: Query, world: World, t: int, trace: Trace) -> list[tuple[Row, ...]]:
    """The combinations of elements, one of each source, for which everything holds."""
    every = [elements_of(source, world, t) for source in query.sources]
    trace["scan"] = sum(map(len, every))
    met = list(itertools.product(*every))
    trace["join"] = len(met)
    if query.where is not None:
        met = [each for each in met if evaluate(query.where, [e.row for e in each]) is True]
    trace["select"] = len(met)
    met = [each for each in met if is_inside(query, world, each[query.subject])]
    trace["inside"] = len(met)
    if query.nearest is not None and query.nearest.around is not None:
        met = nearest_of_each(query, met)
    elif query.nearest is not None:
        near = nearest(query, world, [each[query.subject] for each in met], t)
        met = [each for each in met if each[query.subject] in near]
    trace["choose"] = len(met)
    return [tuple(element.row for element in each) for each in met]


def nearest_of_each(query: Query, met: list[tuple[Subject, ...]]) -> list[tuple[Subject, ...]]:
    """`kNN (k, around)`: of what meets each centre, the combinations with its k nearest."""
    clause = query.nearest
    if clause is None or clause.around is None or clause.among is None:
        raise InternalError("kNN is around no source")
    around, among = query.sources[clause.around].relation, query.sources[clause.among].relation
    by_centre: dict[Subject, list[tuple[Subject, ...]]] = defaultdict(list)
    for each in met:
        by_centre[each[clause.around]].append(each)
    kept = []
    for centre, theirs in by_centre.items():
        candidates = [each[clause.among] for each in theirs]
        place = point_of(around, centre.row)
        if place is None:
            continue
        near = nearest_to(place, clause.k, query.space, placed_of(among, candidates))
        kept += [each for each in theirs if each[clause.among] in near]
    return kept


# What becomes of the combinations


def rows_of(query: Query, matches: list[tuple[Row, ...]]) -> list[Row]:
    """SELECT, GROUP BY and HAVING (negative tuples are PLACE's section 5.3; here is no need)."""
    if query.groups is None:
        return [tuple(evaluate(o.expression, rows) for o in query.outputs) for rows in matches]
    groups: dict[Row, list[tuple[Row, ...]]] = defaultdict(list)
    for rows in matches:
        groups[tuple(evaluate(key, rows) for key in query.groups)].append(rows)
    if not query.groups and not groups:
        groups[()] = []  # an ungrouped COUNT over nothing is 0
    output = []
    for key, members in groups.items():
        row = key + tuple(aggregate(function, members) for function in query.aggregates)
        if query.having is None or evaluate(query.having, [row]) is True:
            output.append(tuple(evaluate(o.expression, [row]) for o in query.outputs))
    return output


# Instants


def instants(query: Query, world: World, after: int, until: int) -> list[int]:
    """The instants in (after, until] at which the answer may change: readings and expiries."""
    found: set[int] = set()
    windows = [(source.relation.name, source.window) for source in query.sources]
    windows.append((query.sources[query.subject].relation.name, query.window))
    for name in query.streams:
        stream = world.stream(name)
        lags = [0] + ([stream.timeout] if stream.timeout is not None else [])
        lags += [w.duration for own, w in windows if own == name and w and w.duration is not None]
        for reading in world.readings.get(name, ()):
            found.update(effect(stream, reading.time + lag) for lag in lags)
            if query.dwell is not None:
                subject = world.stream(query.sources[query.subject].relation.name)
                found.add(effect(subject, effect(stream, reading.time) + query.dwell))
    return sorted(instant for instant in found if after < instant <= until)
