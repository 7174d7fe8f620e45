"""Random joins: the local runtime sends what the reference sends.

Two and three sources, each the objects of a stream, readings of a window of time or of rows, or the
rows of a table, joined by equalities, bands, half-lines, distances and what else WHERE can say,
with INSIDE, kNN, GROUP BY and DISTINCT above, under statements, recoveries and readings in every
order. What fails is a script.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.harness.examples import ROUNDS, examples
from tests.harness.scene import HAPPENINGS, Scene, run, unreached
from tests.harness.search import TableSpec, World, numbers, region, shape

EXAMPLES = examples(100)
RUNTIME = os.environ.get("PLACE_SEARCH_RUNTIME", "local")
"""`reference` asks only whether the scripts are ones."""


HINTS = [f"/*+ {way} */ " for way in ("HASH", "GRID", "CLUSTERS", "BITMAPS", "SCAN")]


@dataclass(frozen=True)
class Relation:
    """What conditions may read: numbers of both types, texts, and keys of the script's type."""

    name: str
    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    keys: tuple[str, ...]
    is_placed: bool
    is_stream: bool = True
    has_objects: bool = True


CARS = Relation("Cars", ("speed", "n", "x"), ("type",), ("id",), True)
DRONES = Relation("Drones", ("speed", "n", "y"), ("type",), ("id",), True)
RULES = Relation("Rules", ("low", "high", "n"), ("type",), (), False)
STATIONS = Relation("Stations", ("pumps", "x"), ("name",), (), True, False)
PACKETS = Relation("Packets", ("bytes", "n"), ("type",), ("src",), False, has_objects=False)
OWNERS = Relation("Owners", ("rate", "n"), ("owner",), ("car",), False, False)
RELATIONS = [CARS] * 4 + [DRONES] * 3 + [RULES, PACKETS, STATIONS, OWNERS]


@dataclass(frozen=True)
class Source:
    """A relation in FROM, under a name of one letter."""

    alias: str
    relation: Relation
    window: str

    def __str__(self) -> str:
        return f"{self.relation.name} {self.alias}{self.window}"

    def columns(self) -> list[str]:
        relation = self.relation
        return [f"{self.alias}.{c}" for c in relation.numbers + relation.texts + relation.keys]


def window(draw: st.DrawFn, relation: Relation) -> str:
    if not relation.is_stream or (relation.has_objects and draw(st.booleans())):
        return ""
    if draw(st.booleans()):
        return f" WINDOW {draw(st.sampled_from([1, 2, 3, 5]))} ROWS"
    return f" WINDOW {draw(st.sampled_from(['2.5', '3', '5', '8', '60']))} SECONDS"


def sources(draw: st.DrawFn) -> list[Source]:
    """One stream with a window of its own at least, three at most; a stream is among them."""
    chosen = [draw(st.sampled_from(RELATIONS)) for _ in range(draw(st.sampled_from([2, 2, 2, 3])))]
    if not any(relation.is_stream for relation in chosen):
        chosen[0] = CARS
    if draw(st.integers(0, 4)) == 4:
        chosen[1] = chosen[0] if chosen[0].is_stream else CARS
    return [
        Source(alias, relation, window(draw, relation))
        for alias, relation in zip("abc", chosen, strict=False)
    ]


# Conditions


def one_of(draw: st.DrawFn, source: Source, names: tuple[str, ...]) -> str:
    return f"{source.alias}.{draw(st.sampled_from(names))}"


