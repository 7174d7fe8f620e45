"""EXPLAIN: the pipeline of a query as a tree, from the rows it sends down to what it reads.

Operators stand in the order of the clauses, which is their meaning: WHERE and INSIDE below kNN,
windows and aggregates above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from place.model.schema import Stream
from place.model.shape import Circle, Rectangle, Shape
from place.model.space import Space
from place.model.time import format_interval
from place.plan.expression import show, show_aggregate
from place.plan.query import Around, Focal, Query, Source


@dataclass(frozen=True)
class Operator:
    """A step of the pipeline: its name, what it does in words, and what it reads.

    `counts` names the count of rows that leave it in a trace.
    """

    name: str
    detail: str
    counts: str
    inputs: tuple[Operator, ...] = ()


def pipeline(query: Query) -> Operator:
    """The operators of a query, the last one outermost."""
    scans = tuple(_scan(source) for source in query.sources)
    current = scans[query.subject]
    others = tuple(scan for i, scan in enumerate(scans) if i != query.subject)
    if others:
        kind = "Pair" if query.window and query.window.is_previous else "Join"
        if query.query_table is not None:
            kind = "Meet"
        detail = {"Pair": "each reading with the one before", "Join": "every combination"}.get(
            kind, "objects with the regions of the query table"
        )
        current = Operator(kind, detail, "join", (current, *others))
    if query.where is not None:
        current = Operator("Select", show(query.where), "where", (current,))
    if query.inside is not None:
        current = Operator("Inside", show_area(query.inside, query.space), "inside", (current,))
    if query.nearest is not None:
        center = (
            show_focal(query.nearest.focal)
            if query.nearest.focal
            else "({:g}, {:g})".format(*(query.nearest.point or (0, 0)))
        )
        current = Operator("Nearest", f"{query.nearest.k} to {center}", "nearest", (current,))
    if query.window is not None:
        current = Operator("Window", _window(query), "window", (current,))
    if query.groups is not None:
        keys = f" by {', '.join(map(show, query.groups))}" if query.groups else ""
        functions = ", ".join(map(show_aggregate, query.aggregates)) or "groups"
        having = f" having {show(query.having)}" if query.having is not None else ""
        current = Operator("Aggregate", functions + keys + having, "aggregate", (current,))
    if query.distinct:
        current = Operator("Distinct", "", "answer", (current,))
    return Operator("Project", ", ".join(query.names), "answer", (current,))


def _scan(source: Source) -> Operator:
    kind = "stream" if isinstance(source.relation, Stream) else "table"
    alias = "" if source.alias == source.relation.name else f" as {source.alias}"
    return Operator("Scan", f"{kind} {source.relation.name}{alias}", "scan")


def _window(query: Query) -> str:
    window = query.window
    if window is None or window.is_previous:
        return "previous"
    if window.rows is not None:
        return f"last {window.rows} readings"
    return f"last {format_interval(window.duration or 0)}"


def show_focal(focal: Focal) -> str:
    return f"object {focal.key!r} of {focal.stream}"


def show_area(area: Shape | Around, space: Space) -> str:
    """A region in words."""
    metres = " m" if space is Space.WGS84 else ""
    if isinstance(area, Around):
        size = f"{metres} × ".join(f"{extent:g}" for extent in area.extents) + metres
        kind = "circle of radius" if len(area.extents) == 1 else "rectangle"
        return f"{kind} {size} around {show_focal(area.focal)}"
    return show_shape(area)


def show_shape(shape: Shape) -> str:
    """A shape as it is written in CREATE REGION."""
    if isinstance(shape, Rectangle):
        return f"RECTANGLE ({shape.x1:g}, {shape.y1:g}, {shape.x2:g}, {shape.y2:g})"
    if isinstance(shape, Circle):
        return f"CIRCLE ({shape.x:g}, {shape.y:g}, {shape.r:g})"
    rings = ", ".join(
        "(" + ", ".join(f"{x:g} {y:g}" for x, y in ring) + ")" for ring in shape.rings
    )
    return f"POLYGON ({rings})"


def explain(query: Query, trace: Mapping[str, int] | None = None) -> list[str]:
    """The pipeline as lines of text, with the rows that leave each operator where known."""
    lines: list[str] = []

    def draw(operator: Operator, lead: str, branch: str) -> None:
        count = ""
        if (
            trace is not None
            and operator.counts in trace
            and not (operator.name == "Scan" and lead and len(query.sources) > 1)
        ):
            passed = trace[operator.counts]
            count = f"  [{passed} {'row' if passed == 1 else 'rows'}]"
        detail = f" {operator.detail}" if operator.detail else ""
        lines.append(f"{lead}{branch}{operator.name}{detail}{count}")
        below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        for i, child in enumerate(operator.inputs):
            draw(child, below, "└─ " if i == len(operator.inputs) - 1 else "├─ ")

    draw(pipeline(query), "", "")
    return lines
