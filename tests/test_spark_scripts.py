"""The scripts on the runtime on Spark: what the local runtime passes, it passes.

Each script runs in one of four ways here, neighbours in different ones; `make test-all` runs all
scripts in all of them.
"""

from itertools import cycle
from pathlib import Path

import pytest

from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner

SCRIPTS = find_scripts([Path(__file__).parent / "scripts"])
WAYS = [("1x2", "each"), ("2x2", "random:1"), ("1x2", "random:1"), ("2x2", "each")]


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("path", "way"),
    list(zip(SCRIPTS, cycle(WAYS), strict=False)),
    ids=lambda given: given if isinstance(given, tuple) else f"{given.parent.name}/{given.stem}",
)
def test_script(path: Path, way: tuple[str, str]) -> None:
    cells, batching = way
    ScriptRunner(read_script(path), opener("spark", cells), Batching.parse(batching)).run()
