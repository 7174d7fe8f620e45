"""Who is near whom, from the definition: kNN, kNN around a group of places, and RNN.

Docs/design.md says the same in words ("The order of the nearest", "Neighbours of a group", "Whose
neighbour I am").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Protocol, TypeVar

from place.model.reading import Key
from place.model.space import Point, Space, distance, measure
from place.model.types import Value


class Element(Protocol):
    """What is chosen: it has a key, or NULL for one, and an order among those of the same key."""

    @property
    def key(self) -> Value: ...

    @property
    def order(self) -> Any: ...


E = TypeVar("E", bound=Element)


def nearest_by(far: Callable[[Point], float], k: int, placed: Mapping[E, Point]) -> set[E]:
    """The first k by how far they are, and then by key."""

    def rank(element: E) -> tuple[Any, ...]:
        key = element.key
        return far(placed[element]), key is not None, 0 if key is None else key, element.order

    return set(sorted(placed, key=rank)[:k])


def nearest_to(center: Point, k: int, space: Space, placed: Mapping[E, Point]) -> set[E]:
    """The k nearest to a place (GPAC, section 4.2)."""
    return nearest_by(lambda point: measure(space, *center, *point), k, placed)


def nearest_together(
    centers: Sequence[Point], total: str, k: int, space: Space, placed: Mapping[E, Point]
) -> set[E]:
    """The k with the least sum, maximum or minimum of their distances to several places. Distances
    are those of DISTANCE, and are added in the order in which the places are written."""

    def far(point: Point) -> float:
        distances = [distance(space, *center, *point) for center in centers]
        if total == "SUM":
            return reduce(add, distances)
        return max(distances) if total == "MAX" else min(distances)

    return nearest_by(far, k, placed)


def reverse_nearest(
    center: Point, key: Key | None, k: int, space: Space, placed: Mapping[E, Point]
) -> set[E]:
    """Those to whom fewer than k of the others are nearer than the centre is.

    Of two that are equally near the one with the smaller key is nearer. A centre without a `key`
    among theirs, a point or an object of another stream, is nearer than all that are as near.
    """

    def is_nearer(other: E, far: float, limit: float) -> bool:
        is_smaller = key is not None and other.key is not None and other.key < key  # type: ignore[operator]
        return far < limit or (far == limit and is_smaller)

    def count(element: E, place: Point) -> int:
        limit = measure(space, *place, *center)
        others = ((o, measure(space, *place, *at)) for o, at in placed.items() if o != element)
        return sum(is_nearer(other, far, limit) for other, far in others)

    return {element for element, place in placed.items() if count(element, place) < k}
