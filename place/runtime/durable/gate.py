"""The gate of a home: whoever commits passes through it, and a backup closes it for a moment.

What a process writes before a commit is known to nobody, and may come and go beside a backup. Only
the commits themselves, and the sweeping that follows them, must not happen while it looks at which
files there are. The gate is a lock of the system on a file, so that it holds between processes, and
whoever is killed leaves it open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from place.errors import ConfigurationError
from place.runtime.durable.storage import Storage

FILE = "gate"
POLL = 0.005


class Gate:
    """The gate of a storage; one that is no directory of this machine has none."""

    def __init__(self, storage: Storage) -> None:
        self._path = Path(storage.directory) / FILE if storage.is_local else None

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """Commit something meanwhile. A backup waits for it, and others do not."""
        if self._path is None:
            yield
            return
        with _locked(self._path, fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def closed(self, seconds: float) -> Iterator[None]:
        """Nobody commits meanwhile; an error if a commit under way takes so many seconds."""
        assert self._path is not None
        until = time.monotonic() + seconds
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(_locked(self._path, fcntl.LOCK_EX | fcntl.LOCK_NB))
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise ConfigurationError(
                            f"a tick has been committing for {seconds:g} seconds",
                            hint="nothing was copied; see place status, and try again",
                        ) from None
                    time.sleep(POLL)
            yield


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