def between(draw: st.DrawFn, world: World, a: Source, b: Source) -> str:
    """A condition on the elements of two sources."""
    kinds = ["equal", "equal", "texts", "band", "band", "half", "half", "other", "rule"]
    if a.relation.keys and b.relation.keys:
        kinds += ["keys"] * 3
    if a.relation.is_placed and b.relation.is_placed:
        kinds += ["distance"] * 5
    if b.relation is RULES:
        kinds += ["rule"] * 6
    p, q = one_of(draw, a, a.relation.numbers), one_of(draw, b, b.relation.numbers)
    few = draw(st.sampled_from(["0", "1", "2.5", "10"]))
    compare = st.sampled_from(["<", "<=", ">", ">="])
    match draw(st.sampled_from(kinds)):
        case "equal":
            return draw(st.sampled_from([f"{p} = {q}", f"{p} = {q} + 1", f"{p} * 2 = {q}"]))
        case "texts":
            s, t = one_of(draw, a, a.relation.texts), one_of(draw, b, b.relation.texts)
            return draw(st.sampled_from([f"{s} = {t}", f"LOWER({s}) = LOWER({t})", f"{s} < {t}"]))
        case "keys":
            i, j = one_of(draw, a, a.relation.keys), one_of(draw, b, b.relation.keys)
            return f"{i} {draw(st.sampled_from(['=', '=', '<', '<>']))} {j}"
        case "band":
            if draw(st.booleans()):
                return f"ABS({p} - {q}) {draw(st.sampled_from(['<=', '< 1 +']))} {few}"
            return f"{p} BETWEEN {q} - {few} AND {q} + {few}"
        case "half":
            return f"{p} {draw(compare)} {q}"
        case "rule":
            if b.relation is RULES:
                return f"{p} BETWEEN {b.alias}.low AND {b.alias}.high"
            return f"{p} >= {q} AND {p} < {one_of(draw, b, b.relation.numbers)}"
        case "distance":
            return distance(draw, world, a, b, q)
        case _:
            forms = [f"({p} = {q} OR {p} IS NULL)", f"NOT {p} = {q}", f"COALESCE({p}, {q}) > {few}"]
            return draw(st.sampled_from([*forms, f"{p} + {q} > 20", f"{p} IN ({q}, 1, 20)"]))


def distance(draw: st.DrawFn, world: World, a: Source, b: Source, q: str) -> str:
    far = draw(world.size)
    forms = [f"DISTANCE(a, b) <= {far}", f"DISTANCE(a, b) < {far + 1}", f"DISTANCE(a, b) > {far}"]
    forms += [f"DISTANCE(a, b) = {far}", f"{far} >= DISTANCE(b, a)", f"DISTANCE(a, b) <= {q}"]
    forms += [f"DISTANCE(a, b) BETWEEN 1 AND {far + 1}"]
    form = draw(st.sampled_from([*forms[:2], *forms]))
    return form.replace("(a, b)", f"({a.alias}, {b.alias})").replace(
        "(b, a)", f"({b.alias}, {a.alias})"
    )


def alone(draw: st.DrawFn, world: World, source: Source) -> str:
    """A condition on the elements of one source."""
    number = one_of(draw, source, source.relation.numbers)
    text = one_of(draw, source, source.relation.texts)
    forms = [
        f"{number} > 0",
        f"{number} BETWEEN 0 AND 10",
        f"{number} IS NOT NULL",
        f"{text} > 'B'",
    ]
    forms += [f"{text} = 'Car'", f"{text} LIKE '%u%'", f"({number} = 10 OR {text} IS NULL)"]
    if source.relation.is_placed:
        point = numbers(draw, world.x, world.y)
        forms.append(f"DISTANCE({source.alias}, POINT ({point})) <= {draw(world.size)}")
    return draw(st.sampled_from(forms))


# Clauses


def focal(draw: st.DrawFn, world: World, subject: Source | None) -> str:
    own = subject is not None and subject.relation in (CARS, DRONES)
    stream = draw(st.sampled_from(["", ""] * own + [" OF Drones", " OF Cars"]))
    return world.key(draw(world.leader)) + stream


def inside(draw: st.DrawFn, world: World, chosen: list[Source]) -> tuple[str, Source | None]:
    """An INSIDE clause, and whom it speaks of."""
    streams = [source for source in chosen if source.relation.is_stream]
    placed = [source for source in streams if source.relation.is_placed]
    if not placed or draw(st.integers(0, 2)) < 2:
        return "", streams[0]
    subject = draw(st.sampled_from(placed))
    named = f"{subject.alias} " if subject is not streams[0] or draw(st.booleans()) else ""
    match draw(st.sampled_from(["shape", "region", "moving", "moving"])):
        case "shape":
            return f"{named}INSIDE {shape(draw, world)}", subject
        case "region":
            return f"{named}INSIDE Downtown", subject
        case _:
            extents = numbers(draw, *[world.size] * draw(st.integers(1, 2)))
            return f"{named}INSIDE ('M', {focal(draw, world, subject)}, {extents})", subject


