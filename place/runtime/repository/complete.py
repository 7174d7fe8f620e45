"""Readings that are complete: in time, and in the order of times.

Readings wait until nothing more can come before them. Then they have their final order, gaps are
filled where the stream asks for it, and those that the archive does not keep are left out. So what
is archived does not depend on ticks. All that is remembered is a state that can be saved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from place.engine.columns import Dictionary
from place.engine.missing import Gaps
from place.engine.objects import Messages
from place.engine.segment_messages import messages_of
from place.engine.slices import Segment, Told, in_order
from place.model.clock import Clock
from place.model.schema import Stream
from place.model.segment import segment_schema
from place.runtime.repository.layout import Layout
from place.runtime.repository.sampling import Sampling

CLOCK, WAITING, KNOWN, SAMPLED = "clock", "waiting", "known", "sampled"


class Completing:
    """The readings of one stream on their way to the archive."""

    def __init__(self, stream: Stream, state: Mapping[str, pa.Table] | None = None) -> None:
        self.stream = stream
        self.layout = Layout(stream)
        self.clock = Clock(stream.lateness)
        self._schema = segment_schema(stream.columns)
        self._waiting: list[pa.Table] = []
        self._late: list[pa.Table] = []
        state = state or {}
        if CLOCK in state:
            saved = json.loads(state[CLOCK].column(0)[0].as_py())
            self.clock.closed, self.clock.parts = saved["closed"], saved["parts"]
        if WAITING in state:
            self._waiting.append(state[WAITING])
        archiving = stream.archiving
        assert archiving is not None
        self._sampling = (
            None
            if archiving.is_complete or stream.key is None
            else Sampling(stream, archiving, state.get(SAMPLED))
        )
        self._gaps = Gaps.empty(stream, Dictionary()) if stream.fills_gaps else None
        if self._gaps is not None and KNOWN in state:
            self._gaps.known.change(self._messages(state[KNOWN]))

    def state(self) -> dict[str, pa.Table]:
        """All that is remembered."""
        about = {"closed": self.clock.closed, "parts": self.clock.parts}
        found = {CLOCK: pa.table({"clock": [json.dumps(about)]})}
        if self._waiting:
            found[WAITING] = pa.concat_tables(self._waiting).combine_chunks()
        if self._sampling is not None:
            found[SAMPLED] = self._sampling.state
        if self._gaps is not None:
            size = self._gaps.known.size
            slots = np.flatnonzero(self._gaps.known.alive[:size])
            known = self._gaps.known
            found[KNOWN] = self._table(
                Messages(
                    known.keys[slots],
                    known.times[slots],
                    np.zeros(len(slots), np.bool_),
                    known.columns.take(slots),
                )
            )
        return found

    def take(self, told: Sequence[Told], started: int | None = None) -> None:
        """One tick, as cells take it; `started` is the time that a query over several streams may
        have given to this one, before it sent anything."""
        name = self.stream.name
        mine = [i for i in told if isinstance(i, Segment) and i.stream == name and i.table.num_rows]
        if any(item.part for item in mine):
            self.clock.meet({item.part for item in mine if item.part})
        for item in in_order(told):
            if isinstance(item, Segment):
                if item.stream == name:
                    self._hear(item)
            elif item.stream in (None, name):
                self.clock.advance(item.time)
        if self.clock.closed is None:
            self.clock.closed = started

    def _hear(self, segment: Segment) -> None:
        table = segment.table
        times = table.column(table.num_columns - 2).to_numpy()
        in_time = self.clock.tell_all(times, segment.part)
        if not in_time.all():
            self._late.append(_plain(table.filter(pa.array(~in_time)), self._schema))
            table = table.filter(pa.array(in_time))
        if table.num_rows:
            self._waiting.append(_plain(table, self._schema))

    def late(self) -> list[pa.Table]:
        """The readings that came too late and were not given before, as segments."""
        found, self._late = self._late, []
        return found

    def completed(self) -> pa.Table | None:
        """The readings that are complete by now and were not given before, as rows."""
        ready = self.ready()
        if ready is None:
            return None
        times = ready.column(ready.num_columns - 2).to_numpy()
        first = np.ones(len(times), np.bool_)
        first[1:] = times[1:] != times[:-1]
        place = np.arange(len(times))
        sequence = place - np.maximum.accumulate(np.where(first, place, 0))
        return self.layout.rows(ready, sequence.astype(np.int32))

    def ready(self) -> pa.Table | None:
        """The same as a segment."""
        closed = self.clock.closed
        if not self._waiting or closed is None:
            return None
        waiting = pa.concat_tables(self._waiting)
        times = waiting.column(waiting.num_columns - 2).to_numpy()
        is_ready = times <= closed
        if not is_ready.any():
            self._waiting = [waiting]
            return None
        if is_ready.all():
            ready, self._waiting = waiting, []
        else:
            ready = waiting.filter(pa.array(is_ready))
            self._waiting = [waiting.filter(pa.array(~is_ready)).combine_chunks()]
        times = ready.column(ready.num_columns - 2).to_numpy()
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            ready, times = ready.take(pa.array(order)), times[order]
        if self._gaps is not None:
            self._gaps.hear(self._messages(ready))
            filled = self._gaps.release(closed)
            assert filled is not None
            ready = self._table(filled)
        return ready if self._sampling is None else self._sampling.chosen(ready)

    def _messages(self, segment: pa.Table) -> Messages:
        assert self._gaps is not None
        return messages_of(self.stream, segment, self._gaps.known.columns.dictionary)

    def _table(self, messages: Messages) -> pa.Table:
        """Messages as a segment."""
        columns = [
            messages.rows.array(index, slice(None)) for index in range(len(self.stream.columns))
        ]
        arrays = [
            column.cast(field.type) for column, field in zip(columns, self._schema, strict=False)
        ]
        arrays += [pa.array(messages.times), pa.array(messages.gone)]
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A segment of its own memory, with plain texts: files of the log may go."""
    return table.cast(schema).take(pa.array(np.arange(table.num_rows)))
