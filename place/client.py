"""A session on a server elsewhere: the same calls, over HTTP and WebSocket.

`place.connect("http://localhost:8765", token="place_…")` gives one.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import time
import urllib.parse
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import pyarrow as pa
import websockets.exceptions
import websockets.sync.client

from place.errors import ConfigurationError, PlaceError, ReadingError, StatementError
from place.model.delta import Delta
from place.model.result import Result
from place.model.time import format_timestamp, parse_timestamp
from place.model.types import Row, Type

PATIENCE = 60.0
"""Seconds for the server to answer."""
LATER = (429, 502, 503, 504)
"""What a server answers that will serve again."""
ARROW = "application/vnd.apache.arrow.stream"


class ServerError(PlaceError):
    """The server did not do what it was asked; `code` and `status` say why."""

    def __init__(self, status: int, code: str, message: str, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Pushed:
    """What became of pushed readings: how many are on the server's disk, and what was refused."""

    taken: int
    refused: tuple[tuple[int | None, str], ...] = ()
    refused_count: int = 0


class Client:
    """Statements and readings of one user, on a server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        if token is not None and not re.fullmatch(r"[!-~]+", token):
            raise ConfigurationError(
                "the token is not one", hint="it is what `place token create` has printed"
            )
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=self.url, headers=self._headers, timeout=PATIENCE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # The calls of a session

    def sql(self, text: str) -> Result:
        """Execute the statements of a text in order; the last one's result, without deltas."""
        found = self._ask("POST", "/sql", json={"sql": text})
        return Result(
            found["message"],
            tuple(found["columns"]),
            tuple(Type(kind) for kind in found["types"]),
            tuple(tuple(row) for row in found["rows"]),
        )

    def push(self, stream: str, rows: Any, time: str | int | None = None) -> Pushed:
        """Push readings: rows of values in column order, or a table of Arrow, pandas or polars.

        They are durable when this returns, and reach the answers with the next tick. Those that
        are wrong are refused one by one; if all are, that is a ReadingError. `time` is as for a
        session in this process.
        """
        moment = format_timestamp(time) if isinstance(time, int) else time
        parameters = {} if moment is None else {"time": moment}
        media, body = _written(rows)
        found = self._ask(
            "POST",
            f"/streams/{_quoted(stream)}/readings",
            content=body,
            headers={"Content-Type": media},
            params=parameters,
        )
        refused = tuple((each["row"], each["reason"]) for each in found["refused"])
        if refused and not found["taken"]:
            raise ReadingError(refused[0][1])
        return Pushed(found["taken"], refused, found["refused_count"])

    def disappear(self, stream: str, key: Any, time: str | int) -> Pushed:
        """Tell that an object disappears at a time."""
        about = next((s for s in self.streams() if s["name"].casefold() == stream.casefold()), None)
        if about is None:
            raise ConfigurationError(f'stream "{stream}" does not exist')
        row = {about["key"]: key, "op": "disappear"}
        if about["time"] is not None:
            row[about["time"]] = format_timestamp(time) if isinstance(time, int) else time
        return self.push(stream, [row], time)

    def answer(self, query: str) -> list[Row]:
        """The rows of a registered query's answer as of the last tick, in a stable order."""
        found = self._ask("GET", f"/queries/{_quoted(query)}/answer")
        return [tuple(row) for row in found["rows"]]

    def subscribe(self, query: str, after: str | None = None) -> RemoteSubscription:
        """Subscribe to a query: its answer as positive deltas, then every delta.

        With `after`, the id of a delta seen before, only what came after it.
        """
        name = self._ask("GET", f"/queries/{_quoted(query)}")["name"]
        return RemoteSubscription(self.url, self._headers, name, after)

    def queries(self) -> list[dict[str, Any]]:
        """The queries that you may see."""
        found: list[dict[str, Any]] = self._ask("GET", "/queries")
        return found

    def streams(self) -> list[dict[str, Any]]:
        """All streams, with their counts."""
        found: list[dict[str, Any]] = self._ask("GET", "/streams")
        return found

    def _ask(self, method: str, path: str, **fields: Any) -> Any:
        try:
            reply = self._http.request(method, path, **fields)
        except httpx.HTTPError as error:
            raise ConfigurationError(f"{self.url} does not answer: {error}") from None
        if not reply.is_success:
            raise error_of(reply.status_code, reply.content)
        return reply.json()


