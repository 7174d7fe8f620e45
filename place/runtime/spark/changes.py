"""The changelog as a source of Spark: for whoever goes on with the deltas in Spark.

It is a data source in Python over the files of a home: an offset is a tick, so Spark's own
checkpoint makes each delta come once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from place.runtime.durable import manifest as manifests
from place.runtime.durable.deltas import CHANGELOG, WHOLE, Beside, Deltas
from place.runtime.durable.storage import Storage

NAME = "place-changes"


class Ticks(InputPartition):
    """A tick to be read."""

    def __init__(self, tick: int) -> None:
        super().__init__(tick)
        self.tick = tick


class ChangesReader(DataSourceStreamReader):
    """Reads ticks as they are committed."""

    def __init__(self, root: str, queries: set[str] | None) -> None:
        self._storage = Storage(root)
        self._queries = queries

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"tick": Beside(self._storage).kept_from - 1}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        found = manifests.ticks(self._storage)
        return {"tick": found[-1] if found else 0}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        Deltas(self._storage).check((start["tick"], WHOLE))
        later = Beside(self._storage).ticks_after(start["tick"])
        return [Ticks(tick) for tick in later if tick <= end["tick"]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Ticks)
        tick = partition.tick
        for found in Deltas(self._storage).after((tick - 1, WHOLE), tick):
            yield from found.changelog(self._queries).cast(CHANGELOG).to_batches()

    def commit(self, end: dict[str, Any]) -> None:
        """Spark keeps its own account."""


class ChangesSource(DataSource):
    """`spark.readStream.format("place-changes")` with the root of a storage and queries."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        row = "query STRING, sign TINYINT, row STRING, instant TIMESTAMP"
        return f"{row}, tick BIGINT, position BIGINT"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        named = self.options.get("queries")
        queries = set(named.split("\n")) if named else None
        return ChangesReader(self.options["root"], queries)


def changes_of(spark: SparkSession, root: str, queries: Sequence[str]) -> DataFrame:
    """The deltas of queries (of all, if none is named) as a streaming DataFrame."""
    spark.dataSource.register(ChangesSource)
    reader = spark.readStream.format(NAME).option("root", root)
    if queries:
        reader = reader.option("queries", "\n".join(queries))
    return reader.load()
