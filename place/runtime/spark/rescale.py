"""Another number of cells for a home: a tick in which nothing happens but that states are others.

The cells of the home are brought to its last tick, one after the other, and what they hold is
written down. From all of it the states of the new cells are made. The manifest that names them is
the commit: whatever ends the process before it leaves the old home, and after it there is the new
one. No Spark is needed.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from place.engine.matrix import Matrix, Place
from place.engine.rescale import SavedCell, rescaled
from place.errors import ConfigurationError
from place.plan.catalog import Catalog
from place.runtime.durable import manifest as manifests
from place.runtime.durable.crash import point
from place.runtime.durable.home import ABOUT, Home
from place.runtime.durable.lease import Lease
from place.runtime.durable.manifest import Manifest, Saved
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.run_files import DIRECTORY as STORE
from place.runtime.durable.statement_log import follow
from place.runtime.durable.storage import Storage
from place.runtime.durable.takeover import after, cells_of, fence, storage_of
from place.runtime.spark.catalogs import Catalogs, read_tables
from place.runtime.spark.requests import Restore
from place.runtime.spark.standing_cell import StandingCell
from place.runtime.spark.tick_log import TickLog
from place.runtime.store import CatalogStore

Report = Callable[[str], object]
"""Is told what is done, a line for each thing."""


def rescale(directory: Path, root: str | None, matrix: Matrix, report: Report) -> Manifest | None:
    """Give a home other cells; the manifest that says so, None where no tick has been yet."""
    if not (directory / ABOUT).exists():
        raise ConfigurationError(
            f"{directory} is not a home directory of PLACE: it has no {ABOUT}",
            hint="name the directory that was given to --home or connect()",
        )
    home = Home(directory, "pipeline")
    try:
        with storage_of(home, root) as (storage, lease):
            store = CatalogStore(directory)
            try:
                return _Rescale(home, storage, lease, store, matrix, report).run()
            finally:
                store.close()
    finally:
        home.close()


class _Rescale:
    def __init__(
        self,
        home: Home,
        storage: Storage,
        lease: Lease | None,
        store: CatalogStore,
        matrix: Matrix,
        report: Report,
    ) -> None:
        self._home, self._storage, self._lease = home, storage, lease
        self._store, self._matrix, self._report = store, matrix, report

    def run(self) -> Manifest | None:
        """Do it."""
        wanted = [self._matrix.rows, self._matrix.columns]
        known = cells_of(self._storage) or self._home.about.get("cells") or [1, 1]
        if known == wanted:
            raise ConfigurationError(
                f"the home has {wanted[0]}x{wanted[1]} cells already",
                hint="there is nothing to do",
            )
        old = Matrix(*known)
        if self._lease is not None and self._lease.needs_fence:
            fence(self._storage, self._home.about["id"], f"{old.rows}x{old.columns}")
            self._lease.needs_fence = False
        ticks = manifests.ticks(self._storage)
        if not ticks:
            self._home.remember(cells=wanted)
            self._report("no tick has been yet: there is nothing to move")
            return None
        last = manifests.load(self._storage, ticks[-1])
        if self._lease is not None:
            follow(self._store, self._storage, last, self._lease)
        made = self._commit(last, self._states(last, old))
        for name, _ in list(self._storage.list(STORE)):  # all objects are in the states now
            self._storage.remove(name)
        self._home.remember(cells=wanted)
        self._report(
            f"the home has {wanted[0]}x{wanted[1]} cells from tick {made.tick} on, instead of"
            f" {old.rows}x{old.columns}"
        )
        return made

    def _states(self, last: Manifest, old: Matrix) -> dict[str, Saved]:
        """The states of the new cells after a tick that comes after the last one."""
        log = TickLog(self._storage, last)
        catalogs, catalog = Catalogs(self._storage), Catalog()
        for known in self._store.versions(log.versions):
            catalogs.share(known)
            catalog = known if known.version == last.catalog else catalog
        drafts: list[tuple[Place, str]] = []
        states: dict[str, Saved] = {}
        try:
            for number, place in enumerate(old.places()):
                drafts.append((place, self._draft(last, place, log, catalogs)))
                self._report(f"cell {number + 1} of {len(old.places())} is read")
            cells = [
                SavedCell(place, load_pack(self._storage, file).tables) for place, file in drafts
            ]
            tables = read_tables(self._storage, catalog)
            for number, place in enumerate(self._matrix.places()):
                state = rescaled(cells, place, catalog, tables)
                name = f"{place.row}-{place.column}"
                token = manifests.token_of(last.tick + 1, uuid.uuid4().hex[:8])
                file = f"state/{name}/{token}-{os.getpid():x}.arrow"
                size = self._storage.write(file, lambda out, s=state: write_tables(out, s))  # type: ignore[misc]
                states[name] = Saved(file, last.tick + 1, last.catalog, size)
                count = len(self._matrix.places())
                self._report(f"cell {number + 1} of {count} is written ({size:,} bytes)")
        finally:
            for _, file in drafts:
                self._storage.remove(file)
        return states

    def _draft(self, last: Manifest, place: Place, log: TickLog, catalogs: Catalogs) -> str:
        """What a cell holds after the last tick, in a file that is removed again."""
        cell = StandingCell(self._storage, place, 1)
        request = Restore(last.token, *log.since(cell.name))
        cell.answer(request, catalogs.updates((), *request.versions), is_first=False)
        state = cell.state()
        file = f"state/rescale/{uuid.uuid4().hex}.arrow"
        self._storage.write(file, lambda out: write_tables(out, state), lasts=False)
        return file

    def _commit(self, last: Manifest, states: Mapping[str, Saved]) -> Manifest:
        made = replace(
            after(last),
            cells=f"{self._matrix.rows}x{self._matrix.columns}",
            states=states,
            older={},
            attempt=uuid.uuid4().hex[:8],
            epoch=self._storage.epoch,
            written=time.time(),
        )
        point("rescale", made.tick)
        if self._lease is not None:
            self._lease.confirm()
        manifests.publish(self._storage, made)
        point("rescaled", made.tick)
        return made
