"""Random scripts of range queries: the local runtime sends what the reference sends.

What fails is a script, so that it can be committed as it is.
"""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from place.kernels import bulk
from place.script.blocks import parse_script
from place.script.command import opener
from place.script.runner import Batching, ScriptRunner
from tests.harness.examples import examples
from tests.harness.search import World, fences, inside, reading, region, stations, streams

EXAMPLES = examples(24)

CONDITIONS = [
    "type = 'Car'",
    "type <> 'Car'",
    "type IN ('Car', 'Bus')",
    "type IS NULL",
    "type LIKE '%u%'",
    "speed > 10",
    "speed >= 20 AND speed < 20.5",
    "speed BETWEEN 0 AND 20",
    "NOT speed = 10",
    "NOT (speed > 10 OR type = 'Car')",
    "speed > 10 OR type = 'Truck'",
    "speed * 2 > 30",
    "speed = 10 AND type = 'Car' OR speed = 20 AND type = 'Truck'",
    "id IN (1, 2)",
    "FALSE",
]


def where(draw: st.DrawFn, world: World) -> str:
    if draw(st.booleans()):
        return ""
    condition = draw(st.sampled_from(CONDITIONS))
    if world.texts and condition.startswith("id"):
        condition = "id IN ('k1', 'k2')"
    return f"WHERE {condition}"


SELECTS = ["id", "id, type", "type", "speed", "id, x + y AS s", "*", "COALESCE(type, 'none')"]


def query(draw: st.DrawFn, world: World, name: str) -> str:
    if draw(st.integers(0, 4)) == 0:
        table = draw(st.sampled_from(["Fences", "Patrols", "Zones"]))
        extra = draw(st.sampled_from(["", " AND O.speed > Q.lim", " AND O.type = 'Car'"]))
        select = draw(st.sampled_from(["Q.ID, O.id", "Q.ID", "Q.ID, O.id, O.speed, Q.lim"]))
        clause = inside(draw, world) if draw(st.integers(0, 5)) == 0 else ""
        return (
            f"REGISTER QUERY {name} AS SELECT {select} FROM {table} Q, Cars O"
            f" WHERE O INSIDE Q{extra} {clause}"
        )
    if draw(st.integers(0, 5)) == 0:
        clause = inside(draw, world, (" OF Cars", " OF Cars", " OF Drones"))
        return f"REGISTER QUERY {name} AS SELECT name FROM Stations WHERE open = TRUE {clause}"
    return (
        f"REGISTER QUERY {name} AS SELECT {draw(st.sampled_from(SELECTS))} FROM Cars"
        f" {where(draw, world)} {inside(draw, world)}"
    )


def setup(draw: st.DrawFn, world: World) -> list[str]:
    tables = [fences(world, draw(st.sampled_from(["rectangle", "circle"]))), stations(world)]
    statements = [
        *streams(world),
        *(spec.create(spec.rows(draw, 1, 4), world.with_options(spec.name)) for spec in tables),
        region(draw, world),
    ]
    return [f"statement ok\n{statement}" for statement in statements]


@st.composite
def scripts(draw: st.DrawFn) -> str:
    options = draw(
        st.lists(st.sampled_from(["evaluate = '5 seconds'", "timeout = '7 seconds'"]), unique=True)
    )
    world = World(draw(st.booleans()), draw(st.booleans()), {"Cars": options})
    blocks = setup(draw, world)
    live: list[str] = []
    clock = 0.0
    for number in range(draw(st.integers(3, 14))):
        choice = draw(
            st.sampled_from(["at", "at", "at", "at", "query", "query", "drop", "recover"])
        )
        if number < 2 or choice == "query":
            name = f"q{number}"
            live.append(name)
            blocks.append(f"statement ok\n{query(draw, world, name)}")
        elif choice == "drop" and live:
            name = live.pop(draw(st.integers(0, len(live) - 1)))
            blocks.append(f"statement ok\nDROP QUERY {name}")
        elif choice == "recover" and draw(st.integers(0, 3)) == 0:
            blocks.append("recover")
        else:
            clock += draw(st.sampled_from([0.5, 1, 2.5, 5, 8]))
            lines = [reading(draw, world) for _ in range(draw(st.integers(0, 6)))]
            blocks.append("\n".join([f"at {clock}s", *lines]))
    blocks += [f"answer {name}" for name in live]
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("cells", ["1x1", "2x3"])
@settings(
    max_examples=EXAMPLES // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    text=scripts(),
    batching=st.sampled_from(["each", "one", "random:1", "random:2"]),
    large=st.booleans(),
)
def test_local_agrees_with_the_reference(cells: str, text: str, batching: str, large: bool) -> None:
    note(text)
    runner = ScriptRunner(
        parse_script(text, Path("search.cq")), opener("local", cells), Batching.parse(batching)
    )
    # Half of them take the joins of large work, which small work does not need.
    few = {"FEW": 0, "FEW_EACH": 0} if large else {}
    with patch.multiple(bulk, **few) if few else nullcontext():
        runner.run()
