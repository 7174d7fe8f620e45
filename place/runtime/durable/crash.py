"""Named points at which a test may kill the process, to see that nothing is lost or doubled.

`PLACE_CRASH_AT=point:tick` names one; without it, and that is everywhere but in those tests, a
point does nothing.
"""

from __future__ import annotations

import os
import signal
import time

VARIABLE = "PLACE_CRASH_AT"
OFTEN = "PLACE_SAVE_OFTEN"
"""With this variable cells save their states after each tick."""
POINTS = ("state", "saved", "outbox", "manifest", "commit", "delivery", "sweep")
"""Before and after a state is written, beside the ticks; before the outbox, before the manifest,
after it and before Spark's own commit, in the middle of a delivery, and in the middle of the
sweep."""
FEED = "feed"
"""After the tick of a feed's messages, and before they are acknowledged."""
RESCALE_POINTS = ("rescale", "rescaled")
"""Before and after the manifest that gives a home other cells."""
CELL = "cell"
"""A point that ends not the driver but a cell, when it is first asked to run the tick."""
ANSWER = "answer"
"""A point that ends a cell when it is first asked to put together what cells found in the tick."""


def point(name: str, tick: int, process: int | None = None) -> None:
    """Kill the process (this one, if none is given) if this is the point that is asked for."""
    if os.environ.get(VARIABLE) == f"{name}:{tick}":
        os.kill(os.getpid() if process is None else process, signal.SIGKILL)
        time.sleep(60)  # a worker outlives the process that it works for by a moment
