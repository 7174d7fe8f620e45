"""A home directory: who it is, and who runs on it.

It is of one of three kinds, by how readings are kept: in a journal from which the reference
computes all again, in the log of a session without Spark, or in the log and the manifests of a
pipeline. None can go on where another stopped; only a journal becomes the log of a session.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any, Literal

from place.errors import ConfigurationError

FORMAT = 1
ABOUT, LOCK = "place.json", "lock"
Kind = Literal["journal", "log", "pipeline"]
OTHERS: dict[str, tuple[str, str]] = {
    "journal": (
        "is the home of the reference, whose readings are in a journal",
        "open it with place.connect(home, runtime='reference'), or use another directory",
    ),
    "log": (
        "is the home of a session without Spark",
        "open it with place.connect(home) or place sql, or use another directory",
    ),
    "pipeline": (
        "is the home of a pipeline on Spark",
        "open it with place run, place serve or place.connect(home, master=…); while a server runs"
        " on it, connect to that",
    ),
}
"""What to say of a home to those who would run it as one of the other kind."""


class Home:
    """A directory of this machine, locked for as long as it is open."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        self.directory = directory
        self._writing = threading.Lock()
        check_writable(directory)
        self._lock = (directory / LOCK).open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ConfigurationError(
                f"{directory} is in use by another process", hint="stop it first, or use another"
            ) from None
        try:
            self.about = self._read_about(kind)
        except BaseException:
            self.close()
            raise

    def _read_about(self, kind: Kind) -> dict[str, Any]:
        if not (self.directory / ABOUT).exists():
            about: dict[str, Any] = {"format": FORMAT, "id": uuid.uuid4().hex, "kind": kind}
            self._write(about)
            return about
        return read_about(self.directory, kind)

    def remember(self, **facts: Any) -> None:
        """Keep facts about the home."""
        with self._writing:
            self.about |= facts
            self._write(self.about)

    def _write(self, about: dict[str, Any]) -> None:
        draft = self.directory / f"{ABOUT}.tmp"
        try:
            with draft.open("w", encoding="utf-8") as out:
                json.dump(about, out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(draft, self.directory / ABOUT)
        except OSError as error:
            raise unwritable(self.directory, error) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._lock.close()


def unwritable(directory: Path, error: OSError) -> ConfigurationError:
    """A home directory cannot be written, for a reason of the system's."""
    where = f" ({error.filename})" if error.filename is not None else ""
    return ConfigurationError(
        f"the home directory {directory} cannot be written: {error.strerror}{where}",
        hint="name another one, or let this user write there",
    )


def check_writable(directory: Path) -> None:
    """Make the directory if need be, and see that its lock can be opened."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / LOCK).open("a+", encoding="utf-8").close()
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise unwritable(directory, error) from None


def read_about(directory: Path, kind: Kind | None = None) -> dict[str, Any]:
    """What a home directory of a kind, or of any, says of itself."""
    path = directory / ABOUT
    try:
        about: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{directory} is not a home directory of PLACE: {error}",
            hint="name the directory that was given to --home or connect()",
        ) from None
    if about.get("format") != FORMAT:
        raise ConfigurationError(
            f"{directory} has format {about.get('format')}, this version of PLACE reads {FORMAT}"
        )
    known = about.setdefault("kind", "pipeline")
    if (known, kind) == ("journal", "log"):  # it becomes one when it is opened
        return about
    if kind is not None and known != kind:
        said, hint = OTHERS[known]
        raise ConfigurationError(f"{directory} {said}", hint=hint)
    return about
