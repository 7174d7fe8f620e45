"""From the logical plan to what a cell runs: what a query asks of the region join, and the
operators above it, node by node.

Queries that differ only in their constants, in where their regions are, and in how many neighbours
they ask for, have one shape. They share one chain of operators; their constants become columns of
one source more than the query has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from place.engine.abstraction import Abstraction
from place.engine.boxes import Box, boxes_of
from place.engine.columns import Dictionary
from place.engine.compile_join import compile_join
from place.engine.compiled import (
    Compiled,
    Condition,
    Dimensions,
    Filter,
    JoinKey,
    Needed,
    QueryShape,
    is_constant,
    is_keyed,
)
from place.engine.operator_specs import (
    DistinctSpec,
    DwellSpec,
    FirstSpec,
    GroupSpec,
    JoinSpec,
    NearestSpec,
    PreviousSpec,
    ProjectSpec,
    Spec,
    WindowSpec,
)
from place.engine.way_boxes import way_boxes_of
from place.errors import InternalError
from place.kernels.bulk import SIMPLE, TOUCHED, WATCHED
from place.model.schema import Stream
from place.model.shape import Rectangle, Shape
from place.model.space import Space
from place.model.types import Row, Type
from place.plan.expression import (
    Column,
    Expression,
    Lies,
    Near,
    columns_of,
    conjunction,
    conjuncts,
    sources_of,
    substitute,
)
from place.plan.logical import (
    Confirm,
    Distinct,
    Dwell,
    Group,
    Inside,
    Join,
    Knowledge,
    Leave,
    MeetRegions,
    NearestK,
    PairPrevious,
    Plan,
    Project,
    Scan,
    Select,
    SlideWindow,
    spine,
)
from place.plan.planner import filters_first, has_choice, make_plan
from place.plan.query import Around, Query, QueryTable

RECTANGULAR = (("x1", "y1", "x2", "y2"), ("focal", "xdist", "ydist"))


@dataclass
class _Clauses:
    """What the nodes of a plan say, in the form that operators need."""

    conditions: list[Expression]
    """Of the object, and of the region of a query table that it meets."""
    join_conditions: list[Expression]
    joined: list[int]
    area: Shape | Around | None = None
    dwell: int | None = None
    leave: Leave | None = None
    confirm: Confirm | None = None
    table: QueryTable | None = None
    previous: int | None = None
    nearest: NearestK | None = None
    window: SlideWindow | None = None
    group: Group | None = None
    project: Project | None = None
    is_distinct: bool = False


def _clauses_of(plan: Plan) -> _Clauses:
    """Collect the nodes, from the scan of the subject to the top."""
    found = _Clauses([], [], [])
    for node in spine(plan.root):
        match node:
            case Select(condition=condition):
                found.conditions += conjuncts(condition)
            case Inside(area=area):
                found.area = area
            case Dwell(duration=duration):
                found.dwell = duration
            case Leave():
                found.leave = node
            case Confirm():
                found.confirm = node
            case MeetRegions(table=table):
                found.table = table
            case PairPrevious(previous=previous):
                assert isinstance(previous, Scan)
                found.previous = previous.source
            case Join(condition=condition, table=below):
                if isinstance(below, Select):
                    found.join_conditions += conjuncts(below.condition)
                    below = below.input
                assert isinstance(below, Scan)
                found.join_conditions += conjuncts(condition)
                found.joined.append(below.source)
            case NearestK():
                found.nearest = node
            case SlideWindow():
                found.window = node
            case Group():
                found.group = node
            case Project():
                found.project = node
            case Distinct():
                found.is_distinct = True
            case Scan():
                pass
    found.joined.sort()
    return found


def compile_query(
    asked: Query, dictionary: Dictionary, knowledge: Knowledge | None = None
) -> Compiled:
    """What a cell makes of a query, by what is known about the rows that pass its filters."""
    if asked.is_join:
        return compile_join(asked)
    return compile_plan(make_plan(asked, knowledge), dictionary)


def compile_alike(like: Compiled, asked: Query) -> Compiled | None:
    """What a cell makes of a query that was written like another one, if the two differ in nothing
    but names, and places or lengths of INSIDE and kNN; else None."""
    other = like.asked
    if (
        asked.form is None
        or asked.is_join
        or asked.form != other.form
        or type(asked.inside) is not type(other.inside)
        or asked.query_table is not None
        or (asked.nearest is not None and asked.inside != other.inside)
        or asked.where != other.where
    ):
        return None
    made = Compiled.__new__(Compiled)  # as `replace` does, without looking at each field
    made.__dict__.update(like.__dict__, asked=asked)
    return made


def compile_plan(plan: Plan, dictionary: Dictionary) -> Compiled:
    """What a cell makes of a plan."""
    asked, clauses = plan.query, _clauses_of(plan)
    width = len(asked.sources)
    below = {asked.subject} | ({clauses.table.source} if clauses.table else set())
    # How long an object stays does not depend on WHERE, which is then asked above.
    low = [c for c in clauses.conditions if sources_of(c) <= below and not asked.counts_stays]
    high = [c for c in clauses.conditions if c not in low]
    high += clauses.join_conditions
    low += _near(asked, clauses)
    readings = clauses.window is not None or clauses.previous is not None
    shape, constants, joins = _shape_of(asked, clauses, high, width, readings)
    alone = [c for c in low if sources_of(c) <= {asked.subject}]
    semi = None if clauses.previous is not None else joins
    passes = Filter(
        asked.subject,
        conjunction(alone),
        semi,
        shape.needed[asked.subject],
        shape.kinds if semi is not None else (),
        constants if semi is not None else (),
    )
    is_before = filters_first(plan) and clauses.table is None
    left = None if is_before else conjunction(low)
    relation = asked.sources[asked.subject].relation
    found = boxes_of(left, asked.subject, dictionary)
    spatial = clauses.area is not None or clauses.table is not None
    twice = clauses.area is not None and clauses.table is not None
    if spatial:
        if relation.x is None or relation.y is None:
            raise InternalError(f"{relation.name} has no positions, and the binder let it pass")
        dimensions: Dimensions = (relation.x, relation.y)
        indexed = found.boxes == ({},)
    else:
        dimensions = _best_dimensions(found.boxes)
        # Where there are several boxes, each of them only says that an object may be in the region.
        indexed = len(found.boxes) <= 1 and all(set(b) <= set(dimensions) for b in found.boxes)
    ways = None if spatial else way_boxes_of(left, asked.subject)
    if ways is not None:
        dimensions = ()
    told = {
        Column(source, index, Type.NULL, "")
        for source in below
        for index in shape.needed[source]
        if clauses.nearest is None or joins is not None
    }
    changing = any(not is_constant(asked, column) for column in told)
    read = {(c.source, c.index) for c in columns_of(left)} if left is not None else set()
    read |= {(c.source, c.index) for c in told}
    reads = {
        i for s, i in read if s == asked.subject and not is_constant(asked, _column(asked, s, i))
    }
    is_box = not spatial or (
        asked.space is Space.PLANAR and not twice and not _is_round(asked, clauses)
    )
    is_simple = is_box and found.exact and indexed
    residual: Condition | None = None
    residual_constants: Row = ()
    if not found.exact and left is not None:
        residual, residual_constants = _condition(left, width)
    is_open = clauses.nearest is not None and not spatial and left is None and joins is None
    return Compiled(
        asked=asked,
        shape=shape,
        constants=constants,
        key=JoinKey(
            relation.name,
            readings,
            dimensions,
            _moves(asked, clauses),
            asked.space if spatial else Space.PLANAR,
            passes if is_before else None,
            asked.name if twice else "",
            ways.way if ways else None,
        ),
        boxes=found.boxes,
        way_boxes=ways.boxes if ways else (),
        checks_boxes=found.exact and not indexed,
        residual=residual,
        residual_constants=residual_constants,
        reads=tuple(sorted(reads)),
        mode=(WATCHED if changing else SIMPLE) if is_simple else TOUCHED,
        filter=passes,
        has_choice=asked.hint is None and clauses.table is None and has_choice(asked),
        has_regions=not is_open,
    )


def _shape_of(
    asked: Query, clauses: _Clauses, high: list[Expression], width: int, readings: bool
) -> tuple[QueryShape, Row, JoinSpec | None]:
    """The shape of a query, its constants, and the join with tables that it has, if any."""
    assert clauses.project is not None
    outputs = [output.expression for output in clauses.project.outputs]
    read = list(high)
    if clauses.group is None:
        read += outputs
    else:
        read += clauses.group.groups
        read += [a.argument for a in clauses.group.aggregates if a.argument is not None]
    entered = _entered(asked, clauses)
    needed = _needed(asked, [*read, *_read_by_stays(asked, clauses, entered)])

    def put(column: Column) -> Column:
        return replace(column, index=needed[column.source].index(column.index))

    constants = Abstraction(width)
    joins = None
    if high or clauses.joined:
        conditions = constants.of_all([substitute(c, put) for c in high])
        tables = tuple((i, asked.sources[i].relation.name, needed[i]) for i in clauses.joined)
        joins = JoinSpec(conditions, tables, width)
    lower: list[Spec] = []
    has_order = clauses.nearest is not None or (
        clauses.window is not None and clauses.window.window.rows is not None
    )
    if clauses.dwell is not None:
        lower.append(DwellSpec(clauses.dwell, not isinstance(clauses.area, Around)))
    if entered is not None:
        confirm = None if clauses.confirm is None else clauses.confirm.readings
        condition = constants.with_areas(substitute(entered, put))
        lower.append(DwellSpec(0, True, condition, confirm))
    if clauses.previous is not None:
        lower.append(PreviousSpec(asked.subject, clauses.previous))
    if joins is not None and has_order:
        lower.append(replace(joins, only_qualifies=True))
    if clauses.nearest is not None:
        lower.append(NearestSpec(asked.subject, clauses.nearest.nearest.group is not None))
    if clauses.window is not None:
        lower.append(WindowSpec(asked.subject, clauses.window.window))
    if joins is not None:
        lower.append(joins)
    upper: list[Spec] = []
    if has_order:
        upper.append(FirstSpec(latest=clauses.nearest is None))
    if clauses.group is not None:
        keys = constants.of_all([substitute(key, put) for key in clauses.group.groups])
        aggregates = tuple(
            a
            if a.argument is None
            else replace(a, argument=constants.of(substitute(a.argument, put)))
            for a in clauses.group.aggregates
        )
        having = None if clauses.group.having is None else constants.of(clauses.group.having)
        upper.append(GroupSpec(keys, aggregates, having, width))
    else:
        outputs = [substitute(output, put) for output in outputs]
    told = constants.of_all(outputs)
    upper.append(ProjectSpec(tuple(zip(asked.names, told, strict=True))))
    if clauses.is_distinct:
        upper.append(DistinctSpec())
    is_plain = not lower and len(upper) == 1
    shape = QueryShape(
        sources=tuple(source.relation for source in asked.sources),
        subject=asked.subject,
        table=clauses.table.source if clauses.table else None,
        readings=readings,
        needed=needed,
        lower=tuple(lower),
        upper=tuple(upper),
        kinds=tuple(constants.kinds),
        is_keyed=is_keyed(asked) and (is_plain or (clauses.nearest is not None and not upper[2:])),
        candidates=replace(asked, name="", nearest=None) if clauses.nearest else None,
    )
    return shape, tuple(constants.constants), joins


def _near(asked: Query, clauses: _Clauses) -> list[Expression]:
    """Who may be in a region that objects leave only beyond a distance: who is no farther away."""
    if clauses.leave is None:
        return []
    x, y = _place_of(asked)
    return [Near(x, y, clauses.leave.area, clauses.leave.distance, asked.space)]


def _entered(asked: Query, clauses: _Clauses) -> Expression | None:
    """Who lies in a region that objects leave beyond a distance, or that readings confirm."""
    node = clauses.leave or clauses.confirm
    if node is None:
        return None
    x, y = _place_of(asked)
    return Lies(x, y, node.area, asked.space)


def _read_by_stays(asked: Query, clauses: _Clauses, entered: Expression | None) -> list[Expression]:
    """What the operator of stays reads: the place; where readings count, the time of each."""
    if entered is None or clauses.confirm is None:
        return [] if entered is None else [entered]
    relation = asked.sources[asked.subject].relation
    assert isinstance(relation, Stream)
    assert relation.time is not None
    return [entered, _column(asked, asked.subject, relation.time)]


def _place_of(asked: Query) -> tuple[Column, Column]:
    relation = asked.sources[asked.subject].relation
    assert relation.x is not None
    assert relation.y is not None
    return _column(asked, asked.subject, relation.x), _column(asked, asked.subject, relation.y)


def _needed(asked: Query, read: Sequence[Expression]) -> Needed:
    """The columns of each source that pass up; of a source of which none is read, its key, or the
    first one."""
    columns = {column for expression in read for column in columns_of(expression)}
    return tuple(
        tuple(sorted({column.index for column in columns if column.source == i}))
        or (source.relation.key or 0,)
        for i, source in enumerate(asked.sources)
    )


def _condition(left: Expression, width: int) -> tuple[Condition, Row]:
    """A condition over the columns that it reads, and its constants."""
    columns = columns_of(left)
    needed = tuple(
        tuple(sorted({column.index for column in columns if column.source == i}))
        for i in range(width)
    )

    def put(column: Column) -> Column:
        return replace(column, index=needed[column.source].index(column.index))

    constants = Abstraction(width)
    expression = constants.with_areas(substitute(left, put))
    return Condition(expression, needed, tuple(constants.kinds)), tuple(constants.constants)


def _moves(asked: Query, clauses: _Clauses) -> bool:
    """May the regions of a query change within a tick?"""
    if isinstance(clauses.area, Around):
        return True
    table = clauses.table
    if table is None:
        return False
    return table.focal_stream is not None or asked.sources[table.source].is_stream


def _column(asked: Query, source: int, index: int) -> Column:
    relation = asked.sources[source].relation
    return Column(source, index, relation.columns[index].type, relation.columns[index].name)


def _is_round(query: Query, clauses: _Clauses) -> bool:
    """May the region be other than a rectangle?"""
    if clauses.table is not None:
        return clauses.table.layout not in RECTANGULAR
    if isinstance(clauses.area, Around):
        return len(clauses.area.extents) == 1
    return not isinstance(clauses.area, Rectangle)


def _best_dimensions(boxes: tuple[Box, ...]) -> Dimensions:
    """Up to two columns that every box bounds, those that bound most tightly first."""
    if not boxes:
        return ()
    common = set(boxes[0])
    for box in boxes[1:]:
        common &= set(box)

    def looseness(column: int) -> tuple[int, int]:
        points = sum(box[column][0] == box[column][1] for box in boxes)
        return -points, column

    return tuple(sorted(common, key=looseness)[:2])
