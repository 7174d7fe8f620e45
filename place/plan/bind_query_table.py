"""Binding `O INSIDE Q`: the columns of a query table that hold its regions.

A query table is how 100,000 queries are registered by one statement, and how regions stream in
(PLACE, section 6).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.errors import PlaceError
from place.model.regions import LAYOUTS, region_of
from place.model.schema import Column, Stream, find_column
from place.model.space import Space
from place.model.types import Type
from place.plan.bind_objects import need_key
from place.plan.bind_place import need_position
from place.plan.catalog import Catalog, fold
from place.plan.query import Query, QueryTable, Source
from place.sql.statements import Inside, Name, Position, position_of, wrong

SHOWN = "ID with region (WKT), or x1 y1 x2 y2, or x y r, or focal xdist ydist, or focal r"


def layout_of(columns: tuple[Column, ...]) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """The layout of the regions that these columns hold, with the columns' positions."""
    for layout in LAYOUTS:
        found = [find_column(columns, name) for name in layout]
        positions = tuple(index for index in found if index is not None)
        if len(positions) == len(layout):
            return layout, positions
    return None


def bind_query_table(
    catalog: Catalog, sources: tuple[Source, ...], predicates: list[Inside]
) -> QueryTable | None:
    """The query table of the one `O INSIDE Q` in WHERE, if there is one."""
    if not predicates:
        return None
    predicate = predicates[0]
    place = position_of(predicate)
    if len(predicates) > 1:
        raise wrong(
            "a query has one query table", position_of(predicates[1]), hint="keep one O INSIDE Q"
        )
    by_alias = {source.alias.casefold(): i for i, source in enumerate(sources)}
    objects = sources[by_alias[predicate.this.name.casefold()]]
    index = by_alias.get(predicate.expression.name.casefold())
    if index is None:
        is_region = predicate.expression.name.casefold() in catalog.regions
        raise wrong(
            f'"{predicate.expression.name}" is not in FROM',
            position_of(predicate.expression),
            expected="the name of a query table",
            hint="a region is a clause of its own, behind the conditions: …"
            f" {predicate.this.name} INSIDE {predicate.expression.name}"
            if is_region
            else "relations in FROM: " + ", ".join(source.alias for source in sources),
        )
    regions = sources[index]
    if objects is regions:
        raise wrong(f'"{regions.alias}" cannot be inside itself', place)
    need_position(objects.relation, place, "INSIDE")
    found = layout_of(regions.relation.columns)
    if found is None:
        raise wrong(
            f'"{regions.relation.name}" holds no regions',
            position_of(predicate.expression),
            expected=f"columns {SHOWN}",
        )
    layout, columns = found
    _check_types(regions, layout, columns, place)
    focal_stream = _bind_focal_stream(catalog, predicate, objects, layout)
    table = QueryTable(index, layout, columns, focal_stream.name if focal_stream else None)
    if focal_stream is not None:
        _check_focal(regions, columns[0], focal_stream, objects, place)
    if not regions.is_stream:
        _check_regions(catalog, regions, table, objects.relation.space, place)
    return table


def _check_types(
    regions: Source, layout: tuple[str, ...], columns: tuple[int, ...], place: Position | None
) -> None:
    for name, index in zip(layout, columns, strict=True):
        kind = regions.relation.columns[index].type
        good = kind is Type.STRING if name == "region" else kind.is_numeric or name == "focal"
        if not good:
            raise wrong(
                f'column "{name}" of "{regions.relation.name}" is a {kind.value}',
                place,
                expected="a WKT text" if name == "region" else "a number",
            )


def _bind_focal_stream(
    catalog: Catalog, predicate: Inside, objects: Source, layout: tuple[str, ...]
) -> Stream | None:
    written = predicate.args.get("stream")
    if layout[0] != "focal":
        if written is not None:
            raise wrong(
                "OF names the stream of focal objects, and these regions have none",
                position_of(written),
            )
        return None
    if written is not None:
        place = position_of(written)
        if place is None:
            raise wrong("OF has no place", None)
        found: Stream = catalog.find("stream", Name(written.name, place))
        return found
    if isinstance(objects.relation, Stream):
        return objects.relation
    raise wrong(
        f'the focal objects of regions over table "{objects.relation.name}" are of a stream',
        position_of(predicate),
        expected="its name",
        hint=f"write {objects.alias} INSIDE {predicate.expression.name} OF stream",
    )


def _check_focal(
    regions: Source, column: int, stream: Stream, objects: Source, place: Position | None
) -> None:
    need_key(stream, place, "that could lead regions")
    if stream.x is None or stream.space is not objects.relation.space:
        raise wrong(
            f'objects of stream "{stream.name}" cannot lead regions over "{objects.relation.name}"',
            place,
            expected="a stream with x and y in the same space",
        )
    kind, key = regions.relation.columns[column].type, stream.key_type
    if kind is not key:
        raise wrong(
            f'column "focal" of "{regions.relation.name}" is a {kind.value}, but the keys of stream'
            f' "{stream.name}" are {key.value}',
            place,
        )


def check_regions_of(catalog: Catalog, query: Query, place: Position | None) -> None:
    """Raise a StatementError if the query table of a query holds a row that is no region."""
    table = query.query_table
    if table is None or query.sources[table.source].is_stream:
        return
    _check_regions(catalog, query.sources[table.source], table, query.space, place)


def _doubtful(
    layout: tuple[str, ...], columns: list[pa.ChunkedArray], space: Space
) -> NDArray[np.intp]:
    """The rows that have to be looked at one by one: texts, and numbers that may be wrong."""
    if layout == ("region",):
        return np.arange(len(columns[0]))
    doubt = np.zeros(len(columns[0]), np.bool_)
    for name, column in zip(layout, columns, strict=True):
        if name == "focal":
            continue
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        if name in ("r", "xdist", "ydist"):
            doubt |= numbers < 0
        elif space is Space.WGS84:
            doubt |= np.abs(numbers) > (180 if name.startswith("x") else 90)
    return np.flatnonzero(doubt)


def _check_regions(
    catalog: Catalog, regions: Source, table: QueryTable, space: Space, place: Position | None
) -> None:
    """Every row of a table must be a region, or hold a NULL to have none."""
    rows = catalog.contents[fold(regions.relation.name)]
    columns = [rows.arrow.column(c) for c in table.columns]
    for row in _doubtful(table.layout, columns, space).tolist():
        number, values = row + 1, [column[row].as_py() for column in columns]
        try:
            region_of(table.layout, values, space, lambda _: (0.0, 0.0))
        except PlaceError as error:
            raise wrong(
                f'row {number} of table "{regions.relation.name}" is not a region: {error.message}',
                place,
                hint="mend the table's file and load it again",
            ) from None
