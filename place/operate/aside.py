"""What to say of a run that took nothing: why, and what would mend it.

A run in which every row is set aside has most likely one reason, such as a column by another name
or times in another unit. Whoever has started it should see that on the screen, and a script that
has should see that it failed.
"""

from __future__ import annotations

import sys

from place.runtime.durable.manifest import Manifest
from place.runtime.durable.storage import Storage
from place.runtime.intake.check import Rejected
from place.runtime.intake.quarantine import unpack


def nothing_taken(count: int, first: Rejected | str) -> str:
    """The words for a run that set all of its rows aside."""
    rows = "the only row is" if count == 1 else f"all of {count:,} rows are"
    return f"nothing was taken: {rows} set aside. The first: {first}"


def complain(count: int, first: Rejected | str) -> int:
    """Say so on the screen; the code that the command ends with."""
    print(nothing_taken(count, first), file=sys.stderr, flush=True)
    return 1


def set_aside_since(
    storage: Storage, before: Manifest | None, after: Manifest | None
) -> tuple[int, str] | None:
    """How many rows the ticks between two manifests have set aside and why, if they took none."""
    if after is None:
        return None
    taken = aside = 0
    for name, totals in after.totals.items():
        known = before.totals.get(name, {}) if before is not None else {}
        if name:
            taken += totals["readings"] - known.get("readings", 0)
            aside += sum(totals[key] - known.get(key, 0) for key in ("late", "bad"))
    if taken or aside <= 0:
        return None
    first = before.tick + 1 if before is not None else 1
    names = [name for name, _ in storage.list("quarantine")]
    for name in sorted(name for name in names if name >= f"quarantine/{first:012d}"):
        for rejected in unpack(storage.read(name)):
            return aside, str(rejected)
    return aside, next(iter(after.reasons.values()), "it is not known why")
