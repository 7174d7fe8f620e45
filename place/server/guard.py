"""The guard: queries of clients that cost too much while they run are suspended, and told so.

The hub counts the deltas of each tick anyway, and keeps the sizes of answers. A query that passes
its owner's quota is dropped by a statement like any other, so that nobody else's answers depend on
it and a restart knows it; its text and the reason are kept, so that its owner may have it again.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from place.plan.catalog import fold
from place.plan.query import Query
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.state_figures import TRIGGER_FIGURES
from place.server.settings import VALUE, Quota

if TYPE_CHECKING:
    from place.server.state import Server

LOG = logging.getLogger("place.server")
PAIRS = list(TRIGGER_FIGURES).index("pairs")
PERIOD = 5.0
"""Seconds between looks at what all queries of each client hold together."""


class Guard:
    """A thread that suspends queries; the hub tells it what they cost."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._found: queue.SimpleQueue[tuple[Query, str] | None] = queue.SimpleQueue()
        self._counts: Counter[str] = Counter()
        self._tick, self._least = 0, 0
        self._pairs: dict[str, int] = {}
        """How many pairs triggers have compared since they began."""
        self._spared: dict[int, Query] = {}
        """Those that a sink of the operator needs."""
        self._thread = threading.Thread(target=self._run, name="place-guard", daemon=True)
        server.hub.meter = self

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.hub.meter = None
        self._found.put(None)
        self._thread.join()

    # In the hub's thread

    def count(self, manifest: Manifest, names: Sequence[str], counts: NDArray[Any]) -> None:
        """Queries have told so many deltas in a part of a tick."""
        if manifest.tick != self._tick:
            self._tick, self._least = manifest.tick, self._server.quotas.least().deltas
            self._counts.clear()
        if manifest.deltas > self._least:  # otherwise no single query can have told too many
            for place in np.flatnonzero(counts).tolist():
                self._counts[names[place]] += int(counts[place])

    def end(self) -> None:
        """That was all of a tick: which queries have told more than they may?"""
        for name, count in self._counts.items():
            if count > self._least:
                self._judge(name, "deltas", count)
        self._counts.clear()

    def compare(self, manifest: Manifest) -> None:
        """Which triggers have compared more readings in a tick than they may?"""
        before, self._pairs = self._pairs, {n: c[PAIRS] for n, c in manifest.triggers.items()}
        least = self._server.quotas.least().pairs if self._pairs else 0
        for name, pairs in self._pairs.items():
            count = pairs - before.get(name, 0)
            if count > least and name in before:
                self._judge(name, "pairs", count)

    def _judge(self, name: str, what: str, size: int) -> None:
        query = self._server.session.catalog.queries.get(fold(name))
        quota = self._quota(name)
        if query is not None and quota is not None and size > getattr(quota, what):
            self._found.put((query, reason(what, size, getattr(quota, what))))

    def _quota(self, query: str) -> Quota | None:
        """The quota that a query counts for; None if it is an admin's."""
        owner = self._server.owned(query).owner
        return None if self._server.store.is_admin(owner) else self._server.quotas.of(owner)

    # In the guard's own thread

    def _run(self) -> None:
        while True:
            try:
                with contextlib.suppress(queue.Empty):
                    found = self._found.get(timeout=PERIOD)
                    if found is None:
                        return
                    self._suspend(*found)
                    continue
                self.weigh()
            except Exception:  # of the disk, say: it looks again
                LOG.exception("what queries cost cannot be looked at")

    def weigh(self) -> None:
        """Suspend what is too large: single answers, and the largest of a client's."""
        server, least = self._server, self._server.quotas.least()
        sizes: dict[str, list[tuple[int, Query]]] = defaultdict(list)
        for key, owned in list(server.owners.items()):
            query = server.session.catalog.queries.get(key)
            if query is not None and (size := server.quotas.values_of(query)):
                sizes[owned.owner].append((size, query))
        for owner, found in sizes.items():
            largest, query = max(found, key=lambda each: each[0])
            state = VALUE * sum(size for size, _ in found)
            if (largest > least.answer or state > least.state) and not server.store.is_admin(owner):
                quota = server.quotas.of(owner)
                if largest > quota.answer:
                    what = "answer" if query.trigger is None else "readings"
                    self._suspend(query, reason(what, largest, quota.answer))
                elif state > quota.state:
                    self._suspend(query, reason("state", state, quota.state))

    def _suspend(self, query: Query, why: str) -> None:
        from place.server.statements import suspend  # which knows the server, as the guard does

        if id(query) not in self._spared and not suspend(self._server, query, why):
            self._spared[id(query)] = query


def reason(what: str, size: int, most: int) -> str:
    """Why a query is suspended, for its owner."""
    told = {
        "deltas": f"it told {size:,} deltas in one tick, and may tell {most:,}",
        "answer": f"its answer has {size:,} values (rows times columns), and may have {most:,}",
        "readings": f"it keeps readings of {size:,} values (readings times columns), and may keep"
        f" {most:,}",
        "pairs": f"it compared {size:,} pairs of readings in one tick, and may compare {most:,}",
        "state": "it is the largest of your queries, whose answers and readings hold about"
        f" {size:,} bytes together, and may hold {most:,}",
    }
    return told[what]
