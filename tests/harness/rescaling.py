"""A session without Spark whose cells become others while it runs."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from place.engine.checkpoint import load_worker, save_whole
from place.engine.matrix import Matrix
from place.engine.rescale import SavedCell, rescaled
from place.runtime.durable.run_files import RunFiles
from place.runtime.durable.saving import detached
from place.runtime.local import LocalRuntime

MATRICES = Matrix(2, 2), Matrix(3, 1), Matrix(), Matrix(1, 2), Matrix(4, 1), Matrix(2, 1)


def rescale_cells(runtime: LocalRuntime, matrix: Matrix) -> None:
    """Other cells for a runtime, from the states of those that it has."""
    cells = [SavedCell(worker.place, detached(save_whole(worker))) for worker in runtime.workers]
    catalog, threads = runtime.catalog, runtime.workers[0].threads
    runtime._matrix = matrix
    runtime.workers = [
        load_worker(
            place,
            catalog,
            catalog.arrow_of,
            detached(rescaled(cells, place, catalog, catalog.arrow_of)),
            threads,
            RunFiles(None, f"{place.row}-{place.column}"),
        )
        for place in matrix.places()
    ]
    runtime.remember_answers()


def rescale_before_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session without Spark has other cells in each tick."""
    feed = LocalRuntime.feed
    matrices = cycle(MATRICES)

    def fed(runtime: LocalRuntime, *given: Any) -> Any:
        if runtime.catalog.streams:
            rescale_cells(runtime, next(matrices))
        return feed(runtime, *given)

    monkeypatch.setattr(LocalRuntime, "feed", fed)
