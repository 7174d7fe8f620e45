"""The planner: which filter comes first, and that no order of filters changes an answer.

What each rule makes of a plan is in tests/test_rules.py.
"""

import re
from pathlib import Path
from typing import Any

import pytest

import place
from place.engine.compile import compile_query
from place.engine.compiled import Compiled
from place.engine.filter_order import FilterOrder
from place.engine.queries import Queries
from place.engine.tick import Tick
from place.errors import StatementError
from place.plan.explain import explain
from place.plan.logical import Knowledge
from place.plan.planner import make_plan
from place.plan.rules import order_filters
from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner
from place.session import Session
from tests.harness.turns import in_turns

SCRIPTS = [
    path
    for path in find_scripts([Path(__file__).parent / "scripts"])
    if re.search(r"(WHERE|JOIN)[^;]*\bINSIDE\b", path.read_text("utf-8"))
]
"""Those in which INSIDE may stand below or above something."""


@pytest.fixture
def session() -> Session:
    session = place.connect()
    session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING, speed DOUBLE)")
    return session


def tree(session: Session, select: str, knowledge: Knowledge | None = None) -> list[str]:
    session.sql(f"REGISTER QUERY q AS {select}")
    return explain(make_plan(session.query("q"), knowledge))


SELECT = "SELECT {} id FROM Cars WHERE type = 'Taxi' INSIDE (0, 0, 5, 5)"


@pytest.mark.parametrize(
    ("hint", "knowledge", "first"),
    [
        ("", Knowledge(), "Inside"),
        ("", Knowledge(0.2, 0.1), "Select"),
        ("", Knowledge(0.1, 0.2), "Inside"),
        ("/*+ INSIDE LAST */", Knowledge(0.1, 0.2), "Select"),
        ("/*+ inside first */", Knowledge(0.2, 0.1), "Inside"),
    ],
)
def test_the_order_of_filters(
    session: Session, hint: str, knowledge: Knowledge, first: str
) -> None:
    lines = tree(session, SELECT.format(hint), knowledge)
    assert lines[3].strip("│├└─ ").startswith("Scan")
    assert lines[2].strip("│├└─ ").startswith(first)


def test_a_wrong_hint_is_named(session: Session) -> None:
    with pytest.raises(StatementError, match=r"NEVER is not a hint.*INSIDE FIRST"):
        session.sql(SELECT.format("/*+ never */"))


# Any order, at any time, the same answers


@pytest.mark.parametrize(("path", "order"), list(in_turns(SCRIPTS, ("first", "turning"))))
def test_scripts_hold_in_any_order_of_filters(
    path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the filters first, or with another order after every instant."""
    if order == "first":
        monkeypatch.setattr(order_filters, "_filters_first", lambda plan: True)
        cells, batching = "1x2", "each"
    else:
        monkeypatch.setattr(FilterOrder, "look", turning)
        cells, batching = "2x1", "random:3"
    ScriptRunner(read_script(path), opener("local", cells), Batching.parse(batching)).run()


def turning(
    self: FilterOrder, tick: Tick, queries: Queries, *rest: Any
) -> list[tuple[int, Compiled]]:
    """Count as ever, and turn every query that has a choice."""
    joins, passes, polygons = rest
    found = []
    for number in self._counted:
        compiled = queries.compiled[number]
        versions = tick.objects.get(compiled.subject)
        if versions is not None and compiled.key in joins:
            self._count(number, compiled, versions, joins[compiled.key], passes, polygons)
            first = compiled.key.before is None
            other = Knowledge(1.0, 0.0) if first else Knowledge(0.0, 1.0)
            found.append((number, compile_query(compiled.asked, self._dictionary, other)))
    return found


def test_the_order_is_chosen_by_what_passes() -> None:
    """Few taxis in a large area: the selection lets fewer readings pass than the area."""
    session = place.connect()
    session.sql(
        "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING);"
        "REGISTER QUERY large AS SELECT id FROM Cars WHERE type = 'Taxi' INSIDE (0, 0, 50, 99);"
        "REGISTER QUERY small AS SELECT id FROM Cars WHERE type <> 'Taxi' INSIDE (0, 0, 1, 1)"
    )
    for tick in range(20):
        rows = [
            (i, (i * 37 + tick * 41) % 100, (i * 11) % 100, "Taxi" if i % 50 == 0 else "Bus")
            for i in range(500)
        ]
        session.push("Cars", rows, time=tick * 1_000_000)
    session.advance(60_000_000)
    lines = {
        q: [row[0] for row in session.sql(f"EXPLAIN QUERY {q}").rows] for q in ("large", "small")
    }
    assert "Inside" in lines["large"][1]
    assert "Select" in lines["small"][1]
    assert "a reading sends on" in lines["large"][-1]


def test_analyze_counts_the_rows_on_each_edge(session: Session) -> None:
    session.sql(
        "REGISTER QUERY q AS SELECT /*+ INSIDE FIRST */ type, COUNT(*) FROM Cars"
        " WHERE speed > 1 INSIDE (0, 0, 10, 10) GROUP BY type"
    )
    session.push("Cars", [(1, 1, 1, "a", 5), (2, 2, 2, "a", 0), (3, 99, 1, "b", 5)], time=1)
    session.push("Cars", [(1, 3, 3, "a", 5), (2, 2, 2, "a", 2), (3, 98, 1, "b", 6)], time=2)
    session.advance(9)
    rows = session.runtime.analyze(session.query("q")).rows
    # Car 1 moves within and says the same; car 2 becomes fast enough within.
    assert rows["scan"] == 6
    assert rows["inside"] == 3
    assert rows["select"] == 2
    assert rows["group"] == 3
