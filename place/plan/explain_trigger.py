"""EXPLAIN TRIGGER."""

from __future__ import annotations

from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.query import Query


def explain_trigger(query: Query, catalog: Catalog, observed: Observed | None = None) -> list[str]:
    return []
