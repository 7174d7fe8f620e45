"""A PostgreSQL on loopback, with its data in a directory of the test, of a user without rights."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.harness import LOOPBACK, free_port

USER = "place"


def _programs() -> Path | None:
    """The directory of its programs; Debian's is not on the path."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def _servant() -> str | None:
    """A user who may run the server: it refuses root."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid()).pw_name
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return None


def unavailable() -> str | None:
    """Why there is no PostgreSQL here; None if there is one."""
    if _programs() is None:
        return "PostgreSQL is not installed"
    return None if _servant() is not None else "there is no user who may run PostgreSQL"


@dataclass
class Database:
    """A server that runs."""

    port: int

    @property
    def options(self) -> str:
        return (
            f"host = '{LOOPBACK}', port = {self.port}, database = 'postgres', username = '{USER}'"
        )

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, if it has any."""
        with (
            psycopg.connect(
                host=LOOPBACK, port=self.port, dbname="postgres", user=USER, autocommit=True
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(text.encode())
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def database(directory: Path, port: int | None = None) -> Iterator[Database]:
    programs, servant = _programs(), _servant()
    assert programs is not None
    data, port = directory / "data", port or free_port()
    data.mkdir(parents=True)
    if os.getuid() == 0:
        entry = pwd.getpwnam(str(servant))
        for path in (directory, data):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        for parent in directory.parents:  # which others may not look into, where it is root's
            with contextlib.suppress(OSError):
                if parent.stat().st_uid == 0 and str(parent).startswith("/tmp/"):
                    parent.chmod(parent.stat().st_mode | 0o011)

    def run(*command: str) -> None:
        asked = {"user": servant} if os.getuid() == 0 else {}
        with (directory / "output").open("ab") as output:
            subprocess.run(
                [str(programs / command[0]), *command[1:]],
                stdout=output,
                stderr=output,
                check=True,
                cwd="/",
                timeout=120,
                **asked,  # type: ignore[call-overload]
            )

    run("initdb", "-D", str(data), "-U", USER, "-A", "trust", "-E", "UTF8", "-N", "--no-locale")
    settings = f"-p {port} -h {LOOPBACK} -k '' -F"
    run("pg_ctl", "-D", str(data), "-w", "-l", str(data / "log"), "-o", settings, "start")
    try:
        yield Database(port)
    finally:
        # By its number: another run of tests may have closed the way to the directory meanwhile.
        number = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(number, signal.SIGQUIT)
        until = time.monotonic() + 30
        while (data / "postmaster.pid").exists() and time.monotonic() < until:
            time.sleep(0.02)
