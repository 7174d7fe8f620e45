"""Killed anywhere, same changelog: `place run` as a real process, killed and started again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset
import pytest

from place.runtime.durable.crash import ANSWER, CELL, OFTEN, POINTS, VARIABLE
from place.runtime.spark import worker_daemon
from tests.harness.object_store import SECRET, Bucket

FILES = 12
PATIENCE = 600
"""Seconds after which a run hangs; a busy machine takes minutes for what takes ten seconds."""
SHORT = ("commit",)
"""The points of `make test`; `make test-all` has all of them."""
SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING)
  FROM FILES ('{directory}/incoming', format = 'csv') WITH (timeout = '5 seconds');
REGISTER QUERY square AS SELECT id, kind FROM Cars INSIDE (2, 2, 8, 8);
REGISTER QUERY kinds AS SELECT kind FROM Cars INSIDE (0, 0, 5, 5);
REGISTER QUERY around AS SELECT id FROM Cars INSIDE ('M', 3, 4, 4);
CREATE SINK audit FOR ALL TO PARQUET ('{directory}/changes');
"""


def write_readings(directory: Path, files: int = FILES) -> None:
    """A file a second of event time; some cars fall silent and time out."""
    chance = random.Random(7)
    (directory / "incoming").mkdir(parents=True)
    (directory / "setup.sql").write_text(SETUP.format(directory=directory), "utf-8")
    for second in range(files):
        lines = ["id,x,y,ts,kind"]
        for step in range(40):
            car = chance.randrange(20)
            if car > 15 and second > 4:
                continue
            moment = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}.{step * 20:03d}"
            place = f"{chance.uniform(0, 10):.3f},{chance.uniform(0, 10):.3f}"
            lines.append(f"{car},{place},{moment},{'abc'[car % 3]}")
        path = directory / "incoming" / f"{second:03d}.csv"
        path.write_text("\n".join(lines) + "\n", "utf-8")
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))


def start(
    directory: Path, *options: str, crash: str | None = None, is_saving: bool = False
) -> subprocess.Popen[str]:
    environment = dict(os.environ)
    environment.pop(VARIABLE, None)
    if crash is not None:
        environment[VARIABLE] = crash
    if is_saving:
        environment[OFTEN] = "yes"
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "place.cli", "run", "--setup", str(directory / "setup.sql")),
            *("--home", str(directory / "home"), "--master", "local[1]", "--files-per-tick", "1"),
            *("--once", *options),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(directory: Path, *options: str) -> str:
    """Run until all that is there is read."""
    process = start(directory, *options)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    return said


def changelog(directory: Path) -> list[tuple[object, ...]]:
    """What the sink has got, by the ids of the deltas."""
    found = pyarrow.dataset.dataset(directory / "changes", partitioning="hive").to_table()
    names = ("tick", "position", "query", "sign", "row", "instant")
    rows = list(zip(*(found.column(name).to_pylist() for name in names), strict=True))
    assert len({row[:2] for row in rows}) == len(rows), "a delta is there twice"
    return sorted(rows)


