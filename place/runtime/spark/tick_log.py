"""The log: the ticks since the oldest state that is kept of a cell, with all that they took in.

A cell that is new begins with its saved state and takes these ticks again; nobody is told again
what they told. Files of readings stay for as long as a tick is in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from place.runtime.durable import manifest as manifests
from place.runtime.durable.manifest import Manifest, Saved
from place.runtime.durable.storage import Damaged, Storage, is_part
from place.runtime.spark.inputs import BegunInput, MovedInput, PackInput, TickInput, input_of

AT_ONCE = 16
"""Manifests that are fetched at the same time from a store elsewhere."""


@dataclass(frozen=True)
class LoggedTick:
    """A committed tick as it can be run again: what it took in, with which catalog."""

    tick: int
    token: str
    catalog: int
    inputs: tuple[TickInput, ...]
    clocks: Mapping[str, int | None] = field(default_factory=dict)
    """The last complete instants of the streams after it."""

    @property
    def files(self) -> list[str]:
        """The files of readings that it needs, beside its manifest."""
        files = [item.file for item in self.inputs if isinstance(item, PackInput | MovedInput)]
        for item in self.inputs:
            if isinstance(item, BegunInput):
                files += item.files
        return [file for file in files if not is_part(file)]


class TickLog:
    """The ticks that may have to be run again, in their order."""

    def __init__(self, storage: Storage, last: Manifest | None) -> None:
        self._ticks: deque[LoggedTick] = deque()
        self._last = last
        if last is not None:
            needed = range(last.replayed_from, last.tick + 1)
            with ThreadPoolExecutor(1 if storage.is_local else AT_ONCE) as pool:
                for found in pool.map(partial(_loaded, storage), needed):
                    inputs = tuple(map(input_of, found.inputs))
                    self._ticks.append(_logged(found, inputs))

    @property
    def files(self) -> set[str]:
        """The files of readings that are needed."""
        return {file for each in self._ticks for file in each.files}

    @property
    def versions(self) -> list[int]:
        """The versions of the catalog that are needed, in their order."""
        saved = (state.catalog for state in (self._last.saved if self._last is not None else ()))
        return sorted({*saved, *(each.catalog for each in self._ticks)})

    def append(self, manifest: Manifest, inputs: Iterable[TickInput]) -> list[str]:
        """A tick is committed. The files that only ticks needed which all cells have passed."""
        self._last = manifest
        self._ticks.append(_logged(manifest, tuple(inputs)))
        passed: list[str] = []
        while self._ticks and self._ticks[0].tick < manifest.replayed_from:
            passed += self._ticks.popleft().files
        return passed

    def after(self, tick: int) -> list[LoggedTick]:
        """The ticks after one, in their order."""
        return [each for each in list(self._ticks) if each.tick > tick]

    def since(self, cell: str) -> tuple[list[Saved], list[LoggedTick]]:
        """The saved states of a cell, the newest first, and the ticks since the oldest of them."""
        assert self._last is not None
        both = (self._last.states.get(cell), self._last.older.get(cell))
        saved = [each for each in both if each is not None]
        after = saved[-1].tick if saved else 0
        return saved, [each for each in self._ticks if each.tick > after]


def _logged(manifest: Manifest, inputs: tuple[TickInput, ...]) -> LoggedTick:
    return LoggedTick(manifest.tick, manifest.token, manifest.catalog, inputs, manifest.clocks)


def _loaded(storage: Storage, tick: int) -> Manifest:
    try:
        return manifests.load(storage, tick)
    except FileNotFoundError:
        name = manifests.name_of(tick)
        raise Damaged(f"{name} is missing, and is needed to go on") from None
