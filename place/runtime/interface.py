"""What a session asks of a runtime, whichever one it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from place.model.delta import Answer, Delta
from place.model.reading import Input
from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.logical import Plan
from place.plan.query import Query

Listener = Callable[[list[Delta]], object]


class Runtime(Protocol):
    """Keeps every answer right, and says what changed."""

    name: str
    catalog: Catalog
    listener: Listener | None
    """Gets the deltas of ticks that no call waits for."""

    def pause(self) -> AbstractContextManager[None]:
        """Hold up ticks, so that a caller can read an answer and then get exactly the deltas that
        follow it."""

    def change(self, catalog: Catalog) -> list[Delta]:
        """Make a new version of the catalog effective and durable; the deltas that it causes."""

    def feed(self, inputs: Sequence[Input]) -> list[Delta]:
        """One tick: readings and advances in the source's order; the deltas that follow."""

    def answer(self, query: str) -> Answer:
        """The answer of a registered query as its deltas have built it up."""

    def instant(self, query: str) -> int:
        """The instant that a registered query has reached."""

    def ask(self, query: Query) -> Answer:
        """The answer of any query now."""

    def plan(self, query: Query) -> Plan:
        """How a query is answered, or would be."""

    def analyze(self, query: Query) -> Observed:
        """What passed through the plan of a registered query since it began; of any other, now."""

    def statistics(self, stream: str) -> dict[str, int]:
        """Counts of a stream: objects, readings, late."""

    def close(self) -> None:
        """Stop; what was durable stays."""