def error_of(status: int, content: bytes) -> PlaceError:
    """The error that a server has answered with."""
    try:
        error = json.loads(content)["error"]
        code, message, hint = error["code"], error["message"], error["hint"]
    except (ValueError, KeyError, TypeError):
        return ServerError(status, "unknown", f"the server answered {status}", None)
    if code in ("wrong_statement", "limit_exceeded", "conflict") and status < 500:
        return StatementError(message, line=error["line"], column=error["column"], hint=hint)
    return ServerError(status, code, message, hint)


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _plain(value: Any) -> Any:
    """A value of another library, or a time, as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "item"):  # a number of NumPy
        return value.item()
    raise ReadingError(f"{value!r} is of no type that a reading has")


def _written(rows: Any) -> tuple[str, bytes]:
    """Readings as a body, and what it is."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    library = type(rows).__module__.partition(".")[0]
    if library == "polars":
        rows = rows.to_arrow()
    elif library == "pandas":
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if not isinstance(rows, pa.Table):
        plain = [row if isinstance(row, dict) else list(row) for row in rows]
        return "application/json", json.dumps(plain, default=_plain).encode()
    out = io.BytesIO()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows)
    return ARROW, out.getvalue()


class RemoteSubscription:
    """The deltas of one query. Iterating takes those that are there now, as in a session.

    `last_id` is the id of the last one taken. A connection that breaks is opened again after it, so
    that each delta is seen once.
    """

    def __init__(
        self, url: str, headers: dict[str, str], query: str, after: str | None = None
    ) -> None:
        self.query = query
        self.last_id = after
        self._url = url.replace("http", "ws", 1) + f"/queries/{_quoted(query)}/updates"
        self._headers = headers
        self._waiting: deque[tuple[str, Delta]] = deque()
        self._has_begun = False
        self._open = contextlib.ExitStack()
        self._socket = self._opened()

    def _opened(self) -> websockets.sync.client.ClientConnection:
        url = self._url if self.last_id is None else f"{self._url}?after={self.last_id}"
        try:
            return self._open.enter_context(
                websockets.sync.client.connect(
                    url, additional_headers=self._headers, max_size=None, compression=None
                )
            )
        except websockets.exceptions.InvalidStatus as refusal:
            body = bytes(refusal.response.body or b"")
            raise error_of(refusal.response.status_code, body) from None
        except (OSError, EOFError, websockets.exceptions.InvalidHandshake) as error:
            raise ConfigurationError(f"{self._url} does not answer: {error}") from None

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> RemoteSubscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Delta]:
        while (delta := self.next(0)) is not None:
            yield delta

    def next(self, timeout: float | None = None) -> Delta | None:
        """The next delta; None if none comes within so many seconds.

        What was there when this began is waited for, as a session has it at once.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._waiting:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            if rest is not None and not self._has_begun:
                rest = max(rest, PATIENCE)
            try:
                self._take(self._socket.recv(timeout=rest))
                self._has_begun = True
            except TimeoutError:
                return None
            except websockets.exceptions.ConnectionClosed:
                self._again(deadline)
        self.last_id, delta = self._waiting.popleft()
        return delta

    def _again(self, deadline: float | None) -> None:
        """Open a connection that broke, for as long as there is time."""
        pause = 0.1
        self._open.close()
        while True:
            try:
                self._socket = self._opened()
                return
            except ConfigurationError:
                pass
            except ServerError as error:
                if error.status not in LATER:
                    raise
            if deadline is not None and time.monotonic() + pause > deadline:
                raise ConfigurationError(f"{self._url} does not answer")
            time.sleep(pause)
            pause = min(5.0, 2 * pause)

    def _take(self, text: str | bytes) -> None:
        said = json.loads(text)
        if isinstance(said, dict):
            error = said["error"]
            if error["code"] in ("stopping", "slow_consumer"):
                return  # the connection is closed next, and opened again after the last id
            raise ServerError(0, error["code"], error["message"], error["hint"])
        for each in said:
            instant = parse_timestamp(each["instant"])
            delta = Delta(self.query, each["sign"], tuple(each["row"]), instant)
            self._waiting.append((each["id"], delta))
