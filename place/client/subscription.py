"""A subscription to a query of a server, over a WebSocket that is opened again when it breaks.

The server numbers deltas with ids that only grow. Who resumes after the last id that it has taken
misses nothing and gets nothing twice, also where the server was stopped, or killed, and started
again.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import websockets.exceptions
import websockets.sync.client

from place.client.errors import LATER, ServerError, error_of
from place.errors import ConfigurationError, PlaceError
from place.model.delta import Delta
from place.model.record import record_type
from place.model.time import parse_timestamp
from place.model.types import Type

PATIENCE = 60.0
"""Seconds for the server to send what is there."""
AWAY = 300.0
"""Seconds that a server may be away; then a subscription is given up."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between attempts to reach it again."""
STATUS = {"gone": 410, "query_dropped": 404, "not_authenticated": 401}


class RemoteSubscription:
    """The deltas of one query: first its answer, then each change.

    Iterating takes the deltas that are there now; `next` and `follow` wait for those that come.
    `last_id` is the id of the last one taken. While the server is away, iterating waits for it,
    for five minutes at most.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        query: str,
        columns: Sequence[str],
        types: Sequence[Type],
        after: str | None = None,
    ) -> None:
        self.query = query
        self.last_id = after
        self._address = address
        self._headers = headers
        self._record = record_type(tuple(columns), tuple(types))
        self._waiting: deque[tuple[str, Delta]] = deque()
        self._ending: PlaceError | None = None
        self._is_closed = False
        self._has_begun = False
        self._lost_at: float | None = None
        self._pause = 0.0
        self._open = contextlib.ExitStack()
        self._socket: websockets.sync.client.ClientConnection | None = self._opened()

    def close(self) -> None:
        """End it; nothing comes any more."""
        self._is_closed = True
        self._waiting.clear()
        self._open.close()

    def __enter__(self) -> RemoteSubscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Delta]:
        while (delta := self._next(time.monotonic(), catches_up=True)) is not None:
            yield delta

    def follow(self, timeout: float | None = None) -> Iterator[Delta]:
        """Every delta as it comes, until none comes for so many seconds."""
        while (delta := self.next(timeout)) is not None:
            yield delta

    def next(self, timeout: float | None = None) -> Delta | None:
        """The next delta; None if none comes within so many seconds. Without a limit, wait.

        What was there when this began is waited for, as a session has it at once.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._next(deadline, catches_up=False)

    def _next(self, deadline: float | None, *, catches_up: bool) -> Delta | None:
        """The next delta; who catches up also waits for a server that is away."""
        while not self._waiting:
            if self._is_closed:
                return None
            if self._ending is not None:
                raise self._ending
            if self._socket is None:
                self._socket = self._reopened(None if catches_up else deadline)
            if self._socket is None:
                return None
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            if rest is not None and not self._has_begun:
                rest = max(rest, PATIENCE)
            try:
                self._take(self._socket.recv(timeout=rest))
            except TimeoutError:
                if self._has_begun:
                    return None
                self._lose()
            except websockets.exceptions.ConnectionClosed:
                self._lose()
        self.last_id, delta = self._waiting.popleft()
        return delta

    # The connection

    def _opened(self) -> websockets.sync.client.ClientConnection:
        after = "" if self.last_id is None else f"?after={self.last_id}"
        try:
            return self._open.enter_context(
                websockets.sync.client.connect(
                    self._address + after,
                    additional_headers=self._headers,
                    open_timeout=PATIENCE,
                    max_size=None,
                    compression=None,
                )
            )
        except websockets.exceptions.InvalidStatus as refusal:
            body = bytes(refusal.response.body or b"")
            raise error_of(refusal.response.status_code, body) from None
        except (OSError, EOFError, websockets.exceptions.InvalidHandshake) as error:
            raise ConfigurationError(f"{self._address} does not answer: {error}") from None

    def _lose(self) -> None:
        """The connection is broken; the next one resumes."""
        self._open.close()
        self._socket = None
        self._has_begun = False
        if self._lost_at is None:
            self._lost_at = time.monotonic()

    def _reopened(self, deadline: float | None) -> websockets.sync.client.ClientConnection | None:
        """The connection again, after pauses that grow; None if the time is over before."""
        while True:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            time.sleep(self._pause if rest is None else min(self._pause, rest))
            self._pause = min(LONGEST_PAUSE, 2 * self._pause or FIRST_PAUSE)
            try:
                return self._opened()
            except ServerError as error:
                if error.status not in LATER:
                    self._ending = error
                    raise
                reason: ConfigurationError = error
            except ConfigurationError as error:
                reason = error
            now = time.monotonic()
            if self._lost_at is not None and now - self._lost_at > AWAY:
                raise reason
            if deadline is not None and now >= deadline:
                return None

    def _take(self, text: str | bytes) -> None:
        told = json.loads(text)
        if isinstance(told, dict):
            self._fail(told["error"])
            return
        self._has_begun, self._lost_at, self._pause = True, None, 0.0
        for each in told:
            row = self._record(each["row"])
            instant = parse_timestamp(each["instant"])
            self._waiting.append((each["id"], Delta(self.query, each["sign"], row, instant)))

    def _fail(self, error: Mapping[str, Any]) -> None:
        """The server ends the subscription; some endings only ask to come again."""
        code, message = error["code"], error["message"]
        if code in ("stopping", "slow_consumer"):
            return  # the connection is closed next, and opened again after the last id
        if code == "query_dropped":
            message = f'query "{self.query}" was dropped'
        self._ending = ServerError(STATUS.get(code, 0), code, message, error["hint"])
