"""A worker's state as Arrow tables, and back: any task can continue another's work.

What a worker knows is the objects of its streams, what waits for its instant, and the clocks;
everything else follows from these, the queries and the tables.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.columns import Columns, Dictionary
from place.engine.following import TableOf
from place.engine.history import History
from place.engine.matrix import Place
from place.engine.missing import Gaps
from place.engine.objects import Messages, Objects
from place.engine.store_files import StoreFiles
from place.engine.stored_run import pack_runs, unpack_runs
from place.engine.timeline import Timeline
from place.engine.worker import MANY_TEXTS, Worker
from place.model.schema import Column, Stream, tracked
from place.model.types import Type
from place.plan.catalog import Catalog

Checkpoint = dict[str, pa.Table]
"""Arrow tables by name."""

META, TEXTS, SUBJECTS = "meta", "texts", "subjects"
RUNS = "\0runs"
"""The runs of disk stores; no stream can have this name."""
STORES = ("subjects", "others", "region_rows")


def save_worker(worker: Worker) -> Checkpoint:
    """All that a worker knows."""
    state: Checkpoint = {}
    lines = []
    for number, line in enumerate(worker.timelines.values()):
        for kind in STORES:
            for name, store in getattr(line.cell.stores, kind).items():
                if isinstance(store.relation, Stream):  # tables come with the catalog
                    state[f"{number}/{kind}/{name}"] = pack_messages(_alive(store))
        for name, waiting in line.pending.items():
            if waiting:
                state[f"{number}/pending/{name}"] = pack_messages(Messages.joined(waiting))
        disks = {name: r.disk for name, r in line.cell.reserves.of.items() if not r.disk.is_empty}
        for name, disk in disks.items():
            state[f"{number}/waiting/{name}"] = pack_messages(disk.waiting.all_messages())
        if disks:
            state[f"{number}/{RUNS}"] = pack_runs({name: disks[name].runs for name in disks})
        contents = line.cell.contents()
        for chain, (_, held) in enumerate(contents):
            state[f"{number}/held/{chain}"] = held
        lines.append(
            {
                "streams": sorted(line.streams),
                "instant": line.instant,
                "held": [names for names, _ in contents],
                "flushed": {name: disk.flushed for name, disk in disks.items()},
            }
        )
    for name, history in worker.histories.items():
        state[f"history/base/{name}"] = pack_messages(history.base.all_messages())
        if history.recent:
            state[f"history/recent/{name}"] = pack_messages(Messages.joined(history.recent))
    for name, gaps in worker.gaps.items():
        state[f"gaps/known/{name}"] = pack_messages(_alive(gaps.known))
        if gaps.waiting:
            state[f"gaps/waiting/{name}"] = pack_messages(Messages.joined(gaps.waiting))
    meta = {
        "timelines": lines,
        "floors": {name: history.floor for name, history in worker.histories.items()},
        "clocks": worker.clocks.times(),
        "parts": worker.clocks.parts(),
        "readings": worker.readings,
        "late": worker.late,
        "numbered": worker.numbered,
        "slices": not worker.share.is_whole,
        "since": worker.share.since,
    }
    state[META] = pa.table({"meta": [json.dumps(meta)]})
    state[TEXTS] = pa.table({"text": pa.array(worker.dictionary.texts, pa.string())})
    return state


def save_whole(worker: Worker) -> Checkpoint:
    """All that a worker knows, what it has on the disk among it: it holds that from now on."""
    worker.hold_all()
    return save_worker(worker)


def stored_files(state: Checkpoint) -> set[str]:
    """The files of disk stores that a state names."""
    tables = [table for name, table in state.items() if name.endswith(f"/{RUNS}")]
    return {run.name for table in tables for some in unpack_runs(table).values() for run in some}


def save_subjects(worker: Worker, stream: str) -> Checkpoint:
    """The objects of a stream that this worker holds, and the texts of its codes."""
    store = worker.timelines[frozenset((stream,))].cell.stores.subjects[stream]
    texts = pa.array(worker.dictionary.texts, pa.string())
    return {SUBJECTS: pack_messages(_alive(store)), TEXTS: pa.table({"text": texts})}


def load_worker(
    place: Place,
    catalog: Catalog,
    table_of: TableOf,
    state: Checkpoint,
    threads: int = 1,
    files: StoreFiles | None = None,
) -> Worker:
    """A worker that goes on where the saved one stopped."""
    meta: dict[str, Any] = json.loads(state[META].column(0)[0].as_py())
    codes = _Codes(state, catalog)
    worker = Worker(place, threads, codes.dictionary, files)
    worker.catalog = catalog
    plain = {stream.name: stream for stream in catalog.streams.values()}
    streams = {name: tracked(stream) for name, stream in plain.items()}
    worker.clocks.follow(streams.values())
    worker.clocks.set_times(meta["clocks"], meta["parts"])
    worker.readings, worker.late = meta["readings"], meta["late"]
    worker.numbered = meta.get("numbered", dict(meta["readings"]))
    worker.share.is_whole = place.matrix.rows == 1 or not meta.get("slices", False)
    worker.share.since = meta.get("since", 0)
    worker.share.adopt(list(catalog.queries.values()), table_of)
    for number, saved in enumerate(meta["timelines"]):
        named = frozenset(saved["streams"])
        line = Timeline(
            [streams[name] for name in saved["streams"]],
            place,
            threads,
            saved["instant"],
            worker.dictionary,
            files,
        )
        worker.timelines[named] = line
        for kind in STORES:
            for name, store in getattr(line.cell.stores, kind).items():
                codes.fill(store, state[f"{number}/{kind}/{name}"])
        line.cell.reserves.instant = line.instant
        stored = unpack_runs(state.get(f"{number}/{RUNS}"))
        for name, reserve in line.cell.reserves.of.items():
            disk = reserve.disk
            if f"{number}/waiting/{name}" in state:
                disk.flushed, disk.runs = saved["flushed"][name], stored.get(name, [])
                disk.restore(codes.waiting(streams[name], state[f"{number}/waiting/{name}"]))
        for name in line.pending:
            waiting = state.get(f"{number}/pending/{name}")
            if waiting is not None:
                line.pending[name] = [codes.waiting(streams[name], waiting)]
        queries = [query for query in catalog.queries.values() if query.streams == named]
        line.queries = {query.name: query for query in queries}
        tables = {name: table_of(name) for query in queries for name in query.tables}
        contents: dict[str, pa.Table] = {}
        for chain, names in enumerate(saved["held"]):
            held = state[f"{number}/held/{chain}"]
            owners = held.column(0).to_numpy()
            for owner, name in enumerate(names):
                contents[name] = held.filter(pa.array(owners == owner))
        line.cell.adopt(queries, tables, contents)
    for name, floor in meta["floors"].items():
        history = History.empty(streams[name], worker.dictionary, floor)
        history.load(codes.waiting(streams[name], state[f"history/base/{name}"]))
        recent = state.get(f"history/recent/{name}")
        if recent is not None:
            history.recent.append(codes.waiting(streams[name], recent))
            history.is_loose = True
        worker.histories[name] = history
        if streams[name].waits:
            worker.gaps[name] = gaps = Gaps.empty(plain[name], worker.dictionary)
            codes.fill(gaps.known, state[f"gaps/known/{name}"])
            waiting = state.get(f"gaps/waiting/{name}")
            if waiting is not None:
                gaps.waiting.append(codes.waiting(plain[name], waiting))
    return worker


class _Codes:
    """The texts of a state, and what its codes have become: texts that no row holds are let go."""

    def __init__(self, state: Checkpoint, catalog: Catalog) -> None:
        texts = state[TEXTS].column(0)
        self.became: NDArray[np.int32] | None = None
        if len(texts) < MANY_TEXTS:
            self.dictionary = Dictionary(texts.to_pylist())
            return
        used = np.zeros(len(texts), np.bool_)
        streams = {stream.name: stream for stream in catalog.streams.values()}
        for name, table in state.items():
            stream = streams.get(name.split("/", 2)[-1])
            if stream is not None:
                codes = [column for column in table.columns[3:] if column.type == pa.int32()]
                if stream.key_type is Type.STRING:
                    codes.append(table.column(0))
                for column in codes:
                    used[column.drop_null().to_numpy()] = True
        # One more, because a NULL has the code 0 also where there is no text at all.
        self.became = np.cumsum(np.append(used, False), dtype=np.int32) - 1
        self.dictionary = Dictionary(texts.filter(pa.array(used)).to_pylist())

    def unpack(self, table: pa.Table, columns: tuple[Column, ...], *, coded_keys: bool) -> Messages:
        """Messages that were packed, with the codes of now."""
        saved = unpack_messages(table, columns, self.dictionary)
        if self.became is None:
            return saved
        for index, column in enumerate(columns):
            if column.type is Type.STRING:
                saved.rows.values[index] = self.became[saved.rows.values[index]]
        keys = self.became[saved.keys].astype(np.int64) if coded_keys else saved.keys
        return Messages(keys, saved.times, saved.gone, saved.rows)

    def fill(self, store: Objects, table: pa.Table) -> None:
        """Fill a store with the objects that were packed."""
        saved = self.unpack(table, store.columns.columns, coded_keys=store.is_coded)
        store.load(saved.keys, saved.times, saved.rows)

    def waiting(self, stream: Stream, table: pa.Table) -> Messages:
        """Messages of a stream that waited."""
        coded = stream.key_type is Type.STRING
        return self.unpack(table, stream.columns, coded_keys=coded)


def _alive(store: Objects) -> Messages:
    """The objects of a store; without copying them where there are no others."""
    size = store.size
    if not store.alive[:size].all():
        return store.messages()
    rows = store.columns.take(slice(size))
    return Messages(store.keys[:size], store.times[:size], np.zeros(size, np.bool_), rows)


def pack_messages(messages: Messages) -> pa.Table:
    """Messages as they are in memory: texts as codes."""
    arrays = [pa.array(messages.keys), pa.array(messages.times), pa.array(messages.gone)]
    for values, nulls in zip(messages.rows.values, messages.rows.nulls, strict=True):
        arrays.append(pa.array(values, mask=nulls if nulls.any() else None))
    return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def unpack_messages(
    table: pa.Table, columns: tuple[Column, ...], dictionary: Dictionary
) -> Messages:
    """Messages that were packed, with the codes of texts that they had then."""
    rows = Columns(columns, dictionary, 0)
    rows.values, rows.nulls = [], []
    for column, chunked in zip(columns, table.columns[3:], strict=True):
        array = chunked.combine_chunks()
        blank = False if column.type is Type.BOOLEAN else 0
        filled = array.fill_null(blank) if array.null_count else array
        rows.values.append(filled.to_numpy(zero_copy_only=False))
        nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        rows.nulls.append(np.zeros(len(array), np.bool_) if nulls is None else nulls)
    keys, times, gone = (table.column(i).to_numpy() for i in range(3))
    return Messages(keys, times, gone, rows)
