"""Random scripts of kNN around groups and of RNN: the local runtime sends what the reference sends.

Few objects in few places, so that many are equally far, beside focal objects that come and go,
DISTANCE to them, options of streams, recoveries and readings in every order. What fails is a
script.
"""

import os

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.harness.examples import examples
from tests.harness.scene import HAPPENINGS, Scene, run, unreached
from tests.harness.search import World, focal, group, numbers, reading, region, shape, streams

EXAMPLES = examples(16)
RUNTIME = os.environ.get("PLACE_SEARCH_RUNTIME", "local")
"""`reference` asks only whether the scripts are ones."""

OPTIONS = {
    "Cars": ["evaluate = '3 seconds'", "timeout = '6 seconds'", "lateness = '2 seconds'"],
    "Drones": ["timeout = '9 seconds'", "evaluate = '2 seconds'"],
}
CONDITIONS = ["C.speed > 5", "C.type = 'Car'", "C.id <> {key}", "C INSIDE (0, 0, 3, 3)"]
SHOWN = ["C.id", "C.id, C.speed", "C.type", "COUNT(*)", "DISTINCT C.type", "C.x, C.y", "*"]


def select(draw: st.DrawFn, world: World) -> str:
    """One stream, whose nearest are chosen, or who has somebody among the nearest."""
    k = draw(st.sampled_from([1, 1, 2, 3, 50]))
    word = draw(st.sampled_from(["RNN", "RNN", "kNN"]))
    leader = focal(draw, world)
    clause = f"{word} ('M', {k}, {leader})"
    if word == "kNN":
        clause = f"kNN ({k}, {group(draw, world)})"
    elif draw(st.booleans()):
        clause = f"RNN ({k}, {numbers(draw, world.x, world.y)})"
    shown = draw(st.sampled_from(SHOWN))
    if clause.count("'M'") + clause.count("FOCAL") == 1 and draw(st.booleans()):
        shown = draw(st.sampled_from(["C.id, DISTANCE(C, FOCAL)", "MAX(DISTANCE(C, FOCAL))"]))
    where = draw(st.sampled_from(["", "", f"WHERE {draw(st.sampled_from(CONDITIONS))}"]))
    inside = draw(st.sampled_from(["", "", f"INSIDE {shape(draw, world)}"]))
    tail = draw(st.sampled_from(["", "", " GROUP BY C.type"])) if shown == "COUNT(*)" else ""
    text = f"SELECT {shown} FROM Cars C {where} {inside} {clause}{tail}"
    return text.replace("{key}", world.key(1))


@st.composite
def scripts(draw: st.DrawFn) -> str:
    options = {s: draw(st.lists(st.sampled_from(o), unique=True)) for s, o in OPTIONS.items()}
    world = World(draw(st.booleans()), draw(st.booleans()), options)
    near = [0, 1, 2, 3, 4]
    world.x = st.sampled_from([179, 180, -180, -179] if world.sphere else near)
    world.y = st.sampled_from([0, 1, -1, 89, 90] if world.sphere else near)
    world.leader = st.sampled_from([1, 1, 2, 3, 7])
    world.number = st.integers(1, 7)
    world.senders = ["Cars"] * 10 + ["Drones"] * 2 + ["gone"]
    scene = Scene(world, lambda draw: select(draw, world), lambda draw: reading(draw, world))
    for statement in (*streams(world, ", ts TIMESTAMP"), region(draw, world)):
        scene.statement(statement)
    if draw(st.booleans()):
        scene.instant(draw, 8)
    for number in range(draw(st.sampled_from([6, 10, 14]))):
        scene.happen(draw, "query" if number < 3 else draw(st.sampled_from(HAPPENINGS)))
    return scene.text()


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    text=scripts(),
    cells=st.sampled_from(["1x1", "2x2", "1x3", "3x1"]),
    batching=st.sampled_from(["each", "one", "random:1", "random:2"]),
)
def test_local_agrees_with_the_reference(text: str, cells: str, batching: str) -> None:
    note(text)
    run(text, RUNTIME, "1x1" if RUNTIME == "reference" else cells, batching)


FEATURES = [
    r"(SUM|MAX|MIN) OF \(.*FOCAL.*FOCAL",
    r"DISTANCE\(C, FOCAL\).* RNN \('M'",
    r"DISTANCE\(C, FOCAL\).* kNN \(",
    r"WHERE .* INSIDE .* RNN",
    r"OF Drones\)",
    r"lateness(.|\n)*\nrecover",
]


def test_the_search_reaches_every_feature() -> None:
    assert unreached(scripts(), FEATURES) == []
