"""Memory that was freed, and goes back to the system.

The C library and Arrow keep what is freed for the next who asks, which is right from tick to tick.
After work that seldom comes and takes much more than a tick, they would keep it for good.
"""

from __future__ import annotations

import contextlib
import ctypes

import pyarrow as pa


def give_back() -> None:
    """Return to the system what nobody uses. That takes milliseconds, so not in every tick. Other C
    libraries than GNU's decide for themselves."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
