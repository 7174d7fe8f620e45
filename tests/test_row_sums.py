"""SUM and AVG over the readings of a set are worth what the reference says, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from place.engine import row_sums
from place.engine.columns import DTYPES
from place.engine.row_sums import sum_rows
from place.model.types import LARGEST, SMALLEST, Type
from place.plan.evaluate import call

WHOLES = [0, 1, -2, 3, 7, 2**53 + 1, -(2**53) - 1, LARGEST, LARGEST - 1, SMALLEST]
DOUBLES = [0.0, -0.0, 1.0, 0.1, -0.7, 3.3, 1e16, -1e16, 1e300, -1e300, 1.7e308, -1.7e308, 5e-324]
VALUES: dict[Type, list[Any]] = {
    Type.BIGINT: WHOLES,
    Type.INTERVAL: WHOLES,
    Type.DOUBLE: DOUBLES,
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
@settings(deadline=None)
def test_sums_and_means_of_rows_are_those_of_the_reference(kind: Type, data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 6))
    row = st.lists(st.none() | st.sampled_from(VALUES[kind]), min_size=width, max_size=width)
    rows = data.draw(st.lists(row, max_size=8))
    assert found_of(rows, width, kind) == expected_of(rows, kind)


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3)))
@example([[1.0, 1e100, -1e100], [1e308, 1e308, -1e308], [1e308, 1e308, 1e308], [5e-324, 1e308, 0]])
@settings(deadline=None)
def test_sums_are_rounded_once(rows: list[list[float]]) -> None:
    assert found_of(rows, 3, Type.DOUBLE) == expected_of(rows, Type.DOUBLE)


def test_rows_are_summed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums, "PIECE", 3)
    rows: list[list[Any]] = [[float(k), 10.0**k, None] for k in range(-4, 6)]
    assert found_of(rows, 3, Type.DOUBLE) == expected_of(rows, Type.DOUBLE)


def found_of(rows: list[list[Any]], width: int, kind: Type) -> list[tuple[str, str]]:
    """The sum and the mean of each row, written out; what stands for NULL is no number."""
    blank = np.nan if kind is Type.DOUBLE else 99
    given_values = [[blank if value is None else value for value in row] for row in rows]
    values = np.array(given_values, DTYPES[kind]).reshape(-1, width)
    present = np.array([[value is not None for value in row] for row in rows], np.bool_)
    is_interval = kind is Type.INTERVAL
    found = sum_rows(values, present.reshape(-1, width), is_interval=is_interval)
    sums = found.sums.view(DTYPES[kind]).tolist()
    means = found.means.view(np.int64 if is_interval else np.float64).tolist()
    return [
        (repr(None if no_sum else total), repr(None if no_mean else mean))
        for total, no_sum, mean, no_mean in zip(
            sums, found.no_sum.tolist(), means, found.no_mean.tolist(), strict=True
        )
    ]


def expected_of(rows: list[list[Any]], kind: Type) -> list[tuple[str, str]]:
    """The same by the definition."""
    of_mean = Type.INTERVAL if kind is Type.INTERVAL else Type.DOUBLE
    return [(repr(call("SUM", row, kind)), repr(call("AVG", row, of_mean))) for row in rows]
