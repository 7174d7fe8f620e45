"""Sums that are kept while values come and go are exact, and rounded once when they are read."""

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.engine.accumulate import Sums
from place.engine.multiset import as_numbers
from place.kernels.segments import sort_into_segments
from place.model.types import LARGEST, SMALLEST, Type
from place.plan.evaluate import round_half_even
from tests.harness.examples import examples

VALUES: dict[Type, list[Any]] = {
    Type.BIGINT: [0, 1, -2, 3, 2**53 + 1, -(2**53) - 1, LARGEST, SMALLEST],
    Type.DOUBLE: [0.0, 1.0, 0.1, -0.7, 1e16, -1e16, 1e300, -1e300, 1e-300, 5e-324, 2.5e-308],
    Type.INTERVAL: [1, 2, 4, -7, LARGEST, SMALLEST],
}


def nearest(exact: Fraction) -> float:
    """The nearest DOUBLE, as Python divides whole numbers."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def run_sums(
    sums: Sums, slots: list[int], terms: Any, weights: list[int], counts: list[int]
) -> tuple[list[tuple[int, bool]], list[tuple[int, bool]], list[int]]:
    """Add terms, all at one instant: sums and means (and whether there is none) of each slot."""
    segments = sort_into_segments(np.array(slots), np.zeros(len(slots), np.int64), 3)
    order = segments.order
    of_segments = np.array(counts, np.int64)[segments.slots]
    numbers, given_weights = as_numbers(terms)[order], np.array(weights, np.int64)[order]
    total, mean = sums.run(segments, numbers, given_weights, of_segments, 3)
    found = [
        list(zip(known.numbers.tolist(), known.nulls.tolist(), strict=True))  # type: ignore[union-attr]
        for known in (total, mean)
    ]
    return found[0], found[1], segments.slots.tolist()


def as_double(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))


@pytest.mark.parametrize("kind", [Type.DOUBLE, Type.BIGINT, Type.INTERVAL])
def test_sums_are_exact_whatever_the_weights(kind: Type) -> None:
    chance = random.Random(3)
    is_double, is_interval = kind is Type.DOUBLE, kind is Type.INTERVAL
    for _ in range(300):
        sums = Sums(is_double, is_interval)
        exact = [Fraction(0)] * 3
        for _ in range(chance.randrange(1, 6)):
            terms = chance.choices(VALUES[kind], k=chance.randrange(1, 5))
            weights = [chance.choice([1, -1, 3, 2**28, -(2**40), 2**57 - 1]) for _ in terms]
            slots = [chance.randrange(3) for _ in terms]
            for slot, term, weight in zip(slots, terms, weights, strict=True):
                exact[slot] += Fraction(term) * weight
            counts = [chance.choice([0, -1, 1, 2, 3, 7, 10, 2**31, 2**53 - 1]) for _ in range(3)]
            if is_interval:  # the mean of values is one; that of these sums need not be
                fits = [abs(exact[i]) <= LARGEST * counts[i] for i in range(3)]
                counts = [counts[i] if fits[i] else 0 for i in range(3)]
            given = np.array(terms, np.float64 if is_double else np.int64)
            totals, means, touched = run_sums(sums, slots, given, weights, counts)
            for slot, (total, no_total), (mean, no_mean) in zip(
                touched, totals, means, strict=True
            ):
                sum_of, count = exact[slot], counts[slot]
                is_empty = count <= 0
                if is_double:
                    assert no_total == no_mean == (is_empty or math.isinf(nearest(sum_of)))
                    if not no_total:
                        assert as_double(total) == nearest(sum_of)
                        assert as_double(mean) == nearest(sum_of) / count
                    continue
                assert no_mean == is_empty
                assert no_total == (is_empty or not SMALLEST <= sum_of <= LARGEST)
                if not no_total:
                    assert total == sum_of
                if is_empty:
                    assert mean == 0
                elif is_interval:
                    assert mean == round_half_even(int(sum_of), count)
                else:
                    assert as_double(mean) == int(sum_of) / count


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.integers(SMALLEST, LARGEST), st.integers(0, 2**40)), min_size=1),
    st.integers(1, LARGEST),
)
def test_means_of_whole_numbers_are_rounded_once(terms: list[tuple[int, int]], count: int) -> None:
    exact = sum(term * weight for term, weight in terms)
    weights = [weight for _, weight in terms]
    given = np.array([term for term, _ in terms])
    for divisor in (count, max(1, sum(weights))):
        counts = [0, divisor, 0]
        _, [(mean, _)], _ = run_sums(Sums(False), [1] * len(terms), given, weights, counts)
        assert as_double(mean) == exact / divisor
    _, [(mean, _)], _ = run_sums(Sums(False, True), [1] * len(terms), given, weights, counts)
    assert mean == round_half_even(exact, divisor)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.integers(2**53 - 8, 2**53 + 8),
    st.integers(1, 2**20),
    st.integers(0, 8),
    st.integers(-1, 1),
    st.sampled_from([1, -1]),
)
def test_means_in_the_middle_between_two_are_rounded_to_even(
    quotient: int, count: int, shift: int, more: int, sign: int
) -> None:
    total = sign * ((quotient * count << shift) + more)
    terms = [total >> 40, total & (2**40 - 1)]
    weights = [2**40, 1]
    for divisor in (count, 2 * count, 4 * count):
        given, counts = np.array(terms), [divisor, 0, 0]
        _, [(mean, _)], _ = run_sums(Sums(False), [0, 0], given, weights, counts)
        assert as_double(mean) == total / divisor
        _, [(mean, _)], _ = run_sums(Sums(False, True), [0, 0], given, weights, counts)
        assert mean == round_half_even(total, divisor)


@pytest.mark.parametrize("sign", [1, -1])
def test_many_large_weights_at_once(sign: int) -> None:
    count, weight = 5000, sign * (2**60 - 1)
    terms = np.full(count, 0.1)
    [(total, _)], _, _ = run_sums(Sums(True), [0] * count, terms, [weight] * count, [1, 0, 0])
    assert as_double(total) == nearest(Fraction(0.1) * weight * count)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_sums_are_rounded_to_the_nearest(terms: list[float]) -> None:
    ones = [1] * len(terms)
    [(total, none)], _, _ = run_sums(Sums(True), ones, np.array(terms), ones, [0, 1, 0])
    expected = nearest(sum(map(Fraction, terms), Fraction(0)))
    assert none == math.isinf(expected)
    assert none or as_double(total) == expected


HALVES = [1.0, 2.0**-53, 2.0**-54, 2.0**-105, 5e-324, 2.0**52, 0.5, 3 * 2.0**-54]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.sampled_from([*HALVES, *[-h for h in HALVES]]), min_size=1, max_size=8))
def test_ties_are_rounded_to_even(terms: list[float]) -> None:
    test_sums_are_rounded_to_the_nearest.hypothesis.inner_test(terms)  # type: ignore[attr-defined]
