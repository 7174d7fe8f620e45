"""Readings that were acknowledged and could not become a tick: set aside, and put back.

Their file stays in the ingest log under a name that no tick looks for. `place retry` gives it
another one, and the process that runs on the home, or the next one, takes it up as if its readings
had just come.
"""

from __future__ import annotations

from place.runtime.durable.storage import Storage

DIRECTORY = "ingest"
FAILED, RETRY = ".failed", ".retry"
"""How the names end of files that are set aside, and of those that are put back."""


def number_of(name: str) -> int:
    """The number of a file of the ingest log, by its name."""
    return int(name.rpartition("/")[2].lstrip(".").partition(".")[0].partition("-")[0])


def set_aside(log: Storage) -> list[str]:
    """The files that are set aside, in their order."""
    return [f"{DIRECTORY}/{n}" for n in log.names(DIRECTORY) if n.endswith(FAILED)]


def put_back(log: Storage) -> list[str]:
    """Let all that are set aside be taken up again; their names."""
    found = set_aside(log)
    for name in found:
        log.move(name, name.removesuffix(FAILED) + RETRY)
    return found
