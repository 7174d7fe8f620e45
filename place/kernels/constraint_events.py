"""The events of a tick, one after the other, for all graphs that are not ALONE.

What waits is decided, and what expires is dropped, between the instants of the events. By then the
graphs that are ALONE have taken the tick (place/kernels/constraint_alone.py).

A kernel that finds something too small returns what it is, before it has changed anything that it
would change again: the caller makes it larger and calls the kernel again.
"""

from __future__ import annotations

import numpy as np

from place.kernels.constraint_absence import absent_until, decide
from place.kernels.constraint_domains import find_hits
from place.kernels.constraint_entries import expire
from place.kernels.constraint_lists import has_room, keep_in_list, leave
from place.kernels.constraint_readings import take_variable
from place.kernels.constraint_tables import (
    AT_EVENT,
    AT_VARIABLE,
    COPIES,
    DONE,
    GAINED,
    GRAPH,
    HEAPED,
    HELD,
    HELD_ENTRIES,
    INSTANT,
    LEAVING,
    LOST,
    MATCHED,
    MORE_ENTRIES,
    MORE_MEMBERS,
    MORE_ROWS,
    MORE_SQUARES,
    NEEDS_PLACE,
    NEXT_SEQUENCE,
    NOW,
    PEAK,
    PEAK_ENTRIES,
    ROLE,
    STOPPED,
    TIME,
    USED_MEMBERS,
    X,
)
from place.kernels.uncounted import uncounted, uncounted_inline


@uncounted
def take_events(rules, shelf, outlet, bench, state, arrived, until):
    """Go on with a tick, to its end at an instant, after the graphs that are ALONE have taken it.
    Returns DONE or what has to be larger."""
    starts, instants, ledger = arrived.starts, arrived.instants, arrived.ledger
    for n in range(state[AT_EVENT], len(instants)):
        state[AT_EVENT] = n
        instant = instants[n]
        if instant > state[NOW]:
            need = _close(rules, shelf, outlet, state, instant - 1)
            if need != DONE:
                return need
            state[NOW] = instant
        leave(shelf, state, ledger, n)
        ledger[n, LOST], ledger[n, LEAVING] = 0, -1
        if ledger[n, GAINED] > 0:
            state[HELD] += 1
            state[HELD_ENTRIES] += ledger[n, GAINED]
            ledger[n, GAINED] = 0
        if starts[n] < starts[n + 1]:
            need = _take_event(rules, shelf, outlet, bench, state, arrived, n)
            if need != DONE:
                return need
    state[AT_EVENT] = len(instants)
    need = _close(rules, shelf, outlet, state, until)
    if need == DONE:
        state[NOW] = max(state[NOW], until)
    return need


@uncounted_inline
def _close(rules, shelf, outlet, state, upto):
    """All events until an instant were taken: decide what waited for it, drop what expires."""
    state[PEAK] = max(state[PEAK], state[HELD])
    state[PEAK_ENTRIES] = max(state[PEAK_ENTRIES], state[HELD_ENTRIES])
    need = decide(rules, shelf, outlet, state, upto)
    if need == DONE:
        expire(rules, shelf, state, upto)
    return need


@uncounted_inline
def _take_event(rules, shelf, outlet, bench, state, arrived, n):
    """Take an event for each variable that it qualifies for, from where it was left."""
    begin, end, slot = arrived.starts[n], arrived.starts[n + 1], arrived.slots[n]
    number, count = state[NEXT_SEQUENCE] + n, end - begin
    if state[HEAPED] + count > len(shelf.entries):
        return MORE_ENTRIES
    if state[COPIES] + count > len(shelf.squares):
        return MORE_SQUARES
    if state[USED_MEMBERS] + 4 * count > len(shelf.members):
        return MORE_MEMBERS
    names = arrived.variables
    if state[AT_VARIABLE] <= begin:
        state[AT_VARIABLE] = begin
    need = find_hits(rules, shelf, bench, names, begin, end, slot, number)
    if need != DONE:
        return need
    is_nowhere = np.isnan(shelf.places[slot, X])
    for p in range(state[AT_VARIABLE], end):
        state[AT_VARIABLE] = p
        variable = names[p]
        if is_nowhere and rules.variables[variable, NEEDS_PLACE]:
            continue
        graph, role = rules.variables[variable, GRAPH], rules.variables[variable, ROLE]
        if rules.graphs[graph, STOPPED]:
            continue
        if role < rules.graphs[graph, MATCHED]:
            work = (arrived, n, graph, role, p - begin)
            need = take_variable(rules, shelf, outlet, bench, state, *work)
            if need != DONE:
                return need
        elif not has_room(rules, shelf, state, variable):
            return MORE_ROWS
        else:
            expiry = absent_until(rules, graph, shelf.readings[slot, TIME])
            if expiry >= shelf.readings[slot, INSTANT]:
                keep_in_list(rules, shelf, state, variable, slot, expiry, expiry)
    state[AT_VARIABLE] = end
    return DONE
