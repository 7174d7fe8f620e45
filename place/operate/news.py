"""What the log of a pipeline tells: how it gets on, and what an operator may have to look at."""

from __future__ import annotations

import logging

from place.operate.logs import Repeats
from place.runtime.durable.manifest import Manifest
from place.runtime.interface import DurableRuntime

LOG = logging.getLogger("place.news")
PACE = 10.0
"""Seconds between lines about how it goes."""
SLOW = 2.0
"""Seconds that a tick may take before it is worth a line."""
STAGES = ("route", "match", "answer", "outbox", "log", "settle", "spark")


class News:
    """Tells of ticks that were slow as they come, and now and then of all since the last time."""

    def __init__(self, runtime: DurableRuntime, repeats: Repeats, slow: float = SLOW) -> None:
        self._runtime = runtime
        self._repeats = repeats
        self._slow = slow
        self._told_at = float("-inf")
        self._told = runtime.last
        runtime.watch(self.committed)

    def committed(self, manifest: Manifest) -> None:
        """A tick is done: was it slow?"""
        seconds = manifest.metrics.get("seconds", 0.0)
        if seconds < self._slow:
            return
        stage = max(STAGES, key=lambda name: manifest.metrics.get(name, 0.0))
        LOG.warning(
            "tick %d took %.1f s, of which %s %.1f s",
            *(manifest.tick, seconds, stage, manifest.metrics.get(stage, 0.0)),
            extra={"facts": {"tick": manifest.tick, "seconds": seconds, "stage": stage}},
        )

    def look(self, now: float) -> None:
        """Tell what has happened since the last time, if it is time."""
        if now - self._told_at < PACE:
            return
        self._told_at = now
        for line in self._repeats.ended():
            LOG.warning(line)
        last, told = self._runtime.last, self._told
        for sink, failure in self._runtime.deliveries.failures().items():
            LOG.error("sink %s fails: %s", sink, failure, extra={"facts": {"sink": sink}})
        if last is None or last is told:
            return
        self._told = last
        counts = []
        for name, totals in last.totals.items():
            before = told.totals.get(name, {}) if told is not None else {}
            more = {key: n - before.get(key, 0) for key, n in totals.items()}
            if not name:
                counts.append(f"{more.get('deltas', 0):,} deltas")
                continue
            if more["readings"]:
                counts.append(f"{more['readings']:,} readings of {name}")
            if more["late"] or more["bad"]:
                LOG.warning(
                    "%s: %d readings came too late, %d were refused",
                    *(name, more["late"], more["bad"]),
                    extra={"facts": {"stream": name, "late": more["late"], "refused": more["bad"]}},
                )
        seconds = last.metrics.get("seconds", 0.0)
        LOG.info(
            "tick %d: %s (%.2f s)",
            *(last.tick, ", ".join(counts), seconds),
            extra={"facts": {"tick": last.tick, "seconds": seconds}},
        )
