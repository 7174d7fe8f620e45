"""S3's API on loopback: moto's server in a process of its own, and buckets in it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

SECRET = "nobody-may-read-this"
LONGEST = 3600
"""Seconds after which the server ends by itself, whatever becomes of the tests."""
# One request at a time: a store decides between two puts at once, which threads of moto do not.
_SERVER = f"""
import os, signal, threading, time
signal.alarm({LONGEST})
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app))
parent = os.getppid()
def end_with_parent():
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)
threading.Thread(target=end_with_parent, daemon=True).start()
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def serving() -> Iterator[int]:
    """The port of a server that runs meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(timeout=10)


@dataclass(frozen=True)
class Bucket:
    """A new bucket of a server."""

    name: str
    port: int

    @classmethod
    def made(cls, port: int) -> Bucket:
        name = f"place-{uuid.uuid4().hex[:12]}"
        httpx.put(f"http://127.0.0.1:{port}/{name}").raise_for_status()
        return cls(name, port)

    def uri(self, prefix: str = "home") -> str:
        """A URI below which nothing is yet."""
        endpoint = f"endpoint_override=http://127.0.0.1:{self.port}&region=us-east-1"
        return f"s3://{self.name}/{prefix}?{endpoint}"
