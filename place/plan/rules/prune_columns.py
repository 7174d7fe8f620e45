"""Only the columns that something above needs leave a scan, and only those are kept."""

from __future__ import annotations

from dataclasses import replace

from place.plan.expression import Expression, columns_of
from place.plan.logical import (
    Group,
    Join,
    JoinElements,
    MeetRegions,
    Node,
    PairPrevious,
    Plan,
    Project,
    Scan,
    Select,
    walk,
)


def prune_columns(plan: Plan) -> Plan:
    """The plan whose scans pass only their key, their position and the columns read above."""
    read: set[tuple[int, int]] = set()
    for node in walk(plan.root):
        for expression in _expressions(node, plan):
            read |= {(column.source, column.index) for column in columns_of(expression)}
        if isinstance(node, MeetRegions):
            read |= {(node.table.source, column) for column in node.table.columns}
    for scan in walk(plan.root):
        if isinstance(scan, Scan):
            places = (scan.relation.key, scan.relation.x, scan.relation.y)
            read |= {(scan.source, i) for i in places if i is not None}
    return replace(plan, root=_pruned(plan.root, read))


def _expressions(node: Node, plan: Plan) -> list[Expression]:
    match node:
        case Select(condition=condition):
            return [condition]
        case Join(condition=condition) | JoinElements(condition=condition):
            return [] if condition is None else [condition]
        case Group(groups=groups, aggregates=aggregates):
            return [*groups, *(a.argument for a in aggregates if a.argument is not None)]
        case Project(outputs=outputs) if plan.query.groups is None:
            return [output.expression for output in outputs]
        case _:
            return []


def _pruned(node: Node, read: set[tuple[int, int]]) -> Node:
    match node:
        case Scan(source=source):
            return replace(node, columns=tuple(sorted(i for s, i in read if s == source)))
        case MeetRegions():
            return replace(
                node, input=_pruned(node.input, read), regions=_pruned(node.regions, read)
            )
        case PairPrevious():
            return replace(
                node, input=_pruned(node.input, read), previous=_pruned(node.previous, read)
            )
        case Join():
            return replace(node, input=_pruned(node.input, read), table=_pruned(node.table, read))
        case JoinElements():
            others = tuple(_pruned(other, read) for other in node.others)
            return replace(node, input=_pruned(node.input, read), others=others)
        case _:
            return replace(node, input=_pruned(node.input, read))
