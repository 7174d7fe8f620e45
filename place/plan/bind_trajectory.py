"""Binding `SELECT TRAJECTORY(id) FROM Cars BETWEEN …` and `SELECT id, LENGTH(TRAJECTORY(id)) …`.

The first is bound as a SELECT of the key and the position of readings. The second reads rows that
no stream has: the key of an object beside the measures of its trajectory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from place.model.schema import Column, Stream, Table
from place.plan.bind_expression import AGGREGATES, ExpressionBinder
from place.plan.bind_objects import need_key
from place.plan.bind_outputs import bind_outputs
from place.plan.bind_place import need_position
from place.plan.bind_query import bind_query
from place.plan.catalog import Catalog
from place.plan.expression import Column as ColumnOf
from place.plan.query import Query, Source
from place.plan.trajectory import FUNCTION, MEASURES, Trajectory
from place.sql import statements as s
from place.sql.statements import Position, Select, position_of, wrong

FORM = "write SELECT TRAJECTORY(id) FROM Cars BETWEEN '2026-01-01 14:00' AND '2026-01-01 15:00'"
MEASURED = "LENGTH(TRAJECTORY(id))"


def asks_trajectory(select: Select) -> bool:
    """Does a SELECT ask for trajectories, or for measures of them?"""
    return any(True for node in _written(select) for _ in _named(node))


def bind_trajectory(catalog: Catalog, select: Select) -> tuple[Query, Trajectory]:
    """The query that chooses readings, and what becomes of them; or a StatementError."""
    at = next(position_of(found) for node in _written(select) for found in _named(node))
    _check_clauses(select, at)
    stream, key = _stream_of(catalog, select, at)
    bare = [i for i, item in enumerate(select.items) if _is_trajectory(item.expression)]
    if not bare:
        return _measured(catalog, select, stream, key, at)
    if len(bare) > 1 or select.having is not None:
        raise wrong(
            "TRAJECTORY stands once in SELECT, and its measures in a SELECT of their own",
            at,
            hint=FORM,
        )
    (index,) = bare
    item = select.items[index]
    call = item.expression
    assert call is not None
    _check_key(call, stream, key, select)
    if item.alias is not None:
        raise wrong(
            "TRAJECTORY gives three columns: the key, x and y",
            item.alias.at,
            hint="leave the alias out",
        )
    assert stream.x is not None
    assert stream.y is not None
    columns = tuple(
        s.SelectItem(item.at, _column(stream.columns[each].name, item.at), s.Name(name, item.at))
        for each, name in (
            (key, stream.columns[key].name),
            (stream.x, "x"),
            (stream.y, "y"),
        )
    )
    items = (*select.items[:index], *columns, *select.items[index + 1 :])
    _check_aggregates(select, at)
    query = _plain(bind_query(catalog, "", replace(select, items=items)), at)
    return query, Trajectory(stream.columns[key].name, tolerance=_tolerance(call))


def _written(select: Select) -> Iterator[exp.Expr]:
    yield from (item.expression for item in select.items if item.expression is not None)
    if select.having is not None:
        yield select.having


def _named(node: exp.Expr) -> Iterator[exp.Expr]:
    return (each for each in node.walk() if _is_trajectory(each))


def _is_trajectory(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.this == FUNCTION


def _check_clauses(select: Select, at: Position | None) -> None:
    """Raise a StatementError if a clause has no meaning for trajectories."""
    if select.past is None or select.past.until is None:
        raise wrong("a trajectory is of a time from one instant to another", at, hint=FORM)
    if len(select.sources) > 1 or select.sources[0].window is not None:
        raise wrong("a trajectory is of the objects of one stream", at, hint=FORM)
    inside = select.inside
    for clause, name in (
        (select.nearest, "kNN" if select.nearest is None else select.nearest.name),
        (select.window, "WINDOW"),
        (inside if inside is not None and inside.focal is not None else None, "a moving INSIDE"),
        (inside if inside is not None and inside.dwell is not None else None, "INSIDE … FOR"),
        (inside if inside is not None and inside.leave is not None else None, "LEAVE BEYOND"),
        (inside if inside is not None and inside.confirm is not None else None, "CONFIRM"),
    ):
        if clause is not None:
            raise wrong(
                f"TRAJECTORY cannot be combined with {name}",
                clause.at,
                expected="WHERE and INSIDE with a region that stays, which choose readings",
            )
    if select.group_by or select.distinct:
        word = "GROUP BY" if select.group_by else "DISTINCT"
        raise wrong(
            f"TRAJECTORY cannot be combined with {word}",
            at,
            hint=f"measures are of each object: SELECT id, {MEASURED}",
        )


def _stream_of(catalog: Catalog, select: Select, at: Position | None) -> tuple[Stream, int]:
    name = select.sources[0].relation
    stream = catalog.relation(name)
    if not isinstance(stream, Stream):
        raise wrong("a table has no past: it is asked as it is now", name.at, hint=FORM)
    need_position(stream, at, FUNCTION)
    return stream, need_key(stream, at, "that could have trajectories")


def _check_key(call: exp.Expr, stream: Stream, key: int, select: Select) -> None:
    """Raise a StatementError if the argument of TRAJECTORY is not the key of its stream."""
    arguments = call.expressions
    bound = None
    if arguments and isinstance(arguments[0], exp.Column):
        source = Source(select.sources[0].alias.text, stream)
        bound = ExpressionBinder((source,), clause="SELECT").bind(arguments[0])
    if not isinstance(bound, ColumnOf) or bound.index != key or len(arguments) > 2:
        name = stream.columns[key].name
        raise wrong(
            f'TRAJECTORY is of the objects of "{stream.name}", by their key',
            position_of(call),
            expected=f"{name}, and perhaps a tolerance",
            hint=f"write TRAJECTORY({name}) or TRAJECTORY({name}, 10)",
        )


def _tolerance(call: exp.Expr) -> float | None:
    """How far the line may be from a reading that is left out."""
    if len(call.expressions) < 2:
        return None
    given = call.expressions[1]
    if isinstance(given, exp.Literal) and not given.is_string:
        return float(given.this)
    raise wrong(
        "the tolerance of TRAJECTORY is a distance",
        position_of(given) or position_of(call),
        expected="a number that is not negative, in the stream's lengths or in metres",
    )


def _check_aggregates(select: Select, at: Position | None) -> None:
    for written in _written(select):
        for node in written.walk():
            if isinstance(node, exp.Anonymous) and node.this in AGGREGATES:
                raise wrong(
                    "TRAJECTORY cannot be combined with aggregates",
                    position_of(node) or at,
                    hint=f"its measures are of each object: SELECT id, {MEASURED}",
                )


def _plain(query: Query, at: Position | None) -> Query:
    """A query that chooses readings by themselves, or a StatementError."""
    if query.reads_motion:
        raise wrong(
            "TRAJECTORY cannot be combined with SPEED() and HEADING() of readings",
            at,
            hint="write SPEED(TRAJECTORY(id)) or TOP_SPEED(TRAJECTORY(id))",
        )
    return query


def _column(name: str, at: Position | None) -> exp.Column:
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    column.meta["position"] = at
    return column


# Measures


def _measured(
    catalog: Catalog, select: Select, stream: Stream, key: int, at: Position | None
) -> tuple[Query, Trajectory]:
    """One row for each object: its key and measures, and what is computed from them."""
    name = stream.columns[key].name
    shown = {measure: f"{measure}(TRAJECTORY({name}))" for measure in MEASURES}
    columns = (
        Column(name, stream.columns[key].type),
        *(Column(shown[measure], kind) for measure, kind in MEASURES.items()),
    )
    alias = select.sources[0].alias.text
    source = Source(alias, Table(stream.name, columns, 0, True, None, None, space=stream.space))

    def read(node: exp.Expr) -> exp.Expr:
        """The expression with columns in the place of measures."""
        if isinstance(node, exp.Anonymous) and node.this in MEASURES and _is_of_one(node):
            (call,) = node.expressions
            _check_key(call, stream, key, select)
            if len(call.expressions) > 1:
                raise wrong(
                    f"{node.this} is of all readings: a tolerance is for what is shown",
                    position_of(call),
                    hint=f"write {shown[str(node.this)]}",
                )
            return _column(shown[str(node.this)], position_of(call))
        if _is_trajectory(node):
            raise wrong(
                "TRAJECTORY stands by itself, or within a measure",
                position_of(node),
                expected=", ".join(shown.values()),
            )
        return node

    items = []
    for item in select.items:
        if item.expression is None:
            raise wrong("* cannot be combined with measures", item.at, hint=f"write {name}")
        measure = item.expression
        given = item.alias
        if given is None and isinstance(measure, exp.Anonymous) and _is_of_one(measure):
            given = s.Name(str(measure.this).lower(), item.at)
        items.append(replace(item, expression=measure.copy().transform(read), alias=given))
    _check_aggregates(select, at)
    outputs = bind_outputs(replace(select, items=tuple(items), having=None), (source,))
    having = None
    if select.having is not None:
        binder = ExpressionBinder((source,), clause="HAVING")
        having = binder.condition(select.having.copy().transform(read))
    chosen = s.SelectItem(select.at, _column(name, select.at), None)
    plain = bind_query(catalog, "", replace(select, items=(chosen,), having=None))
    return _plain(plain, at), Trajectory(name, measures=outputs.outputs, having=having)


def _is_of_one(node: exp.Anonymous) -> bool:
    return len(node.expressions) == 1 and _is_trajectory(node.expressions[0])
