"""Answers that several cells hold together are put together by cells, whoever of them is lost."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import place
from place.engine.matrix import Matrix
from place.engine.slices import Segment
from place.model.delta import Delta
from place.plan.catalog import Catalog
from place.runtime.spark.requests import HandOver, Observe, Request, RunTick, Settle
from tests.harness.cells_here import PipelineHere
from tests.harness.pipeline import CARS, START

QUERIES = [
    "kinds AS SELECT kind, COUNT(*), SUM(x) FROM Cars GROUP BY kind",
    "seen AS SELECT DISTINCT kind FROM Cars INSIDE (0, 0, 6, 6)",
    "closest AS SELECT id FROM Cars kNN (3, 4, 4)",
    "last AS SELECT id, kind FROM Cars WINDOW 5 ROWS",
    "many AS SELECT COUNT(*) FROM Cars INSIDE ('M', 2, 3)",
    "colours AS SELECT kind FROM Cars INSIDE (1, 1, 7, 7)",
]
"""All kinds of answers that several cells hold together, and one whose rows may cancel others."""
CARS_HERE = 12


@pytest.fixture(scope="module")
def catalogs() -> list[Catalog]:
    """A catalog with all queries, and one in which one of them is dropped again."""
    with place.connect() as session:
        session.sql(f"{CARS};" + ";".join(f"REGISTER QUERY {query}" for query in QUERIES))
        whole = session.runtime.catalog
        session.sql("DROP QUERY last")
        return [whole, session.runtime.catalog]


def ticks(catalogs: list[Catalog]) -> Iterator[tuple[Catalog, list[Segment]]]:
    """Cars that move on, some of which are gone in between; then a query is dropped."""
    for second in range(1, 7):
        cars = [car for car in range(CARS_HERE) if (car + second) % 5]
        time = (START + second) * 1_000_000
        rows = {
            "id": cars,
            "x": [float((car * second) % 9) for car in cars],
            "y": [float((car + second) % 8) for car in cars],
            "ts": [time for _ in cars],
            "kind": ["abc"[car % 3] for car in cars],
            "time": [time for _ in cars],
            "gone": [(car + second) % 7 == 0 for car in cars],
        }
        yield catalogs[second > 4], [Segment("Cars", pa.table(rows))]


def counted(deltas: list[Delta]) -> Counter[tuple[object, ...]]:
    return Counter((each.query, each.sign, each.instant, repr(each.row)) for each in deltas)


@pytest.fixture(scope="module")
def alone(
    catalogs: list[Catalog], tmp_path_factory: pytest.TempPathFactory
) -> list[Counter[tuple[object, ...]]]:
    """What a single cell tells in each tick."""
    made = PipelineHere(str(tmp_path_factory.mktemp("alone")), Matrix())
    found = [counted(made.tick(catalog, told)) for catalog, told in ticks(catalogs)]
    assert sum(map(Counter.total, found)) > 60
    assert not [request for request in made.cells.asked if isinstance(request, Settle)]
    return found


MATRICES = pytest.mark.parametrize("matrix", [Matrix(2, 1), Matrix(2, 2), Matrix(3, 2)], ids=str)


@MATRICES
def test_cells_tell_together_what_one_tells_alone(
    matrix: Matrix,
    catalogs: list[Catalog],
    alone: list[Counter[tuple[object, ...]]],
    tmp_path: Path,
) -> None:
    made = PipelineHere(str(tmp_path), matrix)
    assert [counted(made.tick(catalog, told)) for catalog, told in ticks(catalogs)] == alone
    assert {Settle, RunTick} <= {type(request) for request in made.cells.asked}
    assert HandOver not in {type(request) for request in made.cells.asked}
    left = {path.name for path in (tmp_path / "segments").iterdir()}
    assert not [name for name in left if "-to-" in name]


@MATRICES
@pytest.mark.parametrize("kind", [RunTick, Settle, HandOver])
def test_a_cell_that_is_lost_changes_nothing(
    kind: type[Request],
    matrix: Matrix,
    catalogs: list[Catalog],
    alone: list[Counter[tuple[object, ...]]],
    tmp_path: Path,
) -> None:
    """Before its tick, between the tick and the answers, and while answers are handed over."""
    made = PipelineHere(str(tmp_path), matrix)
    count = matrix.rows * matrix.columns
    for number, (catalog, told) in enumerate(ticks(catalogs)):
        if number % 2:
            made.cells.loses = kind, number % count
            if kind is HandOver:
                made.cells.lose((number + 1) % count)
        assert counted(made.tick(catalog, told)) == alone[number]
        assert made.cells.loses is None
    assert [request for request in made.cells.asked if isinstance(request, HandOver)]


def test_what_is_put_together_is_counted_where_that_is_done(
    catalogs: list[Catalog], tmp_path: Path
) -> None:
    made = PipelineHere(str(tmp_path), Matrix(2, 2))
    for catalog, told in ticks(catalogs):
        made.tick(catalog, told)
    query = catalogs[1].queries["kinds"]
    seen = made.pipeline.observe(catalogs[1], query)
    assert seen.rows["group"] > 0
    assert seen.rows["answer"] > 0
    assert isinstance(made.cells.asked[-1], Observe)


def test_answers_spread_over_all_cells() -> None:
    matrix = Matrix(4, 4)
    found = Counter(matrix.answer_cell(f"q{number}") for number in range(1_000))
    assert set(found) == set(range(16))
    assert max(found.values()) < 2 * min(found.values())
