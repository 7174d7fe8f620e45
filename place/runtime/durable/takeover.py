"""Whose storage it is, and how one process goes on where another stopped.

A home directory is its own storage, and its lock says who runs on it. A storage elsewhere can be
reached from several home directories, also of other machines: it says itself which home it is of
(`place.json`), who holds it (`lease.py`) and what its statements are (`statement_log.py`). A new
home directory takes all of that from the storage.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from place.errors import ConfigurationError, PlaceError
from place.runtime.durable import manifest as manifests
from place.runtime.durable.address import shown
from place.runtime.durable.home import ABOUT, FORMAT, Home
from place.runtime.durable.lease import Lease
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.storage import Storage

HOLDER = "holder"
"""The fact about a home directory by which its processes are known as holders of leases."""


def root_of(home: Home, asked: str | None) -> str | None:
    """Where the storage of a home is, if it is elsewhere: as it is asked for, or as the home
    remembers it. A store may be reached by another address than before."""
    itself = str(home.directory.absolute())
    known = home.about.get("storage") or itself
    wanted = str(known if asked is None else asked)
    if "://" not in wanted:
        wanted = str(Path(wanted).absolute())
    if "cells" in home.about and shown(wanted) != shown(known):
        place = "the home itself" if known == itself else shown(known)
        raise ConfigurationError(f"the storage of this home is {place}, not {shown(wanted)}")
    return wanted if wanted != itself else None


def held(home: Home, root: str, cells: list[int] | None) -> tuple[Storage, Lease]:
    """A storage elsewhere, under a lease, and of this home. A home directory in which nothing has
    been yet becomes that of the storage."""
    storage = Storage(root)
    check_identity(home, storage)  # before anybody waits
    if HOLDER not in home.about:
        home.remember(**{HOLDER: uuid.uuid4().hex})
    lease = Lease.taken(storage, home.about[HOLDER])
    try:
        _identify(home, storage, cells)
        home.remember(storage=root)
    except BaseException:
        lease.release()
        raise
    return Storage(root, lease.epoch), lease


@contextmanager
def storage_of(home: Home, asked: str | None) -> Iterator[tuple[Storage, Lease | None]]:
    """Where a home's files are; under a lease, if that is not the home directory."""
    root = root_of(home, asked)
    if root is None:
        yield Storage(str(home.directory.absolute())), None
        return
    storage, lease = held(home, root, None)
    try:
        yield storage, lease
    finally:
        lease.release()


def identity_of(storage: Storage) -> dict[str, Any] | None:
    """What a storage says of the home that it is of, if it says anything."""
    try:
        about: dict[str, Any] = json.loads(storage.read(ABOUT))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{storage} cannot be read: {error}") from None
    if about.get("format") != FORMAT or about.get("kind") != "pipeline":
        raise ConfigurationError(
            f"{storage} has format {about.get('format')}, this version of PLACE reads {FORMAT}"
        )
    return about


def check_identity(home: Home, storage: Storage) -> dict[str, Any] | None:
    """What a storage says of its home; an error if that is not this one."""
    found = identity_of(storage)
    if found is not None and "cells" in home.about and found["id"] != home.about["id"]:
        raise ConfigurationError(
            f"{storage} belongs to another home than {home.directory}",
            hint="open it with a home directory that is new, or with its own",
        )
    return found


def _identify(home: Home, storage: Storage, cells: list[int] | None) -> None:
    """Let the storage say whose it is, or the home directory be that of the storage."""
    found = check_identity(home, storage)
    if found is None:
        ticks = manifests.ticks(storage)
        if ticks and manifests.load(storage, ticks[-1]).home != home.about["id"]:
            raise ConfigurationError(
                f"the statements of {storage} are in the home directory that it was made with",
                hint="open it there once, with this version of PLACE",
            )
        known = home.about.get("cells") or cells or [1, 1]
        about = {"format": FORMAT, "kind": "pipeline", "id": home.about["id"], "cells": known}
        storage.publish(ABOUT, json.dumps(about).encode("utf-8"))
    else:
        home.remember(id=found["id"], cells=found["cells"])


def fence(storage: Storage, home_id: str, cells: str) -> Manifest:
    """Commit a tick in which nothing happens, after the last one.

    A process that held the storage before, and only seemed dead, goes on from an earlier tick: the
    manifest that it would commit is there already. If it is faster by one, that tick counts, and
    this one comes after it.
    """
    while True:
        known = manifests.ticks(storage)
        if known:
            last = after(manifests.load(storage, known[-1]))
        else:
            last = Manifest(1, home_id, 0, cells, {})
        attempt = uuid.uuid4().hex[:8]
        last = replace(last, attempt=attempt, epoch=storage.epoch, written=time.time())
        if manifests.try_publish(storage, last):
            return last


def after(last: Manifest) -> Manifest:
    """The manifest of a tick in which nothing happens."""
    nothing: Mapping[str, float] = {}
    return replace(
        last,
        tick=last.tick + 1,
        outbox=(),
        quarantine=(),
        inputs=(),
        metrics=nothing,
        format=manifests.FORMAT,
    )


def cells_of(storage: Storage) -> list[int] | None:
    """The rows and columns of the cells of a home, as its last manifest says; None before any."""
    known = manifests.ticks(storage)
    if not known:
        return None
    return [int(part) for part in manifests.load(storage, known[-1]).cells.split("x")]


def known_cells(directory: Path | None, root: str | None = None) -> tuple[int, int]:
    """The rows and columns of the cells that a home, or the storage of a new one, was made with;
    one of each if neither says.

    What is wrong with a home is said when it is opened.
    """
    try:
        path = directory / ABOUT if directory is not None else None
        about = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
        if "cells" not in about and root is not None:
            about = identity_of(Storage(root)) or {}
        place = root or about.get("storage") or (None if directory is None else str(directory))
        found = _cells_said(place) if place is not None and about else None
        rows, columns = found or about.get("cells") or (1, 1)
        return int(rows), int(columns)
    except (OSError, ValueError, TypeError, AttributeError, PlaceError):
        return 1, 1


def _cells_said(root: str) -> list[int] | None:
    """The cells as the last manifest says, if it can be read."""
    try:
        return cells_of(Storage(root))
    except (OSError, PlaceError):
        return None
