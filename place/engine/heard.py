"""Readings as windows of joins and triggers take them: all of a stream, in the order of times and
keys, whatever row of cells their objects belong to."""

from __future__ import annotations

import numpy as np

from place.engine.columns import Dictionary
from place.engine.objects import Messages
from place.engine.tick import Due
from place.kernels.arrays import Longs
from place.model.schema import Stream
from place.model.types import Type


def readings_in_order(due: Due, stream: Stream, dictionary: Dictionary) -> Due:
    """The readings among messages in the order of times and keys; of those with one key and time
    only the last, which may say that the object is gone."""
    messages, instants = due
    keys = key_ranks(messages, stream, dictionary)
    if not messages.gone.any() and _is_ascending(messages.times, keys):
        return due
    order = np.lexsort((keys, messages.times))
    times, keys = messages.times[order], keys[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (times[1:] != times[:-1]) | (keys[1:] != keys[:-1])
    kept = order[last & ~messages.gone[order]]
    return messages.take(kept), instants[kept]


def _is_ascending(times: Longs, keys: Longs) -> bool:
    """Is each reading later than the one before, or as late and of a greater key?"""
    later = times[1:] > times[:-1]
    return bool((later | ((times[1:] == times[:-1]) & (keys[1:] > keys[:-1]))).all())


def key_ranks(messages: Messages, stream: Stream, dictionary: Dictionary) -> Longs:
    """The keys of messages as numbers that have their order: texts by their place among all."""
    is_text = stream.key is not None and stream.key_type is Type.STRING
    return dictionary.ranks()[messages.keys] if is_text else messages.keys
