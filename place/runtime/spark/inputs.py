"""What a tick takes in: files, segments that are written already, advances, steps of generators.

The driver sends inputs to the cells by name; readings are in files. What a manifest says of inputs
is enough to take them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class FileInput:
    """A file of a stream's source, still to be read and checked; `order` is its place, `latest` the
    latest time that its readings may have."""

    stream: str
    path: str
    order: int = 0
    arrival: int | None = None
    latest: int | None = None


@dataclass(frozen=True)
class PackInput:
    """Segments and advances that are in the storage already, with what was set aside of them."""

    file: str
    order: int = 0
    stream: str | None = None
    bad: int = 0
    quarantine: tuple[str, ...] = ()
    seconds: float = 0.0
    reason: str | None = None
    """Why a row was set aside, if any was."""


@dataclass(frozen=True)
class EnclosedInput:
    """Segments and advances that come with the tick itself, packed: there are few of them. When it
    is committed they are a part of its manifest."""

    content: bytes


@dataclass(frozen=True)
class AdvanceInput:
    """A time that a stream has reached without a reading that tells it (all streams if None)."""

    time: int
    stream: str | None = None


@dataclass(frozen=True)
class StepsInput:
    """Steps of a stream's generator, still to be made: from the first up to before `after`."""

    stream: str
    first: int
    after: int


@dataclass(frozen=True)
class MovedInput:
    """What a cell told those of other rows of its column, in a file: objects that they begin to
    follow."""

    file: str
    row: int = 0
    column: int = 0


@dataclass(frozen=True)
class FloorsInput:
    """Where the histories of streams begin in all cells, because queries begin that go by them."""

    floors: Mapping[str, int]


CONTENT = "content"
"""The table of what a cell has to hold of a query that begins in the past."""


@dataclass(frozen=True)
class BegunInput:
    """A query that begins in the past: the files of what it has told until now, and of what each
    cell has to hold of it, in the order of the matrix; None where that is nothing."""

    query: str
    past: str | None = None
    held: tuple[str | None, ...] = ()

    @property
    def files(self) -> list[str]:
        """The names of its files."""
        return [file for file in (self.past, *self.held) if file is not None]


TickInput = (
    FileInput
    | PackInput
    | EnclosedInput
    | AdvanceInput
    | StepsInput
    | MovedInput
    | FloorsInput
    | BegunInput
)
RAW = FileInput | StepsInput
"""Inputs that are no segments yet."""


_KINDS: dict[str, type[TickInput]] = {
    "file": FileInput,
    "pack": PackInput,
    "advance": AdvanceInput,
    "steps": StepsInput,
    "moved": MovedInput,
    "floors": FloorsInput,
    "begun": BegunInput,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def described(item: TickInput) -> dict[str, Any]:
    """An input as manifests have it."""
    return {"kind": _NAMES[type(item)], **_differing(item)}


def _differing(item: TickInput) -> dict[str, Any]:
    """The fields that do not say what they would say anyway."""
    found = {each.name: (getattr(item, each.name), each.default) for each in fields(item)}
    return {name: value for name, (value, default) in found.items() if value != default}


def input_of(description: Mapping[str, Any]) -> TickInput:
    """The input that a manifest describes."""
    about = dict(description)
    made = _KINDS[about.pop("kind")]
    for name in ("quarantine", "held"):
        if name in about:
            about[name] = tuple(about[name])
    return made(**about)


def in_order(inputs: Iterable[TickInput]) -> list[TickInput]:
    """Inputs in their order: files by when they came, then by name."""

    def order(item: TickInput) -> tuple[int, str]:
        if isinstance(item, FileInput):
            return item.order, item.path
        if isinstance(item, PackInput):
            return item.order, item.file
        return (item.first if isinstance(item, StepsInput) else 0), ""

    return sorted(inputs, key=order)
