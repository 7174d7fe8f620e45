"""The order in which matches are told that become known at the same instants."""

from __future__ import annotations

import numpy as np
from numba import njit

FEW = 16
"""Matches of an instant that are put in order one by one."""


@njit(nogil=True, cache=True)
def order_runs(instants, facts):
    """Matches whose instants ascend, in the order of instants and then of the columns of facts."""
    order = np.arange(len(instants))
    room = np.empty(len(instants), np.int64)
    begin = 0
    while begin < len(instants):
        end = begin + 1
        while end < len(instants) and instants[end] == instants[begin]:
            end += 1
        for low in range(begin, end, FEW):
            _insert(order, facts, low, min(low + FEW, end))
        size = FEW
        while size < end - begin:
            for low in range(begin, end - size, 2 * size):
                _merge(order, room, facts, low, low + size, min(low + 2 * size, end))
            size *= 2
        begin = end
    return order


@njit(nogil=True, cache=True)
def _is_less(facts, one, other):
    for column in range(facts.shape[1]):
        if facts[one, column] != facts[other, column]:
            return facts[one, column] < facts[other, column]
    return False


@njit(nogil=True, cache=True)
def _insert(order, facts, begin, end):
    for k in range(begin + 1, end):
        item, at = order[k], k
        while at > begin and _is_less(facts, item, order[at - 1]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = item


@njit(nogil=True, cache=True)
def _merge(order, room, facts, low, middle, high):
    """Two parts that are in order become one."""
    for k in range(low, middle):
        room[k] = order[k]
    left, right = low, middle
    for k in range(low, high):
        if left == middle:
            break
        if right < high and _is_less(facts, order[right], room[left]):
            order[k] = order[right]
            right += 1
        else:
            order[k] = room[left]
            left += 1
