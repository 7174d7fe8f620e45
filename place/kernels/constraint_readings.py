"""A reading is taken for a variable: what it completes, and how long it is kept.

Beside a reading, each other variable of a graph has a domain: the kept readings that fit it. A
variable whose domain is empty waits for a reading, which comes at some instant at the latest. If
that has passed, the reading is of no use. If no domain is empty, there may be matches. The reading
is kept until the first such instant, or, if no variable waits, until the last at which any of them
may have another one; and what fits it is kept as long, as only with it a match can still be made.
"""

from __future__ import annotations

import numpy as np

from place.kernels.constraint_absence import deadline_of, let_wait
from place.kernels.constraint_domains import domain_by_hits, domain_by_list
from place.kernels.constraint_entries import add_member, keep_in_square
from place.kernels.constraint_lists import has_room, keep_alone, keep_in_list, shorten_alone
from place.kernels.constraint_pairs import latest_instant
from place.kernels.constraint_solver import solve
from place.kernels.constraint_tables import (
    ABSENT,
    ALONE,
    BEGINNING,
    DONE,
    EXPIRY,
    FOUND,
    FOUND_SLOTS,
    INSTANT,
    KEPT,
    LATER,
    LAYER,
    LISTED_EXPIRY,
    LISTED_USE,
    LOOSE,
    MATCHED,
    MATCHES,
    MORE_FOUND,
    MORE_ROWS,
    MORE_VALUES,
    MORE_WAITING,
    NEVER,
    ORIGIN,
    PAIRS,
    PERIOD,
    QUEUED,
    REACHABLE,
    ROLES,
    SEQUENCE,
    SOONEST,
    STEPS,
    STOPPED,
    STORED,
    STORED_AT,
    STRATEGY,
    TURN,
    USE,
    VALUE_ENTRY,
)
from place.kernels.uncounted import uncounted, uncounted_inline


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
def take_variable(rules, shelf, outlet, bench, state, arrived, event, graph, role, position):
    """Take a reading for a variable: find the matches that it completes, and keep it. `position`
    is that of the variable among those of the event whose hits were looked for."""
    graphs, variables, slot = rules.graphs, rules.variables, arrived.slots[event]
    matched, layer, first = graphs[graph, MATCHED], graphs[graph, LAYER], graphs[graph, ORIGIN]
    instant, limits = arrived.instants[event], bench.limits
    use = last_use(rules, limits, graph, role, arrived.times[event])
    row = graphs[graph, PAIRS] + role * graphs[graph, ROLES]
    if layer < 0 and matched > 1:
        if not has_room(rules, shelf, state, first + role):
            return MORE_ROWS
        for j in range(matched):
            is_empty = variables[first + j, KEPT] == 0 or rules.pairs[row + j, REACHABLE] == 0
            if is_empty and limits[j] < instant and j != role:
                return DONE
    at, soonest, is_waiting = np.int64(0), NEVER, False
    for turn in range(matched - 1):
        j = rules.pairs[row + turn, TURN]
        bench.begins[j] = at
        if layer >= 0:
            at = domain_by_hits(shelf, bench, position, j, at)
        elif rules.pairs[row + j, REACHABLE]:
            if graphs[graph, ALONE] and variables[first + j, SOONEST] < instant:
                work = (arrived.instants, event, arrived.ledger)
                shorten_alone(rules, shelf, state, first + j, *work)
            at, steps = domain_by_list(rules, shelf, bench, graph, role, slot, j, at)
            graphs[graph, STEPS] += steps
        if at < 0:
            return MORE_VALUES
        bench.ends[j] = at
        if bench.begins[j] == at:
            if limits[j] < instant:
                return DONE
            is_waiting = True
            soonest = min(soonest, limits[j])
    if not is_waiting:
        need = _tell(rules, shelf, outlet, bench, state, graph, role, slot)
        if need != DONE:
            return need
    if matched > 1:
        is_loose = graphs[graph, STRATEGY] == LOOSE
        expiry = soonest if is_waiting and not is_loose else use
        if expiry >= instant:
            _keep(rules, shelf, state, arrived, event, graph, role, expiry, use)
            if layer < 0:
                _renew(shelf.lists, LISTED_EXPIRY, LISTED_USE, bench.values, at, expiry)
            elif not is_loose:
                _renew(shelf.terms, EXPIRY, USE, bench.values, at, expiry)
    return DONE


@uncounted
def _tell(rules, shelf, outlet, bench, state, graph, role, slot):
    """Find the matches that a reading completes, and tell them or let them wait."""
    found, header, count = outlet.found, bench.header, state[FOUND]
    instant, completing = shelf.readings[slot, INSTANT], shelf.readings[slot, SEQUENCE]
    header[0], header[1], header[2] = graph, instant, completing
    if rules.graphs[graph, MATCHED] > 1:
        work = (graph, role, bench, slot)
        end, steps = solve(rules, shelf.features, found, count, *work)
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
def _keep(rules, shelf, state, arrived, event, graph, role, expiry, use):
    """Keep the reading of an event for a variable until an instant."""
    variable, layer = rules.graphs[graph, ORIGIN] + role, rules.graphs[graph, LAYER]
    slot = arrived.slots[event]
    if rules.graphs[graph, ALONE]:
        work = (variable, slot, expiry, use, arrived.ledger, event)
        keep_alone(rules, shelf, state, *work)
        return
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
def _renew(table, expiry_at, use_at, values, count, expiry):
    """What fits a reading is kept as long, but not longer than it can be of use."""
    for p in range(count):
        row = values[p, VALUE_ENTRY]
        if table[row, expiry_at] < expiry:
            table[row, expiry_at] = max(table[row, expiry_at], min(expiry, table[row, use_at]))
