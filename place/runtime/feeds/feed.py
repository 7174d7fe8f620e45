"""What a feed is: messages that come over a connection, and are acknowledged when they are durable.

A feed knows how to connect and what its messages mean. Who reads it makes a tick of each batch, and
acknowledges the batch when the tick is committed: a process that is killed before that gets the
messages again from whoever sent them, as far as the protocol has acknowledgements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from place.model.schema import Stream
from place.runtime.intake.check import Rejections, Routed
from place.runtime.intake.json_file import Item, ObjectReader
from place.runtime.intake.judge import Arrival

FEEDS = ("MQTT", "NMEA", "GTFS_REALTIME")
"""The kinds of sources that are feeds; NMEA only with a host, and not with a path."""
MOST_WAITING = 10_000
"""Messages that wait for their tick, at most: no more are taken from who sends them."""


@dataclass(frozen=True)
class Batch:
    """Messages as readings by the names of their members, or why they are none, with their texts;
    `receipt` is what the feed needs to acknowledge them."""

    source: str
    items: Sequence[Item]
    texts: Sequence[str]
    receipt: Any = field(default=None, repr=False)

    def check(self, stream: Stream, arrival: Arrival, latest: int | None) -> Routed:
        """The readings of the messages, by the one door; those that are wrong are rejected."""
        rejections = Rejections(self.source)

        def text_of(index: int) -> tuple[int | None, str]:
            return None, self.texts[index]

        reader = ObjectReader(stream, latest)
        segment = reader.sort_out(list(self.items), rejections, text_of, arrival)
        return Routed(segment, rejections.all())


class Feed(Protocol):
    """A connection. What keeps it from being read is a PlaceError; then it is tried again."""

    def take(self, seconds: float, most: int) -> Batch | None:
        """The messages that have come, waiting so long at most for the first; None if none came."""

    def acknowledge(self, batch: Batch) -> None:
        """The readings of a batch are durable."""

    def is_waited_for(self) -> bool:
        """Are there messages that were not taken yet?"""

    def close(self) -> None:
        """Let go of the connection."""


def is_feed(stream: Stream) -> bool:
    """Does a stream come from a feed?"""
    source = stream.source
    if source is None or source.kind not in FEEDS:
        return False
    return source.kind != "NMEA" or source.option("host") is not None
