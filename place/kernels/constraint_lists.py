"""Lists: the readings that are kept for a variable, in one piece of memory, ordered by their times.

A list is a block of rows, the earliest reading first, with all that is asked of a reading beside
its features. Blocks have powers of two as lengths; one that is full is copied to one twice as long.
A variable stands in the heap of what expires (place/kernels/constraint_entries.py) as the
complement of its number, at an instant that is not after the first at which one of its rows
expires; a row in the heap whose instant is not the variable's ALARM means nothing.

While the graphs that are ALONE take a tick, each of them is at another instant than the others. How
many readings are kept at an instant is known only afterwards, so what they gain and lose is written
into the *ledger* of the tick, by event, and is counted when the events are gone through.
"""

from __future__ import annotations

from place.kernels.constraint_heap import push_expiry
from place.kernels.constraint_holders import hold, release
from place.kernels.constraint_tables import (
    ALARM,
    BEGINNING,
    FREE_LISTS,
    GAINED,
    HEAPED,
    HELD_ENTRIES,
    HOLDERS,
    KEPT,
    LEAVER,
    LEAVERS,
    LEAVES,
    LEAVES_NEXT,
    LEAVING,
    LIST,
    LISTED_EXPIRY,
    LISTED_SLOT,
    LISTED_USE,
    LOST,
    NEVER,
    ROOM,
    SEQUENCE,
    SOONEST,
    TIME,
    USED_ROWS,
    X,
)
from place.kernels.uncounted import uncounted, uncounted_inline

SHORTEST = 2
"""A block has two to the power of this rows at least."""
SPARE = 16
"""An empty list gives back a block that is longer."""


@uncounted_inline
def _class_of(room):
    exponent = SHORTEST
    while (1 << exponent) < room:
        exponent += 1
    return exponent


@uncounted_inline
def has_room(rules, shelf, state, variable):
    """Can one more reading be put into the list of a variable?"""
    room = rules.variables[variable, ROOM]
    if rules.variables[variable, KEPT] < room:
        return True
    size = _class_of(2 * room)
    return state[FREE_LISTS + size] >= 0 or state[USED_ROWS] + (1 << size) <= len(shelf.lists)


@uncounted
def _lengthen(rules, shelf, state, variable):
    """Copy a list to a block that is twice as long."""
    lists, begin = shelf.lists, rules.variables[variable, LIST]
    size = _class_of(2 * rules.variables[variable, ROOM])
    block = state[FREE_LISTS + size]
    if block >= 0:
        state[FREE_LISTS + size] = lists[block, TIME]
    else:
        block = state[USED_ROWS]
        state[USED_ROWS] += 1 << size
    for k in range(rules.variables[variable, KEPT]):
        for column in range(lists.shape[1]):
            lists[block + k, column] = lists[begin + k, column]
    _give_back(rules, shelf, state, variable)
    rules.variables[variable, LIST], rules.variables[variable, ROOM] = block, 1 << size


@uncounted
def _give_back(rules, shelf, state, variable):
    """The block of a variable is free."""
    room, begin = rules.variables[variable, ROOM], rules.variables[variable, LIST]
    if room > 0:
        free = FREE_LISTS + _class_of(room)
        shelf.lists[begin, TIME], state[free] = state[free], begin
    rules.variables[variable, LIST], rules.variables[variable, ROOM] = -1, 0


@uncounted_inline
def keep_in_list(rules, shelf, state, variable, slot, expiry, use):
    """Keep a reading in the list of a variable from now on. There is room, also in the heap."""
    _insert(rules, shelf, state, variable, slot, expiry, use)
    state[HELD_ENTRIES] += 1
    hold(shelf, state, slot)


@uncounted_inline
def keep_alone(rules, shelf, state, variable, slot, expiry, use, ledger, event):
    """The same for a graph that is ALONE, of the reading of an event."""
    _insert(rules, shelf, state, variable, slot, expiry, use)
    ledger[event, GAINED] += 1
    shelf.readings[slot, HOLDERS] += 1


@uncounted_inline
def _insert(rules, shelf, state, variable, slot, expiry, use):
    """Put a reading into a list, where its time and then its sequence number put it."""
    variables = rules.variables
    if variables[variable, KEPT] == variables[variable, ROOM]:
        _lengthen(rules, shelf, state, variable)
    lists, spots, places = shelf.lists, shelf.spots, shelf.places
    time, number = shelf.readings[slot, TIME], shelf.readings[slot, SEQUENCE]
    begin = variables[variable, LIST]
    at = begin + variables[variable, KEPT]
    while at > begin and (
        lists[at - 1, TIME] > time
        or (lists[at - 1, TIME] == time and lists[at - 1, SEQUENCE] > number)
    ):
        for column in range(lists.shape[1]):
            lists[at, column] = lists[at - 1, column]
        at -= 1
    lists[at, TIME], lists[at, SEQUENCE], lists[at, LISTED_SLOT] = time, number, slot
    lists[at, LISTED_EXPIRY], lists[at, LISTED_USE] = expiry, use
    for axis in range(3):
        spots[at, X + axis] = places[slot, X + axis]
    variables[variable, KEPT] += 1
    variables[variable, SOONEST] = min(variables[variable, SOONEST], expiry)
    if variables[variable, ALARM] == BEGINNING or expiry < variables[variable, ALARM]:
        variables[variable, ALARM] = expiry
        push_expiry(shelf.heap, state[HEAPED], expiry, ~variable)
        state[HEAPED] += 1


