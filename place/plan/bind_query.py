"""Binding a SELECT: which relations, which object is the subject, which region, which rows.

One function reads as the meaning of the clauses in their order; each clause is bound by one
function of its own.
"""

from __future__ import annotations

from sqlglot import exp

from place.errors import PlaceError
from place.model.schema import Stream, Table, find_column
from place.model.shape import Circle, Polygon, Rectangle, Shape, ShapeError, make_ring, settle
from place.model.space import Space
from place.model.time import parse_duration
from place.model.types import Type, ValueMismatch, coerce
from place.plan.bind_expression import AGGREGATES, ExpressionBinder
from place.plan.bind_query_table import bind_query_table
from place.plan.catalog import Catalog, fold
from place.plan.expression import Aggregate, Expression, conjunction, conjuncts, show
from place.plan.limits import check_neighbours, check_window, check_window_rows
from place.plan.query import Around, Focal, Nearest, Output, Query, QueryTable, Source, Window
from place.sql import statements as s
from place.sql.limits import check_outputs, current
from place.sql.statements import Inside, Select, position_of, wrong

HINTS = ("INSIDE FIRST", "INSIDE LAST")


def bind_query(catalog: Catalog, name: str, select: Select) -> Query:
    """The meaning of a SELECT, or a StatementError that says which part has none."""
    sources = _bind_sources(catalog, select)
    plain, predicates = _split_where(select.where)
    query_table = bind_query_table(catalog, sources, predicates)
    subject = _find_subject(sources, query_table, predicates)
    space = sources[subject].relation.space
    window = _bind_window(select, sources, subject)
    _check_streams(select, sources, query_table, window)
    binder = ExpressionBinder(sources)
    where = conjunction([c for part in plain for c in conjuncts(binder.condition(part))])
    inside = bind_inside(catalog, select.inside, sources, subject, space)
    nearest = bind_nearest(catalog, select.nearest, sources, subject, space)
    if nearest and window:
        raise wrong(
            "kNN cannot be combined with WINDOW",
            select.nearest.at if select.nearest else None,
            hint="kNN speaks of objects now, a window holds readings",
        )
    if nearest and query_table:
        raise wrong(
            "kNN cannot be combined with a query table",
            select.nearest.at if select.nearest else None,
            hint="register one kNN query for each focal object",
        )
    groups, aggregates, having, outputs = _bind_outputs(select, sources)
    return Query(
        name=name,
        sources=sources,
        subject=subject,
        space=space,
        where=where,
        query_table=query_table,
        inside=inside,
        nearest=nearest,
        window=window,
        groups=groups,
        aggregates=aggregates,
        having=having,
        outputs=outputs,
        distinct=select.distinct,
        region=_region_name(catalog, select),
        hint=_bind_hint(select),
    )


def _bind_hint(select: Select) -> str | None:
    if select.hint is None:
        return None
    if select.hint.text not in HINTS:
        raise wrong(
            f"{select.hint.text} is not a hint",
            select.hint.at,
            expected=" or ".join(f"/*+ {hint} */" for hint in HINTS),
        )
    return select.hint.text


def _region_name(catalog: Catalog, select: Select) -> str | None:
    if select.inside is None or select.inside.region is None:
        return None
    return str(catalog.find("region", select.inside.region).name)


# FROM


def _bind_sources(catalog: Catalog, select: Select) -> tuple[Source, ...]:
    sources: list[Source] = []
    for item in select.sources:
        if any(item.alias.text.casefold() == source.alias.casefold() for source in sources):
            raise wrong(
                f'"{item.alias.text}" is twice in FROM',
                item.alias.at,
                hint=f"give each its own alias: {item.relation.text} a, {item.relation.text} b",
            )
        sources.append(Source(item.alias.text, catalog.relation(item.relation)))
    return tuple(sources)


