"""`place bench pipeline`: rows through the pipeline, with INSIDE below or above the other filters.

The experiment of PLACE's figures 7 and 8, which are GPAC's 9 and 10: a selection that lets 5% of
the objects pass, or a join with 5% of them, and an area that holds 2% to 64%, stationary or moving.
The figures are the rows on the edges above INSIDE and above the other filter, as EXPLAIN ANALYZE
counts them, with either order forced by a hint, and as the planner chose.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import place
from place.errors import ConfigurationError, InternalError
from place.model.time import SECOND
from place.session import Session

AREAS = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
PASSING = 0.05
"""The share of objects that the selection lets pass, and that the joined table names."""
WARM_UP = 20
"""Ticks in which the planner sees enough to choose."""
ORDERS = {
    "inside_first": "/*+ INSIDE FIRST */",
    "filters_first": "/*+ INSIDE LAST */",
    "chosen": "",
}
FIGURES = {"select": "7, 9", "join": "8, 10"}
"""The figures of PLACE and of GPAC."""


@dataclass(frozen=True)
class Setting:
    """How many objects, how far each goes in a tick, and how many ticks are counted."""

    objects: int = 20_000
    step: float = 0.05
    ticks: int = 10


@dataclass(frozen=True)
class Figures:
    """Rows through the pipeline in all counted ticks."""

    figure: str
    area: float
    moving: bool
    inside_first: int
    filters_first: int
    chosen: int

    @property
    def loss(self) -> float:
        """How much worse the planner's choice is than the better order: 0 if it is that."""
        return self.chosen / max(1, min(self.inside_first, self.filters_first)) - 1.0


def measure(setting: Setting) -> Iterator[Figures]:
    """All figures, one after the other."""
    for kind in FIGURES:
        for moving in (False, True):
            for area in AREAS:
                rows = _rows(setting, kind, area, moving)
                yield Figures(kind, area, moving, **rows)


def _rows(setting: Setting, kind: str, area: float, moving: bool) -> dict[str, int]:
    """The rows through the pipeline in each order; all of them have to answer the same."""
    with place.connect() as session:
        session.sql("CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING)")
        favourites = range(0, setting.objects, round(1 / PASSING))
        values = ", ".join(f"({i})" for i in favourites)
        session.sql(f"CREATE TABLE Favourites (id BIGINT) AS VALUES {values}")
        for name, hint in ORDERS.items():
            session.sql(f"REGISTER QUERY {name} AS {_query(kind, area, moving, hint)}")
        chance = np.random.default_rng(7)
        places = chance.random((setting.objects, 2))
        before = dict.fromkeys(ORDERS, 0)
        passed = dict.fromkeys(ORDERS, 0)
        for tick in range(WARM_UP + setting.ticks):
            steps = chance.uniform(-setting.step, setting.step, places.shape)
            places = np.clip(places + steps, 0.0, 1.0)
            _push(session, places, tick)
            for name in ORDERS:
                now = _passed(session, name)
                if tick >= WARM_UP:  # a plan that turns counts from there on
                    passed[name] += now - before[name] if now >= before[name] else now
                before[name] = now
        answers = {name: session.answer(name) for name in ORDERS}
        if any(answer != answers["chosen"] for answer in answers.values()):
            raise InternalError(f"the orders differ for {kind} and an area of {area}")
        return passed


def _query(kind: str, area: float, moving: bool, hint: str) -> str:
    side = math.sqrt(area)
    low, high = 0.5 - side / 2, 0.5 + side / 2
    inside = f"('M', 1, {side}, {side})" if moving else f"({low}, {low}, {high}, {high})"
    if kind == "select":
        return f"SELECT {hint} id FROM Objects WHERE type = 'truck' INSIDE {inside}"
    return f"SELECT {hint} O.id FROM Objects O, Favourites F WHERE O.id = F.id INSIDE {inside}"


def _push(session: Session, places: np.ndarray, tick: int) -> None:
    numbers = np.arange(len(places))
    types = np.where(numbers % round(1 / PASSING) == 0, "truck", "car")
    rows = {"id": numbers, "x": places[:, 0], "y": places[:, 1], "type": types}
    session.push("Objects", pa.table(rows), time=tick * SECOND)
    session.advance(tick * SECOND)


def _passed(session: Session, name: str) -> int:
    """The rows above INSIDE and above the selection or the join."""
    query = session.catalog.queries[name]
    rows = session.runtime.analyze(query).rows
    return rows["inside"] + rows["join" if query.tables else "select"]


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    default = Setting()
    parser = benches.add_parser(
        "pipeline",
        help="rows through the pipeline, with INSIDE below or above the other filters",
        description="A selection that lets 5% of the objects pass, or a join with 5% of them, and "
        "an area that holds 2% to 64%, stationary or moving (figures 7 and 8 of PLACE, 9 and 10 of "
        "GPAC). The numbers are rows on the edges above both operators, as EXPLAIN ANALYZE counts "
        "them: with each order, forced by a hint, and with the one that the planner chose. loss "
        "is how much worse its choice is than the better order.",
        epilog="example: place bench pipeline --objects 20000 --ticks 10 --json pipeline.json",
    )
    parser.add_argument("--objects", type=int, default=default.objects, metavar="N", help="(20000)")
    parser.add_argument(
        "--step",
        type=float,
        default=default.step,
        metavar="S",
        help="how far an object goes in a tick at most, each way, in the unit square (0.05)",
    )
    parser.add_argument(
        "--ticks", type=int, default=default.ticks, metavar="T", help="counted ticks (10)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `place bench pipeline`."""
    if min(arguments.objects, arguments.ticks) < 1 or arguments.step < 0:
        raise ConfigurationError("objects and ticks are at least 1, a step at least 0")
    setting = Setting(arguments.objects, arguments.step, arguments.ticks)
    table = Table(title="place bench pipeline", title_justify="left")
    for name in ("figure", "area", "query", "inside", "filters", "chosen", "loss"):
        table.add_column(name, justify="left" if name in ("figure", "query") else "right")
    console = Console(highlight=False)
    found = []
    with console.status("counting"):
        for figures in measure(setting):
            found.append(figures)
            table.add_row(
                f"{figures.figure} ({FIGURES[figures.figure]})",
                f"{figures.area:.0%}",
                "moving" if figures.moving else "stationary",
                *(f"{getattr(figures, name):,}" for name in ORDERS),
                f"{figures.loss:+.1%}",
            )
    console.print(table)
    if arguments.json is not None:
        data = [{**asdict(figures), "loss": figures.loss} for figures in found]
        try:
            arguments.json.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
        except OSError as error:
            raise ConfigurationError(f"{arguments.json} cannot be written: {error}") from error
    return 0
