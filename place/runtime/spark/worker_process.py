"""What a Python process of Spark does beside its work, whatever that is."""

from __future__ import annotations

import gc
import itertools
import sys
import traceback
from typing import Any

_PRINT_EXCEPTION = traceback.print_exc
_TIMES = itertools.count(1)
"""How often this process has done something."""


def hush_broken_pipes() -> None:
    """A process that waits for a task when Spark stops finds its pipe broken: that is no news."""
    traceback.print_exc = _print_but_for_broken_pipes


def _print_but_for_broken_pipes(*arguments: Any, **options: Any) -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        _PRINT_EXCEPTION(*arguments, **options)


def spare_the_collector() -> None:
    """Set what is there aside from garbage collection, after times 1, 2, 4, 8 and so on.

    Modules, compiled kernels and the catalog stay for good, and the collector would look at each
    object of them again and again: Spark's daemon even after every task. That takes longer than a
    small tick. What is let go of later is freed all the same, unless it refers to itself.
    """
    times = next(_TIMES)
    if times & (times - 1) == 0:
        gc.freeze()
