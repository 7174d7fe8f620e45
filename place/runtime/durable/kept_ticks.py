"""What a home keeps, and what is swept: deltas are kept by their age and their size.

A tick without deltas leaves nothing for good: its manifest goes as soon as some ticks have followed
it, and all cells have saved states of later ones. So the manifests have gaps, and each says from
which tick on all deltas are kept.
"""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from place.errors import PlaceError
from place.runtime.durable import manifest as manifests
from place.runtime.durable.crash import point
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.storage import Damaged, Storage, is_part

RECENT = 20
"""Of so many ticks the manifests stay, also of those that have told nothing: for `place status`."""
WRITTEN = ("state", "outbox", "segments", "quarantine")
"""The directories that tasks write to."""


@dataclass(frozen=True)
class Keep:
    """How long deltas are kept to resume from, and how much of them and of what was set aside."""

    seconds: float = 24 * 3600.0
    ticks: int = 100_000
    outbox_bytes: int = 4 << 30
    quarantine_bytes: int = 256 << 20


class KeptTicks:
    """The ticks of a storage that are kept. Only the process that makes ticks has one."""

    def __init__(self, storage: Storage, keep: Keep) -> None:
        self._storage = storage
        self._keep = keep
        self._lock = threading.Lock()
        self._told: list[int] = []
        self._sizes: list[int] = []
        self._recent: deque[int] = deque()
        self._oldest: tuple[int, float] | None = None
        self._surplus = 0
        self._doomed: list[int] = []
        self._quiet: list[int] = []
        """Ticks whose deltas are not kept, but whose manifests cells may still need."""
        self.size = 0
        """The bytes of all deltas that are kept."""
        self.kept_from = 1
        """The deltas of ticks from this one on are kept."""
        known = manifests.ticks(storage)
        self.last = manifests.load(storage, known[-1]) if known else None
        """The last manifest that was there at the start."""

    def open(self, needed: set[str], confirm: Callable[[], None] = lambda: None) -> None:
        """See what is kept; sweep what a killed process has left behind and no manifest names, nor
        the log needs. `confirm` raises an error if the storage is somebody else's by now, whose
        files might be among those that were found."""
        if self.last is not None:
            self.kept_from = self.last.kept_from
        found = manifests.ticks(self._storage)
        known = [tick for tick in found if tick >= self.kept_from]
        sizes = self._sweep_orphans(set(known), needed, confirm)
        quiet = [tick for tick in found if tick < self.kept_from]
        for tick in known:
            size = sizes.get(tick, 0) + manifests.encloses_deltas(self._storage, tick)
            if size or self._may_have_told(tick):
                self._told.append(tick)
                self._sizes.append(size)
            else:
                quiet.append(tick)
        self.size = sum(self._sizes)
        self._recent = deque(known[-RECENT:])
        self._quiet = [tick for tick in quiet if tick not in self._recent]
        if self.last is not None:
            self._remove(self._passed(self.last))

    def _may_have_told(self, tick: int) -> bool:
        """Does a manifest name deltas? If it is damaged, whoever wants them is told that."""
        try:
            return bool(manifests.load(self._storage, tick).outbox)
        except Damaged:
            return True

    def _sweep_orphans(
        self, known: set[int], needed: set[str], confirm: Callable[[], None]
    ) -> dict[int, int]:
        """Remove the files that belong to no tick; the sizes of the deltas of those that do."""
        last, sizes = self.last, dict[int, int]()
        newest, states, files = 0, set[str](), set[str]()
        if last is not None:
            newest, files = last.tick, set(last.files)
            states = {saved.file for saved in last.saved}
        orphans: list[str] = []
        for name, size in self._storage.list("outbox"):
            tick = _tick_of(name)
            if name in files or (tick in known and tick < newest):
                sizes[tick] = sizes.get(tick, 0) + size
            else:
                orphans.append(name)
        orphans += [name for name, _ in self._storage.list("state") if name not in states]
        orphans += [name for name, _ in self._storage.list("segments") if name not in needed]
        orphans += [n for n, _ in self._storage.list("quarantine") if _tick_of(n) > newest]
        for directory in ("manifest", "sinks"):
            drafts = [n for n in self._storage.names(directory) if n.endswith(".tmp")]
            orphans += [f"{directory}/{name}" for name in drafts]
        confirm()
        self._remove(orphans)
        return sizes

    # For those who read deltas

    def ticks_after(self, tick: int) -> list[int]:
        """The later ticks that have deltas, in their order."""
        with self._lock:
            return self._told[bisect_right(self._told, tick) :]

    def count_after(self, tick: int) -> int:
        """The number of later ticks that have deltas."""
        with self._lock:
            return len(self._told) - bisect_right(self._told, tick)

    def at(self, tick: int) -> int | None:
        """The newest tick up to this one whose manifest is kept."""
        with self._lock:
            place = bisect_right(self._told, tick)
            recent = [each for each in self._recent if each <= tick]
            return max([*recent, *self._told[max(0, place - 1) : place]], default=None)

    def is_overdue(self, tick: int) -> bool:
        """Are there deltas after a tick that should not be kept any more?"""
        with self._lock:
            place = bisect_right(self._told, tick)
            return place < len(self._told) and self._is_surplus(place, 0, 0)

    def _is_surplus(self, place: int, more: int, size: int) -> bool:
        """Is the tick at a place more than should be kept, with more ticks of a size to come?"""
        if len(self._told) - place + more > self._keep.ticks:
            return True
        most = self._keep.outbox_bytes - size
        if self.size > most and sum(self._sizes[place:]) > most:
            return True
        return time.time() - self._written(self._told[place]) > self._keep.seconds

    def _written(self, tick: int) -> float:
        if self._oldest is None or self._oldest[0] != tick:
            try:
                written = manifests.load(self._storage, tick).written
            except (OSError, PlaceError):  # who reads its deltas is told
                written = time.time()
            self._oldest = tick, written
        return self._oldest[1]

    # At the end of a tick

    def planned(self, manifest: Manifest, delivered: Callable[[], int]) -> Manifest:
        """A manifest that is about to be published, with `kept_from` as it is from then on.

        `delivered` tells the last tick that all have got who get all: nothing after it is given up.
        """
        size = sum(posted.size for posted in manifest.outbox)
        more, place = int(size > 0), 0
        while (
            place < len(self._told)
            and self._is_surplus(place, more, size)
            and self._told[place] <= delivered()
        ):
            place += 1
        self._surplus = place
        kept_from = self._told[place - 1] + 1 if place else self.kept_from
        return replace(manifest, kept_from=kept_from)

    def committed(self, manifest: Manifest) -> None:
        """A manifest is published: it is among those that are kept, before anybody is told."""
        size = sum(posted.size for posted in manifest.outbox)
        with self._lock:
            gone = self._told[: self._surplus]
            self._doomed += gone
            self.size += size - sum(self._sizes[: self._surplus])
            del self._told[: self._surplus]
            del self._sizes[: self._surplus]
            if size:
                self._told.append(manifest.tick)
                self._sizes.append(size)
            self.kept_from = manifest.kept_from
            self._surplus = 0
            self._recent = deque(tick for tick in self._recent if tick not in gone)
            self._recent.append(manifest.tick)
            while len(self._recent) > RECENT:
                tick = self._recent.popleft()
                place = bisect_right(self._told, tick)
                if self._told[max(0, place - 1) : place] != [tick]:
                    self._quiet.append(tick)

    def sweep(
        self, manifest: Manifest, previous: Manifest | None, superfluous: Iterable[str]
    ) -> None:
        """Remove what the last manifest makes superfluous, and these files."""
        point("sweep", manifest.tick)
        doomed = list(superfluous)
        if previous is not None:
            current = {saved.file for saved in manifest.saved}
            doomed += [saved.file for saved in previous.saved if saved.file not in current]
        for tick in self._doomed:
            with contextlib.suppress(OSError, PlaceError):  # its files become orphans
                named = manifests.load(self._storage, tick).files
                doomed += [name for name in named if not is_part(name)]
        self._quiet += self._doomed
        self._doomed = []
        if manifest.quarantine:
            doomed += self._quarantined()
        # Who reads beside us looks for the manifest first.
        self._remove([*self._passed(manifest), *doomed])

    def _passed(self, manifest: Manifest) -> list[str]:
        """The manifests that nobody needs any more, as of the last one."""
        first = manifest.replayed_from
        passed = [tick for tick in self._quiet if tick < first]
        if passed:
            self._quiet = [tick for tick in self._quiet if tick >= first]
        return [manifests.name_of(tick) for tick in passed]

    def _quarantined(self) -> list[str]:
        """The oldest of what was set aside, beyond what should be kept."""
        doomed = []
        aside = deque(self._storage.list("quarantine"))
        size = sum(length for _, length in aside)
        while aside and size > self._keep.quarantine_bytes:
            name, length = aside.popleft()
            size -= length
            doomed.append(name)
        return doomed

    def sweep_attempt(self, attempt: str) -> None:
        """A tick that failed leaves no files behind, or a full disk would stay full."""
        with contextlib.suppress(OSError):
            for directory in WRITTEN:
                mine = [n for n, _ in self._storage.list(directory) if f"-{attempt}-" in n]
                self._remove(mine)

    def _remove(self, names: Iterable[str]) -> None:
        for name in list(names):
            with contextlib.suppress(OSError):
                self._storage.remove(name)


def _tick_of(name: str) -> int:
    """The tick that a file was written in, by its name."""
    number = name.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else 0
