"""Which readings may stand for which variables of triggers.

What a variable asks of a reading alone is a region over attributes and places, as the conditions of
a query are. So the variables of all triggers are regions of the same joins, which readings meet
once for all of them. Where comparisons with constants say it all, regions are boxes over all
attributes of a stream (place/engine/trigger_boxes.py). Others meet readings as regions of queries
do, and variables that ask the same share a region.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.compile import compile_query
from place.engine.compiled import Compiled, JoinKey
from place.engine.conditions import Conditions
from place.engine.counters import Counters
from place.engine.focals import Focals
from place.engine.layout import Polygons
from place.engine.objects import Messages, Objects
from place.engine.operators.region_join import RegionJoin
from place.engine.queries import Queries
from place.engine.surroundings import Surroundings
from place.engine.tick import Due, Tick
from place.engine.tick_readings import TickReadings
from place.engine.trigger_boxes import Qualifying, VariableBoxes
from place.errors import InternalError
from place.kernels.arrays import Longs
from place.kernels.fanned_pairs import pairs_in_order
from place.model.schema import Column as Field
from place.model.schema import Stream
from place.model.shape import Shape
from place.model.types import Type
from place.plan.expression import Column, Expression, substitute
from place.plan.query import Focal, Output, Query, Source, Window

Asked = tuple[str, Expression | None, Shape | None]
"""What a region is made of: the stream, a condition over its columns, and a place."""

NONE = np.empty(0, np.int64)


def with_time(stream: Stream) -> Stream:
    """A stream as triggers read it: after its own columns comes the time of the reading."""
    return replace(stream, columns=(*stream.columns, Field("t", Type.TIMESTAMP)))


def rows_with_time(messages: Messages, dictionary: Dictionary) -> Columns:
    """The rows of readings, and their times as one more column."""
    rows = Columns((*messages.rows.columns, Field("t", Type.TIMESTAMP)), dictionary, 0)
    rows.values = [*messages.rows.values, messages.times]
    rows.nulls = [*messages.rows.nulls, np.zeros(len(messages), np.bool_)]
    return rows


class TriggerVariables:
    """The regions of variables, and the joins in which readings meet them."""

    def __init__(self, streams: Mapping[str, Stream], dictionary: Dictionary, threads: int) -> None:
        self._streams = streams
        self._dictionary = dictionary
        self._stores = {name: Objects(with_time(s), dictionary) for name, s in streams.items()}
        self._queries = Queries(dictionary)
        counters, focals = Counters(), Focals()
        conditions = Conditions(self._queries, focals, _no_focal, {}, counters, dictionary)
        self._around = Surroundings(
            focals, _no_focals, _no_focal, Polygons(), {}, conditions, counters, threads
        )
        self._joins: dict[JoinKey, RegionJoin] = {}
        self._numbers: dict[Asked, int] = {}
        self._users: dict[int, set[int]] = {}
        """The variables that a region serves."""
        self._parts: dict[int, tuple[Asked, ...]] = {}
        """The regions of a variable, in all of which its readings lie."""
        self._fan: tuple[Longs, Longs, Longs] | None = None
        self._boxes = {name: VariableBoxes(dictionary) for name in streams}
        self._boxed: dict[int, str] = {}
        """Variables whose regions are boxes, and their streams."""

    def reads(self, stream: str) -> bool:
        """Does any variable stand for readings of a stream?"""
        return len(self._boxes[stream]) > 0 or any(key.subject == stream for key in self._joins)

    # Variables come and go

    def add(
        self, variable: int, stream: str, condition: Expression | None, regions: Sequence[Shape]
    ) -> None:
        """What a variable asks of a reading; the condition reads one source, of any number."""
        alone = None if condition is None else substitute(condition, _of_first)
        if not regions and self._boxes[stream].add(variable, alone):
            self._boxed[variable] = stream
            return
        first, *others = regions or (None,)
        parts = ((stream, alone, first), *((stream, None, region) for region in others))
        self._parts[variable] = tuple(dict.fromkeys(parts))
        for asked in self._parts[variable]:
            if asked not in self._numbers:
                self._numbers[asked] = self._begin(asked)
            self._users.setdefault(self._numbers[asked], set()).add(variable)
        self._fan = None

    def remove(self, variables: Iterable[int]) -> None:
        """Variables that no trigger has any more."""
        for variable in variables:
            if variable in self._boxed:
                self._boxes[self._boxed.pop(variable)].remove(variable)
                continue
            for asked in self._parts.pop(variable):
                number = self._numbers[asked]
                self._users[number].discard(variable)
                if not self._users[number]:
                    self._end(asked, number)
        self._fan = None

    def _begin(self, asked: Asked) -> int:
        compiled = self._compiled(asked)
        key = compiled.key
        if key not in self._joins:
            self._joins[key] = RegionJoin(key, self._stores[key.subject], self._around, None)
        number = self._queries.add_candidates(compiled)
        self._joins[key].add(number, compiled)
        return number

    def _end(self, asked: Asked, number: int) -> None:
        key = self._queries.compiled[number].key
        join = self._joins[key]
        join.remove([number])
        join.settle()
        if join.is_empty:
            del self._joins[key]
        self._queries.forget([number])
        del self._users[number], self._numbers[asked]

    def _compiled(self, asked: Asked) -> Compiled:
        """The region as that of a query over the readings of the stream."""
        name, condition, region = asked
        relation = self._stores[name].relation
        first = relation.columns[0]
        query = Query(
            name="",
            sources=(Source(name, relation),),
            subject=0,
            space=relation.space,
            where=condition,
            query_table=None,
            inside=region,
            nearest=None,
            window=Window(duration=1),
            groups=None,
            aggregates=(),
            having=None,
            outputs=(Output(first.name, Column(0, 0, first.type, first.name)),),
            distinct=False,
            hint=None if region is None else "INSIDE FIRST",
        )
        return compile_query(query, self._dictionary)

    # A tick

    def qualifying(self, stream: str, due: Due, rows: Columns) -> Qualifying:
        """The variables that each reading may stand for. `rows` are those of the readings, with
        their times."""
        boxed = self._boxes[stream].qualifying(rows)
        if not any(key.subject == stream for key in self._joins):
            return boxed
        ids, variables = self._in_regions(stream, due, rows)
        if not len(ids):
            return boxed
        ids = np.concatenate([np.repeat(np.arange(len(rows)), boxed.counts), ids])
        variables = np.concatenate([boxed.variables, variables])
        owners = np.arange(int(variables.max()) + 1)
        return Qualifying(*pairs_in_order(ids, variables, owners, len(rows), len(owners)))

    def _in_regions(self, stream: str, due: Due, rows: Columns) -> tuple[Longs, Longs]:
        """Pairs of a reading and a variable whose regions are no boxes."""
        messages, instants = due
        nothing = np.full(len(messages), -1)
        readings = TickReadings(
            self._stores[stream],
            nothing,
            messages.keys,
            messages.times,
            instants,
            rows,
            nothing,
            np.zeros(len(messages), np.bool_),
        )
        after, until = (int(instants[0]) - 1, int(instants[-1])) if len(instants) else (0, 0)
        tick = Tick(after, until, readings={stream: readings})
        found: list[tuple[Longs, Longs]] = []
        for key, join in self._joins.items():
            matches = join.take(tick) if key.subject == stream else None
            if matches is not None:
                found.append((matches.after, matches.numbers))
                join.settle()
        if not found:
            return NONE, NONE
        ids, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
        return self._fanned(ids, numbers)

    def _fanned(self, ids: Longs, numbers: Longs) -> tuple[Longs, Longs]:
        """The same pairs with the variables that the regions serve."""
        starts, variables, parts = self._fanning()
        counts = starts[numbers + 1] - starts[numbers]
        places = np.repeat(starts[numbers] - np.cumsum(counts) + counts, counts)
        chosen = variables[places + np.arange(len(places))]
        ids = np.repeat(ids, counts)
        order = np.lexsort((chosen, ids))
        ids, chosen = ids[order], chosen[order]
        if not (parts > 1).any():
            return ids, chosen
        begins = np.ones(len(ids), np.bool_)  # a reading has to lie in all regions of a variable
        begins[1:] = (ids[1:] != ids[:-1]) | (chosen[1:] != chosen[:-1])
        at = np.flatnonzero(begins)
        whole = at[np.diff(np.append(at, len(ids))) == parts[chosen[at]]]
        return ids[whole], chosen[whole]

    def _fanning(self) -> tuple[Longs, Longs, Longs]:
        """The variables of each region, where they begin, and the regions of each variable."""
        if self._fan is None:
            size = max(self._users, default=-1) + 1
            counts = np.zeros(size, np.int64)
            for number, users in self._users.items():
                counts[number] = len(users)
            lists = (sorted(self._users.get(number, ())) for number in range(size))
            variables = np.array([v for users in lists for v in users], np.int64)
            parts = np.zeros(max(self._parts, default=-1) + 1, np.int64)
            for variable, asked in self._parts.items():
                parts[variable] = len(asked)
            self._fan = np.concatenate([[0], np.cumsum(counts)]), variables, parts
        return self._fan


def _of_first(column: Column) -> Column:
    return replace(column, source=0)


def _no_focal(focal: Focal) -> int:
    raise InternalError("a variable of a trigger follows no object")


def _no_focals(stream: str, keys: Longs) -> Longs:
    raise InternalError("a variable of a trigger follows no object")
