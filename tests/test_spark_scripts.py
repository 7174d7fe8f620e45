"""The scripts on the runtime on Spark: what the local runtime passes, it passes."""

from pathlib import Path

import pytest

from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner, ScriptSkipped

SCRIPTS = find_scripts([Path(__file__).parent / "scripts"])
WAYS = [("1x2", "each"), ("2x2", "random:1")]


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(("cells", "batching"), WAYS)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_script(path: Path, cells: str, batching: str) -> None:
    try:
        ScriptRunner(read_script(path), opener("spark", cells), Batching.parse(batching)).run()
    except ScriptSkipped as skip:
        pytest.skip(f"the runtime spark has no {skip.operator} yet")
