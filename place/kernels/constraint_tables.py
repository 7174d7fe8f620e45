"""The tables in which readings wait for others to make a match: their columns and what they hold.

Everything that the kernels of triggers keep is a row of whole numbers in one of these tables, so
that a function is given few arrays and finds what belongs together in one line of memory. `−1` is
no row. `state` holds the counters and where a tick was left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from place.kernels.arrays import Floats, Longs

NEVER = np.iinfo(np.int64).max
BEGINNING = np.iinfo(np.int64).min
UNKNOWN = np.iinfo(np.int64).min
"""The feature of a reading that has none: no comparison holds for it."""
UNBOUNDED = 1 << 62
"""A time difference without a bound."""
MOST_VARIABLES = 16
"""Variables of a match."""
ROLE_BITS = 5
"""Bits for the role of a variable, the absent one among them."""
MOST_STEPS, MOST_MATCHES = 1 << 26, 1 << 20
"""Comparisons, and matches, for one reading and one graph; a graph that needs more is stopped, as
nobody else's ticks may wait for it."""

LOOSE, TIGHT, NO_INDEX = range(3)
"""How long readings are kept and how they are found: as long as any bound lets them and by
squares; no longer than until the next reading that they wait for and by squares; or so and by a
list for each variable."""

# Readings, by slot. X, Y and Z are the same memory as floats.
TIME, INSTANT, STREAM, SEQUENCE, HOLDERS, X, Y, Z = range(8)

# Rows of lists: a reading that is kept for one variable. TIME, SEQUENCE, X, Y and Z are where the
# reading has them; the others are the last instant at which it is kept, the last at which it could
# be of use, and its slot.
LISTED_EXPIRY, LISTED_USE, LISTED_SLOT = 1, 2, 4

# Entries: a reading in a square, for all graphs of a layer.
NEXT, PREVIOUS, SLOT, KEY, MASK, MEMBERS, COUNT = range(7)
# Their terms: the last instant at which they are kept, the last at which they could be of use, and
# the layer.
EXPIRY, USE, OWNER = range(3)
GONE = -1
"""The owner of an entry that nobody holds, and that is still in the heap."""

# Variables of all graphs; those of a graph lie together. The list of a variable is KEPT rows from
# LIST on, where there is room for ROOM. None of them expires before SOONEST. ALARM is the instant
# at which the variable stands in the heap, BEGINNING if it does not.
GRAPH, ROLE, FIRST, BEYOND, LIST, KEPT, WANTED, PERIOD, NEEDS_PLACE, ROOM, SOONEST, ALARM = range(
    12
)
VARIABLE_COLUMNS = 12

# Graphs. MATCHED is how many of the roles are variables of a match, LAYER is −1 without an index.
# A graph that is STOPPED takes no readings any more. One that is ALONE has nothing to do with
# others while a tick is taken: it has lists and no absent variable.
ORIGIN, MATCHED, ROLES, STRATEGY, LAYER, PAIRS, ABSENT, ASKS_MORE, STEPS, MATCHES = range(10)
STOPPED, ALONE = 10, 11
GRAPH_COLUMNS = 12

# Pairs of the roles of a graph, row by row: how much later than the first the second may be, and
# the first than the second; where its comparisons begin and end; and whether a reading of the
# second may be there before one of the first that fits it. TURNS are, along the row of a role, the
# roles in the order in which their domains are looked for.
LATER, EARLIER, FLAGS, BEGIN, END, REACHABLE, TURN = range(7)
PAIR_COLUMNS = 7
HAS_MOST, HAS_LEAST, MOST_OPEN, LEAST_OPEN, ON_SPHERE, BEFORE, AFTER = (1 << b for b in range(7))
# Their bounds of DISTANCE, and measures that are surely within each or surely not.
MOST, MOST_SURE, MOST_UNSURE, LEAST, LEAST_SURE, LEAST_UNSURE = range(6)

# Comparisons: the feature of the first, the operator, the feature of the second.
LEFT, OPERATOR, RIGHT = range(3)
EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(6)

# Layers: which event asked last, for which variables, which event was last stored, and where.
# KIND is how many coordinates tell squares apart.
KIND, ASKED, ASKED_FOR, STORED, STORED_AT = range(5)
# Their lengths: one over the side of a square, and how far coordinates of near places are apart.
SCALE, REACHED = range(2)

