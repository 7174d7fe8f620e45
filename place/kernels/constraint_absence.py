"""Matches that wait: those that are told only if a reading does not come.

A match waits until its deadline, after which no reading of the absent variable can come that fits
it; then the readings of that variable that came are compared with it. The queue is a heap of rows
of the table of what waits, by deadline and then by serial number.
"""

from __future__ import annotations

from place.kernels.constraint_holders import hold, release
from place.kernels.constraint_pairs import is_consistent, latest_instant
from place.kernels.constraint_tables import (
    ASKS_MORE,
    BEGINNING,
    BLOCKERS,
    COMPLETING,
    DEADLINE,
    DONE,
    EARLIER,
    FOUND,
    FOUND_SLOTS,
    FREE_WAITING,
    KEPT,
    LATER,
    LIST,
    LISTED_SLOT,
    MATCHED,
    MATCHES,
    MORE_BLOCKERS,
    MORE_FOUND,
    NEVER,
    NEXT_SERIAL,
    ORIGIN,
    PAIRS,
    PERIOD,
    QUEUED,
    ROLES,
    SERIAL,
    TIME,
    UNBOUNDED,
    USED_WAITING,
    WAITING_SLOTS,
    WAITS_FOR,
)
from place.kernels.uncounted import uncounted


@uncounted
def absent_until(rules, graph, time):
    """Until when a reading of the absent variable may be needed: it may block matches that are not
    complete yet, or whose deadline is later."""
    first, matched = rules.graphs[graph, ORIGIN], rules.graphs[graph, MATCHED]
    roles = rules.graphs[graph, ROLES]
    row = rules.graphs[graph, PAIRS] + matched * roles
    furthest, soonest = -UNBOUNDED, UNBOUNDED
    for p in range(matched):
        later, back = rules.pairs[row + p, LATER], rules.pairs[row + p, EARLIER]
        furthest = max(furthest, later)
        if later < UNBOUNDED and back < UNBOUNDED:
            soonest = min(soonest, later + back)
    until = BEGINNING
    for r in range(roles):
        period = rules.variables[first + r, PERIOD]
        until = max(until, latest_instant(time, max(furthest, soonest), period))
    return until


@uncounted
def deadline_of(rules, shelf, graph, slots, begin, instant):
    """When it is known whether the absent reading of a match came; its slots are from `begin`."""
    matched = rules.graphs[graph, MATCHED]
    row = rules.graphs[graph, PAIRS] + matched * rules.graphs[graph, ROLES]
    period = rules.variables[rules.graphs[graph, ORIGIN] + matched, PERIOD]
    deadline = NEVER
    for p in range(matched):
        time = shelf.readings[slots[begin + p], TIME]
        deadline = min(deadline, latest_instant(time, rules.pairs[row + p, EARLIER], period))
    return max(deadline, instant)


@uncounted
def let_wait(shelf, outlet, state, graph, deadline, completing, slots, begin):
    """A match waits from now on; there is room for it."""
    waiting = outlet.waiting
    row = state[FREE_WAITING]
    if row >= 0:
        state[FREE_WAITING] = waiting[row, DEADLINE]
    else:
        row = state[USED_WAITING]
        state[USED_WAITING] += 1
    waiting[row, WAITS_FOR], waiting[row, DEADLINE] = graph, deadline
    waiting[row, COMPLETING], waiting[row, SERIAL] = completing, state[NEXT_SERIAL]
    state[NEXT_SERIAL] += 1
    for k in range(waiting.shape[1] - WAITING_SLOTS):
        waiting[row, WAITING_SLOTS + k] = slots[begin + k]
        if slots[begin + k] >= 0:
            hold(shelf, state, slots[begin + k])
    _push(waiting, outlet.queue, state[QUEUED], row)
    state[QUEUED] += 1


@uncounted
def _is_sooner(waiting, one, other):
    if waiting[one, DEADLINE] != waiting[other, DEADLINE]:
        return waiting[one, DEADLINE] < waiting[other, DEADLINE]
    return waiting[one, SERIAL] < waiting[other, SERIAL]


@uncounted
def _push(waiting, queue, size, row):
    at = size
    while at > 0 and _is_sooner(waiting, row, queue[(at - 1) >> 1]):
        queue[at] = queue[(at - 1) >> 1]
        at = (at - 1) >> 1
    queue[at] = row


