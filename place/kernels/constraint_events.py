"""The events of a tick, one after the other: what each completes, and how long it is kept.

Beside a reading, each other variable of a graph has a domain: the kept readings that fit it. A
variable whose domain is empty waits for a reading, which comes at some instant at the latest. If
that has passed, the reading is of no use. If no domain is empty, there may be matches. The reading
is kept until the first such instant, or, if no variable waits, until the last at which any of them
may have another one; and what fits it is kept as long, as only with it a match can still be made.

A kernel that finds something too small returns what it is, before it has changed anything that it
would change again: the caller makes it larger and calls the kernel again.
"""

from __future__ import annotations

import numpy as np

from place.kernels.constraint_absence import absent_until, deadline_of, decide, let_wait
from place.kernels.constraint_domains import domains_by_hits, domains_by_lists, find_hits
from place.kernels.constraint_entries import (
    add_member,
    expire,
    keep_in_list,
    keep_in_square,
)
from place.kernels.constraint_pairs import latest_instant
from place.kernels.constraint_solver import solve
from place.kernels.constraint_tables import (
    ABSENT,
    AT_EVENT,
    AT_VARIABLE,
    BEGINNING,
    COPIES,
    DONE,
    EXPIRY,
    FOUND,
    FOUND_SLOTS,
    GRAPH,
    HEAPED,
    HELD,
    HELD_ENTRIES,
    HOLDERS,
    INSTANT,
    LATER,
    LAYER,
    LOOSE,
    MATCHED,
    MATCHES,
    MORE_ENTRIES,
    MORE_FOUND,
    MORE_MEMBERS,
    MORE_SQUARES,
    MORE_VALUES,
    MORE_WAITING,
    NEEDS_PLACE,
    NEVER,
    NEXT_SEQUENCE,
    NOW,
    ORIGIN,
    PAIRS,
    PEAK,
    PEAK_ENTRIES,
    PERIOD,
    QUEUED,
    ROLE,
    ROLES,
    SEQUENCE,
    STEPS,
    STOPPED,
    STORED,
    STORED_AT,
    STRATEGY,
    STREAM,
    TIME,
    USE,
    USED_MEMBERS,
    VALUE_ENTRY,
    X,
)
from place.kernels.uncounted import uncounted, uncounted_inline


@uncounted
def take_events(rules, shelf, outlet, bench, state, arrived, until):
    """Go on with a tick, to its end at an instant. Returns DONE or what has to be larger."""
    starts, instants = arrived.starts, arrived.instants
    for n in range(state[AT_EVENT], len(instants)):
        state[AT_EVENT] = n
        instant = instants[n]
        if instant > state[NOW]:
            need = _close(rules, shelf, outlet, state, instant - 1)
            if need != DONE:
                return need
            state[NOW] = instant
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
        _write(shelf, arrived, n, slot, number)
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
            work = (graph, role, slot, p - begin)
            need = _take_variable(rules, shelf, outlet, bench, state, *work)
            if need != DONE:
                return need
        else:
            expiry = absent_until(rules, graph, shelf.readings[slot, TIME])
            if expiry >= shelf.readings[slot, INSTANT]:
                keep_in_list(rules, shelf, state, variable, slot, expiry, expiry)
    state[AT_VARIABLE] = end
    return DONE


@uncounted_inline
def _write(shelf, arrived, n, slot, number):
    """Write the reading of an event into its slot."""
    readings, features = shelf.readings, shelf.features
    readings[slot, TIME], readings[slot, INSTANT] = arrived.times[n], arrived.instants[n]
    readings[slot, STREAM], readings[slot, SEQUENCE] = arrived.streams[n], number
    readings[slot, HOLDERS] = 0
    for axis in range(3):
        shelf.places[slot, X + axis] = arrived.places[n, axis]
    for f in range(features.shape[1]):
        features[slot, f] = arrived.features[n, f]


@uncounted_inline
def last_use(rules, limits, graph, role, time):
    """The last instant at which a reading may be of use, also by variable, in `limits`."""
    first, matched = rules.graphs[graph, ORIGIN], rules.graphs[graph, MATCHED]
    row = rules.graphs[graph, PAIRS] + role * rules.graphs[graph, ROLES]
    use = BEGINNING
    for j in range(matched):
        limits[j] = BEGINNING
        if j != role:
            period = rules.variables[first + j, PERIOD]
            limits[j] = latest_instant(time, rules.pairs[row + j, LATER], period)
            use = max(use, limits[j])
    return use