# Matches that wait for a reading that must not come; then the slots of the match.
WAITS_FOR, DEADLINE, COMPLETING, SERIAL, WAITING_SLOTS = range(5)
# Matches that were found: graph, instant, completing; then their slots.
FOUND_SLOTS = 3
# Values of a domain. TIME, SEQUENCE, X, Y and Z are where the reading has them; the others are the
# entry or the row of a list, the depth of the search that took it away, and its slot.
VALUE_ENTRY, VALUE_MARK, VALUE_SLOT = 1, 2, 4

# By event of a tick: how many rows graphs that are ALONE keep of it, how many of their rows expire
# before it, and the first reading that none of them keeps from there on.
GAINED, LOST, LEAVING = range(3)
# By slot: the event before which the last such row expires, and the next reading that leaves there.
# Beside them, a list of the slots that have such an event.
LEAVES, LEAVES_NEXT, LEAVER = range(3)

# What a kernel returns: it is done, or something has to be larger.
DONE, MORE_ENTRIES, MORE_MEMBERS, MORE_SQUARES, MORE_FOUND, MORE_BLOCKERS = range(6)
MORE_WAITING, MORE_HITS, MORE_VALUES, MORE_ROWS = range(6, 10)

# Counters.
NOW, AT_EVENT, AT_VARIABLE, NEXT_SEQUENCE, NEXT_SERIAL = range(5)
FREE_ENTRY, USED_ENTRIES, HEAPED, GONE_ENTRIES, USED_MEMBERS, COPIES = range(5, 11)
FREE_WAITING, USED_WAITING, QUEUED, FOUND, BLOCKERS, RELEASED = range(11, 17)
HELD, PEAK, HELD_ENTRIES, PEAK_ENTRIES = range(17, 21)
USED_ROWS, AT_GRAPH, AT_TURN, LEAVERS = range(21, 25)
FREE_BLOCKS = 25
"""From here on: the first free block of members of each power of two."""
FREE_LISTS = FREE_BLOCKS + 40
"""From here on: the first free block of rows of lists of each power of two."""
COUNTERS = FREE_LISTS + 40


class Rules(NamedTuple):
    """What the graphs ask. `owners` are, by variable, the graph and in the last five bits the role,
    if the graph is ALONE, and −1 if it is not."""

    variables: Longs
    owners: Longs
    graphs: Longs
    pairs: Longs
    bounds: Floats
    comparisons: Longs
    layers: Longs
    lengths: Floats


class Shelf(NamedTuple):
    """Readings that are kept, and how they are found and expire. `places` are the readings, and
    `spots` the rows of lists, as floats: what is asked together lies together."""

    readings: Longs
    places: Floats
    features: Longs
    released: Longs
    leaves: Longs
    lists: Longs
    spots: Floats
    entries: Longs
    terms: Longs
    heap: Longs
    members: Longs
    squares: Longs


class Outlet(NamedTuple):
    """Matches that wait, matches that were found, and what may block them."""

    waiting: Longs
    queue: Longs
    found: Longs
    blockers: Longs


class Bench(NamedTuple):
    """Room to work in: readings that fit an event, as lists by variable, their domains (`sites` are
    their values as floats), where the domain of each variable begins and ends, until when a reading
    of each may come, and rows for a search."""

    hits: Longs
    heads: Longs
    values: Longs
    sites: Floats
    begins: Longs
    ends: Longs
    limits: Longs
    plan: Longs
    header: Longs


class Arrived(NamedTuple):
    """The events of a tick, and the variables that each of them qualifies for, without those of
    graphs that are ALONE. `ledger` tells what these keep of the events."""

    times: Longs
    instants: Longs
    streams: Longs
    places: Floats
    features: Longs
    starts: Longs
    variables: Longs
    slots: Longs
    ledger: Longs


class Turns(NamedTuple):
    """The events of a tick by the graphs that are ALONE: for each of `graphs`, from the one of
    `begins` to the next, events and in the last five bits the roles that they qualify for."""

    graphs: Longs
    begins: Longs
    events: Longs
