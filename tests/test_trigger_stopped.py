"""A trigger that asks for too much is stopped; ticks and the other triggers go on."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

import place

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
READINGS = 40


def test_a_trigger_with_too_many_matches_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    with place.connect() as session:
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE);"
            "CREATE TRIGGER crowd FOR Cars AS V[12] WHEN V.x >= 0 WITHIN '1 hour' REPORT FIRST;"
            "CREATE TRIGGER pair FOR Cars AS a, Cars AS b"
            " WHEN a.id + 1 = b.id AND b.t - a.t IN [0, 1]"
        )
        told = []
        with caplog.at_level(logging.WARNING, "place.engine"):
            for number in range(READINGS):
                at = BEGIN + timedelta(seconds=number)
                told += session.push("Cars", [(number, number, 0)], time=at)
            told += session.advance(BEGIN + timedelta(hours=2))
        pairs = [delta for delta in told if delta.query == "pair"]
        assert len(pairs) == READINGS - 1
        crowds = [delta for delta in told if delta.query == "crowd"]
        assert 0 < len(crowds) < READINGS - 5
        plan = "\n".join(row[0] for row in session.sql("EXPLAIN ANALYZE TRIGGER crowd").rows)
        assert "stopped: for one reading more than" in plan
        other = "\n".join(row[0] for row in session.sql("EXPLAIN ANALYZE TRIGGER pair").rows)
        assert "stopped" not in other
    assert [record.message for record in caplog.records if '"crowd" is stopped' in record.message]


def test_readings_are_let_go_of_when_time_passes_and_nothing_comes() -> None:
    with place.connect() as session:
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE);"
            "CREATE TRIGGER pair FOR Cars AS a, Cars AS b WHEN a.id < b.id AND b.t - a.t IN [0, 5]"
        )
        session.push("Cars", [(1, 0, 0)], time=BEGIN)
        plan = "\n".join(row[0] for row in session.sql("EXPLAIN ANALYZE TRIGGER pair").rows)
        assert "keeps 1 for a, 0 for b" in plan
        session.advance(BEGIN + timedelta(seconds=4))
        plan = "\n".join(row[0] for row in session.sql("EXPLAIN ANALYZE TRIGGER pair").rows)
        assert "keeps 1 for a, 0 for b" in plan
        session.advance(BEGIN + timedelta(seconds=6))
        plan = "\n".join(row[0] for row in session.sql("EXPLAIN ANALYZE TRIGGER pair").rows)
        assert "keeps 0 for a, 0 for b" in plan
