"""Each rule of the planner by its fixture: the plan that it gets, and the plan that it makes.

The fixtures are `tests/fixtures/rules/*.txt`, one for each rule, of its name. `tests/harness/rules`
says how to read them and holds the streams and tables that they speak of. After a change that is
meant, the plans are drawn anew by

    python -m tests.harness.rules --complete

and the difference is read before it is committed. That a plan drawn anew still answers the query
is tested here as well, by running it over a few readings.
"""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from place.model.delta import Answer
from place.model.schema import Table
from place.model.types import Row
from place.plan.evaluate import evaluate
from place.plan.expression import conjuncts
from place.plan.logical import (
    Distinct,
    Group,
    Inside,
    Join,
    JoinElements,
    MeetRegions,
    NearestK,
    Node,
    PairPrevious,
    Plan,
    Project,
    Scan,
    Select,
    SlideWindow,
    spine,
    walk,
)
from place.plan.planner import RULES
from place.plan.query import Query
from place.runtime.reference import (
    Subject,
    World,
    answer,
    histories,
    is_in_query_table,
    is_inside,
    nearest,
    rows_of,
)
from tests.harness.route import make_reading
from tests.harness.rules import FIXTURES, Case, catalog, fixtures, read_fixture

CASES = [
    pytest.param(case, id=f"{path.stem}: {case.title}")
    for path in fixtures()
    for case in read_fixture(path).cases
]
each_case = pytest.mark.parametrize("case", CASES)


@each_case
def test_the_rule_makes_the_plan_of_the_fixture(case: Case) -> None:
    assert str(case) == str(case.drawn())


def test_every_rule_has_a_fixture_and_every_fixture_a_rule() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == {f"{rule.__name__}.txt" for rule in RULES}


@pytest.mark.parametrize("path", fixtures(), ids=lambda path: path.stem)
def test_a_fixture_is_written_as_it_is_read(path: Path) -> None:
    assert str(read_fixture(path)) == path.read_text("utf-8")


def test_a_new_case_needs_only_its_title_and_its_select(tmp_path: Path) -> None:
    path = tmp_path / "push_inside.txt"
    path.write_text(
        "A remark.\n\n# a region\nSELECT id FROM Cars INSIDE (0, 0, 5)\n\n"
        "# what is known\nSELECT id FROM Cars\nknowledge: inside_first=0.1 filters_first=0.25\n"
    )
    path.write_text(str(read_fixture(path).drawn()))
    assert path.read_text() == (
        "A remark.\n\n# a region\nSELECT id FROM Cars INSIDE (0, 0, 5)\nbefore:\nProject id\n"
        "└─ Inside CIRCLE (0, 0, 5)\n   └─ Scan stream Cars\nafter: the same\n\n"
        "# what is known\nSELECT id FROM Cars\nknowledge: inside_first=0.1 filters_first=0.25\n"
        "before:\nProject id\n└─ Scan stream Cars\n"
        "a reading sends on 0.1 rows with INSIDE first, 0.25 with the filters first\n"
        "after: the same\n"
    )
    path.write_text("# no plan\nSELECT id FROM Cars\nafter:\n")
    with pytest.raises(ValueError, match="not a case"):
        read_fixture(path)


# A rule moves what is asked, and asks no more and no less


@each_case
def test_the_rule_keeps_all_that_is_asked(case: Case) -> None:
    before, after = case.plans()
    assert after.query == before.query
    assert after.knowledge == before.knowledge
    assert asked_of_rows(after) == asked_of_rows(before)
    assert list(map(asked, above_filters(after))) == list(map(asked, above_filters(before)))


def asked_of_rows(plan: Plan) -> Counter[Hashable]:
    """All that the operators ask, wherever they stand."""
    return Counter(part for node in walk(plan.root) for part in asked(node))


