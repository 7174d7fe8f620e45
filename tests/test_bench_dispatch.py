"""`place bench dispatch`: figures of the engine and the tree, from the same changes."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from bench import dispatch
from place.cli import main
from place.errors import ConfigurationError, InternalError

FEW = dispatch.Setting(calls=40, drivers=300, k=3, moving=0.5, ticks=4, threads=1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about times."""
    monkeypatch.setattr(dispatch, "calibrate", lambda: 0.5)


@pytest.mark.parametrize("moving", ["1", "0.1"])
def test_it_tells_and_writes_figures(tmp_path: Path, moving: str) -> None:
    file = tmp_path / "dispatch.json"
    sizes = ["--calls", "50", "--drivers", "400", "--k", "3", "--moving", moving, "--ticks", "3"]
    assert main(["bench", "dispatch", *sizes, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert list(figures) == [field.name for field in fields(dispatch.Figures)]
    assert figures["deltas"] > 0
    assert figures["ratio"] == pytest.approx(figures["ckdtree_s"] / figures["engine_s"])


def test_a_change_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = dispatch.Engine.keys
    monkeypatch.setattr(dispatch.Engine, "keys", lambda engine, found: keys(engine, found)[1:])
    with pytest.raises(InternalError, match="differ at tick"):
        dispatch.measure(FEW)


def test_there_are_as_many_drivers_as_each_call_asks_for() -> None:
    with pytest.raises(ConfigurationError, match="no 5 drivers"):
        dispatch.measure(dispatch.Setting(calls=2, drivers=4, k=5))
