"""Which readings of an object are archived: every n-th, or the first in each period of event time.

It is decided in the order of times, when readings are complete, so it does not depend on ticks. An
object's first reading is always among them, and so is word that it disappeared, after which it
begins anew.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.model.schema import Archiving
from place.runtime.repository.layout import Layout, codes_of

KEY, NUMBER = "key", "number"


class Sampling:
    """What is remembered of each object: how many readings it sent, or the period of its last."""

    def __init__(self, layout: Layout, archiving: Archiving, state: pa.Table | None = None) -> None:
        self._layout, self._archiving = layout, archiving
        assert layout.key is not None
        kind = layout.schema.field(layout.key).type
        schema = pa.schema([pa.field(KEY, kind), pa.field(NUMBER, pa.int64())])
        self.state = schema.empty_table() if state is None else state.cast(schema)

    def chosen(self, rows: pa.Table) -> pa.Table:
        """Of rows in the order of times those that are archived."""
        if not rows.num_rows:
            return rows
        known = self.state.num_rows
        codes = codes_of([self.state.column(KEY), rows.column(self._layout.key)])
        gone = np.concatenate(
            [np.zeros(known, np.bool_), rows.column(self._layout.gone).to_numpy()]
        )
        order = np.argsort(codes, kind="stable")
        codes, is_gone = codes[order], gone[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (codes[1:] != codes[:-1]) | is_gone[1:] | is_gone[:-1]
        numbers, chosen = self._judged(rows, order, begins, known)
        last = np.ones(len(order), np.bool_)
        last[:-1] = codes[1:] != codes[:-1]
        keys = pa.concat_tables(
            [self.state.select([KEY]), rows.select([self._layout.key]).rename_columns([KEY])]
        )
        staying = order[last & ~is_gone]
        self.state = keys.take(pa.array(staying)).append_column(
            NUMBER, pa.array(numbers[last & ~is_gone])
        )
        kept = np.zeros(len(order), np.bool_)
        kept[order] = chosen | is_gone
        return rows.filter(pa.array(kept[known:]))

    def _judged(
        self, rows: pa.Table, order: NDArray[np.int64], begins: NDArray[np.bool_], known: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What is remembered after each row, in the order of objects, and which are archived."""
        before = self.state.column(NUMBER).to_numpy()
        period = self._archiving.period
        if period is not None:
            times = self._layout.times(rows) // period
            numbers = np.concatenate([before, times])[order]
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