def asked(node: Node) -> tuple[Hashable, ...]:
    """What one operator asks; a condition of a join is a condition like any other."""
    match node:
        case Scan(source=source, alias=alias):
            return ((Scan, source, alias),)
        case Select(condition=condition):
            return conjuncts(condition)
        case Join(condition=condition) | JoinElements(condition=condition):
            return type(node), *conjuncts(condition)
        case Inside(area=part) | MeetRegions(table=part) | NearestK(nearest=part):
            return ((type(node), part),)
        case SlideWindow(window=part) | Project(outputs=part):
            return ((type(node), part),)
        case Group(groups=groups, aggregates=aggregates, having=having):
            return ((Group, groups, aggregates, having),)
        case PairPrevious() | Distinct():
            return (type(node).__name__,)


def above_filters(plan: Plan) -> Iterator[Node]:
    """What stands above all filters and joins: DISTINCT, the projection, groups, windows, kNN."""
    fixed = Distinct | Project | Group | SlideWindow | NearestK
    return itertools.takewhile(lambda node: isinstance(node, fixed), spine(plan.root))


# The answer is the same with and without the rule

SECOND = 1_000_000
NOW = 30 * SECOND
READINGS: dict[str, dict[int, list[Row]]] = {
    "Cars": {
        0: [
            (1, 4, 4, "Bus", 50),
            (2, 6, 6, "Taxi", 12),
            (4, 1, 3, "Taxi", 18),
            (5, 1, 1, "Car", 9),
        ],
        10: [
            (2, 3, 3, "Taxi", 18),
            (3, 9, 9, "Car", 40),
            (4, 1, 3, "Taxi", 26),
            (5, 1, 2, "Car", 22),
        ],
        20: [
            (1, 1, 0, "Bus", 30),
            (2, 1, 2, "Taxi", 25),
            (3, 4, 4, "Car", 16),
            (5, 8, 1, "Car", 30),
        ],
        30: [(1, 0.5, 0.5, "Bus", 5), (4, 2, 3, "Taxi", 15), (6, 0, 1, "Car", 28)],
    },
    "Drones": {20: [(7, 0, 0, 15, 0.9)], 30: [(7, 2, 2, 20, 0.8), (8, 3, 3, 5, 0.4)]},
}
"""Objects come and go through the regions of the cases and grow faster and slower, so that others
are answered when an operator stands where it must not."""

WORLD = World(
    catalog(),
    {
        stream.name: [
            make_reading(stream, row, time * SECOND)
            for time, rows in READINGS[stream.name].items()
            for row in rows
        ]
        for stream in catalog().streams.values()
    },
)


@each_case
def test_the_answer_is_the_same_with_and_without_the_rule(case: Case) -> None:
    before, after = case.plans()
    expected = answer(before.query, WORLD, NOW)
    assert expected, "a case that nothing answers shows nothing"
    assert answer_of(before.root, before.query) == expected
    assert answer_of(after.root, after.query) == expected


Match = tuple[Subject, tuple[Row, ...]]
"""What a row speaks of, beside the rows of FROM that are there; () for those that are not yet."""


def answer_of(root: Node, query: Query) -> Answer:
    """The answer of a plan that is run operator by operator, each by the reference's definition."""
    match root:
        case Distinct(input=below):
            return Counter(set(answer_of(below, query)))
        case Project(input=Group(input=below)) | Project(input=below):
            return Counter(rows_of(query, [rows for _, rows in matches_of(below, query)]))
    raise AssertionError(f"{type(root).__name__} gives no rows of the answer")


