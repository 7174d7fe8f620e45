"""The queries of a cell by number, as arrays: what the join asks of many pairs at once.

A number is used again when its query has ended, so that arrays do not grow for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from place.engine.boxes import Box
from place.engine.columns import Columns, Dictionary
from place.engine.compiled import Compiled, Condition, QueryShape
from place.engine.multiset import longer
from place.engine.operators.contract import Parameters
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.attribute_boxes import in_any_box
from place.plan.query import Query

NONE = -1


class Template:
    """A condition of many queries that differ in its constants."""

    def __init__(self, condition: Condition, dictionary: Dictionary) -> None:
        self.condition = condition
        self.parameters = Parameters(condition.kinds, dictionary)
        self.used = 0


class Queries:
    """What is registered, by number and by name."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self.compiled: dict[int, Compiled] = {}
        self.numbers: dict[str, int] = {}
        self._free: list[int] = []
        self._asked = np.empty(16, object)
        self._shape = np.full(16, NONE, np.int64)
        self._template = np.full(16, NONE, np.int64)
        self._reads = np.full(16, NONE, np.int64)
        self._checks = np.zeros(16, np.bool_)
        self._shapes: dict[QueryShape, int] = {}
        self._templates: dict[Condition, int] = {}
        self._read_sets: dict[tuple[int, ...], int] = {}
        self.templates: list[Template] = []
        self.read_sets: list[tuple[int, ...]] = []
        self._boxes: dict[str, _Boxes] = {}
        """The attribute boxes of queries, by the relation whose columns they bound."""
        self._lost_boxes = 0

    def __len__(self) -> int:
        return len(self.compiled)

    def add(self, compiled: Compiled) -> int:
        """The number of a query that begins."""
        number = self.add_candidates(compiled)
        self.numbers[compiled.asked.name] = number
        return number

    def add_alike(self, compiled: Sequence[Compiled]) -> Longs:
        """The numbers of queries that begin, and that are alike but for names and places."""
        first = self.add(compiled[0])
        count = len(compiled) - 1
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = range(len(self.compiled) + len(reused), len(self.compiled) + count)
        numbers = np.array([first, *reused, *fresh], np.int64)
        self._reserve(int(numbers.max()) + 1)
        rest = numbers[1:]
        for known in (self._shape, self._template, self._reads, self._checks):
            known[rest] = known[first]
        for number, each in zip(numbers[1:].tolist(), compiled[1:], strict=True):
            self.compiled[number] = each
            self._asked[number] = each.asked
            self.numbers[each.asked.name] = number
            if each.checks_boxes:
                self._boxes[each.subject].add(number, each.boxes)
            if each.residual is not None:
                parameters = self.templates[self._template[number]].parameters
                parameters.put(number, each.residual_constants)
        return numbers

    def add_candidates(self, compiled: Compiled) -> int:
        """A number for the objects among which kNN queries of a shape choose."""
        number = self._free.pop() if self._free else len(self.compiled)
        self._put(number, compiled)
        return number

    def _put(self, number: int, compiled: Compiled) -> None:
        self._reserve(number + 1)
        self.compiled[number] = compiled
        self._asked[number] = compiled.asked
        self._shape[number] = self._shapes.setdefault(compiled.shape, len(self._shapes))
        self._template[number] = self._template_of(number, compiled)
        if compiled.reads not in self._read_sets:
            self._read_sets[compiled.reads] = len(self.read_sets)
            self.read_sets.append(compiled.reads)
        self._reads[number] = self._read_sets[compiled.reads]
        self._checks[number] = compiled.checks_boxes
        if compiled.checks_boxes:
            self._boxes.setdefault(compiled.subject, _Boxes()).add(number, compiled.boxes)

    def _reserve(self, size: int) -> None:
        self._asked = _longer_objects(self._asked, size)
        self._shape = longer(self._shape, size, NONE)
        self._template = longer(self._template, size, NONE)
        self._reads = longer(self._reads, size, NONE)
        self._checks = longer(self._checks, size)

    def _template_of(self, number: int, compiled: Compiled) -> int:
        if compiled.residual is None:
            return NONE
        if compiled.residual not in self._templates:
            self._templates[compiled.residual] = len(self.templates)
            self.templates.append(Template(compiled.residual, self._dictionary))
        found = self._templates[compiled.residual]
        self.templates[found].parameters.put(number, compiled.residual_constants)
        return found

    def replace(self, number: int, compiled: Compiled) -> None:
        """A query goes over to an equivalent plan."""
        self._put(number, compiled)

    def end(self, names: Iterable[str]) -> list[int]:
        """Queries end; their numbers are their own until `forget`. Those of other columns are not
        known here."""
        return [self.numbers.pop(name) for name in names if name in self.numbers]

    def forget(self, ended: Iterable[int]) -> None:
        """Numbers of queries that have ended may be used again."""
        for number in ended:
            compiled = self.compiled.pop(number)
            self._asked[number] = None
            self._free.append(number)
            self._lost_boxes += len(compiled.boxes)
        many = 64 + 2 * len(self.compiled)
        if len(self._shapes) > many or self._lost_boxes > 8 * many:
            self._compact()

    def _compact(self) -> None:
        """Forget shapes, templates and sets of columns that no query has any more."""
        self._shapes, self._templates, self._read_sets = {}, {}, {}
        self.templates, self.read_sets = [], []
        self._boxes, self._lost_boxes = {}, 0
        for number, compiled in self.compiled.items():
            self._put(number, compiled)

    def shape_of(self, shape: QueryShape) -> int:
        """The number of a shape that some query has."""
        return self._shapes[shape]

    def by_shape(self, numbers: Longs) -> list[Longs | None]:
        """The positions of the queries of each shape; None for all of them."""
        if (numbers == numbers[0]).all():
            return [None]
        shapes = self._shape[numbers]
        known = np.flatnonzero(np.bincount(shapes)).tolist()
        if len(known) == 1:
            return [None]
        return [np.flatnonzero(shapes == shape) for shape in known]

    def asked(self, numbers: Longs) -> tuple[Query, ...]:
        """The queries of numbers."""
        return tuple(self._asked[numbers].tolist())

    def templates_of(self, numbers: Longs) -> Longs:
        """The templates of the conditions of queries, −1 for none."""
        return self._template[numbers]

    def reads(self, numbers: Longs) -> Longs:
        """The sets of columns that queries read of their objects."""
        return self._reads[numbers]

    def checks(self, numbers: Longs) -> Bools:
        """Which queries have attribute boxes to be asked of candidates."""
        return self._checks[numbers]

    def columns_of_boxes(self, subject: str) -> tuple[int, ...]:
        """The columns of a relation that attribute boxes bound."""
        return tuple(self._boxes[subject].columns)

    def in_boxes(
        self, subject: str, numbers: Longs, chosen: Longs, rows: Columns, found: Bools
    ) -> None:
        """Strike out the chosen pairs whose rows are in none of the boxes of their queries.

        `rows` are those of the chosen pairs, over `columns_of_boxes`.
        """
        values = np.empty((len(chosen), len(rows.columns)))
        for k in range(len(rows.columns)):
            values[:, k] = rows.numbers(k)
        self._boxes[subject].check(numbers, chosen, values, found)


