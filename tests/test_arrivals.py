"""EMIT ARRIVALS: what is told where there is much of it, and who adds up what was told."""

from collections import Counter
from pathlib import Path

import pytest

import place
from place.model.delta import FEW, Delta
from place.session import Session

COLUMNS = "(id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING)"
SHOWN = {"keyed": "id, type", "alike": "type", "many": "type, COUNT(*)"}


def opened(runtime: str, cells: str = "1x1") -> Session:
    """Queries with and without EMIT ARRIVALS that ask the same."""
    session = place.connect(runtime="reference") if runtime else place.connect(cells=cells)
    session.sql(f"CREATE STREAM Cars {COLUMNS}")
    for name, shown in SHOWN.items():
        groups = " GROUP BY type" if "COUNT" in shown else ""
        for emit in ("", " EMIT ARRIVALS"):
            session.sql(
                f"REGISTER QUERY {name}{'_a' if emit else ''}{emit} AS"
                f" SELECT {shown} FROM Cars INSIDE (0, 0, 10, 10){groups}"
            )
    return session


def driven(session: Session, many: int) -> list[Counter[Delta]]:
    """What all queries tell of cars that drive in and out of their region, by ticks."""
    told: list[Counter[Delta]] = []
    for step in range(4):
        rows = [
            (car, 5.0 if (car + step) % 3 else 50.0, 5.0, "Bus" if (car + step) % 2 else "Taxi")
            for car in range(many)
        ]
        told.append(Counter(session.push("Cars", rows, time=1_000_000 * (step + 1))))
    return told


@pytest.mark.parametrize("many", [40, 2 * FEW])
@pytest.mark.parametrize("cells", ["1x1", "2x2", "3x1"])
def test_arrivals_are_the_positive_deltas_of_the_same_query(cells: str, many: int) -> None:
    session = opened("", cells)
    arrivals, positive = Counter[object](), Counter[object]()
    for told in driven(session, many):
        for (query, sign, row, instant), count in told.items():
            if query.endswith("_a"):
                assert sign > 0
                arrivals[query.removesuffix("_a"), row, instant] += count
            elif sign > 0:
                positive[query, row, instant] += count
    assert arrivals == positive
    assert arrivals.total() > many
    for name in SHOWN:
        assert session.answer(f"{name}_a") == session.answer(name)


def test_the_reference_tells_the_same() -> None:
    assert driven(opened("reference"), 40) == driven(opened("", "2x2"), 40)


def test_queries_alike_with_and_without_arrivals() -> None:
    """They are registered together and found together, and only some of them take rows back."""
    session = place.connect()
    session.sql(f"CREATE STREAM Cars {COLUMNS}")
    session.sql(
        ";".join(
            f"REGISTER QUERY q{i}{' EMIT ARRIVALS' if i % 2 else ''} AS"
            f" SELECT id FROM Cars INSIDE (0, 0, {i + 1})"
            for i in range(2 * FEW)
        )
    )
    come = session.push("Cars", [(1, 0.0, 0.0, "Bus")], time=1)
    left = session.push("Cars", [(1, -9e9, 0.0, "Bus")], time=2)
    assert Counter(d.sign for d in come) == {1: 2 * FEW}
    assert sorted(d.query for d in left) == sorted(f"q{i}" for i in range(0, 2 * FEW, 2))
    assert {d.sign for d in left} == {-1}


def test_a_subscription_begins_with_the_answer_now(tmp_path: Path) -> None:
    session = place.connect(tmp_path)
    session.sql(f"CREATE STREAM Cars {COLUMNS}")
    session.sql("REGISTER QUERY a EMIT ARRIVALS AS SELECT id FROM Cars INSIDE (0, 0, 5)")
    session.push("Cars", [(1, 0, 0, "a"), (2, 0, 0, "a")], time=1)
    session.push("Cars", [(1, 50, 0, "a")], time=2)
    session.close()
    session = place.connect(tmp_path)
    subscription = session.subscribe("a")
    session.push("Cars", [(2, 50, 0, "a"), (3, 0, 0, "a")], time=3)
    assert [(d.sign, d.row) for d in subscription] == [(1, (2,)), (1, (3,))]
    assert session.answer("a") == [(3,)]
    session.close()
