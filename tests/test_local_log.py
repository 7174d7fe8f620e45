"""The log of a home without Spark: it begins with saved states and takes the ticks since."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import place
from place.engine.matrix import Matrix
from place.errors import ConfigurationError, PlaceError
from place.model.reading import Advance, Reading
from place.runtime.durable.saving import Pace
from place.runtime.durable.storage import Damaged
from place.runtime.journal import FILE, Journal
from place.runtime.local import LocalRuntime
from place.runtime.tables import TableLoader
from place.session import Session
from tests.harness.pipeline import CARS, NEAR, OFTEN, START, reading
from tests.test_tick_log import SETUP, expected, step

__all__ = ["expected"]
Opening = Callable[[Path], Session]


def opened(home: Path, matrix: Matrix | None = None) -> Session:
    return Session(LocalRuntime(home, matrix=matrix), TableLoader())


@contextlib.contextmanager
def pace(wanted: Pace) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("place.runtime.durable.local_log.usual_pace", lambda: wanted)
        yield


@pytest.mark.parametrize("matrix", [Matrix(), Matrix(2, 2)], ids=["1x1", "2x2"])
@pytest.mark.parametrize("wanted", [OFTEN, Pace()], ids=["often", "seldom"])
def test_whoever_begins_anew_goes_on_as_if_nothing_had_been(
    matrix: Matrix, wanted: Pace, expected: list[list[tuple[object, ...]]], tmp_path: Path
) -> None:
    found = []
    with pace(wanted):
        for seconds in ((1, 2, 3), (4, 5), (6,), (7, 8), (9, 10), (11, 12)):
            with opened(tmp_path / "home", matrix) as session:
                if seconds[0] == 1:
                    session.sql(SETUP)
                found += [step(session, second) for second in seconds]
    assert found == expected
    assert (tmp_path / "home" / "state").exists() == (wanted is OFTEN)


def pushed(session: Session, seconds: range) -> None:
    for second in seconds:
        session.push("Cars", [reading(1, 1, 1, second)], time=(START + second) * 1_000_000)


def test_what_is_passed_is_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with pace(OFTEN), opened(home) as session:
        session.sql(f"{CARS}; {NEAR}")
        pushed(session, range(1, 100))
    beginning = json.loads((home / "log" / "beginning.json").read_text())
    assert 0 < beginning["tick"] <= 100
    ticks = sorted(int(file.stem) for file in (home / "log").glob("*.arrow"))
    assert ticks == list(range(beginning["tick"] + 1, 101))
    assert [f"state/0-0/{file.name}" for file in (home / "state" / "0-0").iterdir()] == (
        beginning["states"]
    )
    (home / "log" / f"{101:012d}.arrow.tmp").write_bytes(b"half")
    with opened(home) as session:
        assert session.answer("near") == [(1, "a")]
        pushed(session, range(100, 102))
    with opened(home) as session:
        assert session.sql("SELECT COUNT(*) FROM Cars").rows == ((1,),)
        assert session.runtime.statistics("Cars")["readings"] == 101


def test_a_statement_that_the_log_does_not_have_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        pushed(session, range(1, 3))
        with monkeypatch.context() as patched:

            def fail(*_: object) -> None:
                raise ConfigurationError("killed")

            patched.setattr("place.runtime.durable.local_log.LocalLog.append", fail)
            with pytest.raises(PlaceError, match="killed"):
                session.sql(NEAR)
    with opened(tmp_path / "home") as session:
        assert session.answer("near") == [(1, "a")]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    with pace(OFTEN), opened(tmp_path / "home") as session:
        session.sql(f"{CARS}; {NEAR}")
        pushed(session, range(1, 20))
    for pattern in ("log/*.arrow", "state/0-0/*.arrow", "log/beginning.json"):
        for file in sorted((tmp_path / "home").glob(pattern))[-1:]:
            kept = file.read_bytes()
            file.write_bytes(kept[: len(kept) // 2])
            with pytest.raises(Damaged, match=f"{file.parent.name}/{file.name} is damaged"):
                opened(tmp_path / "home")
            file.write_bytes(kept)
    opened(tmp_path / "home").close()


def test_the_cells_stay_what_they_were(tmp_path: Path) -> None:
    with pace(OFTEN), opened(tmp_path / "home") as session:
        session.sql(CARS)
        pushed(session, range(1, 20))
    with pytest.raises(ConfigurationError, match="cells 1x1, not 2x1"):
        opened(tmp_path / "home", Matrix(2, 1))


def test_a_journal_of_before_there_were_logs_is_taken_over(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with place.connect(home, runtime="reference") as session:
        session.sql(f"{CARS}; {NEAR}")
        pushed(session, range(1, 4))
    journal = Journal(home)
    assert [type(entry) for entry in journal.entries()][-2:] == [Reading, Advance]
    journal.close()
    for _ in range(2):
        with place.connect(home) as session:
            assert session.answer("near") == [(1, "a")]
            assert session.runtime.statistics("Cars")["readings"] == 3
        assert not (home / FILE).exists()
    with pytest.raises(ConfigurationError, match="the home of a session without Spark"):
        place.connect(home, runtime="reference")
