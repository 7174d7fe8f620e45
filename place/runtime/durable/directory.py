"""Files of a directory: synced to the disk, read by memory map, published by a link."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa


class Directory:
    """The files below a directory of this machine, or of a file system that is mounted here."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _path_in_place(self, name: str) -> tuple[str, str]:
        """The path of a file whose directory is there, and that directory."""
        path = self._path(name)
        directory = path.rpartition("/")[0]
        os.makedirs(directory, exist_ok=True)
        return path, directory

    def write(
        self, name: str, fill: Callable[[pa.NativeFile], object], *, lasts: bool = True
    ) -> int:
        """Write a file that nobody knows of yet, durable when this returns if it lasts."""
        path, directory = self._path_in_place(name)
        size = _fill(path, fill)
        if lasts:
            sync(path)
            sync(directory)
        return size

    def create(self, name: str, fill: Callable[[pa.NativeFile], object]) -> int | None:
        """Make a file appear with all of its content; its size, or None if there is one."""
        path, directory = self._path_in_place(name)
        draft = _draft(path)
        try:
            size = _fill(draft, fill)
            sync(draft)
            os.link(draft, path)
        except FileExistsError:
            return None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)
        sync(directory)
        return size

    def replace(self, name: str, fill: Callable[[pa.NativeFile], object]) -> None:
        """Put a file with this content in the place of the one that may be there."""
        path, directory = self._path_in_place(name)
        draft = _draft(path)
        try:
            _fill(draft, fill)
            sync(draft)
            os.replace(draft, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        sync(directory)

    def move(self, name: str, to: str) -> None:
        """Give a finished file the name that others look for."""
        path, directory = self._path_in_place(to)
        os.replace(self._path(name), path)
        sync(directory)

    def read(self, name: str) -> bytes:
        """All that is in a file."""
        with open(self._path(name), "rb") as source:
            return source.read()

    def open(self, name: str) -> pa.NativeFile:
        """A file, mapped into memory."""
        return pa.memory_map(self._path(name))

    def open_lazily(self, name: str) -> pa.NativeFile:
        """A file of which little is read."""
        return pa.OSFile(self._path(name))

    def open_part(self, name: str, first: int, size: int) -> pa.NativeFile:
        """A part of a file, mapped into memory."""
        with self.open(name) as whole:
            whole.seek(first)
            return pa.BufferReader(whole.read_buffer(size))

    def head(self, name: str, most: int) -> tuple[bytes, int]:
        """The first bytes of a file, and its size."""
        with open(self._path(name), "rb") as source:
            return source.read(most), os.fstat(source.fileno()).st_size

    def exists(self, name: str) -> bool:
        """Is there a file of that name?"""
        return os.path.exists(self._path(name))

    def list(self, directory: str) -> Iterator[tuple[str, int]]:
        """The files below a directory, with their sizes, in the order of their names."""
        found: list[tuple[str, int]] = []
        for parent, _, files in os.walk(self._path(directory)):
            for file in files:
                path = f"{parent}/{file}"
                with contextlib.suppress(FileNotFoundError):  # somebody has removed it
                    found.append((path[len(self.root) + 1 :], os.stat(path).st_size))
        yield from sorted(found)

    def names(self, directory: str) -> Sequence[str]:
        """The names right below a directory, in their order."""
        try:
            return sorted(os.listdir(self._path(directory)))
        except FileNotFoundError:
            return ()

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))


def _draft(path: str) -> str:
    """A name that readers of the directory pass over."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{uuid.uuid4().hex[:8]}.tmp"


def _fill(path: str, fill: Callable[[pa.NativeFile], object]) -> int:
    with pa.OSFile(path, "wb") as out:
        fill(out)
        return int(out.tell())


def sync(path: str) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
