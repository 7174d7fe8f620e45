"""Readings of the generator as segments, by their steps.

Readings are a function of the recipe and the step. A process that has just made the step before
only has to go on; any other begins at a checkpoint that someone has left, or at the beginning, and
makes the same readings.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from place.engine.slices import Segment, Told
from place.errors import ConfigurationError
from place.model.reading import Advance
from place.model.schema import Stream
from place.model.segment import ARROW, segment_schema
from place.model.types import Type
from place.plan.external import generated_fields
from place.runtime.durable.storage import Storage, digest
from place.sim import Generator, Report, State
from place.sim.recipe import Recipe
from place.sim.tables import report_table

EVERY = 1_000_000
"""A checkpoint is left whenever so many readings more have been made, and at least
`FEWEST` steps have gone by."""
FEWEST = 50
MOST_MADE = 4
"""So many generators stay in the memory of a process, those used last."""


@dataclass
class Made:
    """A generator, and the report of its last step."""

    generator: Generator
    last: Report | None = None

    def reach(self, step: int) -> tuple[Report | None, Report]:
        """The reports of the step before, whose arrivals are gone by now, and of a step."""
        while self.generator.step < step:
            self.last = self.generator.advance()
        before, self.last = self.last, self.generator.advance()
        return before, self.last


_MADE: OrderedDict[tuple[str, str], Made] = OrderedDict()


@dataclass(frozen=True)
class Steps:
    """The readings of a stream's generator; checkpoints are kept in the storage."""

    storage: Storage
    stream: Stream
    recipe: Recipe = field(init=False)
    fields: list[str] = field(init=False)

    def __post_init__(self) -> None:
        assert self.stream.source is not None
        object.__setattr__(self, "recipe", Recipe.of(dict(self.stream.source.options)))
        object.__setattr__(self, "fields", generated_fields(self.stream))

    def told(self, first: int, after: int) -> list[Told]:
        """The readings of steps, from the first up to the one before `after`.

        Each step is complete when it is told, so its time has come. Who has arrived in a step
        disappears in the next.
        """
        told: list[Told] = []
        made = self._made(first)
        for step in range(first, after):
            before, report = made.reach(step)
            time = self.recipe.time_of(step)
            table = report_table(made.generator, report, before, time)
            told.append(Segment(self.stream.name, self._segment(table)))
            told.append(Advance(time, self.stream.name))
            if self._is_due(step):
                self._leave(made.generator)
        _MADE[self._place] = made
        _MADE.move_to_end(self._place)
        while len(_MADE) > MOST_MADE:
            _MADE.popitem(last=False)
        return told

    @property
    def _place(self) -> tuple[str, str]:
        return self.storage.root, digest(f"{self.recipe} {self.stream.space}")

    def _made(self, first: int) -> Made:
        """A generator that has just made the step before `first`, or is about to."""
        made = _MADE.pop(self._place, None)
        if made is not None and made.generator.step <= first:
            return made
        generator = self.recipe.make(self.stream.space)
        # Arrivals of the step before are told with this one, so that has to be made, too.
        for step, name in sorted(self._left(), reverse=True):
            if step < first:
                with contextlib.suppress(OSError, ConfigurationError):
                    state = State.from_bytes(self.storage.read(name))
                    return Made(Generator.resume(generator.city, state))
        return Made(generator)

    def _segment(self, table: pa.Table) -> pa.Table:
        """The columns of the stream, then the time and who is gone: nobody, without objects."""
        if self.stream.key is None:
            table = table.filter(pc.invert(table.column("gone")))
        columns = []
        for name, column in zip(self.fields, self.stream.columns, strict=True):
            values = table.column(name)
            if name == "time":  # of a row that says who is gone, only the key counts
                values = pc.if_else(table.column("gone"), None, values)
            elif values.type == pa.float64() and column.type is Type.BIGINT:
                values = pc.round(values)
            columns.append(values.cast(ARROW[column.type]))
        columns += [table.column("time"), table.column("gone")]
        return pa.Table.from_arrays(columns, schema=segment_schema(self.stream.columns))

    # Checkpoints

    @property
    def _directory(self) -> str:
        return f"generators/{self._place[1]}"

    def _is_due(self, step: int) -> bool:
        every = max(FEWEST, EVERY // self.recipe.objects)
        return step > 0 and step % every == 0

    def _left(self) -> list[tuple[int, str]]:
        """The checkpoints there are, with the next step of each."""
        found = [name for name, _ in self.storage.list(self._directory)]
        steps = [name.rpartition("/")[2].removesuffix(".npz") for name in found]
        pairs = zip(steps, found, strict=True)
        return [(int(step), name) for step, name in pairs if step.isdecimal()]

    def _leave(self, generator: Generator) -> None:
        """Leave a checkpoint; two are kept, for a restart that goes back a little."""
        name = f"{self._directory}/{generator.step:012d}.npz"
        self.storage.replace(name, generator.state().to_bytes())
        for _, old in sorted(self._left())[:-2]:
            self.storage.remove(old)
