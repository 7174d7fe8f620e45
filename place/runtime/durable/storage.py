"""Files that outlive a process: written whole, made durable, published all at once.

A storage is a directory, of this machine or mounted from elsewhere, or a prefix of an object store.
Both can make a file appear only if there is none of its name, which is what a commit is. What is
small need not be a file of its own: a part of a file has a name, too, by which it is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from place.errors import ConfigurationError, PlaceError
from place.runtime.durable.address import is_object_store, shown
from place.runtime.durable.directory import Directory

if TYPE_CHECKING:
    from place.runtime.durable.object_store import ObjectStore

Fill = Callable[[pa.NativeFile], object]
"""Writes the content of a file."""


def digest(name: str) -> str:
    """A name of any letters and length as one that is fit for a file."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


_PART = "#"


def part_of(name: str, first: int, size: int) -> str:
    """The name of a part of a file."""
    return f"{name}{_PART}{first}+{size}"


def is_part(name: str) -> bool:
    """Is it the name of a part of a file, which comes and goes with it?"""
    return _PART in name


class StorageFault(PlaceError):
    """The disk or the store does not take or give what it should; nothing was published."""


class StorageFull(StorageFault):
    """There is no room for what has to be written."""


class TakenOver(StorageFault):
    """Another process has the lease by now: nothing that this one does counts any more."""

    def __init__(self, message: str = "another process has taken over this home") -> None:
        super().__init__(
            message, hint="stop this one; what it has acknowledged is in the hands of the other"
        )


class Damaged(PlaceError):
    """A file is not as it was written."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or "restore it from a copy of the home directory")


@dataclass(frozen=True)
class Storage:
    """A directory or a prefix of an object store, by its path or URI; it can be sent to tasks.

    `epoch` is that of the lease under which this process writes (`lease.py`): files whose names
    two processes might both choose have it in their names. It is 0 where a home is its own storage.
    """

    root: str
    epoch: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Storage, (self.root, self.epoch)

    @cached_property
    def _files(self) -> Directory | ObjectStore:
        if is_object_store(self.root):
            # Its library takes memory that those with a directory do not need.
            from place.runtime.durable.object_store import ObjectStore

            return ObjectStore(self.root)
        scheme, sign, _ = self.root.partition("://")
        if not sign:
            return Directory(str(Path(self.root).absolute()))
        if scheme == "file":
            return Directory(unquote(urlsplit(self.root).path))
        raise ConfigurationError(
            f"{shown(self.root)} cannot be a storage",
            hint="name a directory, or an object store: s3://, gs:// or az://",
        )

    @property
    def is_local(self) -> bool:
        """Is it a directory?"""
        return isinstance(self._files, Directory)

    @property
    def directory(self) -> str:
        """The path of a storage that is a directory."""
        assert isinstance(self._files, Directory)
        return self._files.root

    def __str__(self) -> str:
        return shown(self.root)

    def write(self, name: str, fill: Fill, *, lasts: bool = True) -> int:
        """Write a file that nobody knows of yet, durable when this returns; its size.

        What does not last is for those who read it at once.
        """
        with _telling_apart(name):
            return self._files.write(name, fill, lasts=lasts)

    def create(self, name: str, fill: Fill) -> int | None:
        """Make a file appear with all of its content, durable when this returns; its size.

        None if there is one of that name: of two who try, one succeeds.
        """
        with _telling_apart(name):
            return self._files.create(name, fill)

    def publish(self, name: str, content: bytes) -> bool:
        """Make a file appear with all of its content, unless there is one: then False."""
        return self.create(name, lambda out: out.write(content)) is not None

    def replace(self, name: str, content: bytes | Fill) -> None:
        """Put a file with this content in the place of the one that may be there."""
        with _telling_apart(name):
            if isinstance(content, bytes):
                self._files.replace(name, lambda out: out.write(content))
            else:
                self._files.replace(name, content)

    def move(self, name: str, to: str) -> None:
        """Give a finished file the name that others look for."""
        with _telling_apart(to):
            self._files.move(name, to)

    def read(self, name: str) -> bytes:
        """All that is in a file."""
        return self._files.read(name)

    def open(self, name: str) -> pa.NativeFile:
        """A file, or a part of one, to read at any place; a directory's is mapped into memory."""
        file, _, part = name.partition(_PART)
        if not part:
            return self._files.open(file)
        first, _, size = part.partition("+")
        return self._files.open_part(file, int(first), int(size))

    def open_lazily(self, name: str) -> pa.NativeFile:
        """A file of which little is read: of an object only the parts that are asked for."""
        return self._files.open_lazily(name)

    def head(self, name: str, most: int) -> tuple[bytes, int]:
        """The first bytes of a file, and the size of all of it."""
        return self._files.head(name, most)

    def exists(self, name: str) -> bool:
        """Is there a file of that name?"""
        return self._files.exists(name)

    def list(self, directory: str) -> Iterator[tuple[str, int]]:
        """The files below a directory, with their sizes, in the order of their names."""
        return self._files.list(directory)

    def names(self, directory: str) -> Sequence[str]:
        """The names of the files right below a directory, in their order; there may be many."""
        return self._files.names(directory)

    def prove(self, directories: Iterable[str]) -> None:
        """Write a file to each of the directories and remove it; a StorageFault if that fails."""
        for directory in directories:
            name = f"{directory}/.{uuid.uuid4().hex[:8]}.tmp"
            try:
                self.write(name, lambda out: out.write(b"proof"))
            finally:
                with contextlib.suppress(OSError):
                    self.remove(name)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._files.remove(name)


@contextlib.contextmanager
def _telling_apart(name: str) -> Iterator[None]:
    """A disk that is full is no fault of the program, and is said in its own words."""
    try:
        yield
    except OSError as error:
        full = error.errno in (28, 122) or "No space left" in str(error)
        if full or "quota" in str(error).casefold():
            raise StorageFull(
                f"no space left for {name}",
                hint="free some space and start again: nothing that was committed is lost",
            ) from None
        raise StorageFault(
            f"{name} cannot be written: {error}",
            hint="mend the disk or its permissions: nothing that was committed is lost",
        ) from None
