"""Random triggers: the local runtime tells what the reference tells, by every strategy.

One to five variables over streams with and without keys and places, sets of interchangeable ones,
bounds on times and distances in both directions, comparisons, conditions over three, tables of
parameters, UNLESS, REPORT FIRST and EVERY, under statements, recoveries and late readings in every
order. What fails is a script.
"""

import os
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import place
from place.errors import StatementError
from tests.harness.examples import examples
from tests.harness.scene import HAPPENINGS, Scene, run
from tests.harness.search import TableSpec, World, numbers, shape

EXAMPLES = examples(24)
RUNTIME = os.environ.get("PLACE_SEARCH_RUNTIME", "local")
"""`reference` asks only whether the scripts are ones."""

STREAMS = {
    "Cars": "(id {key} KEY, x DOUBLE, y DOUBLE, kind STRING, speed DOUBLE, n BIGINT)",
    "Drones": "(id {key} KEY, x DOUBLE, y DOUBLE, kind STRING, speed DOUBLE, n BIGINT)",
    "Packets": "(kind STRING, speed DOUBLE, n BIGINT)",
}
OPTIONS = {
    "Cars": ["evaluate = '2 seconds'", "lateness = '3 seconds'", "timeout = '4 seconds'"],
    "Drones": ["evaluate = '3 seconds'", "lateness = '2 seconds'"],
    "Packets": ["evaluate = '2 seconds'", "lateness = '1 seconds'"],
}
HINTS = ["", "/*+ LOOSE */ ", "/*+ TIGHT */ ", "/*+ NO INDEX */ "]
SECONDS = st.sampled_from([-5, -3, -2, -1, -0.5, 0, 0, 0.5, 1, 1, 2, 3, 5])
COLUMNS = ("speed", "n", "kind")


@dataclass(frozen=True)
class Variable:
    """A variable, or a set of `size` of them; `member` names one of it."""

    name: str
    stream: str
    size: int = 0

    @property
    def member(self) -> str:
        return f"{self.name}[1]" if self.size else self.name

    @property
    def is_placed(self) -> bool:
        return self.stream != "Packets"

    def __str__(self) -> str:
        return f"{self.stream} AS {self.name}" + (f"[{self.size}]" if self.size else "")


def unary(draw: st.DrawFn, variable: Variable, world: World) -> str:
    name = variable.name
    choices = [
        f"{name}.kind = {draw(st.sampled_from(['Car', 'Bus']).map(repr))}",
        f"{name}.speed {draw(st.sampled_from(['>', '<=', '<>']))} {draw(world.speed)}",
        f"{name}.n BETWEEN 1 AND 2",
        f"{name}.kind IS NOT NULL",
    ]
    if variable.is_placed:
        choices += [f"{name} INSIDE {shape(draw, world)}"] * 2
    return draw(st.sampled_from(choices))


def times(draw: st.DrawFn, one: Variable, other: Variable) -> str:
    low, high = sorted([draw(SECONDS), draw(SECONDS)])
    form = draw(st.sampled_from(["in", "between", "pair", "strict"]))
    gap = f"{other.member}.t - {one.member}.t"
    if form == "in":
        return f"{gap} IN [{low}, {high}]"
    if form == "between":
        return f"{gap} BETWEEN {low} AND {high}"
    if form == "pair":
        return f"{gap} >= {low} AND {gap} <= INTERVAL '5 seconds'"
    return f"{gap} > {low} AND {gap} < {high + 1}"


def between(draw: st.DrawFn, one: Variable, other: Variable, world: World) -> str:
    """A condition of two variables, or of a set with itself."""
    a, b = one.member, other.member
    choices = [
        f"{a}.{draw(st.sampled_from(COLUMNS[:2]))} {op} {b}.{draw(st.sampled_from(COLUMNS[:2]))}"
        for op in draw(st.lists(st.sampled_from(["=", "<", ">=", "<>"]), min_size=1, max_size=2))
    ]
    choices += [f"{a}.kind = {b}.kind", f"{a}.speed > {b}.speed + 5"]
    if one.is_placed and other.is_placed:
        op = draw(st.sampled_from(["<", "<=", "<=", ">"]))
        choices += [f"DISTANCE({a}, {b}) {op} {draw(world.size)}"] * 4
        if one == other and one.size > 1:
            choices += [f"DISTANCE({one.name}, {one.name}) <= {draw(world.size)}"] * 4
    return draw(st.sampled_from(choices))


def variables(draw: st.DrawFn) -> list[Variable]:
    streams = ["Cars"] * 5 + ["Drones"] * 2 + ["Packets"]
    count = draw(st.sampled_from([1, 2, 2, 2, 3, 3, 4, 5]))
    if draw(st.integers(0, 3)) == 0:
        first = Variable("S", draw(st.sampled_from(streams)), draw(st.integers(2, 3)))
        rest = min(count, 2) - 1
    else:
        first, rest = Variable("V0", draw(st.sampled_from(streams))), count - 1
    return [first] + [Variable(f"V{i + 1}", draw(st.sampled_from(streams))) for i in range(rest)]


