"""Conditions of WHERE go down to where all that they read is there.

A condition on the object alone filters it before any join; one on a table alone filters the table;
what speaks of both becomes the condition of their join. It is the same with elements of several
sources: what speaks of one of them alone filters it, also the readings of its window. Nothing goes
below the pairing of `WINDOW PREVIOUS`, which pairs readings whatever they say.
"""

from __future__ import annotations

from dataclasses import replace

from place.plan.expression import Expression, conjunction, conjuncts, sources_of
from place.plan.logical import (
    Join,
    JoinElements,
    MeetRegions,
    Node,
    Plan,
    Scan,
    Select,
    walk,
    with_input,
)


def push_selections(plan: Plan) -> Plan:
    """The plan with each condition of WHERE as far down as it can be asked."""
    return replace(plan, root=_pushed(plan.root))


def _pushed(node: Node) -> Node:
    if isinstance(node, Scan):
        return node
    if isinstance(node, Select):
        return _sink(node.input, list(conjuncts(node.condition)))
    return with_input(node, _pushed(node.input))


def _sink(node: Node, conditions: list[Expression]) -> Node:
    """The node with conditions as far below it, or at it, as they can be."""
    if isinstance(node, Join | MeetRegions):
        other = node.table if isinstance(node, Join) else node.regions
        left, right = _sources(node.input), _sources(other)
        below = [c for c in conditions if sources_of(c) <= left]
        beside = [c for c in conditions if sources_of(c) <= right and c not in below]
        here = [c for c in conditions if c not in below and c not in beside]
        under = _sink(node.input, below)
        if isinstance(node, Join):
            both = [*conjuncts(node.condition), *here]
            return Join(conjunction(both), under, _sink(other, beside))
        # The rows of a query table are kept as they come; what is asked of them is asked here.
        return _over(replace(node, input=under), beside + here)
    if isinstance(node, JoinElements):
        inputs = (node.input, *node.others)
        of = [[c for c in conditions if _is_of(c, _sources(below))] for below in inputs]
        between = [c for c in conditions if not any(c in some for some in of)]
        met = conjunction([*conjuncts(node.condition), *between])
        first, *others = (_sink(below, some) for below, some in zip(inputs, of, strict=True))
        return JoinElements(met, first, tuple(others))
    return _over(node, conditions)


def _is_of(condition: Expression, sources: frozenset[int]) -> bool:
    """Does a condition read nothing but these sources?"""
    return bool(sources_of(condition)) and sources_of(condition) <= sources


def _over(node: Node, conditions: list[Expression]) -> Node:
    condition = conjunction(conditions)
    return node if condition is None else Select(condition, node)


def _sources(node: Node) -> frozenset[int]:
    return frozenset(scan.source for scan in walk(node) if isinstance(scan, Scan))