def nearest(draw: st.DrawFn, world: World, chosen: list[Source], subject: Source | None) -> str:
    k = draw(st.sampled_from([1, 1, 2, 3, 100]))
    if draw(st.booleans()):
        return nearest_of_each(draw, chosen, k)
    if subject is None or not subject.relation.is_placed or subject.window:
        return ""
    if draw(st.booleans()):
        return f"kNN ({k}, {numbers(draw, world.x, world.y)})"
    return f"kNN ('M', {k}, {focal(draw, world, subject)})"


def nearest_of_each(draw: st.DrawFn, chosen: list[Source], k: int) -> str:
    """kNN around one of the sources, if those that it chooses from are there now."""
    placed = [source for source in chosen if source.relation.is_placed]
    if not placed:
        return ""
    centre = draw(st.sampled_from(placed))
    others = [source for source in placed if source is not centre]
    among = next((source for source in others if source.relation.is_stream), None)
    among = among or next(iter(others), None)
    return f"kNN ({k}, {centre.alias})" if among is not None and not among.window else ""


def select(draw: st.DrawFn, world: World) -> str:
    """A SELECT in which elements meet."""
    chosen = sources(draw)
    conditions: list[str] = []
    for place, source in enumerate(chosen[1:], start=1):
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2]))):
            condition = between(draw, world, draw(st.sampled_from(chosen[:place])), source)
            # Two distances of one pair may leave nothing, which is refused.
            if not ("DISTANCE" in condition and any("DISTANCE" in each for each in conditions)):
                conditions.append(condition)
    conditions += [alone(draw, world, source) for source in chosen if draw(st.integers(0, 6)) == 6]
    area, subject = inside(draw, world, chosen)
    near = nearest(draw, world, chosen, subject) if draw(st.integers(0, 2)) == 2 else ""
    values = [value for source in chosen for value in source.columns()]
    placed = [source.alias for source in chosen if source.relation.is_placed]
    values += [f"DISTANCE({one}, {other})" for one in placed for other in placed if one < other]
    if ("'M'" in area) != ("'M'" in near) and placed and draw(st.booleans()):
        far = f"DISTANCE({draw(st.sampled_from(placed))}, FOCAL)"
        values += [far] * 3
        conditions += [f"{far} {draw(st.sampled_from(['<=', '>']))} {draw(world.size)}"]
    clauses = [f"FROM {', '.join(map(str, chosen))}"]
    clauses += ["WHERE " + " AND ".join(conditions)] if conditions else []
    clauses += [clause for clause in (area, near) if clause]
    hint = draw(st.sampled_from(["", "", "", "", *HINTS]))
    return f"SELECT {hint}{outputs(draw, values, clauses)} {' '.join(clauses)}"


def select_nearest(draw: st.DrawFn, world: World) -> str:
    """kNN around each element of one source, with nothing but distances between the two."""
    one, other = draw(st.sampled_from([CARS, DRONES])), draw(st.sampled_from([CARS, STATIONS]))
    chosen = [Source("a", one, ""), Source("b", other, "")][:: draw(st.sampled_from([1, -1]))]
    conditions = [alone(draw, world, s) for s in chosen if draw(st.integers(0, 2)) == 2]
    if one is other and draw(st.booleans()):
        conditions.append(draw(st.sampled_from(["a.id <> b.id", "b.id <> a.id"])))
    clauses = [f"FROM {', '.join(map(str, chosen))}"]
    clauses += ["WHERE " + " AND ".join(conditions)] if conditions else []
    if draw(st.integers(0, 3)) == 3:
        named = draw(st.sampled_from([s for s in chosen if s.relation.is_stream]))
        clauses.append(f"{named.alias} INSIDE {shape(draw, world)}")
    centre = draw(st.sampled_from("ab"))
    clauses.append(f"kNN ({draw(st.sampled_from([1, 1, 2, 3, 100]))}, {centre})")
    values = [value for source in chosen for value in source.columns()]
    values += ["DISTANCE(a, b)"] * 3 + [
        f"{s.alias}.{s.relation.keys[0]}" for s in chosen if s.relation.keys
    ]
    return f"SELECT {outputs(draw, values, clauses)} {' '.join(clauses)}"


