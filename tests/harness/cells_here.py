"""The pipeline with its cells in this process: all of it but Spark, quickly, and cells can be
lost at will."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from place.engine.matrix import Matrix
from place.engine.slices import Told
from place.model.delta import Delta
from place.plan.catalog import Catalog
from place.runtime.durable.deltas import Deltas
from place.runtime.durable.kept_ticks import Keep
from place.runtime.durable.saving import Pace
from place.runtime.durable.slice_file import write_cut
from place.runtime.durable.storage import Storage
from place.runtime.spark import pipeline
from place.runtime.spark.catalogs import Catalogs
from place.runtime.spark.inputs import PackInput
from place.runtime.spark.pipeline import Entry, Pipeline
from place.runtime.spark.requests import Behind, Request, Restore
from place.runtime.spark.runtime import SparkRuntime
from place.runtime.spark.standing_cell import StandingCell


class CellsHere:
    """What the pipeline asks of `StandingCells`, by cells in this process."""

    def __init__(
        self,
        _context: object,
        storage: Storage,
        matrix: Matrix,
        threads: int,
        catalogs: Catalogs,
        past: Callable[[str], Restore],
        pace: Pace,
    ) -> None:
        self._new = lambda number: StandingCell(storage, matrix.places()[number], threads, pace)
        count = matrix.rows * matrix.columns
        self._cells = [self._new(number) for number in range(count)]
        self._held: list[Sequence[int]] = [() for _ in range(count)]
        self._catalogs, self._past = catalogs, past
        self.admitted = count
        self.loses: tuple[type, int] | None = None
        """Lose the cell of this number before it gets a request of this kind."""
        self.asked: list[Request] = []

    def gather(self) -> None:
        """They are here."""

    def lose(self, number: int) -> None:
        self._cells[number], self._held[number] = self._new(number), ()
        self.admitted += 1

    def ask(self, request: Request) -> list[Any]:
        self.asked.append(request)
        if self.loses is not None and isinstance(request, self.loses[0]):
            number, self.loses = self.loses[1], None
            self.lose(number)
        return [self._answer(number, request) for number in range(len(self._cells))]

    def _answer(self, number: int, request: Request) -> Any:
        cell = self._cells[number]
        updates = self._catalogs.updates(self._held[number], *request.versions)
        answer = cell.answer(request, updates, is_first=False)
        self._held[number] = request.versions
        if isinstance(answer, Behind):
            self._answer(number, self._past(cell.name))
            return self._answer(number, request)
        return answer

    def close(self) -> None:
        for cell in self._cells:
            cell.close()


def runtime_here(home: Path) -> SparkRuntime:
    """The runtime on Spark, all of it but Spark; it has no sources."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline, "StandingCells", CellsHere)
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
        return SparkRuntime(spark, home)


class PipelineHere:
    """A pipeline over cells in this process."""

    def __init__(self, directory: str, matrix: Matrix) -> None:
        self.storage = Storage(directory)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(pipeline, "StandingCells", CellsHere)
            spark: Any = SimpleNamespace(sparkContext=None)
            self.pipeline = Pipeline(spark, self.storage, "home", matrix, 1, Keep())
        cells: Any = self.pipeline.cells
        self.cells: CellsHere = cells
        self._deltas, self._files = Deltas(self.storage), 0

    def tick(self, catalog: Catalog, told: Sequence[Told] = ()) -> list[Delta]:
        """What a tick tells, in the order of instants."""
        inputs = []
        if told:
            self._files += 1
            file = f"segments/pushed-{self._files}.arrow"
            self.pipeline.slicing.know(catalog, catalog.arrow_of, 0)
            streams = list(catalog.streams.values())
            self.storage.write(
                file, write_cut(self.storage, self.pipeline.slicing.cutting, streams, told)
            )
            inputs.append(PackInput(file))
        return self._deltas.of(self.pipeline.tick(catalog, Entry(inputs))).deltas()
