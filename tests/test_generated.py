"""The generator as a source: the same readings whatever the ticks, and after a restart."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import place
from place.engine.slices import Segment, Told
from place.errors import ConfigurationError, StatementError
from place.model.reading import Advance
from place.model.schema import Stream
from place.plan.define import define_stream
from place.runtime.durable.storage import Storage
from place.runtime.intake import generated
from place.runtime.intake.generated import Steps
from place.sim import Generator
from place.sim.recipe import Recipe
from place.sql import statements as s
from place.sql.dialect import parse_one

COLUMNS = "id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING, speed DOUBLE"
# A town in which many arrive within a few steps.
TOWN = "objects = 300, nodes = 200, metres = 2000, period = 20, seed = 7"


def stream_of(text: str, columns: str = COLUMNS, options: str = "") -> Stream:
    statement = parse_one(f"CREATE STREAM Cars ({columns}) FROM GENERATOR ({text}) {options}")
    assert isinstance(statement, s.CreateStream)
    return define_stream(statement)


def rows_of(told: list[Told]) -> list[list[tuple[object, ...]]]:
    """The rows of each step, with the time that it reaches."""
    steps = []
    for segment, advance in zip(told[::2], told[1::2], strict=True):
        assert isinstance(segment, Segment)
        assert isinstance(advance, Advance)
        assert set(segment.table.column(segment.table.num_columns - 2).to_pylist()) == {
            advance.time
        }
        columns = [column.to_pylist() for column in segment.table.columns]
        steps.append(list(zip(*columns, strict=True)))
    return steps


@pytest.fixture(autouse=True)
def _forget() -> None:
    generated._MADE.clear()


def test_without_a_key_nobody_disappears(tmp_path: Path) -> None:
    columns = "id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, speed DOUBLE"
    keyed, keyless = stream_of(TOWN), stream_of(TOWN, columns)
    there = rows_of(Steps(Storage(str(tmp_path)), keyed).told(0, 12))
    found = rows_of(Steps(Storage(str(tmp_path)), keyless).told(0, 12))
    assert any(row[-1] for step in there for row in step)
    assert [[row[0] for row in step] for step in found] == [
        [row[0] for row in step if not row[-1]] for step in there
    ]
    assert not any(row[-1] for step in found for row in step)
    with pytest.raises(StatementError, match='generated objects have no "src"'):
        stream_of(TOWN, "src BIGINT, x DOUBLE, y DOUBLE")


def test_a_step_holds_the_report_and_who_arrived_in_the_one_before(tmp_path: Path) -> None:
    stream = stream_of(TOWN)
    steps = rows_of(Steps(Storage(str(tmp_path)), stream).told(0, 12))
    generator = Recipe(objects=300, nodes=200, metres=2000, period=20, seed=7).make()
    arrived: list[int] = []
    total = 0
    for step, rows in enumerate(steps):
        report = generator.advance()
        time = Recipe().time_of(0) + step * 20_000_000
        kinds = [generator.classes[code].name for code in report.codes]
        lost = [(key, None, None, None, None, None, time, True) for key in arrived]
        columns = (report.keys.tolist(), report.xs.tolist(), report.ys.tolist())
        there = zip(*columns, [time] * 300, kinds, report.speeds.tolist(), strict=True)
        assert rows == lost + [(*row, time, False) for row in there]
        arrived = report.keys[report.gone].tolist()
        total += len(arrived)
    assert total > 20


@pytest.mark.parametrize("cuts", [(1, 2, 3), (7,), (5, 11), tuple(range(1, 14))])
def test_how_steps_are_cut_into_ticks_changes_nothing(tmp_path: Path, cuts: tuple[int]) -> None:
    steps = Steps(Storage(str(tmp_path)), stream_of(TOWN))
    whole = rows_of(steps.told(0, 14))
    generated._MADE.clear()
    pieces = [0, *cuts, 14]
    found = [row for a, b in itertools.pairwise(pieces) for row in rows_of(steps.told(a, b))]
    assert found == whole


@pytest.mark.parametrize("first", [0, 1, 5, 6, 7, 11, 13])
def test_any_process_goes_on_at_any_step(
    tmp_path: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "FEWEST", 5)
    monkeypatch.setattr(generated, "EVERY", 1)
    steps = Steps(Storage(str(tmp_path)), stream_of(TOWN))
    whole = rows_of(steps.told(0, 14))
    assert len(list((tmp_path / "generators").rglob("*.npz"))) == 2
    generated._MADE.clear()
    began: list[int] = []
    resume = Generator.resume
    monkeypatch.setattr(
        Generator, "resume", lambda city, state: began.append(state.step) or resume(city, state)
    )
    assert rows_of(steps.told(first, 14)) == whole[first:]
    assert began == [step for step in (11, 6) if step < first][:1]


def test_a_checkpoint_that_cannot_be_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "FEWEST", 5)
    monkeypatch.setattr(generated, "EVERY", 1)
    steps = Steps(Storage(str(tmp_path)), stream_of(TOWN))
    whole = rows_of(steps.told(0, 14))
    for path in (tmp_path / "generators").rglob("*.npz"):
        path.write_bytes(b"torn")
    generated._MADE.clear()
    assert rows_of(steps.told(12, 14)) == whole[12:]


def test_texts_as_keys_other_names_and_fewer_columns(tmp_path: Path) -> None:
    stream = stream_of(
        f"{TOWN}, columns = 'kind = class', start = '2030-01-01'",
        "y DOUBLE, x DOUBLE, kind STRING, name STRING KEY",
    )
    told = Steps(Storage(str(tmp_path)), stream).told(0, 1)
    assert isinstance(told[0], Segment)
    table = told[0].table
    report = Recipe(objects=300, nodes=200, metres=2000, period=20, seed=7).make().advance()
    assert table.column("name").to_pylist() == [str(key) for key in report.keys]
    assert table.column("x").to_pylist() == report.xs.tolist()
    assert table.column("kind").type == pa.string()
    assert isinstance(told[1], Advance)
    assert told[1].time == 1_893_456_000_000_000


def test_a_grown_city_is_placed_on_the_globe() -> None:
    options = "WITH (space = 'wgs84')"
    stream = stream_of("objects = 10, nodes = 200, centre = '-86.9 40.4'", options=options)
    assert stream.source is not None
    city = Recipe.of(dict(stream.source.options)).make_city(stream.space)
    x1, y1, x2, y2 = city.bounds
    assert -87.03 < x1 < -86.9 < x2 < -86.77
    assert 40.3 < y1 < 40.4 < y2 < 40.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("objects = 0", "0 is not a whole number from 1 on"),
        ("objects = 'many'", "'many' is not a whole number"),
        ("period = 0", "0 is not a positive number"),
        ("rate = -1", "-1 is not a number from 0 on"),
        ("city = 5", "5 is not a text"),
        ("start = 'soon'", "soon"),
    ],
)
def test_bad_options_are_refused_with_the_statement(text: str, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        stream_of(text)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id BIGINT KEY, x DOUBLE, y DOUBLE, pressure DOUBLE", 'have no "pressure"'),
        ("id BIGINT KEY, x DOUBLE, y DOUBLE, type BIGINT", 'column "type" is a BIGINT'),
        ("id BIGINT KEY, focal BIGINT, r DOUBLE", "no x and y"),
    ],
)
def test_columns_that_objects_do_not_have_are_refused(columns: str, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        stream_of("objects = 5", columns)


def test_a_city_that_is_nowhere_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="centre = "):
        Recipe().make_city(stream_of("objects = 5", options="WITH (space = 'wgs84')").space)


@pytest.mark.long
@pytest.mark.parametrize("cells", ["1x1", "2x2"])
def test_the_pipeline_makes_the_readings_of_the_steps(tmp_path: Path, cells: str) -> None:
    queries = """
      REGISTER QUERY middle AS SELECT id, type FROM Cars INSIDE (0.3, 0.3, 0.7, 0.7);
      REGISTER QUERY kinds AS SELECT type, COUNT(*) FROM Cars GROUP BY type;
    """
    source = f"FROM GENERATOR ({TOWN}, steps = 9, rate = 0)"
    with place.connect() as local:
        local.sql(f"CREATE STREAM Cars ({COLUMNS}); {queries}")
        stream = stream_of(TOWN)
        steps = rows_of(Steps(Storage(str(tmp_path)), stream).told(0, 9))
        wanted: Counter[object] = Counter()
        for rows in steps:
            for row in rows:
                if row[-1]:
                    wanted += seen(local.disappear("Cars", row[0], row[-2]))
            wanted += seen(
                local.push("Cars", [row[:6] for row in rows if not row[-1]], rows[0][-2])
            )
    home = tmp_path / "home"
    with place.connect(home, master="local[2]", cells=cells) as session:
        session.sql(f"CREATE STREAM Cars ({COLUMNS}) {source}; {queries}")
        session.drain()
        session.drain()
        assert session.runtime.statistics("Cars")["readings"] == 9 * 300
        found = Counter(
            (each.delta.query, each.delta.sign, each.delta.row, each.delta.instant)
            for each in session.resume()
        )
    assert found == wanted


def seen(deltas: list[place.session.Delta]) -> Counter[object]:
    return Counter((delta.query, delta.sign, delta.row, delta.instant) for delta in deltas)


def test_a_generator_without_an_end_is_not_drained(tmp_path: Path) -> None:
    with place.connect(tmp_path, master="local[2]") as session:
        session.sql(f"CREATE STREAM Cars ({COLUMNS}) FROM GENERATOR (objects = 10, nodes = 200)")
        with pytest.raises(ConfigurationError, match="has no end"):
            session.drain()
