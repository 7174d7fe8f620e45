"""Cells of different rows tell each other of objects, by way of the driver.

Cells say what they want to be told, those who know it write it to files, and the names of the files
are inputs of the tick in which it is needed; so it can be taken again when the tick is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from place.engine.exchange import Wants, floors_of, joint_keys
from place.engine.matrix import Matrix
from place.engine.share import changed_queries
from place.plan.catalog import Catalog
from place.plan.query import Query
from place.runtime.durable.storage import Storage
from place.runtime.spark.inputs import FloorsInput, MovedInput, TickInput
from place.runtime.spark.requests import Job, Prepare, Request, Tell


class Telling:
    """`ask` asks all cells, in the order of the matrix."""

    def __init__(
        self, matrix: Matrix, storage: Storage, ask: Callable[[Request], list[Any]]
    ) -> None:
        self._matrix = matrix
        self._storage = storage
        self._ask = ask

    def before(self, job: Job, catalog: Catalog, after: Catalog) -> list[TickInput]:
        """What has to be told before a tick, because queries begin with it."""
        if self._matrix.rows == 1 or catalog.version == after.version:
            return []
        if not changed_queries(catalog, after)[2]:
            return []
        return self._told(job, after, self._ask(Prepare(job)))

    @contextlib.contextmanager
    def meanwhile(
        self, job: Job, catalog: Catalog, queries: Sequence[Query]
    ) -> Iterator[list[TickInput]]:
        """Queries are asked meanwhile, with what has to be told for them."""
        moved: list[TickInput] = []
        if self._matrix.rows > 1:
            moved = self._told(job, catalog, self._ask(Prepare(job, list(queries))))
        try:
            yield moved
        finally:
            for item in moved:
                if isinstance(item, MovedInput):
                    self._storage.remove(item.file)

    def _told(self, job: Job, catalog: Catalog, wants: Sequence[Wants]) -> list[TickInput]:
        places, found = self._matrix.places(), list[TickInput]()
        pairs = list(zip(places, wants, strict=True))
        reaches = [each.reaches for place, each in pairs if not place.column and each.reaches]
        if reaches:
            found.append(FloorsInput(floors_of(catalog.streams.values(), reaches)))
        if any(each.keys for each in wants):
            wanted = [
                [each.keys for place, each in pairs if place.column == column and each.keys]
                for column in range(self._matrix.columns)
            ]
            files = self._ask(Tell(job, [joint_keys(some) for some in wanted]))
            found += [
                MovedInput(file, place.row, place.column)
                for place, file in zip(places, files, strict=True)
                if file is not None
            ]
        return found
