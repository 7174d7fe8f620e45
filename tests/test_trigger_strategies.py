"""The choice between lists and squares: it is made by what was compared, and changes no alert."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bench.buoys import drift
from bench.trigger_queries import STREAM_NAME, Asked, Chain
from bench.triggers import digest, numbers_of, opened, triggers_of, worker_of
from place.engine import trigger_strategies
from place.engine.changes import Change
from place.engine.slices import Segment
from place.model.space import Space

EVENTS, TICK = 6_000, 1_000


def chain(metres: float, seconds: int) -> Chain:
    """Three readings near each other, of which half qualify for each variable."""
    asked = (Asked("sst", True, 27.0), Asked("wind", True, 7.0), Asked("pressure", False, 1010.0))
    after = ((0, seconds), (0, seconds))
    return Chain(tuple((one,) for one in asked), after, (metres, metres))


def told(statements: Sequence[str], space: str) -> tuple[int, int, list[int]]:
    """How many alerts are told, a number that follows from them, and the strategies at the end."""
    with opened(space, statements) as (session, _):
        worker = worker_of(session)
        columns = session.stream(STREAM_NAME).columns
        reports = drift(Space(space), EVENTS)
        count = checksum = 0
        for begin in range(0, EVENTS, TICK):
            part = reports.part(begin, begin + TICK).as_segment(columns)
            for change in worker.take([Segment(STREAM_NAME, part)]):
                assert isinstance(change, Change)
                count += len(change)
                checksum = (checksum + digest(numbers_of(change), change)) % (1 << 64)
        choices = triggers_of(worker).strategies.choices.values()
        return count, checksum, [choice.strategy for choice in choices]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger_strategies, "EVERY", TICK)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("space", ["planar", "wgs84"])
def test_squares_are_chosen_where_lists_are_long_and_distances_short(space: str) -> None:
    near = chain(8_000.0, 1_800)
    count, checksum, strategies = told([near.statement("t0")], space)
    assert strategies == [trigger_strategies.t.TIGHT]
    assert count > 0
    for hint in ("LOOSE", "TIGHT", "NO INDEX"):
        assert told([near.statement("t0", hint)], space)[:2] == (count, checksum)


@pytest.mark.usefixtures("often")
def test_lists_stay_where_most_readings_are_near() -> None:
    far = chain(900_000.0, 120)
    assert told([far.statement("t0")], "planar")[2] == [trigger_strategies.t.NO_INDEX]


@pytest.mark.usefixtures("often")
def test_going_to_and_fro_changes_no_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = [chain(metres, seconds) for metres, seconds in ((8e3, 900), (6e4, 300), (2e5, 120))]
    statements = [each.statement(f"t{number}") for number, each in enumerate(chains)]
    expected = told(statements, "planar")[:2]

    def go_over(self: trigger_strategies.TriggerStrategies) -> None:
        for number in self._free:
            choice = self.choices[number]
            other = {2: 1, 1: 2}[choice.strategy]
            self._change(choice, number, other)

    monkeypatch.setattr(trigger_strategies.TriggerStrategies, "_choose", go_over)
    assert told(statements, "planar")[:2] == expected
    assert expected[0] > 0


@pytest.mark.usefixtures("often")
def test_explain_analyze_tells_the_strategy_and_why() -> None:
    near = chain(8_000.0, 1_800)
    with opened("planar", [near.statement("t0"), near.statement("t1", "LOOSE")]) as (session, _):
        worker = worker_of(session)
        columns = session.stream(STREAM_NAME).columns
        part = drift(Space.PLANAR, EVENTS).as_segment(columns)
        worker.take([Segment(STREAM_NAME, part)])
        notes = triggers_of(worker).observed("t0").notes
        assert any(note.startswith("strategy TIGHT: ") and "pairs" in note for note in notes)
        assert "strategy LOOSE: by a hint" in triggers_of(worker).observed("t1").notes
        assert np.all(triggers_of(worker).store.held_of(0) >= 0)