def outputs(draw: st.DrawFn, values: list[str], clauses: list[str]) -> str:
    """What SELECT lists; GROUP BY and HAVING are added to the clauses."""
    value = st.sampled_from(values)
    distinct = draw(st.sampled_from(["", "", "", "DISTINCT "]))
    if draw(st.integers(0, 3)) < 3:
        return distinct + draw(
            st.one_of(st.just("*"), st.lists(value, min_size=1, max_size=4).map(", ".join))
        )
    keys = draw(st.lists(value, max_size=2, unique=True))
    some = draw(value)
    totals = [f"COUNT({some})", f"COUNT(DISTINCT {some})", f"MIN({some})", f"MAX({some})"]
    shown = ["COUNT(*)", draw(st.sampled_from(totals))]
    countable = [v for v in values if v.startswith("DISTANCE") or v.endswith((".n", ".x", ".low"))]
    if countable:
        shown.append(f"{draw(st.sampled_from(['SUM', 'AVG']))}({draw(st.sampled_from(countable))})")
    clauses += [f"GROUP BY {', '.join(keys)}"] if keys else []
    clauses += ["HAVING COUNT(*) > 1"] if draw(st.integers(0, 3)) == 3 else []
    return distinct + ", ".join(keys + shown)


# What happens

OPTIONS = {
    "Cars": ["evaluate = '5 seconds'", "timeout = '7 seconds'", "lateness = '3 seconds'"],
    "Drones": ["evaluate = '2 seconds'", "timeout = '9 seconds'", "missing = 'last'"],
    "Rules": ["timeout = '6 seconds'", "lateness = '1 seconds'", "evaluate = '4 seconds'"],
    "Packets": ["evaluate = '3 seconds'", "lateness = '2 seconds'"],
}
kind = st.sampled_from(["'Car'", "'Bus'", "'car'", "NULL"])
whole = st.sampled_from(["1", "1", "2", "2", "10", "20", "NULL", "9007199254740993"])
broken = st.sampled_from(["1", "1", "2", "2.5", "10", "20", "NULL", "-1", "9007199254740992"])


def made(sphere: bool, texts: bool, options: dict[str, list[str]]) -> World:
    """Few objects at few places, so that many of them meet."""
    world = World(sphere, texts, options)
    near = [0, 1, 2, 3, 4, 2.5]
    world.x = st.sampled_from([179, 180, -180, -179, 178.5] if sphere else near)
    world.y = st.sampled_from([0, 1, -1, 0.5, 89, 90] if sphere else near)
    world.size = st.sampled_from([4e5, 1e6, 1e7, 111195.1, 0] if sphere else [1, 2, 3, 5, 10, 0])
    world.leader = st.sampled_from([1, 1, 1, 2, 2, 3, 5])
    return world


def declared(world: World) -> list[str]:
    columns = f"(id {world.key_type} KEY, x DOUBLE, y DOUBLE, type STRING, speed DOUBLE, n BIGINT)"
    return [
        f"CREATE STREAM Cars {columns}{world.with_options('Cars')}",
        f"CREATE STREAM Drones {columns}{world.with_options('Drones')}",
        "CREATE STREAM Rules (ID BIGINT KEY, low DOUBLE, high DOUBLE, type STRING, n BIGINT)"
        + world.with_options("Rules"),
        f"CREATE STREAM Packets (src {world.key_type}, bytes DOUBLE, type STRING, n BIGINT)"
        + world.with_options("Packets"),
    ]


def tell(draw: st.DrawFn, world: World) -> str:
    """A line of an `at` block."""
    stream = draw(st.sampled_from(["Cars"] * 4 + ["Drones"] * 3 + ["Rules", "Packets"]))
    number = draw(st.integers(1, 4))
    key = str(number) if stream == "Rules" else world.key(number)
    if stream != "Packets" and draw(st.integers(0, 9)) == 9:
        return f"{stream} ({key}) disappear"
    if stream == "Rules":
        values = [draw(broken), draw(broken), draw(kind), draw(whole)]
    elif stream == "Packets":
        values = [draw(broken), draw(kind), draw(whole)]
    else:
        place = [str(draw(world.x)), str(draw(world.y))]
        values = [*place, draw(kind), draw(broken), draw(whole)]
    return f"{stream} ({', '.join([key, *values])})"


