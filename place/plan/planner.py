"""The planner: a query becomes its clauses in order, and then what the rules make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from place.plan.expression import Expression, conjuncts
from place.plan.logical import (
    Inside,
    Join,
    Knowledge,
    Plan,
    Select,
    initial,
    spine,
)
from place.plan.query import Query
from place.plan.rules.order_filters import order_filters
from place.plan.rules.prune_columns import prune_columns
from place.plan.rules.push_inside import push_inside
from place.plan.rules.push_selections import push_selections

Rule = Callable[[Plan], Plan]

RULES: tuple[Rule, ...] = (push_selections, push_inside, order_filters, prune_columns)
"""In this order: conditions find their places first, then INSIDE, then what is left to read."""


def make_plan(query: Query, knowledge: Knowledge | None = None) -> Plan:
    """The plan of a query, by what is known about the rows that pass its filters."""
    plan = Plan(query, initial(query), knowledge or Knowledge())
    for rule in RULES:
        plan = rule(plan)
    return plan


def has_choice(query: Query) -> bool:
    """Could INSIDE stand below or above something?"""
    return query.inside is not None and filters_first(make_plan(replace(query, hint="INSIDE LAST")))


def filters_first(plan: Plan) -> bool:
    """Does INSIDE stand above other filters?"""
    for node in spine(plan.root):
        if isinstance(node, Inside):
            return any(isinstance(below, Select | Join) for below in spine(node.input))
    return False


def subject_conditions(plan: Plan) -> list[Expression]:
    """What is asked of the object and the region of a query table that it meets."""
    found: list[Expression] = []
    for node in spine(plan.root):
        if isinstance(node, Select):
            found += conjuncts(node.condition)
    return found


def join_conditions(plan: Plan) -> list[Expression]:
    """What is asked of an object beside the rows of tables, those of the tables alone first."""
    found: list[Expression] = []
    for node in spine(plan.root):
        if isinstance(node, Join):
            if isinstance(node.table, Select):
                found += conjuncts(node.table.condition)
            found += conjuncts(node.condition)
    return found
