"""A cell as Arrow tables, and back: any task can continue another's work.

What a cell knows is the rows of its objects, the rows of its query tables, and where the focal
objects are; everything else follows from these and the queries.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from place.engine.cell import Cell, Step
from place.engine.objects import Objects
from place.engine.route import Place
from place.model.schema import Relation, Stream
from place.model.time import BEGINNING
from place.plan.query import Query

State = dict[str, pa.Table]

SUBJECTS, REGIONS, FOCALS = "subjects", "regions", "focals"


def save_cell(cell: Cell) -> State:
    """All that a cell knows."""
    state = {f"{SUBJECTS}/{name}": _save(store) for name, store in cell.subjects.items()}
    state |= {f"{REGIONS}/{name}": _save(store) for name, store in cell.region_rows.items()}
    known = cell.focals.known()
    state[FOCALS] = pa.table(
        {
            "stream": pa.array([stream for stream, _, _ in known], pa.string()),
            "number": pa.array([_number(key) for _, key, _ in known], pa.int64()),
            "text": pa.array([_text(key) for _, key, _ in known], pa.string()),
            "x": pa.array([at[0] if at else None for _, _, at in known], pa.float64()),
            "y": pa.array([at[1] if at else None for _, _, at in known], pa.float64()),
        }
    )
    return state


def load_cell(
    place: Place,
    streams: Iterable[Stream],
    queries: Sequence[Query],
    state: State,
    threads: int = 1,
) -> Cell:
    """A cell that goes on where the saved one stopped."""
    cell = Cell(place, streams, threads)
    relations: dict[str, Relation] = {
        source.relation.name: source.relation for query in queries for source in query.sources
    }
    for name, table in state.items():
        kind, _, relation = name.partition("/")
        if kind == FOCALS:
            continue
        stores = cell.subjects if kind == SUBJECTS else cell.region_rows
        if relation not in stores and relation in relations:
            stores[relation] = Objects(relations[relation], cell.dictionary)
        if relation in stores:
            _load(stores[relation], table)
    at = {
        (row["stream"], row["text"] if row["number"] is None else row["number"]): row
        for row in state[FOCALS].to_pylist()
    }

    def locate(stream: str, key: Hashable) -> tuple[float, float] | None:
        found = at.get((stream, key))
        return None if found is None or found["x"] is None else (found["x"], found["y"])

    cell.process(Step(BEGINNING, register=queries, locate=locate))
    return cell


def _save(store: Objects) -> pa.Table:
    slots = np.flatnonzero(store.alive[: store.size])
    keys = [store.keys[slot] for slot in slots.tolist()]
    table = store.columns.to_arrow(slots)
    table = table.append_column("number", pa.array([_number(k) for k in keys], pa.int64()))
    return table.append_column("text", pa.array([_text(k) for k in keys], pa.string()))


def _load(store: Objects, table: pa.Table) -> None:
    width = table.num_columns - 2
    columns = [table.column(i).to_pylist() for i in range(width)]
    numbers, texts = table.column("number").to_pylist(), table.column("text").to_pylist()
    keys = [text if number is None else number for number, text in zip(numbers, texts, strict=True)]
    rows = list(zip(*columns, strict=True))
    store.change(list(zip(keys, rows, strict=True)))


def _number(key: Hashable) -> int | None:
    return key if isinstance(key, int) else None


def _text(key: Hashable) -> str | None:
    return key if isinstance(key, str) else None
