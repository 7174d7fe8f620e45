"""What readings are kept for, as rows: told, to be saved, and taken back."""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.constraint_absence import let_wait
from place.kernels.constraint_entries import add_member, keep_in_square
from place.kernels.constraint_lists import has_room, keep_in_list
from place.kernels.constraint_readings import last_use
from place.kernels.constraint_tables import (
    COPIES,
    COUNT,
    DONE,
    EXPIRY,
    GONE,
    GRAPH,
    HEAPED,
    HOLDERS,
    KEPT,
    LAYER,
    LIST,
    LISTED_EXPIRY,
    LISTED_SLOT,
    MATCHED,
    MEMBERS,
    MORE_ENTRIES,
    MORE_MEMBERS,
    MORE_ROWS,
    MORE_SQUARES,
    OWNER,
    ROLE,
    ROOM,
    SEQUENCE,
    SLOT,
    STORED,
    STORED_AT,
    TIME,
    USE,
    USED_ENTRIES,
    USED_MEMBERS,
)


@njit(nogil=True, cache=True)
def list_entries(rules, shelf, state, count):
    """The slot, the variable and the last instant of all that is kept, which is `count` rows."""
    rows, at = np.empty((3, count), np.int64), 0
    for variable in range(len(rules.variables)):
        if rules.variables[variable, ROOM] == 0:
            continue
        begin = rules.variables[variable, LIST]
        for row in range(begin, begin + rules.variables[variable, KEPT]):
            rows[0, at], rows[1, at] = shelf.lists[row, LISTED_SLOT], variable
            rows[2, at] = shelf.lists[row, LISTED_EXPIRY]
            at += 1
    for entry in range(state[USED_ENTRIES]):
        if shelf.terms[entry, OWNER] == GONE:
            continue
        begin = shelf.entries[entry, MEMBERS]
        for k in range(shelf.entries[entry, COUNT]):
            rows[0, at] = shelf.entries[entry, SLOT]
            rows[1, at] = shelf.members[begin + k]
            rows[2, at] = shelf.terms[entry, EXPIRY]
            at += 1
    return rows


@njit(nogil=True, cache=True)
def list_copies(shelf, state):
    """The entries of squares with their slots and layers."""
    rows, at = np.empty((3, state[COPIES]), np.int64), 0
    for entry in range(state[USED_ENTRIES]):
        if shelf.terms[entry, OWNER] != GONE:
            rows[0, at], rows[1, at] = entry, shelf.entries[entry, SLOT]
            rows[2, at] = shelf.terms[entry, OWNER]
            at += 1
    return rows


@njit(nogil=True, cache=True)
def restore_entries(rules, shelf, state, limits, slots, variables, expiries, known, begin):
    """Keep readings for variables until instants, from row `begin` on, in the order of sequences.

    `known` is the entry of a square in which the reading is already, −1 if it is in none. Returns
    DONE or what has to be larger, and the row that it is for.
    """
    for k in range(begin, len(slots)):
        if state[HEAPED] == len(shelf.entries):
            return MORE_ENTRIES, k
        if state[COPIES] == len(shelf.squares):
            return MORE_SQUARES, k
        slot, variable, expiry = slots[k], variables[k], expiries[k]
        graph, role = rules.variables[variable, GRAPH], rules.variables[variable, ROLE]
        layer, use = rules.graphs[graph, LAYER], expiry
        if role < rules.graphs[graph, MATCHED]:
            use = last_use(rules, limits, graph, role, shelf.readings[slot, TIME])
        else:
            layer = -1
        if layer < 0:
            if not has_room(rules, shelf, state, variable):
                return MORE_ROWS, k
            keep_in_list(rules, shelf, state, variable, slot, expiry, use)
            continue
        entry, number = known[k], shelf.readings[slot, SEQUENCE]
        if entry < 0 and rules.layers[layer, STORED] == number:
            entry = rules.layers[layer, STORED_AT]
        size = shelf.entries[entry, COUNT] if entry >= 0 else 0
        if state[USED_MEMBERS] + 2 * max(1, size) > len(shelf.members):
            return MORE_MEMBERS, k
        if entry < 0:
            entry = keep_in_square(rules, shelf, state, layer, slot, expiry, use)
            rules.layers[layer, STORED], rules.layers[layer, STORED_AT] = number, entry
        terms = shelf.terms
        terms[entry, EXPIRY] = max(terms[entry, EXPIRY], expiry)
        terms[entry, USE] = max(terms[entry, USE], use)
        add_member(rules, shelf, state, entry, variable)
    return DONE, len(slots)


@njit(nogil=True, cache=True)
def restore_waiting(shelf, outlet, state, graphs, deadlines, completing, slots):
    """Let matches wait; there is room for them."""
    for k in range(len(graphs)):
        let_wait(shelf, outlet, state, graphs[k], deadlines[k], completing[k], slots[k], 0)


@njit(nogil=True, cache=True)
def free_slots(readings, slots, free, count):
    """Slots whose readings nobody holds become free. Returns how many are free then."""
    for k in range(len(slots)):
        if readings[slots[k], HOLDERS] == 0:
            readings[slots[k], HOLDERS] = -1
            free[count] = slots[k]
            count += 1
    return count
