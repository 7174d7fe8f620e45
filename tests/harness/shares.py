"""Questions about the past in shares, all of them in this process: what Spark's tasks would do."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
import pyarrow as pa

from place.plan.past import Question
from place.plan.past_reads import needs_of, start_of
from place.runtime.archive import Archive
from place.runtime.archive_reads import since_of
from place.runtime.interface import Recalled
from place.runtime.past_shares import Division, Together, ways_together, why_whole
from place.runtime.recall import named, recall


def recall_in_shares(
    archive: Archive, question: Question, most: int | None, shares: int, slices: int
) -> Recalled:
    """What a question is answered with if it is divided; as it is, where that cannot be."""
    if why_whole(question) is not None:
        return recall(archive, question, most)
    question = named(question)
    start, spans, tables = start_of(question), {}, [dict[str, pa.Table]() for _ in range(shares)]
    since = question.begin
    for need in needs_of(question):
        stream = need.stream
        span = spans[stream.name] = archive.span(stream, question.begin)
        if span is not None:
            since = since_of(need, span, start)
            parts = [archive.readings(stream, since, question.last).table]
            if need.objects:
                parts.insert(0, archive.objects(stream, since).table)
            whole = _by_time(pa.concat_tables(parts))
            for share, some in Division(question, shares, {}, ()).cut(stream, whole):
                tables[share][stream.name] = _by_time(some)
    last = question.last
    times = np.linspace(max(since, question.begin), last, slices + 1).astype(np.int64)
    division = Division(question, shares, spans, (*times[1:-1].tolist(), last))
    if question.trajectory is not None:
        return ways_together([division.ways(some, most) for some in tables])
    together = Together(question, most)
    found = [division.found(division.open(share, some), most) for share, some in enumerate(tables)]
    for parts in zip_longest(*found, fillvalue=[]):
        together.add(each for part in parts for each in part)
    return together.recalled()


def _by_time(table: pa.Table) -> pa.Table:
    times = table.column(table.num_columns - 2).to_numpy()
    return table.take(pa.array(np.argsort(times, kind="stable")))
