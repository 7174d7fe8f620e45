"""A home directory: who it is, who runs on it, and the readings that were pushed to it.

Pushed readings are written to the ingest log and synced before they are acknowledged; the manifest
of the tick that took them says so, and then the log lets them go.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import uuid
from pathlib import Path
from typing import Any

from place.errors import ConfigurationError

FORMAT = 1
ABOUT, LOCK = "place.json", "lock"


class Home:
    """A directory of this machine, locked for as long as it is open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._writing = threading.Lock()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = (directory / LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{directory} cannot be made: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ConfigurationError(
                f"{directory} is in use by another process", hint="stop it first, or use another"
            ) from None
        self.about = self._read_about()

    def _read_about(self) -> dict[str, Any]:
        path = self.directory / ABOUT
        if path.exists():
            about: dict[str, Any] = read_about(self.directory)
            return about
        about = {"format": FORMAT, "id": uuid.uuid4().hex}
        self._write(about)
        return about

    def remember(self, **facts: Any) -> None:
        """Keep facts about the home."""
        with self._writing:
            self.about |= facts
            self._write(self.about)

    def _write(self, about: dict[str, Any]) -> None:
        draft = self.directory / f"{ABOUT}.tmp"
        with draft.open("w", encoding="utf-8") as out:
            json.dump(about, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, self.directory / ABOUT)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._lock.close()


def read_about(directory: Path) -> dict[str, Any]:
    """What a home directory says of itself."""
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
    return about