def _find_subject(
    sources: tuple[Source, ...], query_table: QueryTable | None, predicates: list[Inside]
) -> int:
    """The source that INSIDE, kNN and WINDOW speak of.

    It is the O of `O INSIDE Q`; otherwise the first stream, or the first table with x and y.
    """
    if query_table is not None:
        name = predicates[0].this.name.casefold()
        return next(i for i, source in enumerate(sources) if source.alias.casefold() == name)
    streams = (i for i, source in enumerate(sources) if source.is_stream)
    placed = (i for i, source in enumerate(sources) if source.relation.x is not None)
    return next(streams, next(placed, 0))


def _check_streams(
    select: Select,
    sources: tuple[Source, ...],
    query_table: QueryTable | None,
    window: Window | None,
) -> None:
    """A query reads one stream, besides its query table; WINDOW PREVIOUS reads it twice."""
    regions = query_table.source if query_table else None
    streams = [i for i, source in enumerate(sources) if source.is_stream and i != regions]
    if window is not None and window.is_previous:
        names = {sources[i].relation.name for i in streams}
        if len(streams) != 2 or len(names) != 1:
            raise wrong(
                "WINDOW PREVIOUS pairs the readings of one stream",
                select.window.at if select.window else None,
                expected="the stream twice in FROM",
                hint="write FROM MovingObjects cur, MovingObjects prev",
            )
        if query_table is not None:
            raise wrong(
                "WINDOW PREVIOUS cannot be combined with a query table",
                select.window.at if select.window else None,
            )
        return
    if len(streams) > 1:
        second = select.sources[streams[1]]
        same = sources[streams[0]].relation.name == sources[streams[1]].relation.name
        raise wrong(
            "a query reads one stream",
            second.relation.at,
            hint="add WINDOW PREVIOUS to pair each object's last two readings"
            if same
            else "a focal object may be of another stream: INSIDE ('M', id OF stream, r)",
        )


# WHERE


def _split_where(where: exp.Expr | None) -> tuple[list[exp.Expr], list[Inside]]:
    """The conditions of WHERE, and the `O INSIDE Q` among them."""
    plain: list[exp.Expr] = []
    predicates: list[Inside] = []
    stack = [where] if where is not None else []
    while stack:
        part = stack.pop()
        if isinstance(part, exp.And):
            stack.extend((part.expression, part.this))
        elif isinstance(part, exp.Paren):
            stack.append(part.this)
        elif isinstance(part, Inside):
            predicates.append(part)
        else:
            plain.append(part)
    return plain, predicates


# INSIDE and kNN


def make_shape(spec: s.ShapeSpec) -> Shape:
    """The shape of RECTANGLE, CIRCLE or POLYGON as written."""
    try:
        if spec.kind == "RECTANGLE":
            return Rectangle(*spec.numbers)
        if spec.kind == "CIRCLE":
            return Circle(*spec.numbers)
        return Polygon(tuple(make_ring(list(ring)) for ring in spec.rings))
    except ShapeError as error:
        raise wrong(error.message, spec.at) from None


def settled(shape: Shape, space: Space, at: s.Position) -> Shape:
    """The shape as it is tested in a space, or a StatementError."""
    try:
        return settle(shape, space)
    except ShapeError as error:
        raise wrong(error.message, at) from None


def _need_position(sources: tuple[Source, ...], subject: int, at: s.Position, clause: str) -> None:
    relation = sources[subject].relation
    if relation.x is None or relation.y is None:
        kind = "stream" if isinstance(relation, Stream) else "table"
        raise wrong(
            f'{clause} needs positions, and {kind} "{relation.name}" has no columns x and y', at
        )


def bind_inside(
    catalog: Catalog,
    clause: s.InsideClause | None,
    sources: tuple[Source, ...],
    subject: int,
    space: Space,
) -> Shape | Around | None:
    """The area of INSIDE, or a StatementError."""
    if clause is None:
        return None
    _need_position(sources, subject, clause.at, "INSIDE")
    if clause.region is not None:
        name = fold(clause.region.text)
        if name not in catalog.regions and any(fold(source.alias) == name for source in sources):
            raise wrong(
                f'"{clause.region.text}" is not a region but a relation in FROM',
                clause.region.at,
                hint=f"write WHERE {sources[subject].alias} INSIDE {clause.region.text}",
            )
        region = catalog.find("region", clause.region)
        return settled(region.shape, space, clause.region.at)
    if clause.shape is not None:
        return settled(make_shape(clause.shape), space, clause.shape.at)
    if clause.focal is None:
        raise wrong("INSIDE has no region", clause.at)
    for extent in clause.extents:
        if extent < 0:
            raise wrong(f"a length cannot be negative: {extent:g}", clause.at)
    focal = _bind_focal(catalog, clause.focal, sources, subject, space, "INSIDE")
    return Around(focal, clause.extents)


