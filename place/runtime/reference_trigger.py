"""The reference of triggers: all alerts straight from their definition, by brute force.

Every combination of readings is tried, variable by variable, and each condition is asked as soon as
all its variables have a reading. Nothing is inferred, so that inference is held against it. The
bounds of the variable of UNLESS are read only for the moment at which waiting ends. docs/design.md
("Triggers") says the same in words; the paper is CCQ (SSTD 2007).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from place.model.reading import Key
from place.model.schema import Stream
from place.model.shape import contains
from place.model.types import Row
from place.plan.evaluate import evaluate
from place.plan.expression import Expression, sources_of
from place.plan.infer import constraints_of, trigger_of
from place.plan.query import Query
from place.runtime.reference import World, effect, histories, point_of


@dataclass(frozen=True)
class Event:
    """A reading that may stand for a variable. Its row ends with its time."""

    instant: int
    time: int
    stream: str
    key: Key
    row: Row


Match = tuple[Event, ...]


@dataclass(frozen=True)
class Alert:
    """A match, and the instant at which it is told."""

    instant: int
    match: Match

    @property
    def order(self) -> tuple[object, ...]:
        """Alerts are told in this order: by instant, then by the times and keys of variables."""
        times = tuple(event.time for event in self.match)
        return self.instant, times, tuple(event.key for event in self.match)

    @property
    def completing(self) -> Event:
        """The last reading of the match, in the order of instants, times, streams and keys."""
        return max(self.match, key=lambda e: (e.instant, e.time, e.stream, e.key))


def alerts(query: Query, world: World, since: int, until: int) -> list[tuple[int, Row]]:
    """What a trigger that was registered at `since` has told until an instant, in order.

    Each combination of rows of its tables is a trigger of its own, with these rows as constants.
    """
    trigger = trigger_of(query)
    tables = [world.catalog.rows_of(s.relation.name) for s in query.sources[trigger.roles :]]
    told: list[tuple[tuple[object, ...], Row]] = []
    for rows in itertools.product(*tables):
        for alert in _alerts(query, world, since, until, rows):
            sources = _sources(query, alert.match, rows)
            row = tuple(evaluate(output.expression, sources) for output in query.outputs)
            told.append((alert.order, row))
    told.sort(key=lambda pair: pair[0])
    return [(order[0], row) for order, row in told]  # type: ignore[misc]


def _alerts(query: Query, world: World, since: int, until: int, rows: Sequence[Row]) -> list[Alert]:
    trigger = trigger_of(query)
    found = []
    for match in matches(query, world, until, rows):
        instant = max(event.instant for event in match)
        if instant <= since:
            continue
        told = _told_at(query, match, rows)
        if told is None or told > until or is_prevented(query, world, until, match, rows):
            continue
        found.append(Alert(told, match))
    found.sort(key=lambda alert: alert.order)
    if trigger.is_first:
        found = _firsts(found)
    return found if trigger.every is None else _spaced(query, found, trigger.every, rows)


def _firsts(found: list[Alert]) -> list[Alert]:
    """REPORT FIRST: of those with the same completing reading the first one."""
    seen: set[Event] = set()
    kept = []
    for alert in found:
        if alert.completing not in seen:
            seen.add(alert.completing)
            kept.append(alert)
    return kept


def _spaced(query: Query, found: list[Alert], every: int, rows: Sequence[Row]) -> list[Alert]:
    """EVERY: a group is silent after an alert."""
    last: dict[Row, int] = {}
    kept = []
    for alert in found:
        sources = _sources(query, alert.match, rows)
        group = tuple(evaluate(key, sources) for key in trigger_of(query).groups)
        if group not in last or alert.instant >= last[group] + every:
            last[group] = alert.instant
            kept.append(alert)
    return kept


# Matches


def events(world: World, stream: Stream, until: int) -> list[Event]:
    """The readings of a stream in effect; of two of one key and time the last one told."""
    return [
        Event(effect(stream, r.time), r.time, stream.name, r.key, (*r.row, r.time))
        for history in histories(world, stream, until).values()
        for r in history
        if r.row is not None
    ]


def matches(query: Query, world: World, until: int, rows: Sequence[Row]) -> Iterator[Match]:
    """All matches of readings in effect, given a row of each table."""
    trigger = trigger_of(query)
    domains = [events(world, _stream(query, v), until) for v in range(trigger.variables)]
    asked: list[list[Expression]] = [[] for _ in domains]
    for condition in trigger.conditions:
        read = [source for source in sources_of(condition) if source < trigger.variables]
        asked[max(read, default=0)].append(condition)

    def extend(match: Match) -> Iterator[Match]:
        variable = len(match)
        if variable == trigger.variables:
            yield match
            return
        for event in domains[variable]:
            if event not in match and _fits(query, (*match, event), asked[variable], rows):
                yield from extend((*match, event))

    return extend(())


def _stream(query: Query, source: int) -> Stream:
    relation = query.sources[source].relation
    assert isinstance(relation, Stream)
    return relation


def _sources(query: Query, match: Match, rows: Sequence[Row], absent: Row = ()) -> list[Row]:
    """The row of each source: of the variables so far, of UNLESS, and of the tables."""
    trigger = trigger_of(query)
    found = [event.row for event in match]
    found += [()] * (trigger.variables - len(match))
    return [*found, *([absent] if trigger.absence is not None else []), *rows]


def _fits(query: Query, match: Match, asked: list[Expression], rows: Sequence[Row]) -> bool:
    """Does all hold that speaks of the last variable of a match, or of those before it?"""
    trigger = trigger_of(query)
    variable, event = len(match) - 1, match[-1]
    for members in trigger.sets:  # in the order of times, then of keys
        if variable in members[1:]:
            before = match[variable - 1]
            if (before.time, before.key) > (event.time, event.key):
                return False
    if trigger.within is not None:
        times = [each.time for each in match]
        if max(times) - min(times) > trigger.within:
            return False
    sources = _sources(query, match, rows)
    return _lies_inside(query, variable, event.row) and all(
        evaluate(condition, sources) is True for condition in asked
    )


def _lies_inside(query: Query, source: int, row: Row) -> bool:
    """Does a reading lie in all regions of its variable?"""
    stream = _stream(query, source)
    point = point_of(stream, row)
    return all(
        point is not None and contains(shape, stream.space, *point)
        for variable, shape in trigger_of(query).regions
        if variable == source
    )


# UNLESS


def _told_at(query: Query, match: Match, rows: Sequence[Row]) -> int | None:
    """The instant at which a match is told: when it is whole, and when no reading of UNLESS can
    come any more. None if nothing says when that is."""
    trigger = trigger_of(query)
    instant = max(event.instant for event in match)
    if trigger.absence is None:
        return instant
    constraints = constraints_of(query, rows)
    if constraints is None:
        return None
    absent = trigger.variables
    ends = [event.time + constraints.latest[p][absent] for p, event in enumerate(match)]
    return max(instant, effect(_stream(query, absent), min(ends)))


def is_prevented(query: Query, world: World, until: int, match: Match, rows: Sequence[Row]) -> bool:
    """Is there a reading as UNLESS says, other than those of the match?"""
    trigger = trigger_of(query)
    if trigger.absence is None:
        return False
    absent = trigger.variables
    for event in events(world, _stream(query, absent), until):
        if event in match or not _lies_inside(query, absent, event.row):
            continue
        sources = _sources(query, match, rows, event.row)
        if all(evaluate(condition, sources) is True for condition in trigger.absence):
            return True
    return False
