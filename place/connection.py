"""What `place.connect` gives, wherever the pipeline is: the calls that all of them have.

A `Session` is in this process, a `Client` speaks with a server. Both take the same arguments and
return the same values, and what is wrong is the same error. One difference is in time: a session
returns from `push` when the answers are right again, a server when the readings are durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from place.model.delta import Delta
from place.model.result import Pushed, Result
from place.model.tabular import Rows
from place.model.types import Moment


class Subscription(Protocol):
    """The deltas of one query since it was subscribed to: first its answer, then each change."""

    @property
    def query(self) -> str:
        """The name of the query."""

    def __iter__(self) -> Iterator[Delta]:
        """Take the deltas that are there now."""

    def next(self, timeout: float | None = None) -> Delta | None:
        """The next delta; None if none comes within so many seconds. Without a limit, wait."""

    def follow(self, timeout: float | None = None) -> Iterator[Delta]:
        """Every delta as it comes, until none comes for so many seconds."""

    def close(self) -> None:
        """End it; nothing comes any more."""

    def __enter__(self) -> Subscription: ...

    def __exit__(self, *_: object) -> None: ...


class PastConnection(Protocol):
    """A time of the past, which can be asked and not changed."""

    def sql(self, text: str) -> Result:
        """Execute the SELECTs of a text in order; the last one's result."""

    def answer(self, query: str) -> Rows:
        """The rows that a registered query answered then."""


class Connection(Protocol):
    """Statements and readings in, answers and deltas out."""

    def sql(self, text: str) -> Result:
        """Execute the statements of a text in order; the last one's result."""

    def push(self, stream: str, rows: Any, time: Moment | None = None) -> Pushed:
        """Push readings: rows of values, dicts by column name, or a table. All, or none."""

    def disappear(self, stream: str, key: Any, time: Moment) -> Pushed:
        """Tell that an object disappears at a time."""

    def advance(self, time: Moment) -> Pushed:
        """Tell that all streams have reached a time."""

    def answer(self, query: str) -> Rows:
        """The rows of a registered query's answer, in a stable order."""

    def at(self, time: Moment) -> PastConnection:
        """A time of the past, with the tables, regions and queries of now."""

    def subscribe(self, query: str) -> Subscription:
        """Subscribe to a query: its answer as positive deltas, then every delta."""

    def close(self) -> None:
        """Let go of what the connection holds."""

    def __enter__(self) -> Connection: ...

    def __exit__(self, *_: object) -> None: ...
