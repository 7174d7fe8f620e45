"""What all tests share: fixtures, and how Spark's Java is started."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.route import Folder
from tests.harness.town import Town, founded

# For the processes that tests start, too; the file there says what it changes.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "fixtures" / "spark"))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with founded(tmp_path_factory.mktemp("town") / "home") as made:
        yield made
