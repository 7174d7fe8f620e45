"""What a cell makes of a query in which elements of several sources meet.

Such a query needs no region join: its chain begins with the join of elements, which reads the
objects and readings of a tick itself. Focal objects are sources like others, of one element each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from place.engine.abstraction import Abstraction
from place.engine.compiled import Compiled, Filter, JoinKey, Needed, QueryShape, is_keyed
from place.engine.operator_specs import (
    AreaSpec,
    DistinctSpec,
    ElementSpec,
    GroupSpec,
    NearestEachSpec,
    NearestJoinSpec,
    ProjectSpec,
    RankSpec,
    ReverseSpec,
    Spec,
    StreamJoinSpec,
)
from place.errors import InternalError
from place.kernels.bulk import SIMPLE
from place.model.schema import Relation, Stream
from place.model.space import Space
from place.plan.expression import (
    Column,
    Compare,
    Constant,
    Expression,
    columns_of,
    conjuncts,
    sources_of,
    substitute,
)
from place.plan.query import Around, Focal, Query, Source

ALONE = "\0join"
"""Marks the join key of queries that no region join serves."""
METHODS = ("HASH", "GRID", "CLUSTERS", "BITMAPS", "SCAN")


def compile_join(asked: Query) -> Compiled:
    """What a cell makes of a query that joins."""
    sources, focals = asked.sources, _focals_of(asked.sources)
    conditions = list(conjuncts(asked.where))
    if asked.nearest is None or not asked.nearest.is_reverse:  # which knows its focal object
        conditions += _of_keys(asked, sources)
    area = _area(asked, focals)
    rank = _rank(asked, focals)
    spread = _spread(asked)
    read = _shown(asked, sources, rank)
    needed = _needed(sources, conditions, read, area)
    width = len(sources)
    constants = Abstraction(width)
    is_nearest = _is_nearest(asked, conditions)
    is_reverse = asked.nearest is not None and asked.nearest.is_reverse
    is_alone = is_nearest or is_reverse
    shown = _shown(asked, sources, None) if is_alone else read
    is_ranked = rank is not None and not is_alone
    # Rows have only what is read of them above, or tells their rank.
    sent = tuple(tuple(sorted(columns)) for columns in shown)
    has_objects = all(source.window is None for source in sources)
    asks = tuple(_put(c, needed) for c in conditions if not _keeps_apart(c, sources))
    join = StreamJoinSpec(
        tuple(
            ElementSpec(source.relation, source.window, i == spread and not is_reverse)
            for i, source in enumerate(sources)
        ),
        needed,
        tuple(
            tuple(needed[i].index(c) for c in sorted(columns)) for i, columns in enumerate(shown)
        ),
        asks if is_alone else constants.of_all([_put(c, needed) for c in conditions]),
        width,
        asked.space,
        area,
        None if is_reverse else rank,
        asked.hint.lower() if asked.hint in METHODS else None,
    )
    lower: list[Spec] = [join]
    upper = _upper(asked, constants, sent, width)
    if is_nearest:
        assert asked.nearest is not None
        given = {field.name: getattr(join, field.name) for field in fields(join)}
        is_apart = len(asks) < len(conditions)
        lower = [NearestJoinSpec(**given, k=asked.nearest.k, is_apart=is_apart)]
    elif is_reverse:
        given = {field.name: getattr(join, field.name) for field in fields(join)}
        led = next((i for i, source in enumerate(sources) if source.is_hidden), None)
        lower = [ReverseSpec(**given, subject=asked.subject, led=led)]
    elif rank is not None and rank.each == spread:
        lower.append(NearestEachSpec())
    elif rank is not None:
        upper.insert(0, NearestEachSpec())
    subject = sources[spread].relation
    shape = QueryShape(
        sources=tuple(source.relation for source in sources),
        subject=spread,
        table=None,
        readings=False,
        needed=sent,
        lower=tuple(lower),
        upper=tuple(upper),
        kinds=tuple(constants.kinds),
        is_keyed=has_objects and not is_ranked and len(upper) == 1 and is_keyed(asked),
    )
    return Compiled(
        asked=asked,
        shape=shape,
        constants=tuple(constants.constants),
        key=JoinKey(subject.name, False, (), False, Space.PLANAR, None, ALONE),
        way_boxes=(),
        boxes=(),
        checks_boxes=False,
        residual=None,
        residual_constants=(),
        reads=(),
        mode=SIMPLE,
        filter=Filter(spread, None, None, (), (), ()),
        has_choice=False,
        has_regions=False,
    )


def _put(expression: Expression, needed: Needed) -> Expression:
    """An expression over the columns that are needed."""

    def put(column: Column) -> Column:
        return replace(column, index=needed[column.source].index(column.index))

    return substitute(expression, put)


def _is_nearest(asked: Query, conditions: Sequence[Expression]) -> bool:
    """Is it kNN around each of one source's elements now, among those of another, where nothing
    else ties the two together? A hint asks for the join as it is."""
    return (
        asked.nearest is not None
        and asked.nearest.around is not None
        and len(asked.sources) == 2
        and all(source.window is None and source.key is None for source in asked.sources)
        and not isinstance(asked.inside, Around)
        and asked.hint not in METHODS
        and all(len(sources_of(c)) < 2 or _keeps_apart(c, asked.sources) for c in conditions)
    )


def _keeps_apart(condition: Expression, sources: Sequence[Source]) -> bool:
    """Does a condition say just that an object does not meet itself?"""
    if not isinstance(condition, Compare) or condition.op != "<>":
        return False
    one, other = condition.left, condition.right
    if not isinstance(one, Column) or not isinstance(other, Column) or one.source == other.source:
        return False
    relations = [sources[column.source].relation for column in (one, other)]
    return (
        isinstance(relations[0], Stream)
        and relations[0].name == relations[1].name
        and one.index == other.index == relations[0].key
    )


def _focals_of(sources: Sequence[Source]) -> dict[Focal, int]:
    """Where the focal objects of a query stand among its sources."""
    return {
        Focal(source.relation.name, source.key): i
        for i, source in enumerate(sources)
        if source.key is not None
    }


def _of_keys(asked: Query, sources: Sequence[Source]) -> list[Expression]:
    """A focal object is the one of its key, and never in its own query's answer."""
    found: list[Expression] = []
    for i, source in enumerate(sources):
        if source.key is not None:
            found.append(_compare("=", i, source.relation, source.key))
    subject = sources[asked.subject]
    for focal in dict.fromkeys(asked.focals):
        if focal.stream == subject.relation.name:
            found.append(_compare("<>", asked.subject, subject.relation, focal.key))
    return found


