"""Ticks of what was pushed: of all files of the log that are due, or of one after the other."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from place.errors import PlaceError
from place.runtime.durable.aside import FAILED
from place.runtime.durable.kept_ticks import WRITTEN
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.storage import StorageFault
from place.runtime.spark.ingest import Logged
from place.runtime.spark.inputs import EnclosedInput, PackInput
from place.runtime.spark.pipeline import Entry

if TYPE_CHECKING:
    from place.runtime.spark.runtime import SparkRuntime

LOG = logging.getLogger("place.spark")


def take_files(runtime: SparkRuntime, due: Sequence[Logged]) -> Manifest:
    """One tick of files of the log; small ones are enclosed in it."""
    log, number = runtime.ingest, due[-1].number
    is_small = sum(len(each.content or b"") for each in due) <= runtime.pipeline.small
    inputs = [
        PackInput(each.name)
        if each.content is None or not is_small
        else EnclosedInput(each.content)
        for each in due
    ]
    manifest = runtime.tick(Entry(inputs, ingest=number, since=due[0].since))
    log.forget(number, {i.file for i in inputs if isinstance(i, PackInput)})
    size = sum(each.size for each in due)
    log.pace.count(int(manifest.metrics["rows"]), size, manifest.metrics["seconds"])
    return manifest


def take_singly(runtime: SparkRuntime) -> None:
    """Make ticks of files that make none together: one that is bad must not stop the rest.

    A fault of the storage is never the readings' fault: only where a tick without them can be made,
    and all that a tick may have to write can be written, are they to blame.
    """
    with runtime.pipeline.lock:
        for logged in runtime.ingest.due():
            try:
                take_files(runtime, [logged])
            except StorageFault:
                raise
            except PlaceError as error:
                runtime.pipeline.storage.prove([*WRITTEN, "manifest"])
                runtime.tick(Entry())
                runtime.ingest.set_aside(logged)
                LOG.error(
                    "%s%s is set aside (place retry puts it back): %s", logged.name, FAILED, error
                )