@uncounted
def _pop(waiting, queue, size):
    """Take the first row out of a queue of this size."""
    row, at = queue[size - 1], 0
    while True:
        child = 2 * at + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and _is_sooner(waiting, queue[child + 1], queue[child]):
            child += 1
        if not _is_sooner(waiting, queue[child], row):
            break
        queue[at] = queue[child]
        at = child
    queue[at] = row


@uncounted
def _let_go(shelf, outlet, state, row):
    """A match waits no longer, and is not in the queue."""
    for k in range(WAITING_SLOTS, outlet.waiting.shape[1]):
        if outlet.waiting[row, k] >= 0:
            release(shelf, state, outlet.waiting[row, k])
    outlet.waiting[row, WAITS_FOR] = -1
    outlet.waiting[row, DEADLINE] = state[FREE_WAITING]
    state[FREE_WAITING] = row


@uncounted
def _fits(rules, shelf, graph, match, slot):
    """Does a reading of the absent variable block a match?"""
    matched = rules.graphs[graph, MATCHED]
    row = rules.graphs[graph, PAIRS] + matched * rules.graphs[graph, ROLES]
    for p in range(matched):
        other = match[WAITING_SLOTS + p]
        if other == slot or not is_consistent(rules, shelf, row + p, slot, other):
            return False
    return True


@uncounted
def _judge(rules, shelf, outlet, state, match):
    """Is a match told? Writes what may block it, if the graph asks more of that. Returns 1 if it
    is told, 0 if it is not, and −1 if there is no room."""
    graph = match[WAITS_FOR]
    matched, asks_more = rules.graphs[graph, MATCHED], rules.graphs[graph, ASKS_MORE]
    row = rules.graphs[graph, PAIRS] + matched * rules.graphs[graph, ROLES]
    low, high = BEGINNING, NEVER
    for p in range(matched):
        time = shelf.readings[match[WAITING_SLOTS + p], TIME]
        low = max(low, time - rules.pairs[row + p, LATER])
        high = min(high, time + rules.pairs[row + p, EARLIER])
    lists, blockers, count = shelf.lists, outlet.blockers, state[BLOCKERS]
    absent = rules.graphs[graph, ORIGIN] + matched
    begin = rules.variables[absent, LIST]
    for row in range(begin + rules.variables[absent, KEPT] - 1, begin - 1, -1):
        if lists[row, TIME] < low:
            break
        slot = lists[row, LISTED_SLOT]
        if lists[row, TIME] <= high and _fits(rules, shelf, graph, match, slot):
            if not asks_more:
                return 0
            if count == len(blockers):
                return -1
            blockers[count, 0], blockers[count, 1] = state[FOUND], slot
            count += 1
    state[BLOCKERS] = count
    return 1


@uncounted
def decide(rules, shelf, outlet, state, upto):
    """Tell the matches whose deadline is not after an instant, unless they are blocked."""
    waiting, queue, found = outlet.waiting, outlet.queue, outlet.found
    while state[QUEUED] > 0 and waiting[queue[0], DEADLINE] <= upto:
        row, at = queue[0], state[FOUND]
        if at == len(found):
            return MORE_FOUND
        is_told = _judge(rules, shelf, outlet, state, waiting[row])
        if is_told < 0:
            return MORE_BLOCKERS
        if is_told:
            graph = waiting[row, WAITS_FOR]
            found[at, 0], found[at, 1] = graph, waiting[row, DEADLINE]
            found[at, 2] = waiting[row, COMPLETING]
            for k in range(found.shape[1] - FOUND_SLOTS):
                found[at, FOUND_SLOTS + k] = waiting[row, WAITING_SLOTS + k]
            state[FOUND] = at + 1
            rules.graphs[graph, MATCHES] += 1
        _pop(waiting, queue, state[QUEUED])
        state[QUEUED] -= 1
        _let_go(shelf, outlet, state, row)
    return DONE


@uncounted
def forget_waiting(shelf, outlet, state, graph):
    """No match of a graph waits any more."""
    queue, left = outlet.queue, 0
    for k in range(state[QUEUED]):
        row = queue[k]
        if outlet.waiting[row, WAITS_FOR] == graph:
            _let_go(shelf, outlet, state, row)
        else:
            _push(outlet.waiting, queue, left, row)
            left += 1
    state[QUEUED] = left
