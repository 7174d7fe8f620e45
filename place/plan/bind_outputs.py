"""Binding SELECT, GROUP BY and HAVING: what becomes of the combinations that were chosen."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from place.model.schema import column_names, find_column
from place.plan.bind_expression import AGGREGATES, ExpressionBinder
from place.plan.expression import Aggregate, Distance, Expression, show, sources_of
from place.plan.query import Output, Source
from place.sql import statements as s
from place.sql.limits import check_outputs
from place.sql.statements import Select, position_of, wrong


@dataclass(frozen=True)
class Outputs:
    """What becomes of the combinations that were chosen: groups, aggregates and columns."""

    groups: tuple[Expression, ...] | None
    aggregates: tuple[Aggregate, ...]
    having: Expression | None
    outputs: tuple[Output, ...]

    def sources(self) -> frozenset[int]:
        """The positions in FROM whose rows they read."""
        read = [*(self.groups or ()), *(a.argument for a in self.aggregates if a.argument)]
        if self.groups is None:
            read += [output.expression for output in self.outputs]
        return frozenset().union(*map(sources_of, read))


def bind_outputs(select: Select, sources: tuple[Source, ...]) -> Outputs:
    """SELECT, GROUP BY and HAVING, or a StatementError."""
    if not _is_aggregated(select):
        check_outputs(_count_outputs(select, sources), select.at)
        binder = ExpressionBinder(sources, clause="SELECT")
        outputs = [output for item in select.items for output in _bind_item(item, binder, sources)]
        return Outputs(None, (), None, tuple(outputs))
    groups = tuple(_bind_group(select, node, sources) for node in select.group_by)
    aggregates: list[Aggregate] = []
    binder = ExpressionBinder(sources, groups, aggregates, "SELECT")
    outputs = []
    for item in select.items:
        if item.expression is None:
            raise wrong("* cannot be combined with aggregates", item.at, hint="name the columns")
        outputs.extend(_bind_item(item, binder, sources))
    having = None
    if select.having is not None:
        binder.clause = "HAVING"
        having = binder.condition(select.having)
    return Outputs(groups, tuple(aggregates), having, tuple(outputs))


def _count_outputs(select: Select, sources: tuple[Source, ...]) -> int:
    """How many columns an answer has, before any of them is made: a * stands for many."""
    count = 0
    for item in select.items:
        if item.expression is not None:
            count += 1
        else:
            wanted = item.table.text.casefold() if item.table is not None else None
            shown = (s for s in sources if not s.is_hidden)
            chosen = (s for s in shown if wanted in (None, s.alias.casefold()))
            count += sum(len(list(column_names(source.relation.columns))) for source in chosen)
    return count


def _is_aggregated(select: Select) -> bool:
    if select.group_by or select.having is not None:
        return True
    return any(
        isinstance(node, exp.Anonymous) and node.this in AGGREGATES
        for item in select.items
        if item.expression is not None
        for node in item.expression.walk()
    )


def _bind_group(select: Select, node: exp.Expr, sources: tuple[Source, ...]) -> Expression:
    """A key of GROUP BY: an expression, the position of an item of SELECT, or its alias."""
    if isinstance(node, exp.Literal) and not node.is_string:
        index = int(node.this) if node.this.isdecimal() else 0
        if not 1 <= index <= len(select.items):
            raise wrong(
                f"GROUP BY {node.this}: there is no such item in SELECT",
                position_of(node),
                expected=f"a number from 1 to {len(select.items)}, or a column",
            )
        node = select.items[index - 1].expression or node
    elif isinstance(node, exp.Column) and not node.table:
        known = any(
            find_column(source.relation.columns, node.name) is not None
            for source in sources
            if not source.is_hidden
        )
        for item in select.items:
            alias = item.alias.text.casefold() if item.alias else None
            if not known and alias == node.name.casefold() and item.expression is not None:
                node = item.expression
                break
    return ExpressionBinder(sources, clause="GROUP BY").bind(node)


def _bind_item(
    item: s.SelectItem, binder: ExpressionBinder, sources: tuple[Source, ...]
) -> list[Output]:
    if item.expression is not None:
        bound = binder.bind(item.expression)
        if item.alias is not None:
            return [Output(item.alias.text, bound)]
        return [Output(_name_of(item.expression, bound), bound)]
    shown = [source for source in sources if not source.is_hidden]
    chosen = [
        source
        for source in shown
        if item.table is None or source.alias.casefold() == item.table.text.casefold()
    ]
    if not chosen and item.table is not None:
        raise wrong(
            f'"{item.table.text}" is not in FROM',
            item.table.at,
            hint="relations in FROM: " + ", ".join(source.alias for source in shown),
        )
    return [
        Output(name, binder.bind(_reference(source.alias, name)))
        for source in chosen
        for name in column_names(source.relation.columns)
    ]


def _name_of(node: exp.Expr, bound: Expression) -> str:
    """What a column of the answer is called that nobody gave a name; DISTANCE as it was written."""
    if isinstance(node, exp.Column):
        return str(node.name)
    if not isinstance(bound, Distance) or not isinstance(node, exp.Anonymous):
        return show(bound)
    places = ((bound.ax, bound.ay), (bound.bx, bound.by))
    shown = [
        part.name if isinstance(part, exp.Column) else f"POINT ({show(x)}, {show(y)})"
        for part, (x, y) in zip(node.expressions, places, strict=True)
    ]
    return f"DISTANCE({', '.join(shown)})"


def _reference(table: str, column: str) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(column, quoted=True), table=exp.to_identifier(table, quoted=True)
    )