class Subscriber:
    """Keeps the last id that it has seen, and resumes after it."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.seen: list[dict[str, object]] = []

    def read(self) -> None:
        if not (self.home / "place.json").exists():
            return
        after = []
        if self.seen:
            after = ["--after", f"{self.seen[-1]['tick']}:{self.seen[-1]['position']}"]
        said = subprocess.run(
            [sys.executable, "-m", "place.cli", "changes", "--home", str(self.home), *after],
            capture_output=True,
            text=True,
            check=True,
        )
        self.seen += [json.loads(line) for line in said.stdout.splitlines()]

    def view(self) -> Counter[tuple[str, str]]:
        answers: Counter[tuple[str, str]] = Counter()
        for delta in self.seen:
            answers[str(delta["query"]), json.dumps(delta["row"])] += int(str(delta["sign"]))
        assert all(count >= 0 for count in answers.values())
        return +answers


@dataclass(frozen=True)
class Undisturbed:
    """What a run that nobody kills tells its sink and a subscriber."""

    changelog: list[tuple[object, ...]]
    subscriber: Subscriber


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    directory = tmp_path_factory.mktemp("undisturbed")
    write_readings(directory)
    finish(directory)
    subscriber = Subscriber(directory)
    subscriber.read()
    return Undisturbed(changelog(directory), subscriber)


def content(rows: list[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    """Deltas without their ids, which follow from how statements and files fell into ticks."""
    return Counter(row[2:] for row in rows)


@pytest.mark.parametrize(
    "crash",
    [pytest.param(p, marks=() if p in SHORT else (pytest.mark.long,)) for p in POINTS],
)
def test_killed_at_a_named_point(crash: str, undisturbed: Undisturbed, tmp_path: Path) -> None:
    write_readings(tmp_path)
    subscriber = Subscriber(tmp_path)
    is_saving = crash in ("state", "saved", "sweep")
    process = start(tmp_path, crash=f"{crash}:9", is_saving=is_saving)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, said
    subscriber.read()
    finish(tmp_path)
    subscriber.read()
    assert changelog(tmp_path) == undisturbed.changelog
    assert subscriber.seen == undisturbed.subscriber.seen
    assert subscriber.view() == undisturbed.subscriber.view()


@pytest.mark.long
@pytest.mark.parametrize(
    ("crash", "next_home"),
    [*((point, "home") for point in POINTS), ("saved", "other"), ("commit", "other")],
)
def test_killed_at_a_named_point_on_an_object_store(
    crash: str, next_home: str, undisturbed: Undisturbed, tmp_path: Path, bucket: Bucket
) -> None:
    """Whoever goes on, from the same home directory or from another, begins with a tick of its
    own: deltas are the same, but not the numbers of their ticks."""
    write_readings(tmp_path)
    is_saving = crash in ("state", "saved", "sweep")
    storage = ("--storage", bucket.uri())
    process = start(tmp_path, *storage, crash=f"{crash}:9", is_saving=is_saving)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, said
    assert SECRET not in said
    subscriber = Subscriber(tmp_path)
    subscriber.read()
    finish(tmp_path, *storage, "--home", str(tmp_path / next_home))
    subscriber.home = tmp_path / next_home
    subscriber.read()
    assert content(changelog(tmp_path)) == content(undisturbed.changelog)
    assert [tuple(each.values())[2:] for each in subscriber.seen] == [
        tuple(each.values())[2:] for each in undisturbed.subscriber.seen
    ]


@pytest.mark.parametrize(
    ("cells", "crash"),
    [
        pytest.param("1x1", CELL, marks=pytest.mark.long),
        pytest.param("2x2", CELL, marks=pytest.mark.long),
        pytest.param("2x2", ANSWER, marks=pytest.mark.long),
    ],
)
def test_a_cell_that_is_killed_in_mid_tick_changes_nothing(
    cells: str, crash: str, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    write_readings(tmp_path)
    process = start(tmp_path, "--cells", cells, crash=f"{crash}:9")
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "the cells are started again (epoch 2)" in said
    assert "Traceback" not in said
    assert content(changelog(tmp_path)) == content(undisturbed.changelog)
    if cells == "1x1":
        assert changelog(tmp_path) == undisturbed.changelog


def killed_at_random(directory: Path, undisturbed: Undisturbed, kills: int) -> None:
    write_readings(directory)
    chance = random.Random(kills)
    subscriber = Subscriber(directory)
    for kill in range(kills):
        process = start(directory, is_saving=kill % 2 == 1)
        time.sleep(chance.uniform(1.0, 9.0))
        process.kill()
        process.communicate(timeout=PATIENCE)
        subscriber.read()
    finish(directory)
    subscriber.read()
    assert content(changelog(directory)) == content(undisturbed.changelog)
    assert subscriber.seen == undisturbed.subscriber.seen
    assert subscriber.view() == undisturbed.subscriber.view()


@pytest.mark.long
def test_killed_at_random_moments(undisturbed: Undisturbed, tmp_path: Path) -> None:
    killed_at_random(tmp_path, undisturbed, 4)


@pytest.mark.long
def test_killed_at_twenty_random_moments(undisturbed: Undisturbed, tmp_path: Path) -> None:
    killed_at_random(tmp_path, undisturbed, 20)


KILLS = int(os.environ.get("PLACE_KILLS", "100"))
"""Random moments on each kind of storage."""
DAEMON = worker_daemon.MODULE.encode()
"""What the command of Spark's Python processes names."""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["disk", "store"])
def test_whoever_is_killed_at_a_hundred_random_moments(
    kind: str, tmp_path: Path, bucket: Bucket
) -> None:
    """Drivers, and cells with their channels, in the middle of ticks and of states that are being
    saved; some cells only hang for a moment. On a store another home goes on at the end."""
    files = 4 * KILLS
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for directory in (calm, killed):
        write_readings(directory, files)
    finish(calm)
    storage = ("--storage", bucket.uri()) if kind == "store" else ()
    chance = random.Random(KILLS)
    done, life = Counter[str](), 0
    while done.total() < KILLS:
        life += 1
        process = start(killed, *storage, is_saving=life % 2 == 1)
        try:
            disturb(process, killed, chance, done)
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE)
        if process.returncode == 0:
            break  # all is read
    last = ("--home", str(killed / "other")) if kind == "store" else ()
    finish(killed, *storage, *last)
    print(f"{kind}: {life} lives, {dict(done)}")
    assert content(changelog(killed)) == content(changelog(calm))
    assert min(done[what] for what in ("driver", "cell")) > 0


