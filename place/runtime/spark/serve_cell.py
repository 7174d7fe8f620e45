"""The task of a standing cell: connect to the driver, then do what it asks until it says stop.

It runs in a Python process of Spark for as long as the driver is there. A task whose connection
breaks fails, so that Spark starts it again, or its driver the whole job; where the driver is gone,
nobody does.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from place.engine.matrix import Matrix
from place.runtime.durable.saving import Pace
from place.runtime.durable.storage import Storage
from place.runtime.spark.channel import STOP, Connection, Terms, introduce
from place.runtime.spark.standing_cell import StandingCell
from place.runtime.spark.worker_process import (
    hush_broken_pipes,
    keep_large_blocks,
    spare_the_collector,
)


@dataclass(frozen=True)
class CellTask:
    """What the tasks of a standing job are told when they begin."""

    terms: Terms
    storage: Storage
    matrix: Matrix
    threads: int
    pace: Pace

    def __call__(self, numbers: Iterable[int]) -> Iterator[None]:
        """Serve the cells of these numbers; Spark gives a task one of them."""
        hush_broken_pipes()
        keep_large_blocks()
        places = self.matrix.places()
        for number in numbers:
            connection = introduce(self.terms, number)
            if connection is not None:
                cell = StandingCell(self.storage, places[number], self.threads, self.pace)
                try:
                    serve(connection, cell)
                finally:
                    connection.close()
                    cell.close()
        return iter(())


def serve(connection: Connection, cell: StandingCell) -> None:
    """Answer requests until the driver says stop."""
    while True:
        number, content = connection.receive()
        if number == STOP:
            return
        connection.send(number, _answered(cell, content))
        cell.tend()
        spare_the_collector()


def _answered(cell: StandingCell, content: bytes) -> bytes:
    """The answer to a request, or what went wrong as a text; the cell goes on in either case."""
    try:
        is_first, updates, request = pickle.loads(content)
        answer = cell.answer(pickle.loads(request), updates, is_first=is_first)
        return pickle.dumps((True, answer), pickle.HIGHEST_PROTOCOL)
    except Exception:  # also of what cannot be unpickled, or pickled
        return pickle.dumps((False, traceback.format_exc()))
