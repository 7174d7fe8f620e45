"""An address of a webhook, on this machine."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any


class Receiver:
    """An address that keeps what it gets, and may be away."""

    def __init__(self, port: int = 0) -> None:
        receiver = self
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.away = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.away:
                    receiver.away -= 1
                    self.send_response(503)
                else:
                    receiver.got.append((dict(self.headers), body))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def deltas(self) -> list[dict[str, Any]]:
        return [delta for _, body in self.got for delta in json.loads(body)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
