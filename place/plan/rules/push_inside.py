"""INSIDE goes below the joins with tables: it speaks of the object alone (PLACE, section 8.2.2)."""

from __future__ import annotations

from dataclasses import replace

from place.plan.logical import Inside, Join, Node, Plan, Scan, with_input


def push_inside(plan: Plan) -> Plan:
    """The plan with INSIDE below the joins that it stands on."""
    return replace(plan, root=_pushed(plan.root))


def _pushed(node: Node) -> Node:
    if isinstance(node, Scan):
        return node
    if isinstance(node, Inside) and isinstance(node.input, Join):
        join = node.input
        return replace(join, input=_pushed(Inside(node.area, join.input)))
    return with_input(node, _pushed(node.input))
