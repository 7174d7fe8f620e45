"""INSIDE goes below joins: it speaks of one source alone (PLACE, section 8.2.2)."""

from __future__ import annotations

from dataclasses import replace

from place.plan.logical import Inside, Join, JoinElements, Node, Plan, Scan, walk, with_input
from place.plan.query import Around, Query


def push_inside(plan: Plan) -> Plan:
    """The plan with INSIDE below the joins that it stands on."""
    return replace(plan, root=_pushed(plan.root, plan.query))


def _pushed(node: Node, query: Query) -> Node:
    if isinstance(node, Scan):
        return node
    if isinstance(node, Inside) and isinstance(node.input, JoinElements):
        return _asked_of_subject(node, node.input, query)
    if isinstance(node, Inside) and isinstance(node.input, Join):
        join = node.input
        return replace(join, input=_pushed(Inside(node.area, join.input), query))
    return with_input(node, _pushed(node.input, query))


def _asked_of_subject(inside: Inside, join: JoinElements, query: Query) -> Node:
    """A region that stays is asked of its subject before the join, and so is one that readings of a
    window were in at their instants. Around a focal object it speaks of two sources."""
    window = query.sources[query.subject].window
    if isinstance(inside.area, Around) and window is None:
        return inside
    first, *others = (
        Inside(inside.area, below)
        if any(isinstance(scan, Scan) and scan.source == query.subject for scan in walk(below))
        else below
        for below in (join.input, *join.others)
    )
    return replace(join, input=first, others=tuple(others))