def matches_of(node: Node, query: Query) -> list[Match]:
    """The matches that leave an operator below the groups and the projection."""
    match node:
        case Scan():
            return list(scanned(node, query))
        case MeetRegions(input=below, regions=other):
            both = combined(below, other, query)
            return [m for m in both if is_in_query_table(query, WORLD, *m)]
        case Join(condition=condition, input=below, table=other):
            both = combined(below, other, query)
            return [m for m in both if condition is None or evaluate(condition, m[1]) is True]
        case JoinElements(condition=condition, input=below, others=others):
            all_of = met_elements((below, *others), query)
            return [m for m in all_of if condition is None or evaluate(condition, m[1]) is True]
        case PairPrevious(input=below, previous=other):
            return last_pairs(matches_of(below, query), matches_of(other, query))
        case Distinct() | Project() | Group():
            raise AssertionError(f"{type(node).__name__} stands below what chooses its rows")
    found = matches_of(node.input, query)
    match node:
        case Select(condition=condition):
            return [m for m in found if evaluate(condition, m[1]) is True]
        case Inside():
            return [m for m in found if is_inside(query, WORLD, m[0])]
        case NearestK():
            near = nearest(query, WORLD, [subject for subject, _ in found], NOW)
            return [m for m in found if m[0] in near]
        case SlideWindow(window=window):
            last = sorted({subject.order for subject, _ in found})[-(window.rows or 0) :]
            span = window.duration or NOW
            return [m for m in found if m[0].order in last and m[0].order[0] + span > NOW]


def scanned(scan: Scan, query: Query) -> Iterator[Match]:
    """The rows of a relation, of which nobody can read the columns that the scan does not pass.

    With a window they are all readings, each at its own instant: it is the window that chooses.
    """
    relation = scan.relation
    subjects: Iterable[Subject]
    if isinstance(relation, Table):
        rows = enumerate(WORLD.catalog.rows_of(relation.name))
        subjects = [Subject(row[relation.key], row, NOW, (i, 0)) for i, row in rows]
    else:
        every = histories(WORLD, relation, NOW).values()
        window = query.window or query.sources[scan.source].window
        subjects = [
            Subject(r.key, r.row or (), r.time if window else NOW, (r.time, r.key))
            for history in every
            for r in (history if window else history[-1:])
            if scan.key is None or r.key == scan.key
        ]
    for subject in subjects:
        passed = scan.columns
        row = tuple(
            value if passed is None or i in passed else UNREAD
            for i, value in enumerate(subject.row)
        )
        places = range(len(query.sources))
        yield replace(subject, row=row), tuple(row if i == scan.source else () for i in places)


class Unread:
    """The value of a column that a scan does not pass: whatever is done with it fails."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a column is read that its scan does not pass")

    __hash__ = object.__hash__


UNREAD: Any = Unread()


def combined(below: Node, other: Node, query: Query) -> list[Match]:
    """Each match of the main input beside each of the other one."""
    pairs = itertools.product(matches_of(below, query), matches_of(other, query))
    return [(subject, beside(rows, others)) for (subject, rows), (_, others) in pairs]


def met_elements(inputs: Sequence[Node], query: Query) -> list[Match]:
    """Every combination of the matches of several inputs; the subject is that of one of them."""
    sources = [next(n.source for n in walk(i) if isinstance(n, Scan)) for i in inputs]
    found: list[Match] = []
    for combination in itertools.product(*(matches_of(i, query) for i in inputs)):
        rows = combination[0][1]
        for _, others in combination[1:]:
            rows = beside(rows, others)
        found.append((combination[sources.index(query.subject)][0], rows))
    return found


def beside(rows: tuple[Row, ...], others: tuple[Row, ...]) -> tuple[Row, ...]:
    return tuple(mine or other for mine, other in zip(rows, others, strict=True))


def last_pairs(found: list[Match], others: list[Match]) -> list[Match]:
    """The last match of each object that is among `found`, beside the one before it in `others`."""
    last = {subject.key: subject for subject, _ in sorted(found, key=lambda m: m[0].order)}
    pairs: list[Match] = []
    for subject, rows in found:
        earlier = [m for m in others if m[0].key == subject.key and m[0].order < subject.order]
        if subject == last[subject.key] and earlier:
            previous = max(earlier, key=lambda m: m[0].order)
            pairs.append((subject, beside(rows, previous[1])))
    return pairs
