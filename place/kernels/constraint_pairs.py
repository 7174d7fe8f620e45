"""Do two readings fit two variables of a trigger? The times, the order, the DISTANCE, comparisons.

A distance is decided by the same float64 expressions as in `place/model/space.py`; measures decide
all but those that lie on a border to a rounding.
"""

from __future__ import annotations

import math

from place.kernels.constraint_tables import (
    AFTER,
    AT_MOST,
    BEFORE,
    BEGIN,
    EARLIER,
    END,
    EQUAL,
    FLAGS,
    GREATER,
    HAS_LEAST,
    HAS_MOST,
    LATER,
    LEAST,
    LEAST_OPEN,
    LEAST_SURE,
    LEAST_UNSURE,
    LEFT,
    LESS,
    MOST,
    MOST_OPEN,
    MOST_SURE,
    MOST_UNSURE,
    NEVER,
    ON_SPHERE,
    OPERATOR,
    RIGHT,
    SEQUENCE,
    TIME,
    UNBOUNDED,
    UNEQUAL,
    UNKNOWN,
    X,
    Y,
    Z,
)
from place.kernels.uncounted import uncounted, uncounted_inline

EARTH_RADIUS = 6_371_008.8


@uncounted_inline
def latest_instant(time, later, period):
    """The last instant at which a reading may come that is at most so much later."""
    if later >= UNBOUNDED:
        return NEVER
    if period == 0:
        return time + later
    return -(-(time + later) // period) * period


@uncounted
def _is_apart(measure, flags, bounds, pair):
    """Is a distance within the bounds of a pair, given its measure? NaN is not."""
    if flags & HAS_MOST:
        if not measure <= bounds[pair, MOST_UNSURE]:
            return False
        if measure >= bounds[pair, MOST_SURE]:
            distance = math.sqrt(measure)
            if flags & ON_SPHERE:
                distance = 2 * EARTH_RADIUS * math.asin(min(1.0, distance / 2))
            most = bounds[pair, MOST]
            if not (distance < most if flags & MOST_OPEN else distance <= most):
                return False
    if flags & HAS_LEAST:
        if not measure >= bounds[pair, LEAST_SURE]:
            return False
        if measure <= bounds[pair, LEAST_UNSURE]:
            distance = math.sqrt(measure)
            if flags & ON_SPHERE:
                distance = 2 * EARTH_RADIUS * math.asin(min(1.0, distance / 2))
            least = bounds[pair, LEAST]
            return distance > least if flags & LEAST_OPEN else distance >= least
    return True


@uncounted
def _compare(left, operator, right):
    """Does a comparison of two features hold? Of an unknown one it does not."""
    if left == UNKNOWN or right == UNKNOWN:
        return False
    if operator == EQUAL:
        return left == right
    if operator == UNEQUAL:
        return left != right
    if operator == LESS:
        return left < right
    if operator == AT_MOST:
        return left <= right
    if operator == GREATER:
        return left > right
    return left >= right


@uncounted
def _all_hold(comparisons, begin, end, features, one, other):
    for c in range(begin, end):
        left, right = features[one, comparisons[c, LEFT]], features[other, comparisons[c, RIGHT]]
        if not _compare(left, comparisons[c, OPERATOR], right):
            return False
    return True


@uncounted_inline
def is_consistent(rules, shelf, pair, one, other):
    """Do the readings at two slots fit the first and the second variable of a pair?"""
    readings, places = shelf.readings, shelf.places
    rows = (readings, places, one, readings, places, other)
    return do_rows_fit(rules, shelf.features, pair, one, other, *rows)


@uncounted_inline
def do_rows_fit(rules, features, pair, slot, other_slot, table, places, row, others, sites, other):
    """The same of a row of one table and another of another, which have times, sequence numbers and
    places in the same columns: readings, rows of lists, values of domains."""
    pairs = rules.pairs
    later = others[other, TIME] - table[row, TIME]
    if later > pairs[pair, LATER] or -later > pairs[pair, EARLIER]:
        return False
    flags = pairs[pair, FLAGS]
    if flags & (HAS_MOST | HAS_LEAST):
        du = places[row, X] - sites[other, X]
        dv = places[row, Y] - sites[other, Y]
        dw = places[row, Z] - sites[other, Z]
        if not _is_apart(du * du + dv * dv + dw * dw, flags, rules.bounds, pair):
            return False
    if flags & (BEFORE | AFTER):
        is_before = table[row, SEQUENCE] < others[other, SEQUENCE]
        if (flags & BEFORE and not is_before) or (flags & AFTER and is_before):
            return False
    begin, end = pairs[pair, BEGIN], pairs[pair, END]
    if begin == end:
        return True
    return _all_hold(rules.comparisons, begin, end, features, slot, other_slot)
