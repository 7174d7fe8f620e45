"""What triggers and joins hold, and what came of it: counted by cells, added up in manifests, and
called by one name in Prometheus by a server and by `place status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

GAUGE, COUNTER = "gauge", "counter"
Counts = Mapping[str, Sequence[int]]
"""The counts of triggers, or of joins, by their names, in the order of their figures."""
Named = Mapping[str, Mapping[str, int]]
"""The same, each count by its key."""


class Figure(NamedTuple):
    """A count: its name and kind in Prometheus, what it tells, and its title in a table."""

    name: str
    kind: str
    text: str
    title: str


TRIGGER_FIGURES = {
    "kept": Figure(
        "trigger_readings",
        GAUGE,
        "Readings kept, once for each variable of a trigger.",
        "readings kept",
    ),
    "matches": Figure("trigger_matches_total", COUNTER, "Matches found.", "matches"),
    "alerts": Figure("trigger_alerts_total", COUNTER, "Alerts told.", "alerts"),
    "pairs": Figure(
        "trigger_pairs_total", COUNTER, "Pairs of readings compared.", "pairs compared"
    ),
}
"""What is counted of a trigger."""
JOIN_FIGURES = {
    "kept": Figure(
        "join_readings", GAUGE, "Readings in the windows of a join, in all cells.", "readings kept"
    ),
    "combinations": Figure(
        "join_combinations",
        GAUGE,
        "Combinations kept by a join with kNN to choose from.",
        "combinations",
    ),
    "queries": Figure("join_queries", GAUGE, "Queries that share a join.", "queries"),
}
"""What is counted of a join, under the name of its first query."""
FIGURES = {"trigger": TRIGGER_FIGURES, "join": JOIN_FIGURES}
"""By what the figures are of, as the label in Prometheus says."""


def counts_since(
    figures: Mapping[str, Figure], before: Counts, found: Iterable[Counts]
) -> dict[str, list[int]]:
    """Counts as cells tell them for one tick: what is held now adds up over the cells, and what has
    come is added to what came before."""
    counted: dict[str, list[int]] = {}
    goes_on = [figure.kind == COUNTER for figure in figures.values()]
    for counts in found:
        for name, told in counts.items():
            if name not in counted:
                past = before.get(name, [0] * len(goes_on))
                counted[name] = [p if goes else 0 for p, goes in zip(past, goes_on, strict=True)]
            counted[name] = [a + b for a, b in zip(counted[name], told, strict=True)]
    return counted


def named(figures: Mapping[str, Figure], counts: Counts) -> dict[str, dict[str, int]]:
    """Each count by its key."""
    return {name: dict(zip(figures, told, strict=True)) for name, told in counts.items()}


def told_of(kinds: Mapping[str, Named]) -> Iterator[tuple[Figure, str, dict[str, int]]]:
    """The figures of triggers and of joins: each with the label of its values, and the values."""
    for label, figures in FIGURES.items():
        for key, figure in figures.items():
            yield figure, label, {name: counts[key] for name, counts in kinds[label].items()}
