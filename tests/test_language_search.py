"""Random scripts over the whole language: the local runtime sends what the reference sends.

Joins, windows, kNN, aggregates, DISTINCT and query tables in every combination that the binder
allows, under statements, recoveries and readings in every order. What fails is a script; the files
of its tables stand in it as comments.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from place.kernels import bulk
from tests.harness.examples import examples
from tests.harness.scene import HAPPENINGS, Scene, run, unreached
from tests.harness.search import (
    LAYOUTS,
    TableSpec,
    World,
    fences,
    focal,
    group,
    inside,
    numbers,
    reading,
    region,
    stations,
    streams,
)

EXAMPLES = examples(24)
RUNTIME = os.environ.get("PLACE_SEARCH_RUNTIME", "local")
"""`reference` asks only whether the scripts are ones."""


# What a query may say, by the names that it calls its relations: C are cars, P their readings
# before, D drones, S stations, Q regions, W and V owners, K kinds.

VALUES = {
    "C": [
        "C.id",
        "C.type",
        "C.speed",
        "C.x",
        "C.x + C.y",
        "COALESCE(C.type, 'none')",
        "C.type = 'Car'",
        "CASE WHEN C.speed > 10 THEN 'fast' ELSE C.type END",
        "ROUND(C.speed, -1)",
        "LEFT(C.type, 2) || C.id",
        "INSIDE (0, 0, 2, 2)",
    ],
    "P": ["P.type", "P.speed", "P.x", "C.speed - P.speed", "C.ts - P.ts"],
    "D": ["D.id", "D.x", "D.y"],
    "S": ["S.name", "S.open", "S.x"],
    "Q": ["Q.ID", "Q.lim"],
    "W": ["W.owner", "W.rate", "W.car"],
    "V": ["V.owner", "V.rate"],
    "K": ["K.type", "K.wheels", "K.least"],
}
NUMBERS = {
    "C": ["C.speed", "C.x", "C.speed * 2"],
    "P": ["P.speed", "C.speed - P.speed", "C.ts - P.ts"],
    "D": ["D.x"],
    "S": ["S.x"],
    "Q": ["Q.ID", "Q.lim"],
    "W": ["W.rate"],
    "V": ["V.rate"],
    "K": ["K.wheels", "K.least"],
}
CONDITIONS = {
    "C": [
        "C.type = 'Car'",
        "C.type <> 'Car'",
        "C.type IS NULL",
        "C.type LIKE '%u%'",
        "C.speed > 10",
        "C.speed BETWEEN 0 AND 20",
        "NOT C.speed = 10",
        "(C.speed > 10 OR C.type = 'Truck')",
        "GREATEST(C.speed, 5) < 15",
        "C INSIDE (1, 0, 3, 2)",
        "C OUTSIDE (0, 0, 2, 2)",
        "(C INSIDE (2, 2, 2) OR C.speed > 10)",
        "NOT (INSIDE (0, 0, 2, 2) OR INSIDE (3, 3, 1))",
    ],
    "P": ["C.type = P.type", "C.speed >= P.speed", "P.type IS NOT NULL", "C.x <> P.x"],
    "D": ["D.x > 2"],
    "S": ["S.open = TRUE", "S.name <> 's1'"],
    "Q": ["Q.lim > 5", "Q.ID <> 1"],
    "W": ["W.rate > 1", "W.owner IS NOT NULL"],
    "V": ["V.rate = 1"],
    "K": ["K.wheels > 2"],
}
JOINS = {
    "CW": [
        "C.id = W.car",
        "C.id = W.car",
        "W.car = C.id AND C.speed >= W.rate",
        "C.id = W.car AND W.rate > 1",
        "C.speed > W.rate",
        "(C.id = W.car OR W.car IS NULL)",
        "C.id <> W.car",
        "C.speed BETWEEN W.rate AND W.rate + 10",
        "C.id IN (W.car, W.car)",
        "",
    ],
    "CK": [
        "C.type = K.type",
        "C.type = K.type",
        "C.type = K.type AND C.speed > K.least",
        "UPPER(C.type) = UPPER(K.type)",
        "C.speed = K.wheels",
        "C.type <> K.type",
        "(C.speed * 2 > K.least OR C.type = K.type)",
        "COALESCE(C.type, 'Car') = K.type",
        "",
    ],
    "WV": ["W.owner = V.owner", "W.car = V.car AND W.rate < V.rate", "W.rate = V.rate"],
    "WK": ["W.rate = K.wheels", "W.rate < K.wheels", ""],
    "SK": ["S.x > K.least", "S.x = K.wheels", "S.name > K.type", ""],
    "DW": ["D.id = W.car", "D.x > W.rate"],
    "QW": ["Q.ID = W.rate", "Q.lim > W.rate", ""],
}

OWNERS = ("W", "Owners", ["CW"])
JOINED = [
    [],
    [],
    [OWNERS],
    [OWNERS],
    [("K", "Kinds", ["CK"])],
    [OWNERS, ("K", "Kinds", ["CK", "WK"])],
    [OWNERS, ("V", "Owners", ["WV"])],
]
"""The tables that cars are joined with, each by one of some pairs of names."""


@dataclass
class From:
    """The relations of a query: what they are called, what its subject is, who may lead it."""

    relations: dict[str, str]
    subject: str = "C"
    leaders: tuple[str, ...] = ("", "", " OF Drones")
    conditions: list[str] = field(default_factory=list)
    previous: bool = False

    def join(self, draw: st.DrawFn, alias: str, table: str, pair: str) -> None:
        self.relations[alias] = table
        condition = draw(st.sampled_from(JOINS[pair]))
        self.conditions += [condition] if condition else []

    def pool(self, choices: dict[str, list[str]]) -> list[str]:
        return [choice for alias in self.relations for choice in choices[alias]]

    def __str__(self) -> str:
        return ", ".join(f"{name} {alias}" for alias, name in self.relations.items())


def relations(draw: st.DrawFn) -> From:
    """FROM and the conditions that belong to it."""
    which = draw(
        st.sampled_from(["cars"] * 5 + ["regions"] * 2 + ["previous", "stations", "drones"])
    )
    if which == "regions":
        return regions(draw)
    if which == "stations":
        chosen = From({"S": "Stations"}, "S", (" OF Cars", " OF Cars", " OF Drones"))
        if draw(st.integers(0, 2)) == 2:
            chosen.join(draw, "K", "Kinds", "SK")
        return chosen
    if which == "drones":
        chosen = From({"D": "Drones"}, "D", ("", " OF Cars"))
        if draw(st.integers(0, 2)) == 2:
            chosen.join(draw, "W", "Owners", "DW")
        return chosen
    chosen = From({"C": "Cars"})
    if which == "previous":
        chosen = From({"C": "Cars", "P": "Cars"}, previous=True)
        chosen.conditions.append("C.id = P.id")
    for alias, table, pairs in draw(st.sampled_from(JOINED)):
        chosen.join(draw, alias, table, draw(st.sampled_from(pairs)))
    return chosen


def regions(draw: st.DrawFn) -> From:
    """A query table, over cars or over stations."""
    table = draw(st.sampled_from(["Fences", "Fences", "Patrols", "Zones"]))
    over_stations = draw(st.integers(0, 4)) == 4
    subject, name = ("S", "Stations") if over_stations else ("C", "Cars")
    chosen = From({"Q": table, subject: name}, subject)
    of = ""
    if table == "Patrols":
        of = draw(st.sampled_from([" OF Cars", " OF Drones"]))
    elif table == "Fences":
        of = "{of}"  # only where they are moving, which is for the script to know
    chosen.conditions.append(f"{subject} INSIDE Q{of}")
    if over_stations:
        chosen.leaders = (" OF Cars", " OF Drones")
    else:
        chosen.conditions += draw(
            st.sampled_from([[], [], ["C.speed > Q.lim"], ["C.speed <= Q.lim"]])
        )
    if draw(st.integers(0, 3)) == 3:
        chosen.join(draw, "W", "Owners", "QW")
    return chosen


def crowded(world: World) -> World:
    """The world with fewer places, where more happens between fewer objects."""
    near = [0, 1, 2, 3, 4, 2.5]
    world.x = st.sampled_from([179, 180, -180, -179, 178.5] if world.sphere else near)
    world.y = st.sampled_from([0, 1, -1, 0.5, 89, 90] if world.sphere else near)
    world.size = st.sampled_from([4e5, 1e6, 1e7, 111195.1, 0] if world.sphere else [2, 3, 5, 10, 0])
    world.number = st.sampled_from([1, 2, 3, 4])
    world.leader = st.sampled_from([1, 1, 1, 2, 2, 3, 5])
    world.regions = ["none"] * 4 + ["static"] * 2 + ["moving"] * 3 + ["region"]
    world.senders = ["Cars"] * 9 + ["Drones"] * 3 + ["Patrols", "Zones", "gone"]
    world.speed = st.sampled_from(
        ["0", "10", "20", "20.5", "NULL", "-1", "0.1", "0.2", "1e17", "-1e17"]
    )
    return world


def select(draw: st.DrawFn, world: World, moving_fences: bool) -> str:
    """A SELECT of the whole language."""
    chosen = relations(draw)
    conditions = [*chosen.conditions]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        conditions.append(draw(st.sampled_from(chosen.pool(CONDITIONS))))
    has_regions = "Q" in chosen.relations
    clauses = [f"FROM {chosen}"]
    if conditions:
        clauses.append("WHERE " + " AND ".join(conditions))
    if not has_regions or draw(st.integers(0, 4)) == 4:
        clauses.append(inside(draw, world, chosen.leaders))
    if chosen.previous:
        clauses.append("WINDOW PREVIOUS")
    elif not has_regions and draw(st.integers(0, 2)) == 2:
        clauses.append(nearest(draw, world, chosen, clauses))
    elif chosen.subject != "S" and draw(st.booleans()):
        clauses.append(window(draw))
    elif not has_regions and chosen.subject != "S" and clauses[-1].startswith("INSIDE"):
        clauses[-1] += draw(st.sampled_from(["", " FOR '2 seconds'", " FOR '4.5 seconds'"]))
    of = draw(st.sampled_from([" OF Cars", " OF Drones"])) if moving_fences else ""
    text = f"SELECT {outputs(draw, chosen, clauses)} {' '.join(clauses)}"
    return text.replace("{of}", of)


def nearest(draw: st.DrawFn, world: World, chosen: From, clauses: list[str]) -> str:
    """kNN around a place, a focal object or a group of them; or RNN, where that has a meaning."""
    k = draw(st.sampled_from([1, 2, 3, 100]))
    if draw(st.integers(0, 3)) == 3:
        return f"kNN ({k}, {group(draw, world, chosen.leaders)})"
    is_alone = len(chosen.relations) == 1 and "INSIDE ('M'" not in clauses[-1]
    word = "RNN" if is_alone and draw(st.booleans()) else "kNN"
    if draw(st.booleans()):
        return f"{word} ({k}, {numbers(draw, world.x, world.y)})"
    return f"{word} ('M', {k}, {focal(draw, world, chosen.leaders)})"


def window(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return f"WINDOW {draw(st.sampled_from([1, 2, 3, 5]))} ROWS"
    return f"WINDOW {draw(st.sampled_from(['3', '5', '8', '2.5', '60']))} SECONDS"


def outputs(draw: st.DrawFn, chosen: From, clauses: list[str]) -> str:
    """What SELECT lists; GROUP BY and HAVING are added to the clauses."""
    values = st.sampled_from(chosen.pool(VALUES))
    distinct = "DISTINCT " if draw(st.integers(0, 3)) == 3 else ""
    if draw(st.integers(0, 2)) < 2:
        if draw(st.integers(0, 9)) == 9:
            return distinct + "*"
        return distinct + ", ".join(draw(st.lists(values, min_size=1, max_size=3)))
    keys = draw(st.lists(values, max_size=2, unique=True))
    totals = [aggregate(draw, chosen) for _ in range(draw(st.integers(1, 3)))]
    shown = draw(st.sampled_from([keys, keys, keys[1:]])) + totals
    if keys:
        clauses.append("GROUP BY " + ", ".join(keys))
    if draw(st.integers(0, 3)) == 3:
        clauses.append(f"HAVING {having(draw, chosen)}")
    return distinct + ", ".join(shown)


def aggregate(draw: st.DrawFn, chosen: From) -> str:
    which = draw(st.sampled_from(["COUNT(*)", "COUNT", "SUM", "AVG", "MIN", "MAX"]))
    if which == "COUNT(*)":
        return which
    pool = chosen.pool(NUMBERS if which in ("SUM", "AVG") else VALUES)
    distinct = "DISTINCT " if draw(st.integers(0, 3)) == 3 else ""
    return f"{which}({distinct}{draw(st.sampled_from(pool))})"


def having(draw: st.DrawFn, chosen: From) -> str:
    value = draw(st.sampled_from(chosen.pool(VALUES)))
    conditions = [
        "COUNT(*) > 1",
        "COUNT(*) = 1",
        f"COUNT(DISTINCT {value}) > 1",
        f"MIN({value}) = MAX({value})",
        f"MAX({value}) IS NOT NULL AND COUNT(*) < 4",
    ]
    return draw(st.sampled_from(conditions))


# What happens


OPTIONS = {
    "Cars": [
        "evaluate = '5 seconds'",
        "timeout = '7 seconds'",
        "lateness = '3 seconds'",
        "missing = 'last'",
    ],
    "Drones": ["evaluate = '2 seconds'", "timeout = '9 seconds'", "lateness = '2 seconds'"],
    "Patrols": ["timeout = '6 seconds'", "evaluate = '4 seconds'", "missing = 'last'"],
    "Zones": ["timeout = '6 seconds'", "lateness = '1 seconds'", "missing = 'last'"],
}


def owners(world: World) -> TableSpec:
    """Keys that are there twice, that nobody has, and NULL."""

    def row(draw: st.DrawFn, _: int) -> list[str]:
        car = draw(st.sampled_from([world.key(n) for n in (1, 1, 2, 3, 9)] + ["NULL"]))
        owner = draw(st.sampled_from(["'Ada'", "'Bob'", "NULL"]))
        return [car, owner, draw(st.sampled_from(["0", "1", "2", "10", "NULL"]))]

    return TableSpec("Owners", (f"car {world.key_type}", "owner STRING", "rate BIGINT"), row)


def kinds() -> TableSpec:
    def row(draw: st.DrawFn, _: int) -> list[str]:
        name = draw(st.sampled_from(["'Car'", "'Car'", "'Truck'", "'bus'", "NULL"]))
        wheels = draw(st.sampled_from(["2", "4", "10", "NULL"]))
        return [name, wheels, draw(st.sampled_from(["0", "4", "15.5", "NULL"]))]

    return TableSpec("Kinds", ("type STRING", "wheels BIGINT", "least DOUBLE"), row)


@st.composite
def scripts(draw: st.DrawFn, always: Mapping[str, Sequence[str]] | None = None) -> str:
    """Scripts over the whole language; streams have some options in all of them."""
    options = {
        stream: [
            *(always or {}).get(stream, ()),
            *draw(st.lists(st.sampled_from(choices), unique=True)),
        ]
        for stream, choices in OPTIONS.items()
    }
    world = crowded(World(draw(st.booleans()), draw(st.booleans()), options))
    layout = draw(st.sampled_from(sorted(LAYOUTS)))
    moving = "focal" in LAYOUTS[layout][0]
    scene = Scene(
        world, lambda draw: select(draw, world, moving), lambda draw: reading(draw, world)
    )
    for statement in (*streams(world, ", ts TIMESTAMP"), region(draw, world)):
        scene.statement(statement)
    for spec in (fences(world, layout), stations(world), owners(world), kinds()):
        scene.create(draw, spec)
    if draw(st.integers(0, 3)) > 0:
        scene.instant(draw, 8)
    for number in range(draw(st.sampled_from([4, 10, 14, 18]))):
        scene.happen(draw, "query" if number < 2 else draw(st.sampled_from(HAPPENINGS)))
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
    large=st.booleans(),
)
def test_local_agrees_with_the_reference(text: str, cells: str, batching: str, large: bool) -> None:
    note(text)
    # Half of them take the joins of large work, which small work does not need.
    few = {"FEW": 0, "FEW_EACH": 0} if large else {}
    with patch.multiple(bulk, **few) if few else nullcontext():
        run(text, RUNTIME, "1x1" if RUNTIME == "reference" else cells, batching)


FEATURES = [
    r"Owners W WHERE .*C\.id = W\.car",
    r"Owners W, Owners V",
    r"Owners W, Kinds K",
    r"WINDOW \S+ SECONDS",
    r"WINDOW \d+ ROWS",
    r"WINDOW PREVIOUS",
    r"kNN \(\d",
    r"kNN \('M'",
    r"INSIDE \('M'.* kNN",
    r"kNN \(\d+, (SUM|MAX|MIN) OF .*FOCAL",
    r"INSIDE .* RNN \(\d",
    r"RNN \('M'",
    r"FROM Stations S.* kNN \('M'",
    r"C INSIDE Q.* WINDOW",
    r"GROUP BY .* HAVING",
    r"COUNT\(DISTINCT",
    r"SELECT DISTINCT",
    r"# \| \d.*\nstatement ok\nREFRESH",
    r"INSERT INTO Owners",
    r"DELETE FROM Fences",
    r"OR REPLACE QUERY \S+ AS .*WINDOW",
    r"lateness(.|\n)*\nrecover",
]


@pytest.mark.long
def test_the_search_reaches_every_feature() -> None:
    assert unreached(scripts(), FEATURES) == []
