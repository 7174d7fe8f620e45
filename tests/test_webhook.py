"""A webhook goes to the machine that was checked, and to no other."""

from __future__ import annotations

import asyncio
import http.server
import socket
import threading

import pytest

from place.runtime.durable import webhook


def test_a_name_is_looked_up_once_and_each_message_has_its_own_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that means another machine the second time, and two names of one number: a connection
    whose certificate was that of one name is not used for the other."""
    asked: list[str] = []
    came: list[tuple[object, str]] = []

    def look_up(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        number = "127.0.0.1" if asked.count(host) == 1 else "127.0.0.99"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, 80))]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.client_address, self.headers["Host"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    async def post(port: int) -> None:
        async with webhook.sender() as client:
            for name in ("one.example", "two.example"):
                address = webhook.Address(f"http://{name}:{port}/hook")
                await address.post(client, b"[]", {})

    monkeypatch.setattr(webhook, "is_public", lambda _: True)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        asyncio.run(post(port))
        server.shutdown()
    assert asked == ["one.example", "two.example"]
    assert [host for _, host in came] == [f"one.example:{port}", f"two.example:{port}"]
    assert len({connection for connection, _ in came}) == 2
