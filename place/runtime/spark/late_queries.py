"""Queries that begin in the past, on Spark: `REGISTER QUERY late FROM 'time' AS …`.

The driver asks the archive what such a query has told until now, and what its windows hold, and
puts both into files, which are inputs of the tick in which it begins; so the tick can be run again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pyarrow as pa

from place.engine.matrix import Matrix
from place.model import deadline
from place.plan.catalog import Catalog
from place.plan.query import Query
from place.runtime.archive import Archive
from place.runtime.catch_up import catch_up
from place.runtime.durable.outbox import write_outbox
from place.runtime.durable.pack import write_tables
from place.runtime.durable.storage import Storage
from place.runtime.spark.inputs import CONTENT, BegunInput


def begun_inputs(
    archive: Archive,
    storage: Storage,
    matrix: Matrix,
    before: Catalog,
    after: Catalog,
    beginning: Callable[[Query], int],
    seconds: float | None,
) -> list[BegunInput]:
    """What has to be known of the queries that begin in the past with a version of the catalog; an
    OutOfTime if that takes longer than so many seconds."""
    _, begun = after.queries.since(before.queries)
    made = []
    with deadline.at_most(seconds):
        for query in (after.queries[key] for key in begun):
            if query.since is None:
                continue
            found = catch_up(archive, after, query, beginning(query), matrix)
            past = None
            if changes := found.past():
                past = _name()
                write_outbox(storage, past, changes)
            held = tuple(_written(storage, content) for content in found.contents)
            made.append(BegunInput(query.name, past, held))
    return made


def _written(storage: Storage, content: pa.Table | None) -> str | None:
    if content is None:
        return None
    name = _name()
    storage.write(name, lambda out: write_tables(out, {CONTENT: content}))
    return name


def _name() -> str:
    return f"segments/begun-{uuid.uuid4().hex}.arrow"
