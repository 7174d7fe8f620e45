"""What went wrong in a cell or a task, in the words of whoever raised it there.

An error of Python comes back as text: the traceback and, from Spark, tracebacks of Java around it.
"""

from __future__ import annotations

import re

from place.errors import ConfigurationError, PlaceError
from place.runtime.durable.storage import Damaged, StorageFault, StorageFull

FROM_STORAGE = r"(OSError|IOError|PermissionError|BlockingIOError|InterruptedError)\b"
"""What Python raises when a disk or a store does not work."""


def failure_of(text: str) -> PlaceError:
    """What went wrong there, in the words of whoever raised it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        for kind in (StorageFull, StorageFault, Damaged, ConfigurationError):
            mark = f"{kind.__module__}.{kind.__name__}: "
            if mark in line:
                message, _, hint = line.partition(mark)[2].partition("; ")
                return kind(message, hint=hint or None)
        if "No space left on device" in line:
            return StorageFull("no space left on the disk", hint="free some space and start again")
    # What Python raised stands at the start of a line, with its name; the rest is where it was.
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b.*: ", line[:1000])]
    told = raised[-1] if raised else lines[0] if lines else "Spark does not say why"
    if re.match(FROM_STORAGE, told):
        return StorageFault(f"the tick failed: {told}", hint="look at the disk or the store")
    return ConfigurationError(f"the tick failed: {told}")