def bind_nearest(
    catalog: Catalog,
    clause: s.NearestClause | None,
    sources: tuple[Source, ...],
    subject: int,
    space: Space,
) -> Nearest | None:
    """The k nearest that kNN asks for, or a StatementError."""
    if clause is None:
        return None
    _need_position(sources, subject, clause.at, "kNN")
    k = clause.k.value
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise wrong(
            f"kNN asks for {k if isinstance(k, int | float) else repr(k)} neighbours",
            clause.k.at,
            expected=f"a whole number from 1 to {current().neighbours:,}",
        )
    check_neighbours(k, clause.k.at)
    if clause.focal is not None:
        focal = _bind_focal(catalog, clause.focal, sources, subject, space, "kNN")
        return Nearest(k, None, focal)
    if clause.point is None:
        raise wrong("kNN has no point", clause.at)
    settled(Circle(*clause.point, 0.0), space, clause.at)
    return Nearest(k, clause.point, None)


def _bind_focal(
    catalog: Catalog,
    focal: s.Focal,
    sources: tuple[Source, ...],
    subject: int,
    space: Space,
    clause: str,
) -> Focal:
    """The focal object: of the stream in FROM, or of the stream named by OF."""
    relation = sources[subject].relation
    stream = catalog.find("stream", focal.stream) if focal.stream else relation
    if isinstance(stream, Table):
        raise wrong(
            f'the focal object of a query over table "{stream.name}" is of a stream',
            focal.key.at,
            expected="the name of its stream",
            hint=f"write {clause} ('M', … {focal.key.value} OF stream …)",
        )
    if stream.x is None:
        raise wrong(
            f'stream "{stream.name}" has no columns x and y, so its objects lead no query',
            focal.stream.at if focal.stream else focal.key.at,
        )
    if stream.space is not space:
        raise wrong(
            f'stream "{stream.name}" is {stream.space.value}, but "{relation.name}" is'
            f" {space.value}",
            focal.stream.at if focal.stream else focal.key.at,
            hint=f'a query lives in one space: create "{relation.name}" WITH (space ='
            f" '{stream.space.value}'), or \"{stream.name}\" WITH (space = '{space.value}')",
        )
    key_column = stream.columns[stream.key]
    value = focal.key.value
    try:
        if isinstance(value, str) and key_column.type is Type.BIGINT:
            raise ValueMismatch(f"'{value}' is not a BIGINT")
        key = coerce(value, key_column.type)
    except ValueMismatch:
        raise wrong(
            f'{value!r} is not the id of an object of stream "{stream.name}"',
            focal.key.at,
            expected=f'a {key_column.type.value} ("{key_column.name}")',
            hint="write INSIDE ('M', id, xdist, ydist), INSIDE ('M', id, r) or kNN ('M', k, id)",
        ) from None
    return Focal(stream.name, key)  # type: ignore[arg-type]


# WINDOW


def _bind_window(select: Select, sources: tuple[Source, ...], subject: int) -> Window | None:
    clause = select.window
    if clause is None:
        return None
    if not sources[subject].is_stream:
        raise wrong(
            f'a window holds readings, and table "{sources[subject].relation.name}" has none',
            clause.at,
            hint="leave WINDOW out",
        )
    if clause.rows is not None:
        count = clause.rows.value
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise wrong(
                f"WINDOW of {count} rows",
                clause.rows.at,
                expected=f"a whole number from 1 to {current().window_rows:,}",
            )
        check_window_rows(count, clause.rows.at)
        return Window(rows=count)
    if clause.duration is None:
        return Window()
    try:
        duration = parse_duration(clause.duration)
    except PlaceError as error:
        raise wrong(error.message, clause.at, hint=error.hint) from None
    if duration == 0:
        raise wrong("a window of no length holds nothing", clause.at)
    check_window(duration, clause.at)
    return Window(duration=duration)


