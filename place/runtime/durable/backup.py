"""A home as one file, taken while it runs, and a home made of such a file.

A backup is what the home would be if its process were killed at that moment, between two ticks: all
that follows a kill follows a restore, too. The gate is closed while every file gets a second name
(a link) in a directory of the home, and databases are copied; that takes milliseconds for a
thousand files. Then ticks go on, and the links are read at leisure into a tar, whose last member
lists all others with their checksums. Without that list it is no backup.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from place.errors import ConfigurationError, PlaceError
from place.runtime.durable import manifest as manifests
from place.runtime.durable.aside import number_of
from place.runtime.durable.directory import sync
from place.runtime.durable.gate import FILE as GATE
from place.runtime.durable.gate import Gate
from place.runtime.durable.home import LOCK, Home, read_about
from place.runtime.durable.storage import Damaged, Storage

FORMAT = 1
LISTING = "backup.json"
STAGING = ".backup-"
DATA = "data"
DATABASES = ("catalog.sqlite", "server.sqlite")
SKIPPED = {
    LOCK,
    GATE,
    *(f"{name}{end}" for name in DATABASES for end in ("-wal", "-shm", "-journal")),
}
CHUNK = 1 << 20
PATIENCE = 60.0
"""Seconds for which a backup waits for a commit that is under way."""


@dataclass(frozen=True)
class Contents:
    """What a backup holds, as its list says."""

    home: str
    kind: str
    tick: int
    made: float
    files: dict[str, tuple[int, str]]
    """Size and SHA-256 of each file."""

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())


def back_up(directory: Path, target: Path, *, with_data: bool = True) -> Contents:
    """Write a backup of a home to a file that is not there yet."""
    about = read_about(directory)
    if about.get("storage"):
        raise ConfigurationError(
            f"the files of {directory} are in a storage elsewhere, which is not backed up here",
            hint="let the store keep versions of its objects; the home directory itself can be"
            " made anew with the same --storage",
        )
    if target.exists():
        raise ConfigurationError(f"{target} is there already", hint="name another file")
    if not target.absolute().parent.is_dir():
        raise ConfigurationError(f"{target.absolute().parent} is not there")
    with _snapshot(directory, about, with_data) as (staged, tick):
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            contents = _write(
                draft, staged, Contents(about["id"], about["kind"], tick, time.time(), {})
            )
            os.replace(draft, target)
            sync(str(target.absolute().parent))
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
    return contents


@contextlib.contextmanager
def _snapshot(
    directory: Path, about: dict[str, Any], with_data: bool
) -> Iterator[tuple[Path, int]]:
    """A directory with a second name for each file, as they were at one moment; and the tick."""
    _forget_old(directory)
    staged = directory / f"{STAGING}{os.getpid()}"
    staged.mkdir(mode=0o700)
    try:
        if about["kind"] == "pipeline":
            gate = Gate(Storage(str(directory.absolute())))
            with gate.closed(PATIENCE):
                _link_all(directory, staged)
        else:  # a session without Spark has no ticks between which to come: it has to be closed
            home = Home(directory, about["kind"])
            try:
                _link_all(directory, staged)
            finally:
                home.close()
        if with_data:  # files of users, who may change them: of no moment in particular
            _link_below(directory / DATA, directory, staged, is_copied=True)
        ticks = manifests.ticks(Storage(str(staged)))
        if ticks:
            manifests.load(Storage(str(staged)), ticks[-1])
        yield staged, ticks[-1] if ticks else 0
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _forget_old(directory: Path) -> None:
    """Remove what backups have left that were killed."""
    for old in directory.glob(f"{STAGING}*"):
        pid = old.name.removeprefix(STAGING)
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(old, ignore_errors=True)


def _link_all(directory: Path, staged: Path) -> None:
    """Link everything, in an order in which nothing names what is not there.

    Spark marks a batch as done after it has planned it, so marks come before plans. Pushed readings
    come while this goes on: those that are numbered up to one which was there at first are all
    there, and later ones were not acknowledged when the backup began.
    """
    pushed = {number_of(path.name) for path in (directory / "ingest").glob("*.arrow")}
    newest = max(pushed, default=-1)
    for name in DATABASES:
        if (directory / name).exists():
            _copy_database(directory / name, staged / name)
    checkpoints = directory / "checkpoints"
    for part in ("commits", "offsets"):
        for found in sorted(checkpoints.rglob(part)):
            _link_below(found, directory, staged, is_copied=True)
    for entry in sorted(directory.iterdir()):
        if entry.name in SKIPPED or entry.name in (*DATABASES, DATA):
            continue
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            _link_below(entry, directory, staged, newest=newest)
        else:
            _link(entry, staged / entry.name, is_copied=True)


def _link_below(
    top: Path, directory: Path, staged: Path, *, is_copied: bool = False, newest: int | None = None
) -> None:
    for parent, _, names in os.walk(top):
        into = staged / Path(parent).relative_to(directory)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            path, target = Path(parent) / name, into / name
            if target.exists() or not path.is_file() or path.is_symlink():
                continue
            is_pushed = top.name == "ingest" and name.endswith(".arrow")
            if is_pushed and newest is not None and number_of(name) > newest:
                continue
            _link(path, target, is_copied=is_copied or top.name in ("checkpoints", "pace"))


def _link(path: Path, target: Path, *, is_copied: bool) -> None:
    """Give a file a second name; files that are small and change are copied. What goes meanwhile
    was part of nothing: what a manifest names is not swept while the gate is closed."""
    with contextlib.suppress(FileNotFoundError):
        if not is_copied:
            try:
                os.link(path, target)
                return
            except FileNotFoundError:
                return
            except OSError:  # a file system without links
                pass
        shutil.copyfile(path, target)


def _copy_database(path: Path, target: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)


class _Summing(io.RawIOBase):
    """Passes on what is read, and knows its checksum."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.sum = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        found = self._source.read(size)
        self.sum.update(found)
        return found


