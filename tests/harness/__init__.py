"""Real neighbours for the tests: Spark's own cluster and Kafka's own broker, on this machine.

What both need: programs that run beside a test and are gone after it, however it ends. Each
program leads a session of its own (`setsid`), which whatever it starts belongs to as well. The
sessions are known to a guard, a process that waits for the end of its input, which comes even when
the test is killed, and then ends those that are left. Run as a program, this file is that guard.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

LOOPBACK = "127.0.0.1"

T = TypeVar("T")


class Processes:
    """Programs that end with the `with` block, or with this process if it does not get there."""

    def __init__(self) -> None:
        self._started: dict[subprocess.Popen[bytes], Path] = {}

    def __enter__(self) -> Processes:
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, start_new_session=True
        )
        return self

    def start(
        self, command: Iterable[str], *, log: Path, environ: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program whose every word goes to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=log.parent,
                start_new_session=True,
            )
        self._started[process] = log
        self._tell(process.pid)
        return process

    def wait(
        self,
        process: subprocess.Popen[bytes],
        condition: Callable[[], T | None],
        *,
        purpose: str,
        timeout: float,
    ) -> T:
        """What `condition` gives once it is not None. Fails, with the last words of the program,
        when it ends before that or `timeout` seconds have passed.
        """
        deadline = time.monotonic() + timeout
        while (result := condition()) is None:
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                reason = f"it ended with {process.returncode}" if ended else f"not in {timeout:g} s"
                raise RuntimeError(
                    f"waited for {purpose}: {reason}; {self._started[process]} ends with\n"
                    + tail(self._started[process])
                )
            time.sleep(0.05)
        return result

    def finish(self, process: subprocess.Popen[bytes], *, timeout: float) -> None:
        """Wait for the good end of a program that has one."""
        try:
            code: int | str = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = f"nothing in {timeout:g} s"
        if code != 0:
            log = self._started[process]
            raise RuntimeError(f"{process.args!r} ended with {code}; {log} ends with\n{tail(log)}")
        self._forget(process)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL to a program and all that it has started, as if its machine were gone."""
        if process in self._started:
            end_session(process.pid)
            process.wait()
            self._forget(process)

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        """A process that has been waited for is nobody's: its number may be given to another."""
        del self._started[process]
        self._tell(-process.pid)

    def _tell(self, number: int) -> None:
        """Tell the guard of a session to end, or, by a negative number, not to end any more."""
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):  # someone has ended the guard
            self._guard.stdin.write(b"%d\n" % number)
            self._guard.stdin.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in list(self._started):
            self.kill(process)
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):
            self._guard.stdin.close()
        self._guard.wait()


def end_session(leader: int, *, timeout: float = 10) -> None:
    """SIGKILL to each process of the session that `leader` leads, until all are gone."""
    deadline = time.monotonic() + timeout
    while (members := list(members_of(leader))) and time.monotonic() < deadline:
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        time.sleep(0.02)


def members_of(leader: int) -> Iterator[int]:
    """The processes of a session, without those that are dead and not yet waited for."""
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # gone since
            # After the name, which may hold anything: state, parent, group, session.
            state, _, _, session = (directory / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                yield int(directory.name)


def free_port() -> int:
    """A port of the loopback address that nobody has now.

    From below the range that the system takes ports of clients from, so that none of those has it
    by the time a server asks for it.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


def tail(log: Path, *, lines: int = 20) -> str:
    """The last lines of a file."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


if __name__ == "__main__":
    leaders: set[int] = set()
    for number in map(int, sys.stdin):
        if number > 0:
            leaders.add(number)
        else:
            leaders.discard(-number)
    for leader in leaders:
        end_session(leader)
