"""Readings without a time of their own have that of their arrival, which never goes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from place.engine.slices import Segment
from place.model.reading import Advance, Reading
from place.model.schema import Column, Stream
from place.model.segment import make_segment
from place.model.types import Type
from place.runtime.durable.storage import Storage
from place.runtime.durable.told import read_told
from place.runtime.spark import ingest
from place.runtime.spark.ingest import IngestLog
from tests.harness.pipeline import opened, runtime_of

HOUR = 3_600
NOON = 1_767_268_800
TAGS = "CREATE STREAM Tags (id BIGINT KEY, x DOUBLE, y DOUBLE)"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The clock on the wall, as whoever accepts readings sees it."""
    now = {"at": float(NOON)}

    class Time:
        time = staticmethod(lambda: now["at"])

    monkeypatch.setattr(ingest, "time", Time)
    return now


def test_a_clock_that_goes_back_loses_nothing_not_even_over_a_restart(
    tmp_path: Path, clock: dict[str, float]
) -> None:
    def come(session: Any, x: float) -> None:
        stream = session.stream("Tags")
        table = make_segment(stream, [Reading("Tags", 1, 0, (1, x, 0.0))])
        runtime_of(session).accept(stream, table)

    def settled(session: Any) -> tuple[list[Any], dict[str, int]]:
        runtime = runtime_of(session)
        while runtime.pump() is not None:
            pass
        return session.answer("near"), runtime.statistics("Tags")

    with opened(tmp_path / "h") as session:
        session.sql(TAGS)
        session.sql("REGISTER QUERY near AS SELECT id FROM Tags INSIDE (0, 0, 5)")
        come(session, 1)
        assert settled(session)[0] == [(1,)]
        clock["at"] -= HOUR
        come(session, 9)
        assert settled(session)[0] == []
        gone = Reading("Tags", 7, (NOON + HOUR) * 10**6, None)
        table = make_segment(session.stream("Tags"), [gone])
        runtime_of(session).ingest.write([Segment("Tags", table)])
        come(session, 2)  # it waits in the log when the process ends
    clock["at"] -= HOUR
    with opened(tmp_path / "h") as session:
        come(session, 9)
        come(session, 3)
        answer, counts = settled(session)
        assert answer == [(1,)]
        assert (counts["readings"], counts["late"]) == (5, 0)
        folder = tmp_path / "in"
        folder.mkdir()
        (folder / "a.csv").write_text("id,x,y\n1,9,0\n2,1,0\n")
        runtime_of(session).read_files("Tags", [(str(folder / "a.csv"), (NOON - 5 * HOUR) * 10**6)])
        runtime_of(session).finish("Tags")
        assert session.answer("near") == [(2,)]
        assert runtime_of(session).statistics("Tags")["late"] == 0


def test_streams_have_arrivals_of_their_own(tmp_path: Path, clock: dict[str, float]) -> None:
    columns = (Column("id", Type.BIGINT), Column("x", Type.DOUBLE))
    storage = Storage(str(tmp_path))
    streams = [Stream(name, columns, 0, None, None, None) for name in ("A", "B")]
    ahead = {"A": (NOON + HOUR) * 10**6}
    log = IngestLog(storage, 0, (), lambda stream: True, lambda stream: ahead.get(stream.name))
    seen = {}
    for stream in streams:
        logged = log.offer(stream, make_segment(stream, [Reading(stream.name, 1, 0, (1, 0.5))]))
        *_, last = read_told(storage, logged.name)
        assert isinstance(last, Advance)
        seen[stream.name] = last.time
    assert seen == {"A": ahead["A"] + 1, "B": NOON * 10**6}
