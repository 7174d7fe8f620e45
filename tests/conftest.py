"""What all tests share: fixtures, the order of files, and how Spark's Java is started."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from place.runtime.spark import session
from tests.harness.examples import SEARCHES
from tests.harness.object_store import SECRET, Bucket, serving
from tests.harness.route import Folder
from tests.harness.town import Town, founded

# Tests start many Javas that live for seconds. What the second compiler makes faster in such a life
# costs more than it saves, and so do the threads of the default collector. It is said in the
# environment, for the processes that tests start, too.
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", f"--conf 'spark.driver.extraJavaOptions={SHORT_LIFE}' pyspark-shell"
)
os.environ |= {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": SECRET}

# `make test` draws the same examples in each run: what it says depends on the change that it is
# asked about, and on nothing else. `make test-all` draws others each time.
settings.register_profile("the same in each run", derandomize=True, database=None)
if not SEARCHES:
    settings.load_profile("the same in each run")

LONGEST = (
    *("killed", "web", "spark_scripts", "join_search", "local", "repository", "scripts"),
    *("web_objects", "kafka", "past_search", "rescale", "package", "map_alerts", "deadline"),
    *("demo", "language_search", "map", "web_phone", "disk_store", "prompt", "progressive"),
    *("server_killed", "server_quotas", "local_search", "keyless_search", "pipeline_faults"),
    *("standing_cells", "trigger_search", "server_access", "box_join", "shared_storage"),
    *(
        "feeds",
        "backup",
        "server_tenants",
        "notebooks",
        "answer_sinks",
        "past_jobs",
        "recipes",
        "tick_log",
        "pipeline",
        "java",
        "papers",
    ),
)
"""Files that take longest, which begin first: a process gets a whole file, and the one that would
begin a long one last would go on alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


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


@pytest.fixture(scope="session")
def object_store() -> Iterator[int]:
    """A server of S3's API on loopback, for all tests of a process: its port."""
    with serving() as port:
        yield port


@pytest.fixture
def bucket(object_store: int) -> Bucket:
    return Bucket.made(object_store)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with founded(tmp_path_factory.mktemp("town") / "home") as made:
        yield made
