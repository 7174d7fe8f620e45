"""EXPLAIN: the pipeline of a query as a tree, from the rows it sends down to what it reads.

With ANALYZE it tells what has passed: the rows that came, went or changed on the edge above each
operator, and the seconds spent in it, together with all queries that share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from place.model.schema import Stream
from place.model.shape import Shape, show_shape
from place.model.space import Space
from place.model.time import SECOND, format_interval
from place.plan.expression import show, show_aggregate
from place.plan.logical import (
    Confirm,
    Distinct,
    Dwell,
    Group,
    Inside,
    Join,
    JoinElements,
    Knowledge,
    Leave,
    MeetRegions,
    NearestK,
    Node,
    PairPrevious,
    Plan,
    Project,
    Scan,
    Select,
    SlideWindow,
    inputs_of,
    spine,
)
from place.plan.query import Around, Focal, Nearest, Source, Window

DWELL = "dwell"
SCAN, INSIDE, SELECT, JOIN, CHOOSE, GROUP, ANSWER = (
    "scan",
    "inside",
    "select",
    "join",
    "choose",
    "group",
    "answer",
)


@dataclass
class Observed:
    """What was seen of a query: rows on each edge, seconds in each operator, and who shares it."""

    knowledge: Knowledge = field(default_factory=Knowledge)
    rows: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    shared: int = 1
    notes: tuple[str, ...] = ()
    """What is to be said besides: how a join found its elements."""

    @staticmethod
    def together(parts: Iterable[Observed]) -> Observed:
        """What several cells have seen."""
        whole = Observed()
        for part in parts:
            if part.knowledge.inside_first is not None:
                whole.knowledge = part.knowledge
            whole.rows.update(part.rows)
            whole.seconds.update(part.seconds)
            whole.shared = max(whole.shared, part.shared)
            whole.notes = whole.notes or part.notes
        return whole


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


def explain(plan: Plan, observed: Observed | None = None) -> list[str]:
    """The pipeline as lines of text."""
    lines: list[str] = []
    keys = _keys(plan)

    def draw(node: Node, lead: str, branch: str) -> None:
        seen = "" if observed is None else _seen(observed, keys.get(id(node)))
        lines.append(f"{lead}{branch}{_describe(plan, node)}{seen}")
        below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        inputs = inputs_of(node)
        for i, child in enumerate(inputs):
            draw(child, below, "└─ " if i == len(inputs) - 1 else "├─ ")

    draw(plan.root, "", "")
    if plan.query.arrivals:
        lines.append("only rows that join the answer are told")
    knowledge = plan.knowledge
    if knowledge.inside_first is not None and knowledge.filters_first is not None:
        lines.append(
            f"a reading sends on {knowledge.inside_first:.3g} rows with INSIDE first,"
            f" {knowledge.filters_first:.3g} with the filters first"
        )
    if plan.query.is_join:
        lines.append(f"holds {', '.join(_held(source) for source in plan.query.sources)}")
    lines += _stored(plan)
    if observed is not None and observed.shared > 1:
        lines.append(f"{observed.shared} queries share the join")
    lines += () if observed is None else observed.notes
    return lines


def _stored(plan: Plan) -> list[str]:
    """What the query takes from disk stores, and what one that has not every reading may miss."""
    lines = []
    relations = {source.relation.name: source.relation for source in plan.query.sources}
    for name, stream in relations.items():
        if not isinstance(stream, Stream) or stream.storing is None or stream.retention is None:
            continue
        if plan.query.needs_all_objects:
            lines.append(f"holds all objects of {name} in memory")
        else:
            lines.append(f"takes objects of {name} from the disk where memory holds none")
        nth, promised = stream.storing.nth, stream.retention
        if nth > 1:
            age = nth * promised.report_every
            metres = " m" if stream.space is Space.WGS84 else ""
            lines.append(
                f"the disk has every {nth} readings: an object that is taken from it may be where"
                f" it was {format_interval(age)} ago, up to"
                f" {promised.max_speed * age / SECOND:g}{metres} away, until it reports again; one"
                f" that is new is missed for as long"
            )
    return lines


def _held(source: Source) -> str:
    """What a join keeps of a source, which bounds its state: combinations are not kept."""
    name = source.relation.name
    if source.key is not None:
        return f"the object {source.key!r} of {name}"
    if not source.is_stream:
        return f"the rows of {name}"
    if source.window is None:
        return f"the objects of {name}"
    if source.window.rows is not None:
        return f"at most {source.window.rows:,} readings of {name}"
    return f"the readings of {name} of {format_interval(source.window.duration or 0)}"


def _keys(plan: Plan) -> dict[int, str]:
    """What the counts on the edge above each node are called; of several joins only the last.

    The answer leaves the root, which is Distinct where there is one, and the projection otherwise.
    """
    names: tuple[tuple[type, str], ...] = (
        (Scan, SCAN),
        (Inside, INSIDE),
        (MeetRegions, INSIDE),
        (Dwell, DWELL),
        (Leave, DWELL),
        (Confirm, DWELL),
        (Select, SELECT),
        (Join, JOIN),
        (JoinElements, JOIN),
        (NearestK, CHOOSE),
        (SlideWindow, CHOOSE),
        (Group, GROUP),
        (Distinct, ANSWER),
        (Project, ANSWER),
    )
    keys: dict[int, str] = {}
    taken: set[str] = set()
    for node in spine(plan.root):
        key = next((name for kind, name in names if isinstance(node, kind)), None)
        if key is not None and key not in taken:
            keys[id(node)] = key
            taken.add(key)
    return keys


def _seen(observed: Observed, key: str | None) -> str:
    if key is None or key not in observed.rows:
        return ""
    rows = observed.rows[key]
    seen = f"{rows} {'row' if rows == 1 else 'rows'}"
    if key in observed.seconds:
        seen += f", {observed.seconds[key] * 1000:.3g} ms"
    return f"  [{seen}]"


def _describe(plan: Plan, node: Node) -> str:
    """An operator in words."""
    match node:
        case Scan(relation=relation, key=key) if key is not None:
            return f"The object {key!r} of stream {relation.name}"
        case Scan(alias=alias, relation=relation):
            kind = "stream" if isinstance(relation, Stream) else "table"
            called = "" if alias == relation.name else f" as {alias}"
            columns = node.columns
            of = (
                ""
                if columns is None or len(columns) == len(relation.columns)
                else f" ({', '.join(relation.columns[i].name for i in columns)})"
            )
            return f"Scan {kind} {relation.name}{called}{of}"
        case Select(condition=condition):
            return f"Select {show(condition)}"
        case Inside(area=area):
            return f"Inside {show_area(area, plan.query.space)}"
        case Dwell(duration=duration):
            return f"Stay for {format_interval(duration)}"
        case Leave(area=area, distance=distance):
            return f"Inside {show_area(area, plan.query.space)}, until beyond {distance:g}"
        case Confirm(area=area, readings=readings):
            return f"Inside {show_area(area, plan.query.space)} by {readings} readings in a row"
        case MeetRegions():
            return "Meet objects with the regions of the query table"
        case PairPrevious():
            return "Pair each reading with the one before"
        case Join(condition=condition):
            return f"Join {'every combination' if condition is None else show(condition)}"
        case JoinElements(condition=condition, others=()):
            return "All elements" if condition is None else f"Elements with {show(condition)}"
        case JoinElements(condition=condition):
            return f"Join elements {'of all' if condition is None else show(condition)}"
        case NearestK(nearest=nearest):
            return f"{'Reverse nearest' if nearest.is_reverse else 'Nearest'} " + _show_nearest(
                plan, nearest
            )
        case SlideWindow(window=window):
            return f"Window {_show_window(window)}"
        case Group(groups=groups, aggregates=aggregates, having=having):
            by = f" by {', '.join(map(show, groups))}" if groups else ""
            functions = ", ".join(map(show_aggregate, aggregates)) or "groups"
            kept = f" having {show(having)}" if having is not None else ""
            return f"Aggregate {functions}{by}{kept}"
        case Project(outputs=outputs):
            return f"Project {', '.join(output.name for output in outputs)}"
        case Distinct():
            return "Distinct"


def _show_nearest(plan: Plan, nearest: Nearest) -> str:
    if nearest.around is not None and nearest.among is not None:
        names = [source.alias for source in plan.query.sources]
        return f"{nearest.k} of {names[nearest.among]} to each of {names[nearest.around]}"
    if nearest.group is not None:
        places = ", ".join(_show_place(place) for place in nearest.group.places)
        return f"{nearest.k} by the {nearest.group.total} of distances to {places}"
    place = nearest.focal or nearest.point or (0.0, 0.0)
    return f"{nearest.k} {'of' if nearest.is_reverse else 'to'} {_show_place(place)}"


def _show_place(place: Focal | tuple[float, float]) -> str:
    if isinstance(place, Focal):
        return show_focal(place)
    return f"({place[0]:g}, {place[1]:g})"


def _show_window(window: Window) -> str:
    if window.rows is not None:
        return f"last {window.rows} readings"
    return f"last {format_interval(window.duration or 0)}"
