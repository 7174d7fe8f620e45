"""A session on a server elsewhere: the same calls, over HTTP and WebSocket.

`place.connect("http://localhost:8765", token="place_…")` gives one.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

import httpx

from place.client.body import JSON, write_readings, write_time, write_value
from place.client.errors import ServerError as ServerError
from place.client.errors import error_of
from place.client.subscription import PATIENCE, RemoteSubscription
from place.errors import ConfigurationError
from place.model.result import Pushed, Result
from place.model.tabular import Rows
from place.model.types import Moment, Type


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
        """Let go of the connections that are kept open for the next call."""
        self._http.close()

    # The calls of a session

    def sql(self, text: str) -> Result:
        """Execute the statements of a text in order; the last one's result, without deltas."""
        return self._execute({"sql": text})

    def _execute(self, body: dict[str, str]) -> Result:
        found = self._ask("POST", "/sql", json=body)
        rows = tuple(tuple(row) for row in found["rows"])
        columns, line = tuple(found["columns"]), found["line"]
        return Result(found["message"], columns, _types(found), rows, line=line)

    def push(self, stream: str, rows: Any, time: Moment | None = None) -> Pushed:
        """Push readings; how many were taken, and how many are known to be late.

        They are rows of values in column order, dicts by column name, or a table of Arrow, pandas
        or polars. If one is wrong, none is taken. They are durable when this returns, and reach the
        answers with the next tick. `time` is as for a session in this process.
        """
        kind, body = write_readings(rows)
        parameters = {"whole": "true"}
        if time is not None:
            parameters["time"] = write_time(time)
        path = f"/streams/{_quoted(stream)}/readings"
        return self._tell(path, kind, body, parameters)

    def disappear(self, stream: str, key: Any, time: Moment) -> Pushed:
        """Tell that an object disappears at a time."""
        body = json.dumps({"key": write_value(key)}).encode()
        path = f"/streams/{_quoted(stream)}/disappear"
        return self._tell(path, JSON, body, {"time": write_time(time)})

    def advance(self, time: Moment) -> Pushed:
        """Tell that all streams have reached a time."""
        return self._tell("/advance", JSON, b"", {"time": write_time(time)})

    def answer(self, query: str) -> Rows:
        """The rows of a registered query's answer as of the last tick, in a stable order."""
        found = self._ask("GET", f"/queries/{_quoted(query)}/answer")
        return Rows(found["columns"], _types(found), found["rows"])

    def at(self, time: Moment) -> PastClient:
        """A time of the past, which can be asked and not changed, as `session.at`."""
        return PastClient(self._execute, write_time(time))

    def subscribe(self, query: str, after: str | None = None) -> RemoteSubscription:
        """Subscribe to a query: its answer as positive deltas, then every delta.

        With `after`, the id of a delta seen before, only what came after it. A trigger has no
        answer: its alerts from now on are told.
        """
        found = self._ask("GET", f"/queries/{_quoted(query)}")
        name = found["name"]
        if after is None and found["kind"] == "trigger":  # so that none is lost when it breaks
            after = self._ask("GET", f"/queries/{_quoted(name)}/answer")["after"]
        address = self.url.replace("http", "ws", 1) + f"/queries/{_quoted(name)}/updates"
        return RemoteSubscription(
            address, self._headers, name, found["columns"], _types(found), after
        )

    # What only a server has

    def queries(self) -> list[dict[str, Any]]:
        """The queries that you may see."""
        found: list[dict[str, Any]] = self._ask("GET", "/queries")
        return found

    def streams(self) -> list[dict[str, Any]]:
        """All streams, with their counts."""
        found: list[dict[str, Any]] = self._ask("GET", "/streams")
        return found

    def _tell(self, path: str, kind: str, body: bytes, parameters: dict[str, str]) -> Pushed:
        found = self._ask(
            "POST", path, content=body, headers={"Content-Type": kind}, params=parameters
        )
        return Pushed(taken=found["taken"], late=found.get("late", 0))

    def _ask(self, method: str, path: str, **fields: Any) -> Any:
        try:
            reply = self._http.request(method, path, **fields)
        except httpx.HTTPError as error:
            raise ConfigurationError(f"{self.url} does not answer: {error}") from None
        if not reply.is_success:
            raise error_of(reply.status_code, reply.content)
        return reply.json()


class PastClient:
    """Answers SELECTs as of one time on a server, with the tables, regions and queries of now."""

    def __init__(self, execute: Callable[[dict[str, str]], Result], time: str) -> None:
        self._execute, self._time = execute, time

    def __repr__(self) -> str:
        return f"<client of {self._time}>"

    def sql(self, text: str) -> Result:
        """Execute the SELECTs of a text in order; the last one's result."""
        return self._execute({"sql": text, "at": self._time})

    def answer(self, query: str) -> Rows:
        """The rows that a registered query answered then."""
        name, time = query.replace('"', '""'), self._time.replace("'", "''")
        found = self._execute({"sql": f"SELECT * FROM QUERY \"{name}\" AS OF '{time}'"})
        return Rows(found.columns, found.types, found.rows)


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _types(found: dict[str, Any]) -> tuple[Type, ...]:
    return tuple(Type(kind) for kind in found["types"])
