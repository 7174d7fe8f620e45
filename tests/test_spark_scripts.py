"""The scripts on the runtime on Spark: what the local runtime passes, it passes.

A tick on Spark takes its time: `make test` runs one script of twenty-four and all that recover,
each in one of the ways, neighbours in different ones; `make test-all` runs all of them in all ways.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from place.runtime.spark.session import start_session
from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner

SCRIPTS = find_scripts([Path(__file__).parent / "scripts"])
WAYS = [("1x1", "each"), ("2x2", "random:1"), ("1x2", "random:1"), ("2x2", "each")]


def chosen() -> Iterator[ParameterSet]:
    for number, (path, way) in enumerate(zip(SCRIPTS, cycle(WAYS), strict=False)):
        is_short = number % 24 == 0 or path.parent.name == "recovery" or path.stem == "late"
        marks = () if is_short else (pytest.mark.long,)
        yield pytest.param(path, way, marks=marks, id=f"{path.parent.name}/{path.stem}")


@pytest.fixture(scope="module", autouse=True)
def enough_workers() -> None:
    """One Spark for all ways. The first script would start it for its own number of cells, and
    those with more would wait for new Python processes in every tick."""
    start_session("local[2]")


@pytest.mark.parametrize(("path", "way"), list(chosen()))
def test_script(path: Path, way: tuple[str, str]) -> None:
    cells, batching = way
    ScriptRunner(read_script(path), opener("spark", cells), Batching.parse(batching)).run()
