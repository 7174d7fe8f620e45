"""From segments, which are Arrow tables, to messages, as the engine keeps them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.objects import Messages
from place.model.schema import Stream


def messages_of(stream: Stream, table: pa.Table, dictionary: Dictionary) -> Messages:
    """The messages of a segment; those of a stream without KEY have yet to be numbered."""
    rows = Columns.from_arrow(stream.columns, dictionary, table.columns[:-2])
    return Messages(
        np.zeros(table.num_rows, np.int64)
        if stream.key is None
        else rows.values[stream.key].astype(np.int64),
        table.column(table.num_columns - 2).to_numpy(),
        table.column(table.num_columns - 1).to_numpy(),
        rows,
    )
