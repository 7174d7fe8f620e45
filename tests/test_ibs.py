"""What Spatial Join CQ is measured against has to be right, too: trees beside plain comparison."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.conditions import Conditions, draw_narrow_rules, draw_readings, draw_rules
from bench.ibs import Ibs, make_tree

Floats = NDArray[np.float64]


def compared(readings: Floats, rules: Conditions) -> set[tuple[int, int]]:
    within = (rules.low[None] <= readings[:, None]) & (readings[:, None] <= rules.high[None])
    return set(zip(*(found.tolist() for found in np.nonzero(within.all(axis=2))), strict=True))


def check(readings: Floats, rules: Conditions) -> None:
    found = Ibs(*rules).find(readings)
    pairs = list(zip(*(column.tolist() for column in found), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == compared(readings, rules)


@pytest.mark.parametrize("attributes", [1, 2, 4, 8])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_trees_find_what_comparison_finds(attributes: int, share: float) -> None:
    check(draw_readings(60, attributes), draw_rules(300, attributes, share))
    check(draw_readings(60, attributes, skew=0.8), draw_narrow_rules(70, attributes, 0.2))


def test_values_that_are_constants() -> None:
    chance = np.random.default_rng(1)
    bounds = np.sort(chance.integers(0, 5, (2, 150, 2)), axis=0).astype(float)
    check(chance.integers(-1, 6, (80, 2)).astype(float), Conditions(bounds[0], bounds[1]))


def test_a_predicate_stands_as_high_as_it_can() -> None:
    tree = make_tree(np.array([-np.inf, 0.2, 0.5]), np.array([0.5, np.inf, 0.5]))
    assert tree.constants.tolist() == [0.2, 0.5]
    lists = [tree.lists[a:b].tolist() for a, b in zip(tree.starts, tree.starts[1:], strict=False)]
    # The root is 0.5: all below it holds for the first predicate, and all above for the second.
    assert lists[3:] == [[0], [0, 1, 2], [1]]
    assert lists[:3] == [[], [1], [1]]


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_rules_are_drawn_as_the_paper_says(share: float) -> None:
    low, high = draw_rules(4_000, 4, share)
    bounded = (low > -np.inf) | (high < np.inf)
    assert (bounded.sum(axis=1) == 4 * share).all()
    kinds = [(low > -np.inf) & (high == np.inf), (low == -np.inf) & (high < np.inf)]
    for kind in kinds:
        assert (kind & bounded).sum() / bounded.sum() == pytest.approx(1 / 3, abs=0.03)
    assert (low <= high).all()
    held = (low[:, 0] <= 0.5) & (high[:, 0] >= 0.5)
    assert held[bounded[:, 0]].mean() == pytest.approx(0.5, abs=0.03)
    skewed = draw_readings(5_000, 3, skew=0.6)
    dense = (np.abs(skewed - 0.5) <= 0.05).all(axis=1)
    assert dense.mean() == pytest.approx(0.6, abs=0.03)
