"""Sampling: which readings of a stream an archive takes that does not take all of them.

Of each object every nth reading, the first one among them, or the first reading in each period of
event time, in the order of times. Word that an object disappears is always taken, and so is the
reading with which it comes back. A stream without KEY has no objects, and is archived whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.objects import Objects
from place.kernels.arrays import Longs
from place.kernels.sampling import NONE_YET, sample_readings
from place.model.schema import Stream


@dataclass
class Sampler:
    """Chooses among readings, and remembers what each object has had so far."""

    stream: Stream
    seen: Longs = field(default_factory=lambda: np.full(64, NONE_YET))
    _objects: Objects | None = None

    def take(self, table: pa.Table) -> pa.Table:
        """The readings of a segment that are archived; the segments come in their order."""
        archiving = self.stream.archiving
        is_whole = archiving is None or archiving.is_complete or self.stream.key is None
        if archiving is None or is_whole or not table.num_rows:
            return table
        slots = self._slots(table)
        size = int(slots.max()) + 1
        if size > len(self.seen):
            more = np.full(max(size, 2 * len(self.seen)) - len(self.seen), NONE_YET)
            self.seen = np.concatenate([self.seen, more])
        times = table.column(table.num_columns - 2).to_numpy()
        gone = table.column(table.num_columns - 1).to_numpy(zero_copy_only=False)
        chosen = sample_readings(
            slots, times, gone, archiving.nth, archiving.period or 0, self.seen
        )
        return table.filter(pa.array(chosen == 1))

    def _slots(self, table: pa.Table) -> Longs:
        key = self.stream.key
        assert key is not None
        if self._objects is None:
            self._objects = Objects(self.stream, Dictionary())
        dictionary = self._objects.columns.dictionary
        columns = (self.stream.columns[key],)
        coded = Columns.from_arrow(columns, dictionary, [table.column(key)])
        return self._objects.take_all(coded.values[0].astype(np.int64))