def disturb(
    process: subprocess.Popen[str], directory: Path, chance: random.Random, done: Counter[str]
) -> None:
    """Kill cells of a run, or let them hang, at moments of their ticks; then the run itself."""
    for _ in range(chance.randrange(4)):
        if not wait_for_files(process, directory, chance.randrange(1, 3)):
            return
        time.sleep(chance.uniform(0.0, 0.2))
        cells = cells_of(process.pid)
        if not cells:
            continue
        victim = chance.choice(cells)
        if chance.random() < 0.3:
            os.kill(victim, signal.SIGSTOP)
            time.sleep(chance.uniform(0.0, 0.5))
            os.kill(victim, signal.SIGCONT)
            done["pause"] += 1
        else:
            os.kill(victim, signal.SIGKILL)
            done["cell"] += 1
    if wait_for_files(process, directory, chance.randrange(1, 4)):
        time.sleep(chance.uniform(0.0, 0.3))
        done["driver"] += 1


def wait_for_files(process: subprocess.Popen[str], directory: Path, more: int) -> bool:
    """Wait until the sink has got so many ticks more; is the run still going on?"""
    had, deadline = delivered(directory), time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if delivered(directory) >= had + more:
            return True
        time.sleep(0.01)
    return False


def delivered(directory: Path) -> int:
    return sum(1 for _ in (directory / "changes").glob("day=*/*.parquet"))


def cells_of(driver: int) -> list[int]:
    """The Python processes that Spark has forked for the tasks of a driver."""
    parents: dict[int, int] = {}
    forked: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
                if DAEMON in (entry / "cmdline").read_bytes():
                    forked.append(int(entry.name))
            except OSError:  # it has ended
                continue

    def is_below(process: int) -> bool:
        while process in parents:
            if process == driver:
                return True
            process = parents[process]
        return False

    return [each for each in forked if parents.get(each) in forked and is_below(each)]


@pytest.mark.long
def test_a_full_disk_is_said_and_nothing_is_lost(undisturbed: Undisturbed, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "place-test", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        write_readings(tmp_path)
        home = ("--home", str(disk / "home"))
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * int(3.75 * (1 << 20)))
        process = start(tmp_path, *home)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1, said
        assert "no space left" in said
        assert "Traceback" not in said
        ballast.unlink()
        finish(tmp_path, *home)
        assert content(changelog(tmp_path)) == content(undisturbed.changelog)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.long
def test_sigterm_stops_after_the_tick_and_the_next_run_goes_on(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """Sent to the whole group of processes, Java among them, as `timeout` and others do."""
    write_readings(tmp_path)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "place.cli", "run", "--setup", str(tmp_path / "setup.sql")),
            *("--home", str(tmp_path / "home"), "--master", "local[1]", "--files-per-tick", "1"),
            *("--idle", "0s"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    manifests = tmp_path / "home" / "manifest"
    while time.monotonic() < deadline and len(list(manifests.glob("*.json"))) < 8:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "stopped after tick" in said
    assert "Traceback" not in said
    assert "Exception" not in said
    finish(tmp_path)
    assert content(changelog(tmp_path)) == content(undisturbed.changelog)