def stations(world: World) -> TableSpec:
    """Stationary objects, some of them nowhere, with keys that are there twice."""

    def row(draw: st.DrawFn, _: int) -> list[str]:
        place = [str(draw(world.x)), draw(st.sampled_from([str(draw(world.y)), "NULL"]))]
        return [draw(st.sampled_from(["'Car'", "'s1'", "'s2'", "NULL"])), *place, draw(whole)]

    return TableSpec("Stations", ("name STRING", "x DOUBLE", "y DOUBLE", "pumps BIGINT"), row)


def owners(world: World) -> TableSpec:
    def row(draw: st.DrawFn, _: int) -> list[str]:
        car = draw(st.sampled_from([*(world.key(n) for n in (1, 1, 2, 9)), "NULL"]))
        return [car, draw(kind), draw(broken), draw(whole)]

    columns = (f"car {world.key_type}", "owner STRING", "rate DOUBLE", "n BIGINT")
    return TableSpec("Owners", columns, row)


@st.composite
def scripts(draw: st.DrawFn, ask: Callable[[st.DrawFn, World], str] = select) -> str:
    options = {
        stream: draw(st.lists(st.sampled_from(choices), unique=True, max_size=2))
        for stream, choices in OPTIONS.items()
    }
    world = made(draw(st.booleans()), draw(st.booleans()), options)
    scene = Scene(world, lambda draw: ask(draw, world), lambda draw: tell(draw, world))
    for statement in (*declared(world), region(draw, world)):
        scene.statement(statement)
    for spec in (stations(world), owners(world)):
        scene.create(draw, spec, most=4)
    if draw(st.integers(0, 3)) > 0:
        scene.instant(draw, 12)
    scene.happen(draw, "query")
    scene.happen(draw, "query")
    for _ in range(draw(st.sampled_from(ROUNDS))):
        scene.clock += draw(st.sampled_from([0.5, 1, 2.5]))
        scene.instant(draw, draw(st.sampled_from([4, 8, 12])))
        scene.happen(draw, draw(st.sampled_from(HAPPENINGS)))
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


@settings(
    max_examples=EXAMPLES // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    text=scripts(select_nearest),
    cells=st.sampled_from(["1x1", "2x2", "1x3", "3x1"]),
    batching=st.sampled_from(["each", "one", "random:1", "random:2"]),
)
def test_the_nearest_of_each_are_those_of_the_reference(
    text: str, cells: str, batching: str
) -> None:
    note(text)
    run(text, RUNTIME, "1x1" if RUNTIME == "reference" else cells, batching)


FEATURES = [
    r"Cars a, Cars b WHERE DISTANCE",
    r"WINDOW \S+ SECONDS, \w+ \w WINDOW \S+ ROWS",
    r"FROM \w+ a, \w+ b, \w+ c WHERE .* AND ",
    r"a\.id = b\.id",
    r"ABS\(a\.\w+ - b\.\w+\) <=",
    r"BETWEEN b\.low AND b\.high",
    r"DISTANCE\(\w, FOCAL\)",
    r"kNN \(\d+, \w\)",
    r"kNN \('M'.*",
    r"[ab] INSIDE \('M'",
    r"WINDOW \d ROWS, Stations",
    r"/\*\+ BITMAPS \*/ .* WHERE",
    r"Packets \w WINDOW \S+ ROWS",
    r"GROUP BY .* HAVING",
    r"SELECT DISTINCT .*WINDOW",
    r"at \S+s\n(.|\n)*REGISTER QUERY \w+ AS SELECT .*WINDOW",
    r"# \| .*\nstatement ok\nREFRESH",
    r"lateness(.|\n)*\nrecover",
]


@pytest.mark.long
def test_the_search_reaches_every_feature() -> None:
    assert unreached(scripts(), FEATURES) == []
