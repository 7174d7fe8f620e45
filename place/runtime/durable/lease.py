"""The lease of a storage: one process at a time writes to it, and another may take over.

`lease/<epoch>.json` is created only if there is none, so each epoch has one holder, and the highest
epoch counts. The holder writes its lease again every few seconds. Whoever comes second watches it:
if it changes, the holder lives, and the second one is refused; if it has not changed for as long as
the lease lasts, by the watcher's own clock, the next epoch is free to be taken. Nobody compares the
clocks of two machines. At a clean end the lease says that it is released.

Time only decides when somebody may try. That a process which was thought dead changes nothing
afterwards does not depend on clocks: the next holder commits a tick at once, so that the manifest
which the other one would commit is there already (`takeover.py`); and what the other one
acknowledges by other means, it acknowledges only after it has seen that there was no later epoch
when that was durable. Leases are never removed, so that an epoch is never given twice.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Self

from place.errors import ConfigurationError
from place.runtime.durable.storage import Storage, StorageFault, TakenOver

LOG = logging.getLogger("place.lease")
LASTS = 30.0
"""Seconds after which a lease that has not changed may be taken over."""
BEATS = 3
"""How often a lease is written again while it lasts."""
DIRECTORY = "lease"


@dataclass(frozen=True)
class Term:
    """What a lease says. `holder` is the same for all processes of one home directory, of which
    only one can run. `is_fenced` says of one that is released that no earlier holder can commit."""

    epoch: int
    holder: str
    process: str
    seconds: float
    nonce: str
    beat: int = 0
    is_released: bool = False
    is_fenced: bool = False

    @property
    def name(self) -> str:
        return _name_of(self.epoch)

    @property
    def content(self) -> bytes:
        """The lease as it is written."""
        return json.dumps(asdict(self)).encode("utf-8")


class Lease:
    """An epoch of a storage, held until it is released; a thread keeps it alive."""

    def __init__(self, storage: Storage, term: Term, *, needs_fence: bool) -> None:
        self._storage = storage
        self._term = term
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self.needs_fence = needs_fence
        """May a holder before this one, which has not released its lease, only seem dead?"""
        self._thread = threading.Thread(target=self._keep, name="place-lease", daemon=True)
        self._thread.start()

    @classmethod
    def taken(cls, storage: Storage, holder: str, seconds: float | None = None) -> Self:
        """Take the next epoch; a ConfigurationError if somebody else holds the storage."""
        lasts = LASTS if seconds is None else seconds
        while True:
            found = newest(storage)
            is_free = found is None or found.is_released or found.holder == holder
            if not is_free and not _has_run_out(storage, found):
                continue
            epoch = 1 if found is None else found.epoch + 1
            process = f"process {os.getpid()} on {socket.gethostname()}"
            term = Term(epoch, holder, process, lasts, uuid.uuid4().hex)
            if storage.publish(term.name, term.content):
                is_settled = found is None or (found.is_released and found.is_fenced)
                return cls(storage, term, needs_fence=not is_settled)

    @property
    def epoch(self) -> int:
        return self._term.epoch

    def confirm(self) -> None:
        """Raise TakenOver if there is a later epoch. What was durable before this was called, the
        holder of a later one finds when it begins."""
        try:
            is_over = self._storage.exists(_name_of(self.epoch + 1))
        except OSError as error:
            raise StorageFault(
                f"it is not known who has the lease: {error}", hint="try again"
            ) from None
        if is_over:
            raise TakenOver

    def _keep(self) -> None:
        """Write the lease again, until it is released or somebody else has taken over."""
        while not self._ended.wait(self._term.seconds / BEATS):
            try:
                self.confirm()
                with self._writing:
                    if not self._ended.is_set():
                        self._write(replace(self._term, beat=self._term.beat + 1))
            except TakenOver as error:
                LOG.error("%s", error)
                return
            except (OSError, StorageFault) as error:  # it is tried again; others may take over
                LOG.warning("the lease of %s cannot be renewed: %s", self._storage, error)

    def _write(self, term: Term) -> None:
        self._storage.replace(term.name, term.content)
        self._term = term

    def release(self) -> None:
        """Let anybody take the next epoch at once. Nothing may be written after this."""
        with self._writing:
            self._ended.set()
            is_fenced = not self.needs_fence
            try:
                self._write(replace(self._term, is_released=True, is_fenced=is_fenced))
            except (OSError, StorageFault) as error:
                LOG.warning("the lease of %s cannot be released: %s", self._storage, error)
        self._thread.join()


def newest(storage: Storage) -> Term | None:
    """The lease of the highest epoch, if there is any."""
    names = [name for name in storage.names(DIRECTORY) if name.endswith(".json")]
    names = [name for name in names if name.partition(".")[0].isdecimal()]
    if not names:
        return None
    return Term(**json.loads(storage.read(f"{DIRECTORY}/{names[-1]}")))


def _has_run_out(storage: Storage, found: Term | None) -> bool:
    """True when a lease has not changed for as long as it lasts; False if it was released
    meanwhile, or is not the last one any more; an error if it is alive."""
    assert found is not None
    LOG.info(
        "%s is held by %s; it is taken over if it does not change for %g seconds",
        storage,
        found.process,
        found.seconds,
    )
    until = time.monotonic() + found.seconds
    while time.monotonic() < until:
        time.sleep(min(1.0, found.seconds / (4 * BEATS)))
        now = newest(storage)
        if now is None or now.is_released or now.epoch != found.epoch:
            return False
        if now.beat != found.beat:
            raise ConfigurationError(
                f"{storage} is in use by {now.process}",
                hint="stop it first; if it ends in any other way, this one may begin"
                f" {now.seconds:g} seconds later",
            )
    return True


def _name_of(epoch: int) -> str:
    return f"{DIRECTORY}/{epoch:012d}.json"
