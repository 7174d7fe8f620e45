"""The feed of a stream, by the kind of its source."""

from __future__ import annotations

from place.model.schema import Stream
from place.runtime.feeds.broker import BrokerFeed
from place.runtime.feeds.feed import Feed
from place.runtime.feeds.receiver import ReceiverFeed
from place.runtime.feeds.transit import TransitFeed


def open_feed(stream: Stream, label: str) -> Feed:
    """A feed that connects when it is first read. `label` is the stream's own, also after a
    restart."""
    source = stream.source
    assert source is not None
    if source.kind == "MQTT":
        return BrokerFeed(stream, source, label)
    if source.kind == "GTFS_REALTIME":
        return TransitFeed(stream, source)
    return ReceiverFeed(stream, source)
