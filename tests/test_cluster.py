"""A real cluster: the same replay on a standalone master, with a worker killed in mid-run."""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.harness.cluster import standalone_cluster
from tests.test_killed import write_readings

pytestmark = pytest.mark.long


def changelog(path: Path) -> Counter[tuple[object, ...]]:
    table = pq.read_table(path)
    columns = (table.column(name).to_pylist() for name in ("query", "sign", "row", "instant"))
    return Counter(zip(*columns, strict=True))


def replay(directory: Path, name: str, *options: str) -> subprocess.Popen[str]:
    files = sorted(str(path) for path in (directory / "incoming").iterdir())
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "place.cli", "replay"),
            *("--setup", str(directory / "replay.sql"), "--out", str(directory / name)),
            *("--readings", *files, *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_worker_killed_in_mid_run_changes_nothing(tmp_path: Path) -> None:
    write_readings(tmp_path)
    setup = (tmp_path / "setup.sql").read_text("utf-8")
    statements = [s for s in setup.split(";") if "SINK" not in s]
    (tmp_path / "replay.sql").write_text(";".join(statements), "utf-8")
    alone = replay(tmp_path, "local.parquet", "--runtime", "local")
    said, _ = alone.communicate(timeout=300)
    assert alone.returncode == 0, said
    with (
        # Workers meet at sockets below it, whose names the system does not let be long.
        tempfile.TemporaryDirectory(prefix="place-") as short,
        # Each has slots for all cells and one more: the other one may be lost.
        standalone_cluster(workers=2, cores=5, directory=Path(short)) as cluster,
    ):
        settings = [f"--set={name}={value}" for name, value in cluster.settings.items()]
        process = replay(
            tmp_path,
            "cluster.parquet",
            *("--runtime", "spark", "--master", cluster.master, "--cells", "2x2"),
            *("--storage", str(tmp_path / "shared"), *settings),
        )
        manifests = tmp_path / "shared" / "manifest"
        deadline = time.monotonic() + 300
        while process.poll() is None and len(list(manifests.glob("*.json"))) < 7:
            assert time.monotonic() < deadline, "the replay does not get on"
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()[0]
        cluster.kill_worker(0)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        assert cluster.alive_workers() == 1
    assert changelog(tmp_path / "cluster.parquet") == changelog(tmp_path / "local.parquet")
