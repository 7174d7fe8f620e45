"""The fixtures of the planner's rules: SELECTs with the plan before a rule and the plan after it.

A fixture is a text of cases for people to read. A line of `#` is the title of a case; below it
stand the SELECT, what is known when the plan is made (if anything), and both plans as EXPLAIN
draws them. `after: the same` says that the rule changes nothing. What stands above the first title
is a remark::

    # a condition on a table filters the table
    SELECT C.id FROM Cars C, Owners O WHERE age > 38
    knowledge: inside_first=0.1 filters_first=0.2
    before:
    Project id
    └─ …
    after:
    Project id
    └─ …

A new case needs only its title and its SELECT. Run as a program, this file draws the plans::

    python -m tests.harness.rules              # names the fixtures that do not hold
    python -m tests.harness.rules --complete   # writes the plans into the fixtures
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from place.model.table_rows import TableRows
from place.plan.apply import apply
from place.plan.bind_query import bind_query
from place.plan.catalog import Catalog
from place.plan.explain import explain
from place.plan.logical import Knowledge, Plan, initial
from place.plan.planner import RULES
from place.plan.query import Query
from place.sql.dialect import parse_one
from place.sql.scan import split
from place.sql.statements import Change, Select

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rules"

CATALOG = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING, speed DOUBLE);
CREATE STREAM Drones (id BIGINT KEY, x DOUBLE, y DOUBLE, height DOUBLE, battery DOUBLE);
CREATE TABLE Owners (car BIGINT, owner STRING, age BIGINT)
  AS VALUES (1, 'Ada', 36), (2, 'Bob', 40), (3, 'Ada', 36), (4, 'Cem', 50), (6, 'Dee', 33);
CREATE TABLE Stations (name STRING KEY, x DOUBLE, y DOUBLE, owner STRING, open BOOLEAN)
  AS VALUES ('North', 2, 4, 'Ada', TRUE), ('South', 2, 0, 'Bob', TRUE), ('West', 1, 1, 'Cem', NULL);
CREATE TABLE Fences
  (id BIGINT KEY, x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE, most DOUBLE, owner STRING)
  AS VALUES (1, 0, 0, 3, 3, 20, 'Ada'), (2, 2, 2, 9, 9, 30, 'Bob'), (3, 0, 0, 9, 9, 90, 'Cem');
"""
"""What the SELECTs of all fixtures speak of; Fences is the query table."""

THE_SAME = "the same"


@dataclass(frozen=True)
class Case:
    """A SELECT, and the plans before and after a rule; the plans are None until they are drawn."""

    rule: str
    title: str
    select: str
    knowledge: Knowledge = field(default_factory=Knowledge)
    before: str | None = None
    after: str | None = None

    def plans(self) -> tuple[Plan, Plan]:
        """The plan that the rules before this one have made, and what this one makes of it."""
        query = bind(self.select)
        plan = Plan(query, initial(query), self.knowledge)
        for rule in RULES:
            if rule.__name__ == self.rule:
                return plan, rule(plan)
            plan = rule(plan)
        raise ValueError(f"{self.rule} is not a rule of the planner")

    def drawn(self) -> Case:
        """The case with the plans as they are now."""
        before, after = map(draw, self.plans())
        return replace(self, before=before, after=THE_SAME if after == before else after)

    def __str__(self) -> str:
        lines = [f"# {self.title}", self.select]
        known = vars(self.knowledge).items()
        if shown := " ".join(f"{name}={value:g}" for name, value in known if value is not None):
            lines.append(f"knowledge: {shown}")
        if self.before is not None and self.after is not None:
            lines += ["before:", self.before]
            lines += ["after: the same"] if self.after == THE_SAME else ["after:", self.after]
        return "\n".join(lines)


@dataclass(frozen=True)
class Fixture:
    """The cases of a rule, below a remark on it."""

    remark: str
    cases: tuple[Case, ...]

    def drawn(self) -> Fixture:
        """The fixture with the plans as they are now."""
        return replace(self, cases=tuple(case.drawn() for case in self.cases))

    def __str__(self) -> str:
        return "\n\n".join([self.remark, *map(str, self.cases)]) + "\n"


CASE = re.compile(
    r"# (?P<title>[^\n]+)"
    r"\n(?P<select>SELECT\b((?!\n(knowledge|before|after):).)*)"
    r"(\nknowledge: (?P<knowledge>[^\n]+))?"
    r"(\nbefore:\n(?P<before>.+?)\nafter:(\n| (?=the same$))(?P<after>.+))?",
    re.DOTALL,
)


def read_fixture(path: Path) -> Fixture:
    """The fixture of the rule that the file is named after."""
    remark, *texts = re.split(r"^(?=# )", path.read_text("utf-8"), flags=re.MULTILINE)
    return Fixture(remark.strip(), tuple(_read_case(path, text.strip()) for text in texts))


def _read_case(path: Path, text: str) -> Case:
    match = CASE.fullmatch(text)
    if match is None:
        raise ValueError(f"{path} holds what is not a case:\n{text}")
    pairs = (pair.split("=") for pair in (match["knowledge"] or "").split())
    knowledge = Knowledge(**{name: float(value) for name, value in pairs})
    return Case(
        path.stem, match["title"], match["select"], knowledge, match["before"], match["after"]
    )


def fixtures() -> list[Path]:
    """The files of all fixtures."""
    return sorted(FIXTURES.glob("*.txt"))


@cache
def catalog() -> Catalog:
    """The streams and tables that the SELECTs speak of."""
    made = Catalog()
    for offset, sql in split(CATALOG):
        statement = parse_one(sql, CATALOG, offset)
        assert isinstance(statement, Change)
        made = apply(made, statement, sql, _load_nothing)
    return made


def _load_nothing(path: str, columns: object) -> tuple[tuple[()], TableRows]:
    raise ValueError(f"the tables of fixtures hold their rows, and are not loaded from {path}")


def bind(select: str) -> Query:
    """The query of a SELECT over the catalog of the fixtures."""
    statement = parse_one(select)
    assert isinstance(statement, Select)
    return bind_query(catalog(), "", statement)


def draw(plan: Plan) -> str:
    """A plan as EXPLAIN draws it."""
    return "\n".join(explain(plan))


def main() -> int:
    """Draw the plans of all fixtures; 0 if they hold, or have been written."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.rules")
    parser.add_argument("--complete", action="store_true", help="write the plans in")
    complete = parser.parse_args().complete
    failed = 0
    for path in fixtures():
        text = str(read_fixture(path).drawn())
        if text == path.read_text("utf-8"):
            continue
        print(f"{path.name} {'is written' if complete else 'does not hold'}")
        if complete:
            path.write_text(text, "utf-8")
        else:
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
