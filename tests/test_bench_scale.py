"""The benchmark of scale: the same deltas whatever the cells, and each cell has its share."""

import json
from pathlib import Path

import pytest

from bench import scale
from place.cli import main


def test_cells_have_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "MATRICES", ("1x1", "2x2"))
    file = tmp_path / "scale.json"
    few = ["--objects", "3000", "--queries", "60", "--side", "0.1", "--json", str(file)]
    assert main(["bench", "scale", *few]) == 0
    found = json.loads(file.read_text("utf-8"))
    one, four = found["cells"]
    assert (one["cells"], four["cells"]) == ("1x1", "2x2")
    assert one["deltas"] == four["deltas"] > 0
    assert four["held_of_share"] < scale.BOUND
    assert four["read"] < 0.7 * one["read"]
    assert found["cluster"]["objects_known_by_a_cell"] == 1_090_000


def test_more_queries_than_objects_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "scale", "--objects", "5", "--queries", "6"]) == 1
    assert "6 queries cannot follow 5 objects" in capsys.readouterr().err
