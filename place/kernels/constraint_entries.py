"""Entries: readings that are kept until an instant in squares.

A square belongs to a layer, which is all graphs whose readings are found in squares of one size; a
reading is there once, with its *members*, the variables that it is kept for. Squares are chains of
a hash table. Entries expire by a heap, in which an entry may stand with an earlier instant than its
own, and in which lists (place/kernels/constraint_lists.py) stand, too.
"""

from __future__ import annotations

import numpy as np

from place.kernels.constraint_heap import push_expiry, sink_expiry
from place.kernels.constraint_holders import hold, release
from place.kernels.constraint_lists import sound_alarm
from place.kernels.constraint_tables import (
    ALARM,
    BEGINNING,
    COPIES,
    COUNT,
    EXPIRY,
    FREE_BLOCKS,
    FREE_ENTRY,
    GONE,
    GONE_ENTRIES,
    HEAPED,
    HELD_ENTRIES,
    KEPT,
    KEY,
    KIND,
    MASK,
    MEMBERS,
    NEXT,
    OWNER,
    PREVIOUS,
    SCALE,
    SLOT,
    USE,
    USED_ENTRIES,
    USED_MEMBERS,
    X,
    Y,
    Z,
)
from place.kernels.uncounted import uncounted, uncounted_inline

FAR = 2.0**61
"""Squares further out than this are one square."""


@uncounted_inline
def _new_entry(shelf, state, slot, expiry, use, layer):
    """An entry that is in the heap and holds its reading, but is not linked."""
    entry = state[FREE_ENTRY]
    if entry >= 0:
        state[FREE_ENTRY] = shelf.entries[entry, NEXT]
    else:
        entry = state[USED_ENTRIES]
        state[USED_ENTRIES] += 1
    shelf.entries[entry, SLOT] = slot
    terms = shelf.terms
    terms[entry, EXPIRY], terms[entry, USE], terms[entry, OWNER] = expiry, use, layer
    push_expiry(shelf.heap, state[HEAPED], expiry, entry)
    state[HEAPED] += 1
    state[HELD_ENTRIES] += 1
    hold(shelf, state, slot)
    return entry


@uncounted_inline
def square_on(value, scale):
    """The number of a coordinate's square along its axis."""
    at = np.floor(value * scale)
    return np.int64(min(max(at, -FAR), FAR))


@uncounted_inline
def key_of(layer, x, y, z):
    """A number for a square of a layer, by the steps of splitmix64. Squares beside each other are
    often beside each other in the hash table, too, and so in one line of memory."""
    mixed = np.uint64(layer) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(x >> 3)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27)) ^ np.uint64(y)) * np.uint64(0x94D049BB133111EB)
    mixed = (mixed ^ (mixed >> np.uint64(31)) ^ np.uint64(z)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) << np.uint64(3)) | (x & 7)


@uncounted_inline
def bit_of(variable):
    """The bit of a variable in masks."""
    mixed = np.uint64(variable) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(np.uint64(1) << (mixed >> np.uint64(58)))


@uncounted_inline
def keep_in_square(rules, shelf, state, layer, slot, expiry, use):
    """Keep a reading in its square of a layer, for no variable yet."""
    entry = _new_entry(shelf, state, slot, expiry, use, layer)
    scale, kind = rules.lengths[layer, SCALE], rules.layers[layer, KIND]
    x = square_on(shelf.places[slot, X], scale) if kind > 0 else 0
    y = square_on(shelf.places[slot, Y], scale) if kind > 0 else 0
    z = square_on(shelf.places[slot, Z], scale) if kind > 2 else 0
    entries = shelf.entries
    entries[entry, KEY] = key_of(layer, x, y, z)
    entries[entry, MASK] = entries[entry, COUNT] = 0
    entries[entry, MEMBERS] = -1
    state[COPIES] += 1
    _chain(shelf, entry)
    return entry


@uncounted_inline
def _chain(shelf, entry):
    entries = shelf.entries
    square = entries[entry, KEY] & (len(shelf.squares) - 1)
    after = shelf.squares[square]
    entries[entry, PREVIOUS], entries[entry, NEXT] = -1, after
    if after >= 0:
        entries[after, PREVIOUS] = entry
    shelf.squares[square] = entry


@uncounted
def chain_anew(shelf, state):
    """Put all entries of squares into a hash table that is empty."""
    for entry in range(state[USED_ENTRIES]):
        if shelf.terms[entry, OWNER] != GONE:
            _chain(shelf, entry)


@uncounted_inline
def _class_of(size):
    """The least power of two that is not less, as an exponent."""
    exponent = 0
    while (1 << exponent) < size:
        exponent += 1
    return exponent