def _write(draft: Path, staged: Path, about: Contents) -> Contents:
    """Write the tar; its last member is the list."""
    files: dict[str, tuple[int, str]] = {}
    with draft.open("xb") as out:
        os.fchmod(out.fileno(), 0o600)  # it has the hashes of tokens, and secrets of webhooks
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(staged.rglob("*")):
                if path.is_dir():
                    continue
                name = path.relative_to(staged).as_posix()
                with path.open("rb") as source:
                    member = archive.gettarinfo(arcname=name, fileobj=source)
                    member.type, member.linkname = tarfile.REGTYPE, ""  # its link is of no interest
                    member.size = os.fstat(source.fileno()).st_size
                    summing = _Summing(source)
                    archive.addfile(member, summing)
                    files[name] = member.size, summing.sum.hexdigest()
            contents = Contents(about.home, about.kind, about.tick, about.made, files)
            text = _listing(contents)
            member = tarfile.TarInfo(LISTING)
            member.size, member.mtime = len(text), int(about.made)
            archive.addfile(member, io.BytesIO(text))
        out.flush()
        os.fsync(out.fileno())
    return contents


def _listing(contents: Contents) -> bytes:
    body = {"format": FORMAT, **asdict(contents)}
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"sum": hashlib.sha256(text.encode()).hexdigest(), "body": text}).encode()


def read_listing(source: Path) -> Contents:
    """What a backup says that it holds; an error if it is none, or is not whole."""
    try:
        with tarfile.open(source, "r:") as archive:
            member = archive.getmember(LISTING)
            found = archive.extractfile(member)
            assert found is not None
            outer = json.loads(found.read())
    except FileNotFoundError:
        raise ConfigurationError(f"{source} is not there") from None
    except (OSError, tarfile.TarError, KeyError, ValueError, AssertionError) as error:
        raise Damaged(
            f"{source} is no backup, or was cut short: {error}",
            hint="take another one; place backup writes them",
        ) from None
    if hashlib.sha256(str(outer.get("body")).encode()).hexdigest() != outer.get("sum"):
        raise Damaged(f"the list of {source} was changed", hint="take another backup")
    body = json.loads(outer["body"])
    if body.pop("format") != FORMAT:
        raise ConfigurationError(f"{source} is a backup of another version of PLACE")
    files = {name: (size, checksum) for name, (size, checksum) in body.pop("files").items()}
    return Contents(**body, files=files)


def restore(source: Path, directory: Path) -> Contents:
    """Make a home of a backup, whole or not at all, where there is nothing yet."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(
            f"{directory} is not empty, and what it holds is not replaced",
            hint="name a directory that is not there yet, or move this one away",
        )
    contents = read_listing(source)
    parent = directory.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    draft = parent / f".{directory.name}.{uuid.uuid4().hex[:8]}.restoring"
    draft.mkdir(mode=0o700)
    try:
        check(source, contents, draft)
        for place, _, _ in os.walk(draft):
            sync(place)
        read_about(draft)
        if directory.exists():
            directory.rmdir()
        draft.rename(directory)
        sync(str(parent))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return contents


def check(source: Path, contents: Contents, into: Path | None = None) -> None:
    """Compare every file with its checksum; write it to a directory, if there is one."""
    missing = set(contents.files)
    with tarfile.open(source, "r:") as archive:
        try:
            for member in archive:
                if member.name == LISTING:
                    continue
                known = contents.files.get(member.name)
                if known is None or not member.isreg() or not _is_inside(member.name):
                    raise Damaged(f"{source} has {member.name}, which its list does not have")
                found = archive.extractfile(member)
                assert found is not None
                if _copied(found, into / member.name if into is not None else None) != known[1]:
                    raise Damaged(
                        f"{member.name} in {source} is not as it was written",
                        hint="take an earlier backup",
                    )
                missing.discard(member.name)
        except (tarfile.TarError, OSError) as error:
            if isinstance(error, PlaceError):
                raise
            raise Damaged(f"{source} cannot be read: {error}", hint="take an earlier one") from None
    if missing:
        raise Damaged(f"{source} lacks {min(missing)}", hint="take an earlier backup")


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _copied(found: IO[bytes], target: Path | None) -> str:
    """Read a member to its end, into a file if there is one; its checksum."""
    checksum = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        out = None
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            out = stack.enter_context(target.open("xb"))
        while chunk := found.read(CHUNK):
            checksum.update(chunk)
            if out is not None:
                out.write(chunk)
        if out is not None:
            out.flush()
            os.fsync(out.fileno())
    return checksum.hexdigest()