@uncounted_inline
def _take_variable(rules, shelf, outlet, bench, state, graph, role, slot, position):
    """Take a reading for a variable: find the matches that it completes, and keep it."""
    graphs, readings = rules.graphs, shelf.readings
    matched, strategy = graphs[graph, MATCHED], graphs[graph, STRATEGY]
    instant, limits = readings[slot, INSTANT], bench.limits
    use = last_use(rules, limits, graph, role, readings[slot, TIME])
    if matched > 1:
        if graphs[graph, LAYER] >= 0:
            has_room, is_useless = domains_by_hits(rules, bench, graph, role, position, instant)
            steps = np.int64(0)
        else:
            work = (graph, role, slot, instant)
            steps, is_useless = domains_by_lists(rules, shelf, bench, *work)
            has_room = steps >= 0
        if not has_room:
            return MORE_VALUES
        graphs[graph, STEPS] += steps
        if is_useless:
            return DONE
    soonest = NEVER
    is_waiting = False
    for j in range(matched):
        if j != role and bench.begins[j] == bench.begins[j + 1]:
            is_waiting = True
            soonest = min(soonest, limits[j])
    if not is_waiting:
        need = _tell(rules, shelf, outlet, bench, state, graph, role, slot)
        if need != DONE:
            return need
    if matched > 1:
        expiry = soonest if is_waiting and strategy != LOOSE else use
        if expiry >= instant:
            _keep(rules, shelf, state, graph, role, slot, expiry, use)
            if strategy != LOOSE:
                _renew(shelf.terms, bench.values, bench.begins[matched], expiry)
    return DONE


@uncounted
def _tell(rules, shelf, outlet, bench, state, graph, role, slot):
    """Find the matches that a reading completes, and tell them or let them wait."""
    found, header, count = outlet.found, bench.header, state[FOUND]
    instant, completing = shelf.readings[slot, INSTANT], shelf.readings[slot, SEQUENCE]
    header[0], header[1], header[2] = graph, instant, completing
    if rules.graphs[graph, MATCHED] > 1:
        work = (graph, role, bench.begins, bench.values, bench.plan, header, slot)
        end, steps = solve(rules, shelf, found, count, *work)
        rules.graphs[graph, STEPS] += steps
        if end == -1:
            return MORE_FOUND
        if end < 0:
            rules.graphs[graph, STOPPED] = 1
            return DONE
    else:
        if count == len(found):
            return MORE_FOUND
        for k in range(found.shape[1]):
            found[count, k] = header[k] if k < FOUND_SLOTS else -1
        found[count, FOUND_SLOTS] = slot
        end = count + 1
    if rules.graphs[graph, ABSENT]:
        if state[QUEUED] + end - count > len(outlet.queue):
            return MORE_WAITING
        for k in range(count, end):
            deadline = deadline_of(rules, shelf, graph, found[k], FOUND_SLOTS, instant)
            let_wait(shelf, outlet, state, graph, deadline, completing, found[k], FOUND_SLOTS)
    else:
        state[FOUND] = end
        rules.graphs[graph, MATCHES] += end - count
    return DONE


@uncounted_inline
def _keep(rules, shelf, state, graph, role, slot, expiry, use):
    """Keep a reading for a variable until an instant."""
    variable, layer = rules.graphs[graph, ORIGIN] + role, rules.graphs[graph, LAYER]
    if layer < 0:
        keep_in_list(rules, shelf, state, variable, slot, expiry, use)
        return
    number = shelf.readings[slot, SEQUENCE]
    if rules.layers[layer, STORED] == number:
        entry, terms = rules.layers[layer, STORED_AT], shelf.terms
        terms[entry, EXPIRY] = max(terms[entry, EXPIRY], expiry)
        terms[entry, USE] = max(terms[entry, USE], use)
    else:
        entry = keep_in_square(rules, shelf, state, layer, slot, expiry, use)
        rules.layers[layer, STORED], rules.layers[layer, STORED_AT] = number, entry
    add_member(rules, shelf, state, entry, variable)


@uncounted_inline
def _renew(terms, values, count, expiry):
    """What fits a reading is kept as long, but not longer than it can be of use."""
    for p in range(count):
        entry = values[p, VALUE_ENTRY]
        if terms[entry, EXPIRY] < expiry:
            terms[entry, EXPIRY] = max(terms[entry, EXPIRY], min(expiry, terms[entry, USE]))
