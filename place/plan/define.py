"""Statements that define things: streams, tables, regions, sinks; checked into definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from place.errors import PlaceError, suggestion
from place.model.schema import (
    LATITUDES,
    LONGITUDES,
    Archiving,
    Column,
    Pin,
    Region,
    Sink,
    Stream,
    Table,
    find_column,
)
from place.model.segment import ARROW
from place.model.shape import Circle, Shape, settle
from place.model.space import Space
from place.model.table_rows import TableRows
from place.model.time import parse_duration, parse_timestamp
from place.model.types import NAMES, Row, Type, ValueMismatch, coerce
from place.plan.bind_query import make_shape
from place.plan.catalog import Catalog
from place.plan.define_retention import define_retention
from place.plan.external import (
    check_source,
    define_source,
    define_target,
    form_of_timestamps,
    names_of_columns,
)
from place.plan.limits import check_history
from place.plan.options import (
    Options,
    archived,
    bounds,
    evaluation,
    furthest,
    keeps_last,
    positive_duration,
    space,
    truth,
)
from place.sql import statements as s
from place.sql.statements import wrong

STREAM_OPTIONS = (
    "evaluate",
    "timeout",
    "history",
    "lateness",
    "space",
    "bounds",
    "time",
    "timestamps",
    "columns",
    "max_future",
    "missing",
    "motion",
    "retain",
    "max_speed",
    "report_every",
    "cache",
    "store",
    "flush",
    "archive",
    "snapshot",
    "keep",
)

Load = Callable[[str, tuple[Column, ...]], tuple[tuple[Column, ...], TableRows]]
"""Reads a file into declared columns, or into those that it finds where none are declared."""


def define_stream(statement: s.CreateStream) -> Stream:
    """The stream of a CREATE STREAM."""
    columns, key = _define_columns(statement.columns)
    if key is not None and columns[key].type not in (Type.BIGINT, Type.STRING):
        raise wrong(
            f"a key is a BIGINT or a STRING, not a {columns[key].type.value}",
            statement.columns[key].type.at,
        )
    options = Options(statement.options, STREAM_OPTIONS)
    where = options.read("space", space) or Space.PLANAR
    x, y = _find_position(statement.columns, columns, where)
    source = define_source(statement.source, columns) if statement.source else None
    retention, storing = define_retention(options, statement.name)
    stream = Stream(
        name=statement.name.text,
        columns=columns,
        key=key,
        time=_find_time(columns, options),
        x=x,
        y=y,
        evaluate=options.read("evaluate", evaluation),
        timeout=options.read("timeout", positive_duration),
        lateness=options.read("lateness", parse_duration) or 0,
        space=where,
        bounds=options.read("bounds", bounds),
        source=source,
        retention=retention,
        storing=storing,
        history=options.read("history", positive_duration),
        timestamps=_shared(statement, options, "timestamps", form_of_timestamps),
        called=_shared(statement, options, "columns", partial(names_of_columns, columns)) or (),
        max_future=options.read("max_future", furthest),
        archiving=_archiving(options),
        fills_gaps=options.read("missing", keeps_last) or False,
        keeps_motion=options.read("motion", truth) or False,
    )
    if stream.keeps_motion and (stream.x is None or stream.key is None):
        option = options.get("motion")
        raise wrong(
            f'option "motion" speaks of objects that move, and stream "{stream.name}" has none',
            option.name.at if option is not None else statement.name.at,
            hint="declare a KEY and columns x and y, or leave it out",
        )
    if stream.key is None:
        _check_without_objects(stream, options)
    check_history(stream.history, options.get("history"))
    if statement.source is not None and stream.source is not None:
        check_source(stream, stream.source, statement.source)
    return stream


def _archiving(options: Options) -> Archiving | None:
    """What the options `archive`, `snapshot` and `keep` say together."""
    chosen = options.read("archive", archived)
    if chosen is None:
        for name in ("snapshot", "keep"):
            option = options.get(name)
            if option is not None:
                raise wrong(
                    f'option "{name}" speaks of an archive, and there is none',
                    option.name.at,
                    hint="add archive = 'all'",
                )
        return None
    nth, period = chosen
    return Archiving(
        nth,
        period,
        snapshot=options.read("snapshot", positive_duration) or Archiving.snapshot,
        keep=options.read("keep", positive_duration),
    )


def _check_without_objects(stream: Stream, options: Options) -> None:
    """Raise a StatementError for an option that speaks of objects, which only a KEY makes."""
    speaking = {
        "timeout": stream.timeout is not None,
        "retain": options.get("retain") is not None,
        "missing": stream.fills_gaps,
    }
    for name, speaks in speaking.items():
        option = options.get(name)
        if speaks and option is not None:
            raise wrong(
                f'option "{name}" speaks of objects, and stream "{stream.name}" has none',
                option.name.at,
                hint="leave it out, or declare a KEY: (id BIGINT KEY, …)",
            )


def _shared(
    statement: s.CreateStream, options: Options, name: str, form: Callable[[Any], Any]
) -> Any:
    """An option that may also stand among those of a source, where it means the same; to the
    generator, names of columns say what it should make."""
    source = statement.source
    if source is None or source.kind.text.upper() == "GENERATOR":
        return options.read(name, form)
    there = Options(source.options, tuple(o.name.text.casefold() for o in source.options))
    beside = there.get(name)
    if beside is None:
        return options.read(name, form)
    if options.get(name) is not None:
        raise wrong(
            f'option "{name}" is given twice',
            beside.name.at,
            hint="give it once, to the stream or to its source",
        )
    return there.read(name, form)


def define_table(
    statement: s.CreateTable,
    load: Load,
) -> tuple[Table, TableRows]:
    """The table of a CREATE TABLE and its rows."""
    declared, key = _define_columns(statement.columns)
    if statement.path is not None:
        columns, rows = _loaded(statement.path, declared, load)
    elif declared:
        columns = declared
        rows = _written_rows(columns, statement)
    else:
        raise wrong(
            f'table "{statement.name.text}" has no columns',
            statement.name.at,
            expected="a list of columns",
            hint="write CREATE TABLE name (ID BIGINT, owner STRING) AS VALUES (1, 'a')",
        )
    options = Options(statement.options, ("space",))
    where = options.read("space", space) or Space.PLANAR
    x, y = _find_position(statement.columns, columns, where)
    table = Table(
        name=statement.name.text,
        columns=columns,
        key=key or 0,
        unique=key is not None,
        x=x,
        y=y,
        path=str(statement.path.value) if statement.path else None,
        space=where,
    )
    check_rows(table, rows, statement.name)
    return table, rows


def check_rows(table: Table, rows: TableRows, name: s.Name) -> None:
    """Raise a StatementError if a stationary object lies nowhere, or a declared key repeats."""
    if table.x is not None and table.y is not None and table.space is Space.WGS84:
        x, y = (
            rows.arrow.column(index).cast(pa.float64()).to_numpy() for index in (table.x, table.y)
        )
        for row in np.flatnonzero((np.abs(x) > 180) | (np.abs(y) > 90)).tolist():
            _check_point(table, float(x[row]), float(y[row]), row + 1, name)
    if not table.unique:
        return
    keys = rows.arrow.column(table.key)
    if pa.compute.count_distinct(keys, mode="all").as_py() == len(rows):
        return
    seen: set[object] = set()
    for number, key in enumerate(keys.to_pylist(), start=1):
        if key in seen:
            raise wrong(f'row {number} of table "{table.name}" repeats the key {key!r}', name.at)
        seen.add(key)


def _check_point(table: Table, x: float, y: float, number: int, name: s.Name) -> None:
    try:
        settle(Circle(x, y, 0.0), table.space)
    except PlaceError as error:
        raise wrong(f'row {number} of table "{table.name}": {error.message}', name.at) from None


def define_region(statement: s.CreateRegion) -> Region:
    """The region of a CREATE REGION; which space it is tested in is up to the queries."""
    shape: Shape = make_shape(statement.shape)
    if isinstance(shape, Circle) and shape.r < 0:
        raise wrong(f"a radius cannot be negative: {shape.r:g}", statement.shape.at)
    return Region(statement.name.text, shape)


def define_sink(statement: s.CreateSink, catalog: Catalog) -> Sink:
    """The sink of a CREATE SINK; its queries and triggers must exist."""
    queries = None
    if statement.queries is not None:
        queries = tuple(catalog.find_told(name).name for name in statement.queries)
    target = define_target(statement.target, None if queries is None else len(queries))
    return Sink(statement.name.text, queries, target)


def define_pin(statement: s.CreatePin, catalog: Catalog) -> Pin:
    """The pin of a CREATE PIN; its stream must have an archive."""
    stream: Stream = catalog.find("stream", statement.stream)
    if stream.archiving is None:
        raise wrong(
            f'stream "{stream.name}" has no archive',
            statement.stream.at,
            hint="create it with archive = 'all' to keep its past",
        )
    moment = statement.moment.value
    try:
        at = parse_timestamp(moment) if isinstance(moment, str) else None
    except PlaceError as error:
        raise wrong(error.message, statement.moment.at, hint=error.hint) from None
    if at is None:
        raise wrong(
            "a pin is of a time", statement.moment.at, hint="write AS OF '2026-01-31 12:00:00'"
        )
    return Pin(statement.name.text, stream.name, at)


# Columns


def _define_columns(specs: tuple[s.ColumnSpec, ...]) -> tuple[tuple[Column, ...], int | None]:
    columns: list[Column] = []
    key: int | None = None
    for spec in specs:
        kind = NAMES.get(spec.type.text.upper())
        if kind is None:
            raise wrong(
                f"type {spec.type.text} does not exist",
                spec.type.at,
                hint=suggestion(spec.type.text, NAMES, "types"),
            )
        if find_column(tuple(columns), spec.name.text) is not None:
            raise wrong(f'column "{spec.name.text}" is there twice', spec.name.at)
        if spec.key:
            if key is not None:
                raise wrong("only one column is the KEY", spec.name.at)
            key = len(columns)
        columns.append(Column(spec.name.text, kind))
    return tuple(columns), key


def _find_position(
    specs: tuple[s.ColumnSpec, ...], columns: tuple[Column, ...], where: Space
) -> tuple[int | None, int | None]:
    x, y = _first_of(columns, LONGITUDES, where), _first_of(columns, LATITUDES, where)
    if x is None or y is None:
        return None, None
    for index in (x, y):
        if not columns[index].type.is_numeric:
            at = specs[index].type.at if index < len(specs) else None
            raise wrong(
                f'column "{columns[index].name}" is a {columns[index].type.value}',
                at,
                expected="a DOUBLE: x and y are positions",
            )
    return x, y


def _first_of(columns: tuple[Column, ...], names: tuple[str, ...], where: Space) -> int | None:
    """The column of the first of these names, of which all but x and y are for degrees."""
    known = names if where is Space.WGS84 else names[:1]
    found = (find_column(columns, name) for name in known)
    return next((index for index in found if index is not None), None)


def _find_time(columns: tuple[Column, ...], options: Options) -> int | None:
    """The column named by the option `time`, otherwise the first TIMESTAMP."""
    named = options.get("time")
    if named is None:
        return next((i for i, c in enumerate(columns) if c.type is Type.TIMESTAMP), None)
    index = find_column(columns, str(named.value.value))
    if index is None or columns[index].type is not Type.TIMESTAMP:
        names = [column.name for column in columns if column.type is Type.TIMESTAMP]
        raise wrong(
            f"'{named.value.value}' is not a TIMESTAMP column",
            named.value.at,
            hint=suggestion(str(named.value.value), names, "TIMESTAMP columns"),
        )
    return index


def _loaded(
    path: s.Literal,
    declared: tuple[Column, ...],
    load: Load,
) -> tuple[tuple[Column, ...], TableRows]:
    try:
        return load(str(path.value), declared)
    except PlaceError as error:
        raise wrong(error.message, path.at, hint=error.hint) from None


def _written_rows(columns: tuple[Column, ...], statement: s.CreateTable) -> TableRows:
    """The rows of AS VALUES. Those that were read in bulk are checked by columns; if one does not
    fit, the statement is read whole, so that the error says where it stands."""
    values = statement.plain
    if values is not None and all(len(row) == len(columns) for row in values):
        try:
            return TableRows.of_arrays(
                [
                    pa.array([coerce(value, column.type) for value in given], ARROW[column.type])
                    for given, column in zip(zip(*values, strict=True), columns, strict=True)
                ]
            )
        except ValueMismatch:
            pass
    return TableRows.of_rows(columns, [_row(columns, row) for row in statement.rows])


def inserted_rows(table: Table, statement: s.InsertRows) -> TableRows:
    """The rows of an INSERT; a column that it does not name is NULL."""
    if not statement.columns:
        return TableRows.of_rows(table.columns, [_row(table.columns, r) for r in statement.rows])
    places: list[int] = []
    for name in statement.columns:
        place = find_column(table.columns, name.text)
        if place is None:
            names = [column.name for column in table.columns]
            raise wrong(
                f'table "{table.name}" has no column "{name.text}"',
                name.at,
                hint=suggestion(name.text, names, "columns"),
            )
        if place in places:
            raise wrong(f'column "{name.text}" is there twice', name.at)
        places.append(place)
    if table.unique and table.key not in places:
        key = table.columns[table.key].name
        raise wrong(f'column "{key}" is the KEY and has to be given', statement.columns[0].at)
    named = tuple(table.columns[place] for place in places)
    rows = []
    for written in statement.rows:
        values = dict(zip(places, _row(named, written), strict=True))
        rows.append(tuple(values.get(place) for place in range(len(table.columns))))
    return TableRows.of_rows(table.columns, rows)


def _row(columns: tuple[Column, ...], values: tuple[s.Literal, ...]) -> Row:
    if len(values) != len(columns):
        raise wrong(
            f"the row has {len(values)} values",
            values[0].at,
            expected=f"{len(columns)}: {', '.join(column.name for column in columns)}",
        )
    row = []
    for column, literal in zip(columns, values, strict=True):
        try:
            row.append(coerce(literal.value, column.type))
        except ValueMismatch as error:
            raise wrong(f'column "{column.name}": {error.message}', literal.at) from None
    return tuple(row)
