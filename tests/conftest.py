"""Fixtures that several tests share."""

from pathlib import Path

import pytest

from tests.harness.route import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
