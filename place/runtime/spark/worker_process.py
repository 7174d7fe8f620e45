"""What a Python process of Spark does beside its work, whatever that is."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import sys
import traceback
from typing import Any

_PRINT_EXCEPTION = traceback.print_exc
LARGEST_BLOCK, FREE_BYTES, GROWTH = 256 << 20, 512 << 20, 64 << 20
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
"""The numbers of options in malloc.h."""
_TIMES = itertools.count(1)
"""How often this process has done something."""


def hush_broken_pipes() -> None:
    """A process that waits for a task when Spark stops finds its pipe broken: that is no news."""
    traceback.print_exc = _print_but_for_broken_pipes


def _print_but_for_broken_pipes(*arguments: Any, **options: Any) -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        _PRINT_EXCEPTION(*arguments, **options)


def keep_large_blocks() -> None:
    """Have the memory of large arrays used again instead of returned to the system.

    A tick of a million objects makes some fifty arrays of 8 to 20 MB. By default the C library
    returns each of them and gets pages of zeros for the next, which took a quarter of such a tick.
    What is kept so is at most `FREE_BYTES` above what is in use. Other C libraries are as they are.
    """
    with contextlib.suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, LARGEST_BLOCK)
        set_option(_TRIM_THRESHOLD, FREE_BYTES)
        set_option(_TOP_PAD, GROWTH)
        set_option(_ARENA_MAX, 1)  # those of threads hold no large blocks


def spare_the_collector() -> None:
    """Set what is there aside from garbage collection, after times 1, 2, 4, 8 and so on.

    Modules, compiled kernels and the catalog stay for good, and the collector would look at each
    object of them again and again: Spark's daemon even after every task. That takes longer than a
    small tick. What is let go of later is freed all the same, unless it refers to itself.
    """
    times = next(_TIMES)
    if times & (times - 1) == 0:
        gc.freeze()