# SELECT, GROUP BY, HAVING


def _bind_outputs(
    select: Select, sources: tuple[Source, ...]
) -> tuple[
    tuple[Expression, ...] | None, tuple[Aggregate, ...], Expression | None, tuple[Output, ...]
]:
    if not _is_aggregated(select):
        check_outputs(_count_outputs(select, sources), select.at)
        binder = ExpressionBinder(sources, clause="SELECT")
        outputs = [output for item in select.items for output in _bind_item(item, binder, sources)]
        return None, (), None, tuple(outputs)
    groups = tuple(_bind_group(select, node, sources) for node in select.group_by)
    aggregates: list[Aggregate] = []
    binder = ExpressionBinder(sources, groups, aggregates, "SELECT")
    outputs = []
    for item in select.items:
        if item.expression is None:
            raise wrong("* cannot be combined with aggregates", item.at, hint="name the columns")
        outputs.extend(_bind_item(item, binder, sources))
    having = None
    if select.having is not None:
        binder.clause = "HAVING"
        having = binder.condition(select.having)
    return groups, tuple(aggregates), having, tuple(outputs)


def _count_outputs(select: Select, sources: tuple[Source, ...]) -> int:
    """How many columns an answer has, before any of them is made: a * stands for many."""
    count = 0
    for item in select.items:
        if item.expression is not None:
            count += 1
        else:
            wanted = item.table.text.casefold() if item.table is not None else None
            chosen = (s for s in sources if wanted in (None, s.alias.casefold()))
            count += sum(len(source.relation.columns) for source in chosen)
    return count


def _is_aggregated(select: Select) -> bool:
    if select.group_by or select.having is not None:
        return True
    return any(
        isinstance(node, exp.Anonymous) and node.this in AGGREGATES
        for item in select.items
        if item.expression is not None
        for node in item.expression.walk()
    )


def _bind_group(select: Select, node: exp.Expr, sources: tuple[Source, ...]) -> Expression:
    """A key of GROUP BY: an expression, the position of an item of SELECT, or its alias."""
    if isinstance(node, exp.Literal) and not node.is_string:
        index = int(node.this) if node.this.isdecimal() else 0
        if not 1 <= index <= len(select.items):
            raise wrong(
                f"GROUP BY {node.this}: there is no such item in SELECT",
                position_of(node),
                expected=f"a number from 1 to {len(select.items)}, or a column",
            )
        node = select.items[index - 1].expression or node
    elif isinstance(node, exp.Column) and not node.table:
        known = any(
            find_column(source.relation.columns, node.name) is not None for source in sources
        )
        for item in select.items:
            alias = item.alias.text.casefold() if item.alias else None
            if not known and alias == node.name.casefold() and item.expression is not None:
                node = item.expression
                break
    return ExpressionBinder(sources, clause="GROUP BY").bind(node)


def _bind_item(
    item: s.SelectItem, binder: ExpressionBinder, sources: tuple[Source, ...]
) -> list[Output]:
    if item.expression is not None:
        bound = binder.bind(item.expression)
        if item.alias is not None:
            return [Output(item.alias.text, bound)]
        named = isinstance(item.expression, exp.Column)
        return [Output(item.expression.name if named else show(bound), bound)]
    chosen = [
        source
        for source in sources
        if item.table is None or source.alias.casefold() == item.table.text.casefold()
    ]
    if not chosen and item.table is not None:
        raise wrong(
            f'"{item.table.text}" is not in FROM',
            item.table.at,
            hint="relations in FROM: " + ", ".join(source.alias for source in sources),
        )
    return [
        Output(column.name, binder.bind(_reference(source.alias, column.name)))
        for source in chosen
        for column in source.relation.columns
    ]


def _reference(table: str, column: str) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(column, quoted=True), table=exp.to_identifier(table, quoted=True)
    )
