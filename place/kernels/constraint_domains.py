"""The domains of variables beside a new reading: kept readings that fit it, by lists or by squares.

By lists, the domain of a variable is read from its newest reading back until times are too early.
By squares, a layer is asked once for all variables that a reading qualifies for: what is
found near it is compared by the members that it is kept for, and put into a list of *hits* for each
of the reading's variables and each other role.
"""

from __future__ import annotations

import numpy as np

from place.kernels.constraint_entries import key_of, square_on
from place.kernels.constraint_pairs import do_rows_fit, is_consistent
from place.kernels.constraint_tables import (
    ASKED,
    ASKED_FOR,
    BEYOND,
    COUNT,
    DONE,
    EARLIER,
    FIRST,
    FLAGS,
    GRAPH,
    HAS_MOST,
    KEPT,
    KEY,
    KIND,
    LATER,
    LAYER,
    LIST,
    LISTED_SLOT,
    MASK,
    MATCHED,
    MEMBERS,
    MORE_HITS,
    MOST_UNSURE,
    MOST_VARIABLES,
    NEEDS_PLACE,
    NEXT,
    ORIGIN,
    PAIRS,
    REACHABLE,
    REACHED,
    ROLE,
    ROLES,
    SCALE,
    SLOT,
    STEPS,
    TIME,
    VALUE_ENTRY,
    VALUE_MARK,
    VALUE_SLOT,
    WANTED,
    X,
    Y,
    Z,
)
from place.kernels.uncounted import uncounted_inline

ROUNDING = 4e-16
"""How much, in relation to it, a coordinate may be wrong after an addition."""


@uncounted_inline
def domain_by_list(rules, shelf, bench, graph, role, slot, j, at):
    """Put the readings in the list of a variable that fit a new one behind the first `at` values.

    Returns how many there are then, −1 if there is no room, and how many pairs were compared. What
    expires before the new reading is not in the list any more.
    """
    values, lists, spots = bench.values, shelf.lists, shelf.spots
    readings, places = shelf.readings, shelf.places
    pair = rules.graphs[graph, PAIRS] + role * rules.graphs[graph, ROLES] + j
    variable = rules.graphs[graph, ORIGIN] + j
    time = readings[slot, TIME]
    lowest, highest = time - rules.pairs[pair, EARLIER], time + rules.pairs[pair, LATER]
    x, y, z = places[slot, X], places[slot, Y], places[slot, Z]
    has_most = rules.pairs[pair, FLAGS] & HAS_MOST
    unsure = rules.bounds[pair, MOST_UNSURE] if has_most else np.inf
    begin = rules.variables[variable, LIST]
    last = begin + rules.variables[variable, KEPT] - 1
    while last >= begin and lists[last, TIME] > highest:
        last -= 1
    first = _first_since(lists, begin, last + 1, lowest)
    for row in range(last, first - 1, -1):
        # What is surely too far is known by its place alone: most rows of a list are not read.
        du, dv, dw = x - spots[row, X], y - spots[row, Y], z - spots[row, Z]
        if has_most and not du * du + dv * dv + dw * dw <= unsure:
            continue
        other = lists[row, LISTED_SLOT]
        rows = (readings, places, slot, lists, spots, row)
        if other != slot and do_rows_fit(rules, shelf.features, pair, slot, other, *rows):
            if at == len(values):
                return -1, last + 1 - row
            for column in range(values.shape[1]):
                values[at, column] = lists[row, column]
            values[at, VALUE_ENTRY], values[at, VALUE_MARK] = row, 0
            at += 1
    return at, last + 1 - first


