"""What to say of a run that took nothing: why, and what would mend it.

A run in which every row is set aside has most likely one reason, such as a column by another name
or times in another unit. Whoever has started it should see that on the screen, and a script that
has should see that it failed.
"""

from __future__ import annotations

import sys

from place.runtime.durable.manifest import Manifest
from place.runtime.intake.check import Rejected
from place.runtime.interface import DurableRuntime


def complain(count: int, first: Rejected) -> int:
    """Say on the screen that all rows were set aside; the code that the command ends with."""
    rows = "the only row is" if count == 1 else f"all of {count:,} rows are"
    text = f"nothing was taken: {rows} set aside. The first: {first}"
    print(text, file=sys.stderr, flush=True)
    return 1


class SetAside:
    """Looks at the ticks of a runtime from now on for rows that they set aside."""

    def __init__(self, runtime: DurableRuntime) -> None:
        self._runtime = runtime
        self._before = runtime.last
        self._first: Rejected | None = None
        runtime.watch(self._look)

    def _look(self, manifest: Manifest) -> None:
        if self._first is None and manifest.quarantine:
            self._first = next(iter(self._runtime.quarantined(manifest)), None)

    def lost(self) -> tuple[int, Rejected] | None:
        """How many rows were set aside, and the first of them, if nothing else was taken."""
        self._runtime.unwatch(self._look)
        after = self._runtime.last
        if after is None or self._first is None:
            return None
        taken = aside = 0
        for name, totals in after.totals.items():
            known = self._before.totals.get(name, {}) if self._before is not None else {}
            if name:
                taken += totals["readings"] - known.get("readings", 0)
                aside += sum(totals[key] - known.get(key, 0) for key in ("late", "bad"))
        return None if taken or aside <= 0 else (aside, self._first)