@uncounted
def shorten(rules, shelf, state, variable, upto):
    """Drop the rows of a list that are kept until an instant at most."""
    lists, variables = shelf.lists, rules.variables
    begin, soonest = variables[variable, LIST], NEVER
    left = begin
    for row in range(begin, begin + variables[variable, KEPT]):
        if lists[row, LISTED_EXPIRY] <= upto:
            state[HELD_ENTRIES] -= 1
            release(shelf, state, lists[row, LISTED_SLOT])
            continue
        soonest = min(soonest, lists[row, LISTED_EXPIRY])
        if left < row:
            for column in range(lists.shape[1]):
                lists[left, column] = lists[row, column]
        left += 1
    variables[variable, KEPT], variables[variable, SOONEST] = left - begin, soonest
    if left == begin and variables[variable, ROOM] > SPARE:
        _give_back(rules, shelf, state, variable)


@uncounted
def shorten_alone(rules, shelf, state, variable, instants, event, ledger):
    """The same for a graph that is ALONE: drop what has expired when an event comes."""
    lists, variables, leaves = shelf.lists, rules.variables, shelf.leaves
    begin, soonest, upto = variables[variable, LIST], NEVER, instants[event] - 1
    left = begin
    for row in range(begin, begin + variables[variable, KEPT]):
        expiry = lists[row, LISTED_EXPIRY]
        if expiry <= upto:
            slot, lost_at = lists[row, LISTED_SLOT], _first_after(instants, event, expiry)
            ledger[lost_at, LOST] += 1
            shelf.readings[slot, HOLDERS] -= 1
            if leaves[slot, LEAVES] < 0:
                leaves[state[LEAVERS], LEAVER] = slot
                state[LEAVERS] += 1
            leaves[slot, LEAVES] = max(leaves[slot, LEAVES], lost_at)
            continue
        soonest = min(soonest, expiry)
        if left < row:
            for column in range(lists.shape[1]):
                lists[left, column] = lists[row, column]
        left += 1
    variables[variable, KEPT], variables[variable, SOONEST] = left - begin, soonest


@uncounted_inline
def _first_after(instants, event, expiry):
    """The first event after an instant, up to one that is. It is often not far back."""
    low, high, step = event, event, 1
    while low > 0 and instants[low - 1] > expiry:
        high = low - 1
        low = max(0, low - step)
        step *= 2
        if instants[low] <= expiry:
            low += 1
            break
    while low < high:
        middle = (low + high) >> 1
        if instants[middle] > expiry:
            high = middle
        else:
            low = middle + 1
    return high


@uncounted
def let_leave(shelf, state, ledger):
    """Readings that no list keeps any more stay held until the event before which they leave."""
    readings, leaves = shelf.readings, shelf.leaves
    for k in range(state[LEAVERS]):
        slot = leaves[k, LEAVER]
        event = leaves[slot, LEAVES]
        leaves[slot, LEAVES] = -1
        if readings[slot, HOLDERS] == 0:
            readings[slot, HOLDERS] = 1
            leaves[slot, LEAVES_NEXT] = ledger[event, LEAVING]
            ledger[event, LEAVING] = slot
    state[LEAVERS] = 0


@uncounted_inline
def leave(shelf, state, ledger, event):
    """What leaves before an event is gone."""
    state[HELD_ENTRIES] -= ledger[event, LOST]
    slot = ledger[event, LEAVING]
    while slot >= 0:
        release(shelf, state, slot)
        slot = shelf.leaves[slot, LEAVES_NEXT]


@uncounted_inline
def sound_alarm(rules, shelf, state, variable, key, upto):
    """A variable was in the heap at an instant: drop what expires in its list until another.
    Returns when it has to be in the heap again, BEGINNING if it need not."""
    variables = rules.variables
    if variables[variable, ALARM] != key:
        return BEGINNING
    if variables[variable, SOONEST] <= upto:
        shorten(rules, shelf, state, variable, upto)
    is_empty = variables[variable, KEPT] == 0
    variables[variable, ALARM] = BEGINNING if is_empty else variables[variable, SOONEST]
    return variables[variable, ALARM]


@uncounted
def forget_list(rules, shelf, state, variable):
    """Drop what the list of a variable keeps."""
    if rules.variables[variable, ROOM] > 0:
        shorten(rules, shelf, state, variable, NEVER)
        _give_back(rules, shelf, state, variable)
    rules.variables[variable, ALARM] = BEGINNING
