"""Files that outlive a process: written whole, made durable, published all at once.

All access goes through `pyarrow.fs`, so that a directory, a shared file system or an object store
serves. On a file system of this machine files are also synced to the disk and read by memory map;
an object store does by itself what a sync does. What is small need not be a file of its own: a part
of a file has a name, too, by which it is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from place.errors import ConfigurationError, PlaceError


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


class Damaged(PlaceError):
    """A file is not as it was written."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or "restore it from a copy of the home directory")


@dataclass(frozen=True)
class Storage:
    """A directory or a prefix of an object store, by its URI or path; it can be sent to tasks."""

    root: str

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        try:
            if "://" in self.root:
                found, path = fs.FileSystem.from_uri(self.root)
            else:
                found, path = fs.LocalFileSystem(), str(Path(self.root).absolute())
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ConfigurationError(f"{self.root} cannot be opened: {error}") from None
        return found, path.rstrip("/")

    @property
    def filesystem(self) -> fs.FileSystem:
        return self._place[0]

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """The path of a file for the file system."""
        return f"{self._place[1]}/{name}"

    def write(
        self,
        name: str,
        fill: Callable[[pa.NativeFile], object],
        *,
        is_draft: bool = False,
        lasts: bool = True,
    ) -> int:
        """Write a file that nobody knows of yet, durable when this returns; its size.

        The name of a draft need not last: it is moved before anybody looks for it. What does not
        last at all is for those who read it at once.
        """
        path = self.path(name)
        with _telling_apart(name):
            self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            with self.filesystem.open_output_stream(path) as out:
                fill(out)
                size = int(out.tell())
            if self.is_local and lasts:
                sync(path)
                if not is_draft:
                    sync(path.rpartition("/")[0])
        return size

    def publish(self, name: str, content: bytes) -> bool:
        """Make a file appear with all of its content, unless there is one: then False."""
        path = self.path(name)
        directory = path.rpartition("/")[0]
        with _telling_apart(name):
            self.filesystem.create_dir(directory, recursive=True)
            if not self.is_local:  # an object appears with all of its content
                if self.exists(name):
                    return False
                with self.filesystem.open_output_stream(path) as out:
                    out.write(content)
                return True
            draft = _draft(path)
            try:
                _write_synced(draft, content)
                os.link(draft, path)
            except FileExistsError:
                return False
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(draft)
            sync(directory)
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Put a file with this content in the place of the one that may be there."""
        path = self.path(name)
        with _telling_apart(name):
            self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            if self.is_local:
                draft = _draft(path)
                try:
                    _write_synced(draft, content)
                    os.replace(draft, path)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.unlink(draft)
                    raise
                sync(path.rpartition("/")[0])
            else:
                with self.filesystem.open_output_stream(path) as out:
                    out.write(content)

    def move(self, name: str, to: str) -> None:
        """Give a finished file the name that others look for."""
        with _telling_apart(to):
            self.filesystem.move(self.path(name), self.path(to))
            if self.is_local:
                sync(self.path(to).rpartition("/")[0])

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_stream(self.path(name)) as source:
            return source.read()  # type: ignore[no-any-return]

    def open(self, name: str) -> pa.NativeFile:
        """A file, or a part of one, to read at any place; on this machine it is mapped into
        memory."""
        file, _, part = name.partition(_PART)
        whole = (
            pa.memory_map(self.path(file))
            if self.is_local
            else self.filesystem.open_input_file(self.path(file))
        )
        if not part:
            return whole
        first, _, size = part.partition("+")
        with whole:
            whole.seek(int(first))
            return pa.BufferReader(whole.read_buffer(int(size)))

    def exists(self, name: str) -> bool:
        found = self.filesystem.get_file_info(self.path(name))
        return bool(found.type != fs.FileType.NotFound)

    def list(self, directory: str) -> Iterator[tuple[str, int]]:
        """The files below a directory, with their sizes, in the order of their names."""
        selector = fs.FileSelector(self.path(directory), allow_not_found=True, recursive=True)
        start = len(self._place[1]) + 1
        found = self.filesystem.get_file_info(selector)
        for info in sorted(found, key=lambda info: info.path):
            if info.type == fs.FileType.File:
                yield info.path[start:], int(info.size)

    def names(self, directory: str) -> Sequence[str]:
        """The names of the files right below a directory, in their order; there may be many."""
        if self.is_local:
            try:
                return sorted(os.listdir(self.path(directory)))
            except FileNotFoundError:
                return ()
        return [name.rpartition("/")[2] for name, _ in self.list(directory)]

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
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))


def _draft(path: str) -> str:
    """A name that readers of the directory pass over."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{uuid.uuid4().hex[:8]}.tmp"


def _write_synced(path: str, content: bytes) -> None:
    with open(path, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def sync(path: str) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
