"""The workers of all cells in one process, which tell each other what they have to know.

A worker holds the objects of its row. What a query of its column needs of other rows, because it
follows an object there, it is told by the workers that hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from place.engine.exchange import Moved, Wants, exchanged
from place.engine.partial_answers import Found
from place.engine.worker import Worker
from place.plan.catalog import Catalog
from place.plan.query import Query


def become_all(
    workers: Sequence[Worker],
    catalog: Catalog,
    held: Sequence[Mapping[str, pa.Table | None]] | None = None,
) -> list[Found]:
    """Workers go over to a version of the catalog, each told by the others what it has to know;
    `held` is what windows hold in each of them of queries that begin in the past."""
    wants = [worker.wants(catalog, catalog.arrow_of) for worker in workers]
    found: list[Found] = []
    for number, moved in enumerate(_moved(workers, catalog, wants)):
        windows = held[number] if held is not None else {}
        found += workers[number].become(catalog, catalog.arrow_of, moved, windows)
    return found


def asking(workers: Sequence[Worker], catalog: Catalog, query: Query) -> list[tuple[Worker, Moved]]:
    """The workers, each with what it has to be told to ask a query."""
    wants = [worker.wants_to_ask([query], catalog.arrow_of) for worker in workers]
    return list(zip(workers, _moved(workers, catalog, wants), strict=True))


def _moved(workers: Sequence[Worker], catalog: Catalog, wants: Sequence[Wants]) -> list[Moved]:
    """What workers are told by those of other rows."""
    holdings = [worker.share.holdings for worker in workers]
    return exchanged(catalog.streams.values(), holdings, wants)
