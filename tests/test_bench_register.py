"""`place bench register`: figures of every kind, from the same queries."""

import json
from pathlib import Path

import pytest

from bench import register
from place.cli import main


def test_it_tells_and_writes_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "calibrate", lambda: 0.5)
    monkeypatch.setattr(register, "FEW", 20)
    file = tmp_path / "register.json"
    command = ["bench", "register", "--queries", "200", "--no-spark", "--json", str(file)]
    assert main(command) == 0
    figures = json.loads(file.read_text())
    keys = {"local_per_s", "spark_per_s", "table_per_s", "calibration_s", "exponent", "deltas"}
    assert keys <= figures.keys()
    assert min(figures[key] for key in ("local_per_s", "table_per_s", "deltas")) > 0
