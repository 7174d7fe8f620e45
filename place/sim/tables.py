"""The readings of one step of a generator as an Arrow table, for files and for the pipeline."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from place.sim.generator import Generator, Report


def report_table(
    generator: Generator, report: Report, before: Report | None, time: int
) -> pa.Table:
    """The readings of a step at a time (microseconds), preceded by the disappearances.

    An object that arrived in the step `before` disappears in this one: its row has an id, a time,
    and `gone`.
    """
    lost = np.empty(0, np.int64) if before is None else before.keys[before.gone]
    names = pa.array([kind.name for kind in generator.classes])
    kinds = pa.DictionaryArray.from_arrays(pa.array(report.codes), names).cast(pa.string())
    many = len(lost) + len(report.keys)

    def after_lost(values: pa.Array) -> pa.Array:
        return pa.concat_arrays([pa.nulls(len(lost), values.type), values]) if len(lost) else values

    return pa.table(
        {
            "id": np.concatenate([lost, report.keys]),
            "x": after_lost(pa.array(report.xs)),
            "y": after_lost(pa.array(report.ys)),
            "time": np.full(many, time),
            "type": after_lost(kinds),
            "speed": after_lost(pa.array(report.speeds)),
            "gone": np.arange(many) < len(lost),
        }
    )