def _compare(op: str, source: int, relation: Relation, key: object) -> Expression:
    index = _key_of(relation)
    column = relation.columns[index]
    of = Column(source, index, column.type, column.name)
    return Compare(op, of, Constant(key, column.type))  # type: ignore[arg-type]


def _key_of(relation: Relation) -> int:
    return 0 if relation.key is None else relation.key


def _area(asked: Query, focals: dict[Focal, int]) -> AreaSpec | None:
    if asked.inside is None:
        return None
    focal = None
    # Readings of a window are asked when they come, by where the focal object is then.
    if isinstance(asked.inside, Around) and asked.sources[asked.subject].window is None:
        focal = focals[asked.inside.focal]
    return AreaSpec(asked.subject, asked.inside, focal)


def _rank(asked: Query, focals: dict[Focal, int]) -> RankSpec | None:
    nearest = asked.nearest
    if nearest is None:
        return None
    among = asked.subject if nearest.among is None else nearest.among
    if nearest.around is not None:
        return RankSpec(among, nearest.around, None, nearest.around)
    if nearest.is_reverse:
        led = None if nearest.focal is None else focals[nearest.focal]
        return RankSpec(among, led, None, None)
    if nearest.focal is not None:
        return RankSpec(among, focals[nearest.focal], None, None)
    if nearest.group is not None:
        places = tuple(
            focals[place] if isinstance(place, Focal) else place for place in nearest.group.places
        )
        return RankSpec(among, None, None, None, nearest.group.total, places)
    return RankSpec(among, None, nearest.point, None)


def _spread(asked: Query) -> int:
    """The source of which each row of cells has its share: the one that kNN chooses for, or the
    first stream."""
    if asked.nearest is not None and asked.nearest.around is not None:
        return asked.nearest.around
    if asked.nearest is not None and asked.nearest.is_reverse:
        return asked.subject
    streams = (i for i, source in enumerate(asked.sources) if source.is_stream)
    return next(streams, 0)


def _shown(asked: Query, sources: Sequence[Source], rank: RankSpec | None) -> list[set[int]]:
    """The columns that are read above the join, also those that kNN chooses by."""
    read = [output.expression for output in asked.outputs] if asked.groups is None else []
    read += asked.groups or ()
    read += [a.argument for a in asked.aggregates if a.argument is not None]
    shown: list[set[int]] = [set() for _ in sources]
    for expression in read:
        for column in columns_of(expression):
            shown[column.source].add(column.index)
    if rank is not None:
        shown[rank.among].add(_key_of(sources[rank.among].relation))
        for source in (rank.among, *rank.around_sources):
            shown[source] |= _place_of(sources[source].relation)
    return shown


def _place_of(relation: Relation) -> set[int]:
    if relation.x is None or relation.y is None:
        raise InternalError(f"{relation.name} has no positions, and the binder let it pass")
    return {relation.x, relation.y}


def _needed(
    sources: Sequence[Source],
    conditions: Sequence[Expression],
    shown: Sequence[set[int]],
    area: AreaSpec | None,
) -> Needed:
    """The columns of each source that anybody reads; at least one."""
    needed = [set(columns) for columns in shown]
    for condition in conditions:
        for column in columns_of(condition):
            needed[column.source].add(column.index)
    if area is not None:
        for source in (area.subject, area.focal):
            if source is not None:
                needed[source] |= _place_of(sources[source].relation)
    return tuple(
        tuple(sorted(columns)) or (_key_of(source.relation),)
        for source, columns in zip(sources, needed, strict=True)
    )


def _upper(asked: Query, constants: Abstraction, sent: Needed, width: int) -> list[Spec]:
    """Groups, outputs and DISTINCT."""
    upper: list[Spec] = []
    outputs = [output.expression for output in asked.outputs]
    if asked.groups is not None:
        keys = constants.of_all([_put(key, sent) for key in asked.groups])
        aggregates = tuple(
            a if a.argument is None else replace(a, argument=constants.of(_put(a.argument, sent)))
            for a in asked.aggregates
        )
        having = None if asked.having is None else constants.of(asked.having)
        upper.append(GroupSpec(keys, aggregates, having, width))
    else:
        outputs = [_put(output, sent) for output in outputs]
    told = constants.of_all(outputs)
    upper.append(ProjectSpec(tuple(zip(asked.names, told, strict=True))))
    if asked.distinct:
        upper.append(DistinctSpec())
    return upper
