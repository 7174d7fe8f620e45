"""What was seen of a query in a cell: for EXPLAIN ANALYZE, and for the planner."""

from __future__ import annotations

from collections import Counter

from place.engine.cell import Cell
from place.plan.explain import Observed


def observed(cell: Cell, name: str) -> Observed:
    """What has passed through the plan of a query since it began."""
    if name in cell.triggers.registered:
        return cell.triggers.observed(name)
    number = cell.queries.numbers.get(name)
    chain = None if number is None else cell.chains.of(number)
    if number is None or chain is None:  # it is of another column
        return Observed()
    compiled, counters = cell.queries.compiled[number], cell.counters
    base = cell.chains.candidates_of(number)
    key = cell.queries.compiled[base].key
    rows = {
        "scan": counters.since(base, (key.subject, key.readings)),
        "inside": counters.rows("inside", base),
    }
    if key.before is None:
        rows["select"] = counters.rows("select", base)
    else:
        edge = "select" if key.before.joins is None else "join"
        rows[edge] = counters.since(base, key)
    seconds = {edge: counters.seconds((key, edge)) for edge in ("inside", "select")}
    for operator in chain.operators:
        rows.setdefault(operator.name, counters.rows(operator.name, number))
        spent = counters.seconds((id(chain), operator.name))
        seconds[operator.name] = seconds.get(operator.name, 0.0) + spent
    if any(operator.name == "answer" for operator in chain.operators):
        rows["answer"] = counters.rows("answer", number)
    join = cell.joins.get(compiled.key)
    shared = 1 if join is None else max(1, join.queries)
    notes: tuple[str, ...] = ()
    if compiled.asked.is_join:
        for edge in ("inside", "select"):  # asked of elements, which many queries share
            rows.pop(edge, None)
        shared = len(chain.queries)
        notes = chain.explained()
    return Observed(cell.knowledge(base), Counter(rows), Counter(seconds), shared, notes)
