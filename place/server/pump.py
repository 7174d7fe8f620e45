"""The pump: a thread that makes ticks of what was accepted, as long as there is something."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from place.errors import PlaceError
from place.runtime.interface import DurableRuntime

LOG = logging.getLogger("place.server")
POLL, PATIENCE = 0.2, 5.0
"""Seconds between looks while nothing comes in, and between attempts when ticks fail."""
ATTEMPTS = 3
"""After so many failed attempts, readings are taken file by file, and bad files are set aside."""


class Pump:
    """The thread that runs ticks. While ticks fail, `failure` is the reason."""

    def __init__(
        self, runtime: DurableRuntime, look: Callable[[float], object] | None = None
    ) -> None:
        self._runtime = runtime
        self._look = look
        self._told = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="place-pump", daemon=True)
        self.failure: PlaceError | None = None
        self._failures = 0
        self._began: float | None = None

    @property
    def busy(self) -> float:
        """Seconds for which the tick that is under way has run; 0 where there is none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def start(self) -> None:
        self._thread.start()

    def tell(self) -> None:
        """Wake the thread: there is something to take."""
        self._told.set()

    def stop(self) -> None:
        """Stop after the tick that is under way."""
        self._stopping.set()
        self._told.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._told.wait(POLL)
            self._told.clear()
            try:
                self._turn()
                self.failure, self._failures = self._sources(), 0
            except PlaceError as error:
                if self.failure is None or str(self.failure) != str(error):
                    LOG.error("no tick: %s", error)
                self._fail(error)
            except Exception as error:  # of Spark, or a bug: the server goes on and says so
                LOG.exception("no tick")
                self._fail(PlaceError(f"a tick failed: {error}".partition("\n")[0]))
            finally:
                self._began = None

    def _sources(self) -> PlaceError | None:
        """What keeps a source from being read; pushed readings need not wait for that."""
        try:
            self._runtime.tend()
        except PlaceError as error:
            if self.failure is None or str(self.failure) != str(error):
                LOG.error("a source is not read: %s", error)
            return error
        return None

    def _fail(self, error: PlaceError) -> None:
        self.failure, self._began = error, None
        self._failures += 1
        self._stopping.wait(PATIENCE)

    def _turn(self) -> None:
        self._began = time.monotonic()
        if self._failures and self._failures % ATTEMPTS == 0:
            self._runtime.take_singly()
        while not self._stopping.is_set() and self._runtime.pump() is not None:
            self._began = time.monotonic()
        if self._look is not None and not self._stopping.is_set():
            self._look(time.monotonic())
