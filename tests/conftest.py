"""Fixtures that several tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from place.runtime.spark import session
from tests.harness.route import Folder
from tests.harness.town import Town, founded

MOST_CELLS = 4
"""Of a session on Spark in any test of this process."""


@pytest.fixture(scope="session", autouse=True)
def slots_for_all() -> Iterator[None]:
    """All tests of a process share one Spark: whoever starts it does so for all of them."""
    as_it_is = session.with_slots
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            session,
            "with_slots",
            lambda master, cells, processors: as_it_is(master, max(cells, MOST_CELLS), processors),
        )
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with founded(tmp_path_factory.mktemp("town") / "home") as made:
        yield made
