"""The events of a tick, graph by graph, for graphs that have nothing to do with each other.

A graph that is ALONE has its own lists and waits for nothing, so it may take all events of a tick
before another graph takes the first. What it asks and keeps stays in the cache of the processor
then; event by event, each graph would have pushed out what the others need.
"""

from __future__ import annotations

import numpy as np

from place.kernels.constraint_lists import let_leave
from place.kernels.constraint_readings import take_variable
from place.kernels.constraint_tables import (
    AT_GRAPH,
    AT_TURN,
    DONE,
    FOUND_SLOTS,
    HEAPED,
    HOLDERS,
    INSTANT,
    MORE_ENTRIES,
    NEEDS_PLACE,
    ORIGIN,
    ROLE_BITS,
    SEQUENCE,
    STOPPED,
    STREAM,
    TIME,
    X,
)
from place.kernels.uncounted import uncounted


@uncounted
def write_readings(shelf, arrived, number):
    """Write the readings of a tick into their slots; `number` is the first sequence number."""
    readings, features, places = shelf.readings, shelf.features, shelf.places
    for n in range(len(arrived.slots)):
        slot = arrived.slots[n]
        readings[slot, TIME], readings[slot, INSTANT] = arrived.times[n], arrived.instants[n]
        readings[slot, STREAM], readings[slot, SEQUENCE] = arrived.streams[n], number + n
        readings[slot, HOLDERS] = 0
        for axis in range(3):
            places[slot, X + axis] = arrived.places[n, axis]
        for f in range(features.shape[1]):
            features[slot, f] = arrived.features[n, f]


@uncounted
def deal(rules, starts, variables, counts, turns, other_starts, others):
    """Deal the variables of events to the graphs that are ALONE, by graph and then by event, and to
    `others`, as they are. `counts` are zeros, and so they are again. Returns how many graphs have
    turns, and how many variables are others."""
    met, left, owners = 0, 0, rules.owners
    for p in range(len(variables)):
        graph = owners[variables[p]] >> ROLE_BITS
        if graph >= 0:
            if counts[graph] == 0:
                turns.graphs[met] = graph
                met += 1
            counts[graph] += 1
    at = 0
    for k in range(met):
        graph = turns.graphs[k]
        turns.begins[k] = at
        at += counts[graph]
        counts[graph] = turns.begins[k]
    turns.begins[met] = at
    other_starts[0] = 0
    for n in range(len(starts) - 1):
        for p in range(starts[n], starts[n + 1]):
            owner = owners[variables[p]]
            if owner >= 0:
                graph = owner >> ROLE_BITS
                turns.events[counts[graph]] = n << ROLE_BITS | owner & ((1 << ROLE_BITS) - 1)
                counts[graph] += 1
            else:
                others[left] = variables[p]
                left += 1
        other_starts[n + 1] = left
    for k in range(met):
        counts[turns.graphs[k]] = 0
    return met, left


@uncounted
def take_alone(rules, shelf, outlet, bench, state, arrived, turns):
    """Let graphs take their turns, from where it was left. Returns DONE or what has to be larger.

    What is found is in the order of the graphs, not of the events.
    """
    for k in range(state[AT_GRAPH], len(turns.graphs)):
        state[AT_GRAPH] = k
        graph = turns.graphs[k]
        first = rules.graphs[graph, ORIGIN]
        for turn in range(max(state[AT_TURN], turns.begins[k]), turns.begins[k + 1]):
            state[AT_TURN] = turn
            if rules.graphs[graph, STOPPED]:
                break
            event = turns.events[turn] >> ROLE_BITS
            role = turns.events[turn] & ((1 << ROLE_BITS) - 1)
            if rules.variables[first + role, NEEDS_PLACE] and np.isnan(arrived.places[event, 0]):
                continue
            if state[HEAPED] == len(shelf.heap):
                return MORE_ENTRIES
            work = (arrived, event, graph, role, 0)
            need = take_variable(rules, shelf, outlet, bench, state, *work)
            if need != DONE:
                return need
    state[AT_GRAPH] = len(turns.graphs)
    let_leave(shelf, state, arrived.ledger)
    return DONE


@uncounted
def order_found(found, count, first, counts, ordered):
    """Write the first rows of what was found in the order of their completing readings, of which
    the first has a sequence number. `counts` are zeros, one more than there are events."""
    for k in range(count):
        counts[found[k, FOUND_SLOTS - 1] - first + 1] += 1
    for n in range(1, len(counts)):
        counts[n] += counts[n - 1]
    for k in range(count):
        n = found[k, FOUND_SLOTS - 1] - first
        at = counts[n]
        counts[n] = at + 1
        for column in range(found.shape[1]):
            ordered[at, column] = found[k, column]
