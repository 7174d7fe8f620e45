"""INSIDE below the other filters or above them: whichever lets fewer rows pass (PLACE, figure 7).

At the bottom INSIDE sends on only who enters and who leaves; above a selection it sees every
reading that the selection lets pass. Which is less depends on how selective both are and on how
objects move, so it is counted. Before that, INSIDE is at the bottom, where PLACE has it.
A hint, `/*+ INSIDE FIRST */` or `/*+ INSIDE LAST */`, decides it for good.
"""

from __future__ import annotations

from dataclasses import replace

from place.plan.logical import Inside, Join, Node, Plan, Scan, Select, spine, with_input


def order_filters(plan: Plan) -> Plan:
    """The plan with INSIDE below the other filters or above them, so that fewer rows pass."""
    if plan.query.is_join or not any(isinstance(node, Inside) for node in spine(plan.root)):
        return plan
    place = _raised if _filters_first(plan) else _sunk
    return replace(plan, root=place(plan.root))


def _filters_first(plan: Plan) -> bool:
    if plan.query.hint is not None:
        return plan.query.hint == "INSIDE LAST"
    knowledge = plan.knowledge
    if knowledge.inside_first is None or knowledge.filters_first is None:
        return False
    return knowledge.filters_first < knowledge.inside_first


def _sunk(node: Node) -> Node:
    """The tree with INSIDE below the selection that it stands on."""
    if isinstance(node, Scan):
        return node
    if isinstance(node, Inside) and isinstance(node.input, Select):
        select = node.input
        return replace(select, input=_sunk(replace(node, input=select.input)))
    return with_input(node, _sunk(node.input))


def _raised(node: Node) -> Node:
    """The tree with INSIDE above the selections and joins that stand on it."""
    if isinstance(node, Scan):
        return node
    raised = with_input(node, _raised(node.input))
    if isinstance(raised, Select | Join) and isinstance(raised.input, Inside):
        inside = raised.input
        return replace(inside, input=replace(raised, input=inside.input))
    return raised
