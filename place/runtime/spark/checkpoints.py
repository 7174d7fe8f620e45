"""Spark's own checkpoints of sources: on this machine, and copied to a storage that is elsewhere.

Spark writes down what a batch will read before it runs it. In a home directory that is its own
storage nothing more is needed. Where another machine may take over, it has to find the same: the
files that Spark has written are copied to the storage before the tick of the batch is committed,
each once, since Spark never changes one. A batch that was copied and not committed is run again as
it was planned; one that was committed is known by the manifest. Each epoch has copies of its own,
so that a process which was taken over cannot spoil those of the next.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from place.runtime.durable.lease import Lease
from place.runtime.durable.manifest import Mark
from place.runtime.durable.storage import Storage, digest

DIRECTORY = "checkpoints"
ORDER = ("metadata", "state", "sources", "offsets", "commits")
"""Whatever of a checkpoint is copied, all that it stands on has been copied before it."""
AT_ONCE = 8
"""Files that are copied at the same time."""


class Checkpoints:
    """Where Spark keeps the checkpoints of sources, each of which has a label."""

    def __init__(self, storage: Storage, home: Path, lease: Lease | None) -> None:
        self._storage = storage
        self._home = home
        self._lease = lease
        self._copied: dict[str, set[str]] = {}
        self._swept: set[str] = set()

    def location(self, label: str, mark: Mark | None) -> str:
        """The directory for Spark. What the last tick of a source says of it is there: in a
        storage that is elsewhere it is taken from the copies, when it is first asked for."""
        if self._lease is None:
            return f"{self._storage.directory}/{DIRECTORY}/{digest(label)}"
        local = self._local(label)
        if label not in self._copied:
            self._copied[label] = set()
            shutil.rmtree(local, ignore_errors=True)
            if mark is not None:
                self._fetch(label, mark.epoch)
        return str(local)

    def _fetch(self, label: str, epoch: int) -> None:
        source, local = _copy_of(label, epoch), self._local(label)
        names = [name for name, _ in self._storage.list(source) if name.startswith(f"{source}/")]

        def fetch(name: str) -> None:
            path = local / name.removeprefix(f"{source}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._storage.read(name))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(fetch, names))

    def save(self, label: str) -> None:
        """Copy what Spark has written of a source since the last time, durable when this
        returns."""
        if self._lease is None:
            return
        local, copied, target = self._local(label), self._copied[label], self._target(label)
        if copied and label not in self._swept:  # so a tick with copies of this epoch is committed
            self._sweep(label)
        there = dict(_files(local))
        for part in ORDER:
            fresh = [name for name in there if name not in copied and name.split("/")[0] == part]

            def copy(name: str) -> None:
                self._storage.replace(f"{target}/{name}", there[name].read_bytes())

            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(copy, fresh))
            copied.update(fresh)
        for name in [name for name in copied if name not in there]:
            self._storage.remove(f"{target}/{name}")
            copied.discard(name)

    def _sweep(self, label: str) -> None:
        """Remove the copies of earlier epochs."""
        assert self._lease is not None
        self._swept.add(label)
        first = _copy_of(label, 0)
        names = [name for name, _ in self._storage.list(DIRECTORY) if name.startswith(first)]
        self._lease.confirm()
        for name in names:
            if not name.startswith(f"{self._target(label)}/"):
                self._storage.remove(name)

    def _local(self, label: str) -> Path:
        return self._home / DIRECTORY / digest(label)

    def _target(self, label: str) -> str:
        return _copy_of(label, self._storage.epoch)


def _copy_of(label: str, epoch: int) -> str:
    """The directory of an epoch's copies; that of none is where Spark itself once wrote."""
    return f"{DIRECTORY}/{digest(label)}-{epoch}" if epoch else f"{DIRECTORY}/{digest(label)}"


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    """The finished files below a directory, by their names in it."""
    for parent, _, names in os.walk(directory):
        for name in names:
            path = Path(parent) / name
            if not name.startswith("."):
                yield path.relative_to(directory).as_posix(), path