@uncounted_inline
def _first_since(lists, low, high, time):
    """The first of the rows from `low` to below `high`, ordered by times, that is not before a
    time; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if lists[middle, TIME] < time:
            low = middle + 1
        else:
            high = middle
    return low


@uncounted_inline
def domain_by_hits(shelf, bench, position, j, at):
    """Put the hits of a reading's variable for another behind the first `at` values. Returns how
    many there are then, −1 if there is no room."""
    values, hits = bench.values, bench.hits
    hit = bench.heads[position * MOST_VARIABLES + j]
    while hit >= 0:
        if at == len(values):
            return -1
        slot = hits[hit, 2]
        for column in range(values.shape[1]):
            values[at, column] = shelf.readings[slot, column]
        values[at, VALUE_ENTRY], values[at, VALUE_MARK] = hits[hit, 1], 0
        values[at, VALUE_SLOT] = slot
        at += 1
        hit = hits[hit, 0]
    return at


@uncounted_inline
def find_hits(rules, shelf, bench, names, begin, end, slot, number):
    """Ask each layer of a reading's variables for what fits them. `number` is of this event."""
    layers, variables = rules.layers, rules.variables
    is_nowhere = np.isnan(shelf.places[slot, X])
    for p in range(begin, end):
        variable = names[p]
        graph = variables[variable, GRAPH]
        layer = rules.graphs[graph, LAYER]
        if layer < 0:
            continue
        matched = rules.graphs[graph, MATCHED]
        for j in range(matched):
            bench.heads[(p - begin) * MOST_VARIABLES + j] = -1
        if variables[variable, ROLE] == matched:
            continue
        if layers[layer, ASKED] != number:
            layers[layer, ASKED], layers[layer, ASKED_FOR] = number, 0
        if not (is_nowhere and variables[variable, NEEDS_PLACE]):
            layers[layer, ASKED_FOR] |= variables[variable, WANTED]
    used = 0
    for p in range(begin, end):
        layer = rules.graphs[variables[names[p], GRAPH], LAYER]
        if layer >= 0 and layers[layer, ASKED] == number and layers[layer, ASKED_FOR] != 0:
            used = _ask(rules, shelf, bench, names, begin, end, slot, layer, used)
            if used < 0:
                return MORE_HITS
            layers[layer, ASKED_FOR] = 0
    return DONE


@uncounted_inline
def _ask(rules, shelf, bench, names, begin, end, slot, layer, used):
    """Look into the squares of a layer near a reading. Returns how many hits there are then."""
    kind, asked_for = rules.layers[layer, KIND], rules.layers[layer, ASKED_FOR]
    scale, reach = rules.lengths[layer, SCALE], rules.lengths[layer, REACHED]
    x1 = x2 = y1 = y2 = z1 = z2 = np.int64(0)
    if kind > 0:
        x1, x2 = _window(shelf.places[slot, X], reach, scale)
        y1, y2 = _window(shelf.places[slot, Y], reach, scale)
    if kind > 2:
        z1, z2 = _window(shelf.places[slot, Z], reach, scale)
    entries, squares = shelf.entries, shelf.squares
    mask = len(squares) - 1
    for x in range(x1, x2 + 1):
        for y in range(y1, y2 + 1):
            for z in range(z1, z2 + 1):
                key = key_of(layer, x, y, z)
                entry = squares[key & mask]
                while entry >= 0:
                    if entries[entry, MASK] & asked_for and entries[entry, KEY] == key:
                        used = _meet(rules, shelf, bench, names, begin, end, slot, entry, used)
                        if used < 0:
                            return used
                    entry = entries[entry, NEXT]
    return used


@uncounted_inline
def _window(value, reach, scale):
    """The squares along an axis in which near places lie: those beside it at most."""
    middle, error = square_on(value, scale), reach + abs(value) * ROUNDING
    low, high = square_on(value - error, scale), square_on(value + error, scale)
    return max(middle - 1, low), min(middle + 1, high)


@uncounted_inline
def _meet(rules, shelf, bench, names, begin, end, slot, entry, used):
    """Compare a reading's variables with the members of an entry, both in ascending order."""
    members, variables, hits = shelf.members, rules.variables, bench.hits
    other = shelf.entries[entry, SLOT]
    if other == slot:
        return used
    m = shelf.entries[entry, MEMBERS]
    m_end = m + shelf.entries[entry, COUNT]
    p = begin
    while p < end and m < m_end:
        variable = names[p]
        first = variables[variable, FIRST]
        if members[m] < first:
            m += 1
            continue
        beyond = variables[variable, BEYOND]
        if members[m] >= beyond:
            p += 1
            continue
        graph, role = variables[variable, GRAPH], variables[variable, ROLE]
        if role < rules.graphs[graph, MATCHED]:
            row = rules.graphs[graph, PAIRS] + role * rules.graphs[graph, ROLES]
            k = m
            while k < m_end and members[k] < beyond:
                j = members[k] - first
                k += 1
                if j == role or rules.pairs[row + j, REACHABLE] == 0:
                    continue
                rules.graphs[graph, STEPS] += 1
                if is_consistent(rules, shelf, row + j, slot, other):
                    if used == len(hits):
                        return -1
                    head = (p - begin) * MOST_VARIABLES + j
                    hits[used, 0] = bench.heads[head]
                    hits[used, 1], hits[used, 2] = entry, other
                    bench.heads[head] = used
                    used += 1
        p += 1
    return used
