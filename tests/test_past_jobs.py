"""Questions about the past in shares: as Spark jobs, and by the same shares in this process."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from place.runtime.spark import past_jobs
from place.runtime.spark.session import start_session
from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner

SCRIPTS = find_scripts([Path(__file__).parent / "scripts" / "past"])
SHORT = {"range", "windows", "trajectories"}


def chosen() -> Iterator[ParameterSet]:
    for path in SCRIPTS:
        marks = () if path.stem in SHORT else (pytest.mark.long,)
        yield pytest.param(path, marks=marks, id=path.stem)


@pytest.fixture(scope="module", autouse=True)
def spark() -> None:
    start_session("local[2]")


@pytest.fixture
def all_are_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question that can be divided is a Spark job, with several slices of time."""
    monkeypatch.setattr(past_jobs, "JOB_ROWS", 0)
    monkeypatch.setattr(past_jobs, "PIECE", 3)


@pytest.mark.usefixtures("all_are_jobs")
@pytest.mark.parametrize("path", list(chosen()))
def test_scripts_hold_where_questions_are_jobs(path: Path) -> None:
    ScriptRunner(read_script(path), opener("spark", "1x1"), Batching.parse("random:1")).run()
