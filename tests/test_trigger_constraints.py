"""Constraints say neither more nor less than the conditions that they were made of.

Random triggers meet random readings. The matches of the reference, which asks the conditions as
they stand, are those that fulfil the constraints: the entries of the matrices, the conditions of
single variables, the comparisons and the rest.
"""

import itertools
import operator
from collections.abc import Sequence

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from place.errors import StatementError
from place.model.reading import Reading
from place.model.space import distance
from place.model.types import Row
from place.plan.bind_trigger import bind_trigger
from place.plan.evaluate import evaluate
from place.plan.infer import constraints_of
from place.plan.query import Query
from place.plan.trigger import Constraints, Reach
from place.runtime.reference import World
from place.runtime.reference_trigger import Event, Match, events, is_prevented, matches
from place.session import connect
from place.sql.dialect import parse_one
from place.sql.statements import CreateTrigger
from tests.harness.examples import examples

SECOND = 1_000_000
ROW: Row = ("A", 2.0, 1.5, 1)
SESSION = connect(runtime="reference")
SESSION.sql(
    "CREATE STREAM E (id BIGINT KEY, p STRING, v DOUBLE, x DOUBLE, y DOUBLE);"
    "CREATE TABLE P (kind STRING, far DOUBLE, seconds DOUBLE, whole BIGINT)"
    " AS VALUES ('A', 2, 1.5, 1)"
)
OPS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

bounds = st.sampled_from(["-1", "0", "1", "2.5", "p.seconds", "p.whole", "'2 seconds'"])
lengths = st.sampled_from(["0", "1", "1.5", "3", "p.far"])
comparisons = st.sampled_from(["<", "<=", ">", ">=", "="])
templates = st.sampled_from(
    [
        "{j}.t - {i}.t {op} {time}",
        "{j}.t - {i}.t IN [-2, {time}]",
        "{j}.t {op} {i}.t",
        "ABS({j}.t - {i}.t) <= 2",
        "{j}.t - {i}.t IN (0, 1, 2)",
        "{j}.t >= {i}.t + INTERVAL '1 second'",
        "DISTANCE({i}, {j}) {op} {length}",
        "DISTANCE({i}.r, {j}.r) < {length}",
        "DISTANCE({i}, {j}) BETWEEN 0 AND {length}",
        "DISTANCE({i}, POINT (0, 0)) <= {length}",
        "{i}.p = {j}.p",
        "{i}.v {op} {j}.v",
        "{i}.v + {j}.v {op} 2",
        "{i}.v {op} 1",
        "{i}.p = p.kind",
        "({i}.p = 'B' OR {j}.v > 1)",
        "{i}.id <> {j}.id",
        "{i}.t <> {j}.t",
        "{i}.v IS NOT NULL",
    ]
)


@st.composite
def conditions(draw: st.DrawFn, aliases: Sequence[str]) -> str:
    i, j = draw(st.sampled_from(list(itertools.permutations(aliases, 2))))
    return draw(templates).format(
        i=i, j=j, op=draw(comparisons), time=draw(bounds), length=draw(lengths)
    )


@st.composite
def triggers(draw: st.DrawFn) -> str:
    is_set = draw(st.booleans())
    one, two = ("V[1]", "V[2]") if is_set else ("a", "b")
    head = "E AS V[2], E AS c, P AS p" if is_set else "E AS a, E AS b, E AS c, P AS p"
    when = draw(st.lists(conditions((one, two, "c")), min_size=1, max_size=6))
    unless = ""
    if draw(st.booleans()):
        asked = draw(st.lists(conditions((one, two, "g")), max_size=3))
        unless = " UNLESS E AS g WHEN " + " AND ".join(["g.t - c.t IN [-2, 1]", *asked])
    return f"CREATE TRIGGER t FOR {head} WHEN {' AND '.join(when)} WITHIN '4 seconds'{unless}"


readings = st.lists(
    st.builds(
        lambda key, half, p, v, x, y: (half * SECOND // 2, (key, p, v, x, y)),
        st.integers(1, 3),
        st.integers(0, 8),
        st.sampled_from(["A", "B", None]),
        st.sampled_from([0.0, 1.0, 2.0, None]),
        st.sampled_from([0.0, 1.0, 1.5, 3.0]),
        st.sampled_from([0.0, 1.0]),
    ),
    min_size=3,
    max_size=7,
)


@given(triggers(), readings)
@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
def test_matches_are_what_fulfils_the_constraints(sql: str, told: list[tuple[int, Row]]) -> None:
    statement = parse_one(sql)
    assert isinstance(statement, CreateTrigger)
    try:
        query = bind_trigger(SESSION.catalog, statement)
    except StatementError as error:
        assume("can never" not in str(error) and "no reading can be" not in str(error))
        raise
    rows = [ROW]
    sent = [Reading("E", row[0], time, row) for time, row in told]  # type: ignore[arg-type]
    world = World(SESSION.catalog, {"E": sent})
    expected = set(matches(query, world, 1 << 60, rows))
    constraints = constraints_of(query, rows)
    if constraints is None:
        assert not expected or query.trigger.absence is not None  # type: ignore[union-attr]
        return
    all_of = events(world, SESSION.catalog.streams["e"], 1 << 60)
    found = {m for m in itertools.permutations(all_of, 3) if fulfils(query, constraints, m)}
    assert found == expected
    for match in found:
        prevented = any(g not in match and is_absent(query, constraints, match, g) for g in all_of)
        assert prevented == is_prevented(query, world, 1 << 60, match, rows)


def lies(reach: Reach, one: Event, other: Event) -> bool:
    if reach == Reach():
        return True
    x, y = 3, 4
    length = distance(
        SESSION.catalog.streams["e"].space,
        *(e.row[i] for e in (one, other) for i in (x, y)),  # type: ignore[arg-type]
    )
    above = length > reach.least if reach.least_open else length >= reach.least
    below = length < reach.most if reach.most_open else length <= reach.most
    return above and below


def fulfils(query: Query, constraints: Constraints, match: Match) -> bool:
    trigger = query.trigger
    assert trigger is not None
    sources: Sequence[Row] = [event.row for event in match]
    for members in trigger.sets:
        order = [(match[m].time, match[m].key) for m in members]
        if order != sorted(order):  # type: ignore[type-var]
            return False
    for i, j in itertools.permutations(range(len(match)), 2):
        if match[j].time - match[i].time > constraints.latest[i][j]:
            return False
        if not lies(constraints.reaches[i][j], match[i], match[j]):
            return False
    asked = [c for c in constraints.unary[: trigger.variables] if c is not None]
    if not all(evaluate(c, sources) is True for c in (*asked, *constraints.others)):
        return False
    for comparison in constraints.comparisons:
        left, right = evaluate(comparison.left, sources), evaluate(comparison.right, sources)
        if left is None or right is None or not OPS[comparison.op](left, right):
            return False
    return True


def is_absent(query: Query, constraints: Constraints, match: Match, event: Event) -> bool:
    """Is it a reading as UNLESS says?"""
    if query.trigger is None or query.trigger.absence is None:
        return False
    absent = query.trigger.variables
    for i, other in enumerate(match):
        if event.time - other.time > constraints.latest[i][absent]:
            return False
        if other.time - event.time > constraints.latest[absent][i]:
            return False
        if not lies(constraints.reaches[absent][i], event, other):
            return False
    sources = [*(each.row for each in match), event.row]
    unary = constraints.unary[absent]
    asked = [*([unary] if unary is not None else []), *constraints.absence]
    return all(evaluate(condition, sources) is True for condition in asked)
