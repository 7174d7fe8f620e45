"""The repository of a pipeline, which takes what the ticks of its log have taken in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from place.plan.catalog import Catalog
from place.runtime.repository.repository import Repository, TickOfLog
from place.runtime.spark.pipeline import Pipeline
from place.runtime.spark.route import Routing, gathered


def open_repository(pipeline: Pipeline, load: Callable[[int], Catalog]) -> Repository:
    """The repository of a pipeline, whose log is kept until the repository has passed it. `load`
    gives a version of the catalog."""

    def ticks(tick: int) -> Iterator[TickOfLog]:
        for each in pipeline.log.after(tick):
            streams = repository.catalog(each.catalog).streams
            told = gathered(Routing(pipeline.storage, each.tick, "", streams), each.inputs)
            yield TickOfLog(each.tick, each.catalog, told, each.clocks)

    repository = Repository(pipeline.storage, ticks, load, confirm=pipeline.confirm)
    pipeline.archived = lambda: repository.passed
    return repository