@uncounted_inline
def add_member(rules, shelf, state, entry, variable):
    """A reading in a square is kept for one more variable; members are in ascending order."""
    entries, members = shelf.entries, shelf.members
    count, begin = entries[entry, COUNT], entries[entry, MEMBERS]
    if count & (count - 1) == 0:  # the block is full, or there is none
        size = _class_of(max(1, 2 * count))
        block = state[FREE_BLOCKS + size]
        if block >= 0:
            state[FREE_BLOCKS + size] = members[block]
        else:
            block = state[USED_MEMBERS]
            state[USED_MEMBERS] += 1 << size
        for k in range(count):
            members[block + k] = members[begin + k]
        if count > 0:
            _free_block(members, state, begin, count)
        entries[entry, MEMBERS] = begin = block
    at = begin + count
    while at > begin and members[at - 1] > variable:
        members[at] = members[at - 1]
        at -= 1
    members[at] = variable
    entries[entry, COUNT] = count + 1
    entries[entry, MASK] |= bit_of(variable)
    rules.variables[variable, KEPT] += 1


@uncounted_inline
def _free_block(members, state, begin, count):
    size = _class_of(count)
    members[begin] = state[FREE_BLOCKS + size]
    state[FREE_BLOCKS + size] = begin


@uncounted_inline
def _drop(rules, shelf, state, entry):
    """Nobody keeps an entry any more; its row is still in the heap."""
    entries = shelf.entries
    before, after = entries[entry, PREVIOUS], entries[entry, NEXT]
    if after >= 0:
        entries[after, PREVIOUS] = before
    if before >= 0:
        entries[before, NEXT] = after
    else:
        shelf.squares[entries[entry, KEY] & (len(shelf.squares) - 1)] = after
    begin, count = entries[entry, MEMBERS], entries[entry, COUNT]
    for k in range(begin, begin + count):
        rules.variables[shelf.members[k], KEPT] -= 1
    if count > 0:
        _free_block(shelf.members, state, begin, count)
    state[COPIES] -= 1
    shelf.terms[entry, OWNER] = GONE
    state[HELD_ENTRIES] -= 1
    release(shelf, state, entries[entry, SLOT])


@uncounted_inline
def expire(rules, shelf, state, upto):
    """Drop what is kept until this instant at most."""
    heap, terms = shelf.heap, shelf.terms
    while state[HEAPED] > 0 and heap[0, 0] <= upto:
        entry, size = heap[0, 1], state[HEAPED]
        if entry < 0:
            again = sound_alarm(rules, shelf, state, ~entry, heap[0, 0], upto)
            if again != BEGINNING:
                sink_expiry(heap, size, 0, again, entry)
                continue
            state[HEAPED] = size - 1
            sink_expiry(heap, size - 1, 0, heap[size - 1, 0], heap[size - 1, 1])
            continue
        is_gone = terms[entry, OWNER] == GONE
        if not is_gone and terms[entry, EXPIRY] > upto:
            sink_expiry(heap, size, 0, terms[entry, EXPIRY], entry)
            continue
        if is_gone:
            state[GONE_ENTRIES] -= 1
        else:
            _drop(rules, shelf, state, entry)
        state[HEAPED] = size - 1
        sink_expiry(heap, size - 1, 0, heap[size - 1, 0], heap[size - 1, 1])
        _free_row(shelf, state, entry)


@uncounted_inline
def _free_row(shelf, state, entry):
    shelf.entries[entry, NEXT] = state[FREE_ENTRY]
    state[FREE_ENTRY] = entry


@uncounted
def forget_members(rules, shelf, state, layer, first, beyond):
    """Keep nothing for some variables in the squares of a layer."""
    entries, members = shelf.entries, shelf.members
    for entry in range(state[USED_ENTRIES]):
        if shelf.terms[entry, OWNER] != layer:
            continue
        begin, count = entries[entry, MEMBERS], entries[entry, COUNT]
        left = 0
        for k in range(begin, begin + count):
            if not first <= members[k] < beyond:
                left += 1
        if left == count:
            continue
        if left == 0:
            _drop(rules, shelf, state, entry)
            state[GONE_ENTRIES] += 1
            continue
        at, mask = begin, np.int64(0)
        for k in range(begin, begin + count):
            if first <= members[k] < beyond:
                rules.variables[members[k], KEPT] -= 1
            else:
                members[at] = members[k]
                mask |= bit_of(members[k])
                at += 1
        entries[entry, COUNT], entries[entry, MASK] = left, mask
        # A block is as long as its members need: the rest of it is free, in powers of two.
        for size in range(_class_of(left), _class_of(count)):
            _free_block(members, state, begin + (1 << size), 1 << size)


@uncounted
def purge(rules, shelf, state):
    """Take what is gone out of the heap."""
    heap, left = shelf.heap, 0
    for k in range(state[HEAPED]):
        entry = heap[k, 1]
        if entry < 0:
            if rules.variables[~entry, ALARM] != heap[k, 0]:
                continue
        elif shelf.terms[entry, OWNER] == GONE:
            _free_row(shelf, state, entry)
            continue
        push_expiry(heap, left, heap[k, 0], entry)
        left += 1
    state[HEAPED], state[GONE_ENTRIES] = left, 0
