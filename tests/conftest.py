"""Fixtures that several tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.route import Folder
from tests.harness.town import Town, founded

WAITING = {"meet", "window_joins", "distance", "nearest_each", "rules"}
"""Scripts of queries that only the reference answers, until the engine joins streams."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = getattr(item, "callspec", None) and item.callspec.params.get("path")
        is_search = item.nodeid.startswith("tests/test_join_search.py::test_local")
        waits = path and path.parent.name in WAITING and not item.name.startswith("test_reference")
        if waits or (is_search and os.environ.get("PLACE_SEARCH_RUNTIME") != "reference"):
            item.add_marker(pytest.mark.skip(reason="the engine does not join streams yet"))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with founded(tmp_path_factory.mktemp("town") / "home") as made:
        yield made
