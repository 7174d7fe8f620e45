"""What Java, and the Python processes behind it, write on their console: lines of our log.

They would write on ours. When this process ends, or is killed, they find their connections broken
and say so with long stacks: of no use to anybody, and past all that is ever read. So what they
write comes through a pipe that ends with us. An error is one line; the stack below it is there
for those who log everything.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Iterator

LOG = logging.getLogger("place.spark")
PATIENCE = 2.0
"""Seconds for the last lines of a Java that did not start."""

_BESIDE = ("Caused by:", "Traceback", "Suppressed:", "BrokenPipeError:")
_hushed = threading.Event()


@contextlib.contextmanager
def taken_down() -> Iterator[int]:
    """A descriptor for a process to write its errors to; given away when this ends."""
    reading, writing = os.pipe()
    thread = threading.Thread(target=_read, args=(reading,), name="place-console", daemon=True)
    thread.start()
    _hushed.clear()
    atexit.register(hush)
    try:
        yield writing
    except BaseException:
        os.close(writing)
        thread.join(PATIENCE)
        raise
    os.close(writing)


def hush() -> None:
    """Spark is about to end: what it says of that is no news."""
    _hushed.set()


def _read(descriptor: int) -> None:
    with open(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = line.rstrip()
            if text and not _hushed.is_set():
                LOG.log(level_of(text), "%s", text)


def level_of(line: str) -> int:
    """How much a line is worth: what is indented, or names a cause, belongs to one before it. A
    Python process that Spark lets go of finds its pipe broken, which is no news.

    >>> [level_of(line) for line in ("ERROR Task: failed", "  at java.base", "WARN Utils: hm")]
    [40, 10, 30]
    """
    if line[0].isspace() or line.startswith(_BESIDE):
        return logging.DEBUG
    return logging.WARNING if line.startswith("WARN") else logging.ERROR
