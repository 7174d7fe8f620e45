"""Which readings of an object are archived: every n-th, or the first in each period of event time.

It is decided in the order of times, when readings are complete, so it does not depend on ticks. An
object's first reading is always among them, and so is word that it disappeared, after which it
begins anew.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.model.schema import Archiving, Stream
from place.model.segment import segment_schema
from place.runtime.repository.layout import codes_of

KEY, NUMBER = "key", "number"


class Sampling:
    """What is remembered of each object: how many readings it sent, or the period of its last."""

    def __init__(self, stream: Stream, archiving: Archiving, state: pa.Table | None = None) -> None:
        assert stream.key is not None
        self._key, self._archiving = stream.key, archiving
        kind = segment_schema(stream.columns).field(stream.key).type
        schema = pa.schema([pa.field(KEY, kind), pa.field(NUMBER, pa.int64())])
        self.state = schema.empty_table() if state is None else state.cast(schema)

    def chosen(self, segment: pa.Table) -> pa.Table:
        """Of readings in the order of times those that are archived."""
        if not segment.num_rows:
            return segment
        known = self.state.num_rows
        own = segment.column(self._key)
        codes = codes_of([self.state.column(KEY), own])
        gone = np.concatenate(
            [np.zeros(known, np.bool_), segment.column(segment.num_columns - 1).to_numpy()]
        )
        order = np.argsort(codes, kind="stable")
        codes, is_gone = codes[order], gone[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (codes[1:] != codes[:-1]) | is_gone[1:] | is_gone[:-1]
        times = segment.column(segment.num_columns - 2).to_numpy()
        numbers, chosen = self._judged(times, order, begins, known)
        last = np.ones(len(order), np.bool_)
        last[:-1] = codes[1:] != codes[:-1]
        keys = pa.concat_tables([self.state.select([KEY]), pa.table({KEY: own})])
        staying = order[last & ~is_gone]
        self.state = keys.take(pa.array(staying)).append_column(
            NUMBER, pa.array(numbers[last & ~is_gone])
        )
        kept = np.zeros(len(order), np.bool_)
        kept[order] = chosen | is_gone
        return segment.filter(pa.array(kept[known:]))

    def _judged(
        self,
        times: NDArray[np.int64],
        order: NDArray[np.int64],
        begins: NDArray[np.bool_],
        known: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What is remembered after each row, in the order of objects, and which are archived."""
        before = self.state.column(NUMBER).to_numpy()
        period = self._archiving.period
        if period is not None:
            numbers = np.concatenate([before, times // period])[order]
            chosen = begins.copy()
            chosen[1:] |= numbers[1:] != numbers[:-1]
            return numbers, chosen
        place = np.arange(len(order))
        start = np.maximum.accumulate(np.where(begins, place, 0))
        offset = (
            np.where(order[start] < known, before[np.minimum(order[start], known - 1)], 0)
            if (known)
            else np.zeros(len(order), np.int64)
        )
        # The k-th reading of an object has number k, from 0; what is remembered is the last one's.
        numbers = place - start + offset
        return numbers, numbers % self._archiving.nth == 0
