"""A question about the past: a query, bound to the streams as they are kept, and the time of it.

`answer(q, t)` of docs/design.md is a function of the readings up to t. So a question about the past
is an ordinary query with a time. It is bound to a catalog of its own: the streams of now, with
readings that come in the order of their times, and the tables and regions of now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from place.model.schema import Stream
from place.model.time import format_interval
from place.model.types import Type
from place.plan.bind_query import bind_query, moment_of
from place.plan.bind_trajectory import asks_trajectory, bind_trajectory
from place.plan.bind_trigger import bind_trigger
from place.plan.catalog import Catalog, fold
from place.plan.definitions import Definitions
from place.plan.query import Query
from place.plan.trajectory import Trajectory
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.limits import NONE, within
from place.sql.statements import wrong

VALIDITY = ("valid_from", "valid_to")
"""The columns behind those of a query that is asked about all of a time."""
INSTANT = "instant"
"""The column behind those of a trigger: when it told the alert."""


@dataclass(frozen=True)
class Question:
    """What a query answered at `begin`; or, with `until`, from `begin` until then.

    `catalog` holds what the query was bound to. `at` are the places of the two times in the text.
    """

    query: Query
    catalog: Catalog
    begin: int
    until: int | None = None
    at: tuple[s.Position | None, s.Position | None] = (None, None)
    trajectory: Trajectory | None = None
    """What becomes of the readings that the query chooses, if trajectories are asked for."""

    @property
    def last(self) -> int:
        """The last instant that it asks about."""
        return self.begin if self.until is None else self.until

    @property
    def streams(self) -> list[Stream]:
        """The streams that it reads, as they were declared for the past, by name."""
        return [self.catalog.streams[fold(name)] for name in sorted(self.query.streams)]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of what it is answered with."""
        if self.query.trigger is not None:
            return (*self.query.names, INSTANT)
        if self.trajectory is not None and self.trajectory.measures is not None:
            return tuple(measure.name for measure in self.trajectory.measures)
        return self.query.names if self.until is None else (*self.query.names, *VALIDITY)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of these columns."""
        if self.trajectory is not None and self.trajectory.measures is not None:
            return tuple(measure.expression.type for measure in self.trajectory.measures)
        more = len(self.names) - len(self.query.names)
        return (*self.query.types, *(Type.TIMESTAMP,) * more)

    @property
    def notes(self) -> tuple[str, ...]:
        """What keeps the answer from being exact: streams of which not every reading is kept."""
        return tuple(note for stream in self.streams for note in _bound_of(stream))


def as_of(catalog: Catalog, select: s.Select | s.SelectTold) -> Question:
    """The question that a SELECT with a time asks, or a StatementError."""
    clause = select.past
    assert clause is not None
    begin = moment_of(clause.begin)
    until = None if clause.until is None else moment_of(clause.until)
    if until is not None and until < begin:
        assert clause.until is not None
        raise wrong(
            f"'{clause.until.value}' is before '{clause.begin.value}'",
            clause.until.at,
            hint="the earlier time comes first",
        )
    past = past_catalog(catalog)
    trajectory = None
    if isinstance(select, s.SelectTold):
        query = _told(catalog, past, select)
    elif asks_trajectory(select):
        query, trajectory = bind_trajectory(past, select)
    else:
        query = bind_query(past, "", select)
    if not query.streams:
        raise wrong(
            "a table has no past: it is asked as it is now",
            clause.at,
            hint="leave the time out, or name a stream in FROM",
        )
    places = (clause.begin.at, None if clause.until is None else clause.until.at)
    return Question(query, of_streams(past, query.streams), begin, until, places, trajectory)


def _told(catalog: Catalog, past: Catalog, select: s.SelectTold) -> Query:
    """A query or trigger of the catalog, bound to the past."""
    found: Query = catalog.find(select.kind, select.name, verb="SELECT * FROM")
    return in_the_past(catalog, past, found)


def in_the_past(catalog: Catalog, past: Catalog, query: Query) -> Query:
    """A query of the catalog as it was written, bound to the streams of the past."""
    with within(NONE):  # it was accepted
        statement = parse_one(catalog.text_of(query.kind, query.name))
        if isinstance(statement, s.CreateTrigger):
            return bind_trigger(past, statement)
        assert isinstance(statement, s.RegisterQuery)
        return bind_query(past, query.name, statement.select)


def since_then(catalog: Catalog, query: Query, until: int, at: s.Position | None) -> Question:
    """What a query that begins in the past has answered since, until an instant."""
    assert query.since is not None
    past = past_catalog(catalog)
    bound = in_the_past(catalog, past, query)
    return Question(bound, of_streams(past, query.streams), query.since, until, (at, at))


def past_catalog(catalog: Catalog) -> Catalog:
    """What a question is bound to: no queries, and the streams as they are read from an archive.

    Their readings come in the order of times, so that none is late, and without gaps. All that is
    read is kept. Where not every reading is archived, an object lives on for as long as it may be
    between two that are.
    """
    streams = {key: _archived(stream) for key, stream in catalog.streams.items()}
    return replace(
        catalog, streams=Definitions(streams), queries=Definitions(), sinks=Definitions()
    )


def of_streams(catalog: Catalog, names: frozenset[str]) -> Catalog:
    """A catalog with no other streams than these."""
    kept = {key: each for key, each in catalog.streams.items() if each.name in names}
    return replace(catalog, streams=Definitions(kept))


def _archived(stream: Stream) -> Stream:
    timeout, archiving = stream.timeout, stream.archiving
    if timeout is not None and archiving is not None:
        timeout = timeout * archiving.nth + (archiving.period or 0)
    return replace(
        stream,
        lateness=0,
        retention=None,
        storing=None,
        history=None,
        fills_gaps=False,
        timeout=timeout,
    )


def _bound_of(stream: Stream) -> list[str]:
    """What an archive that leaves out readings may make wrong, in words."""
    kept = stream.archiving
    if kept is None or kept.is_complete or stream.key is None:
        return []
    if kept.period is not None:
        age = f"by up to {format_interval(kept.period)}"
        how = f"one reading of each object every {format_interval(kept.period)}"
    else:
        age = f"by up to {kept.nth - 1} readings"
        how = f"every {kept.nth}th reading of each object"
    return [f"{stream.name} is archived with {how}: objects may be out of date {age}"]
