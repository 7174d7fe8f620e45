"""The log: the ticks since the oldest state that a cell has saved, with all that they took in.

A cell that is new begins with its saved state and takes these ticks again; nobody is told again
what they told. Files of readings stay for as long as a tick is in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from place.runtime.durable import manifest as manifests
from place.runtime.durable.manifest import Manifest, Saved
from place.runtime.durable.storage import Damaged, Storage, is_part
from place.runtime.spark.inputs import PackInput, TickInput, input_of


@dataclass(frozen=True)
class LoggedTick:
    """A committed tick as it can be run again: what it took in, with which catalog."""

    tick: int
    token: str
    catalog: int
    inputs: tuple[TickInput, ...]

    @property
    def files(self) -> list[str]:
        """The files of readings that it needs, beside its manifest."""
        files = (item.file for item in self.inputs if isinstance(item, PackInput))
        return [file for file in files if not is_part(file)]


class TickLog:
    """The ticks that may have to be run again, in their order."""

    def __init__(self, storage: Storage, last: Manifest | None) -> None:
        self._ticks: deque[LoggedTick] = deque()
        self._states: dict[str, Saved] = dict(last.states) if last is not None else {}
        if last is not None:
            for tick in range(last.replayed_from, last.tick + 1):
                found = last if tick == last.tick else _loaded(storage, tick)
                inputs = tuple(map(input_of, found.inputs))
                self._ticks.append(LoggedTick(tick, found.token, found.catalog, inputs))

    @property
    def files(self) -> set[str]:
        """The files of readings that are needed."""
        return {file for each in self._ticks for file in each.files}

    @property
    def versions(self) -> list[int]:
        """The versions of the catalog that are needed, in their order."""
        saved = (state.catalog for state in self._states.values())
        return sorted({*saved, *(each.catalog for each in self._ticks)})

    def append(self, manifest: Manifest, inputs: Iterable[TickInput]) -> list[str]:
        """A tick is committed. The files that only ticks needed which all cells have passed."""
        self._states = dict(manifest.states)
        logged = LoggedTick(manifest.tick, manifest.token, manifest.catalog, tuple(inputs))
        self._ticks.append(logged)
        passed: list[str] = []
        while self._ticks and self._ticks[0].tick < manifest.replayed_from:
            passed += self._ticks.popleft().files
        return passed

    def since(self, cell: str) -> tuple[Saved | None, list[LoggedTick]]:
        """The saved state of a cell, and the ticks that it has to take again."""
        saved = self._states.get(cell)
        after = 0 if saved is None else saved.tick
        return saved, [each for each in self._ticks if each.tick > after]


def _loaded(storage: Storage, tick: int) -> Manifest:
    try:
        return manifests.load(storage, tick)
    except FileNotFoundError:
        name = manifests.name_of(tick)
        raise Damaged(f"{name} is missing, and is needed to go on") from None