class _Boxes:
    """The attribute boxes of queries in arrays that grow."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        """The columns that boxes bound, by the places that sides know them by."""
        self._begins, self._ends = np.zeros(16, np.int64), np.zeros(16, np.int64)
        self._side_starts = np.zeros(16, np.int64)
        self._places = np.zeros(16, np.int64)
        self._lows, self._highs = np.zeros(16), np.zeros(16)
        self._boxes = self._sides = 0

    def add(self, number: int, boxes: tuple[Box, ...]) -> None:
        """The boxes of a query that begins."""
        self._begins = longer(self._begins, number + 1)
        self._ends = longer(self._ends, number + 1)
        self._begins[number] = self._boxes
        for box in boxes:
            for column, (low, high) in box.items():
                if column not in self.columns:
                    self.columns.append(column)
                size = self._sides + 1
                self._places = longer(self._places, size)
                self._lows, self._highs = longer(self._lows, size), longer(self._highs, size)
                self._places[self._sides] = self.columns.index(column)
                self._lows[self._sides], self._highs[self._sides] = low, high
                self._sides += 1
            self._boxes += 1
            self._side_starts = longer(self._side_starts, self._boxes + 1)
            self._side_starts[self._boxes] = self._sides
        self._ends[number] = self._boxes

    def check(self, numbers: Longs, chosen: Longs, values: Floats, found: Bools) -> None:
        """Strike out the chosen pairs that are in no box of their queries."""
        in_any_box(
            numbers,
            chosen,
            values,
            self._begins,
            self._ends,
            self._side_starts,
            self._places,
            self._lows,
            self._highs,
            found,
        )


def _longer_objects(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    made = np.empty(max(size, 2 * len(array)), object)
    made[: len(array)] = array
    return made