def trigger(draw: st.DrawFn, world: World) -> str:
    """Everything behind the name of a trigger."""
    some = variables(draw)
    asked = []
    for one, other in pairwise(some):
        if draw(st.integers(0, 4)) > 0:
            asked.append(times(draw, one, other))
        if draw(st.booleans()):
            asked.append(between(draw, one, other, world))
    for each in some:
        if draw(st.booleans()):
            asked.append(unary(draw, each, world))
        if each.size and draw(st.booleans()):
            asked.append(f"SPAN({each.name}) <= {draw(st.sampled_from([0, 1, 3]))}")
        if each.size and draw(st.booleans()):
            asked.append(between(draw, each, each, world))
    if len(some) > 2 and draw(st.booleans()):
        a, b, c = (variable.member for variable in some[:3])
        asked.append(f"{a}.speed + {b}.speed >= {c}.speed")
        asked.append(between(draw, some[0], some[2], world))
    sources = [*map(str, some)]
    if draw(st.integers(0, 4)) == 0:
        sources.append("Params AS p")
        asked.append(f"{some[0].member}.speed >= p.low")
        if len(some) > 1:
            asked.append(f"{some[1].member}.t - {some[0].member}.t BETWEEN p.early AND p.late")
    clauses = [f"WHEN {' AND '.join(asked or ['TRUE'])}"]
    if draw(st.integers(0, 2)) == 0 or not asked:
        clauses.append(f"WITHIN '{draw(st.sampled_from([1, 3, 5]))} seconds'")
    clauses += ending(draw, some, world)
    hint = draw(st.sampled_from(HINTS))
    return f"{hint}FOR {', '.join(sources)} {' '.join(clauses)}"


def ending(draw: st.DrawFn, some: list[Variable], world: World) -> list[str]:
    clauses = []
    if draw(st.integers(0, 3)) == 0:
        absent = Variable("g", draw(st.sampled_from(["Cars", "Drones", "Packets"])))
        which = draw(st.sampled_from(some))
        asked = [times(draw, which, absent)]
        if draw(st.booleans()):
            asked.append(unary(draw, absent, world))
        if draw(st.booleans()):
            asked.append(between(draw, which, absent, world))
        clauses.append(f"UNLESS {absent} WHEN {' AND '.join(asked)}")
    if draw(st.booleans()):
        shown = [f"{each.member}.{draw(st.sampled_from([*COLUMNS, 't']))}" for each in some]
        shown += [f"SUM({each.name}.n)" for each in some if each.size]
        clauses.append(f"ALERT {', '.join(shown)}")
    if draw(st.integers(0, 2)) == 0:
        clauses.append("REPORT FIRST")
    if draw(st.integers(0, 2)) == 0:
        groups = ["", f" PER {some[0].member}.kind", f" PER {some[-1].member}.n"]
        per = draw(st.sampled_from(groups))
        clauses.append(f"EVERY '{draw(st.sampled_from([1, 4]))} seconds'{per}")
    return clauses


def tell(draw: st.DrawFn, world: World) -> str:
    """A reading, or word that an object is gone."""
    stream = draw(st.sampled_from(["Cars"] * 6 + ["Drones"] * 3 + ["Packets"] * 2))
    key = world.key(draw(world.number))
    if stream != "Packets" and draw(st.integers(0, 12)) == 0:
        return f"{stream} ({key}) disappear"
    values = [
        draw(st.sampled_from(["'Car'", "'Bus'", "NULL"])),
        draw(world.speed),
        draw(st.sampled_from(["1", "2", "NULL"])),
    ]
    if stream != "Packets":
        values = [key, numbers(draw, world.x, world.y), *values]
    return f"{stream} ({', '.join(values)})"


def parameters(world: World) -> TableSpec:
    def row(draw: st.DrawFn, _: int) -> list[str]:
        bounds = st.sampled_from(["-2", "0", "1", "2.5", "4", "NULL"])
        return [draw(st.sampled_from(["0", "10", "NULL"])), draw(bounds), draw(bounds)]

    return TableSpec("Params", ("low DOUBLE", "early DOUBLE", "late DOUBLE"), row)


@dataclass
class TriggerScene(Scene):
    """A script whose statements make triggers; `judge` knows which of them are refused."""

    judge: place.Session | None = None

    def statement(self, sql: str, comment: str = "") -> None:
        super().statement(sql, comment)
        if self.judge is not None and sql.startswith(("CREATE STREAM", "CREATE TABLE Params")):
            columns = sql.split(" FROM ")[0] + " AS VALUES (1, 1, 1)" if " FROM '" in sql else sql
            self.judge.sql(columns)

    def register(self, draw: st.DrawFn) -> None:
        assert self.judge is not None
        name = f"t{len(self.live) + len(self.dropped)}"
        for _ in range(4):
            sql = f"CREATE TRIGGER {name} {self.select(draw)}"
            try:
                self.judge.sql(sql)
            except StatementError:
                continue
            self.live.append(name)
            self.statement(sql)
            return

    def happen(self, draw: st.DrawFn, what: str) -> None:
        if what != "drop":
            super().happen(draw, "at" if what == "select" else what)
        elif self.live:
            name = self.live.pop(draw(st.integers(0, len(self.live) - 1)))
            self.dropped.append(name)
            self.statement(f"DROP TRIGGER {name}")


@st.composite
def scripts(draw: st.DrawFn) -> str:
    options = {
        stream: draw(st.lists(st.sampled_from(choices), unique=True, max_size=2))
        for stream, choices in OPTIONS.items()
    }
    world = World(draw(st.booleans()), draw(st.booleans()), options)
    judge = place.connect(runtime="reference")
    scene = TriggerScene(
        world, lambda draw: trigger(draw, world), lambda draw: tell(draw, world), judge=judge
    )
    for stream, columns in STREAMS.items():
        declared = columns.format(key=world.key_type)
        scene.statement(f"CREATE STREAM {stream} {declared}{world.with_options(stream)}")
    scene.create(draw, parameters(world), most=3)
    if draw(st.booleans()):
        scene.instant(draw, 6)
    for _ in range(3):
        scene.register(draw)
    for _ in range(draw(st.sampled_from([2, 5]))):
        scene.clock += draw(st.sampled_from([0.5, 1, 2.5]))
        scene.instant(draw, draw(st.sampled_from([2, 4, 6])))
        scene.happen(draw, draw(st.sampled_from(HAPPENINGS)))
    judge.close()
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
