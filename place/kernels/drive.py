"""Driving on a road network: trees of fastest routes, and one step of all objects along them.

An arc is an edge with a direction: arc 2e runs from the edge's start to its end, arc 2e + 1 back.
A tree leads from every node to one destination: it holds, for each node, which of the arcs out of
it is the next. What an object is in one of its lives (class, pace, origin, tree) follows from the
seed, the object's slot and the life's number alone, so none of it has to be saved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Bytes, Floats, Ints, Longs

X1, Y1, X2, Y2, LENGTH, LIMIT, START, END = range(8)  # 64 bytes: a line of the cache
NOT_BORN = -1
RUN = 1024  # objects that drive together
CLASS, PACE, ORIGIN, TREE = (np.uint64(n) for n in range(1, 5))
SLOWEST_PACE = 0.8

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S27, S30, S31, S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


class Roads(NamedTuple):
    """`arcs[first[n]:first[n + 1]]` lead out of node n; `edges` has eight numbers for each edge."""

    first: Ints
    arcs: Ints
    edges: Floats


class Traffic(NamedTuple):
    """Classes by cumulated share with their top speeds, and each class's run of trees.

    Objects that roam begin every life where the last one ended, as what they were.
    """

    shares: Floats
    speeds: Floats
    first_tree: Longs
    many_trees: Longs
    targets: Ints
    hops: Bytes
    nodes: Floats
    roams: bool


class Lives(NamedTuple):
    """By object: the arc it is on (or `NOT_BORN`), metres along it, number and traits of its life.

    The last three follow from the life's number.
    """

    arcs: Ints
    offsets: Floats
    numbers: Ints
    codes: NDArray[np.int8]
    paces: Floats
    trees: Ints


@njit(nogil=True, cache=True, inline="always")
def _mixed(value):
    value = (value ^ (value >> S30)) * MIX_1
    value = (value ^ (value >> S27)) * MIX_2
    return value ^ (value >> S31)


@njit(nogil=True, cache=True, inline="always")
def _drawn(seed, slot, number, what):
    """A number in [0, 1) that depends on nothing but the arguments."""
    bits = _mixed(np.uint64(seed) + GOLDEN * np.uint64(slot + 1))
    bits = _mixed(bits + GOLDEN * np.uint64(number + 1))
    bits = _mixed(bits + GOLDEN * what)
    return float(bits >> S11) / 9007199254740992.0


@njit(nogil=True, cache=True)
def take_traits(traffic, lives, seed, slot):
    """Write down the traits of an object's present life."""
    number = lives.numbers[slot]
    same = 0 if traffic.roams else number
    share = _drawn(seed, slot, same, CLASS)
    code = 0
    while share >= traffic.shares[code]:
        code += 1
    lives.codes[slot] = code
    lives.paces[slot] = SLOWEST_PACE + (1.0 - SLOWEST_PACE) * _drawn(seed, slot, same, PACE)
    many = traffic.many_trees[code]
    among = int(_drawn(seed, slot, same, TREE) * many)
    if traffic.roams:  # to another destination than the one where it is
        stride = 1 + int(_drawn(seed, slot, same, ORIGIN) * (many - 1))
        among = (among + number * stride) % many
    lives.trees[slot] = traffic.first_tree[code] + among


@njit(nogil=True, cache=True)
def take_all_traits(traffic, lives, seed):
    """Write down the traits of all objects that have been born."""
    for slot in range(len(lives.numbers)):
        if lives.numbers[slot] >= 0:
            take_traits(traffic, lives, seed, slot)


@njit(nogil=True, cache=True, inline="always")
def _next_arc(roads, traffic, tree, node):
    return roads.arcs[roads.first[node] + traffic.hops[tree, node]]


@njit(nogil=True, cache=True)
def advance(roads, traffic, lives, seed, period, flow, counts, keys, xs, ys, speeds, gone):
    """Let every object drive for one period, and report where it is.

    An object that arrived in the last step is replaced by one that appears at its origin. `flow`
    is the part of its speed that each edge leaves; `counts` becomes the objects on each edge.
    """
    counts[:] = 0
    many = len(lives.arcs)
    # A run of objects crosses nodes in turns, one each, because a single object waits for memory
    # at every turn, and many can wait at the same time.
    moving = np.empty(RUN, np.int64)
    left = np.empty(RUN)
    for begin in range(0, many, RUN):
        driving = 0
        for slot in range(begin, min(begin + RUN, many)):
            gone[slot] = False
            if lives.arcs[slot] == NOT_BORN:
                node = _bear(roads, traffic, lives, seed, slot)
                counts[lives.arcs[slot] >> 1] += 1
                xs[slot], ys[slot] = traffic.nodes[node, 0], traffic.nodes[node, 1]
                speeds[slot] = 0.0
            else:
                moving[driving], left[driving] = slot, period
                driving += 1
            life = 0 if traffic.roams else lives.numbers[slot]
            keys[slot] = np.int64(life) * many + slot
        while driving > 0:
            going = 0
            for i in range(driving):
                slot, time = moving[i], left[i]
                arc, offset = lives.arcs[slot], lives.offsets[slot]
                edge = arc >> 1
                road = roads.edges[edge]
                own = traffic.speeds[lives.codes[slot]]
                speed = min(road[LIMIT], own) * lives.paces[slot] * flow[edge]
                rest = road[LENGTH] - offset
                if speed * time < rest:
                    offset += speed * time
                    lives.offsets[slot] = offset
                    counts[edge] += 1
                    part = offset / road[LENGTH]
                    part = 1.0 - part if arc & 1 else part
                    xs[slot] = road[X1] + part * (road[X2] - road[X1])
                    ys[slot] = road[Y1] + part * (road[Y2] - road[Y1])
                    speeds[slot] = speed
                    continue
                lives.offsets[slot] = 0.0
                tree = lives.trees[slot]
                node = int(road[START] if arc & 1 else road[END])
                if node == traffic.targets[tree]:
                    lives.arcs[slot] = NOT_BORN
                    xs[slot], ys[slot] = traffic.nodes[node, 0], traffic.nodes[node, 1]
                    speeds[slot] = speed
                    gone[slot] = not traffic.roams
                    continue
                lives.arcs[slot] = _next_arc(roads, traffic, tree, node)
                moving[going], left[going] = slot, max(time - rest / speed, 0.0)
                going += 1
            driving = going


@njit(nogil=True, cache=True)
def _bear(roads, traffic, lives, seed, slot):
    """Begin the next life of an object; returns the node at which it appears."""
    lives.numbers[slot] += 1
    number, came = lives.numbers[slot], lives.trees[slot]
    take_traits(traffic, lives, seed, slot)
    tree = lives.trees[slot]
    if traffic.roams and number > 0:
        node = int(traffic.targets[came])
    else:
        node = int(_drawn(seed, slot, number, ORIGIN) * len(traffic.nodes))
    if node == traffic.targets[tree]:
        node = (node + 1) % len(traffic.nodes)
    lives.arcs[slot] = _next_arc(roads, traffic, tree, node)
    lives.offsets[slot] = 0.0
    return node


@njit(nogil=True, cache=True)
def grow_tree(first, heads, twins, costs, target, hops):
    """Write, for each node, which of its arcs begins the cheapest route to the target.

    Arcs are in the order of the adjacency: `heads` are the nodes that they lead to, `twins` say
    which arc of its head leads back along each. Returns from how many nodes the target is reached.
    """
    nodes = len(first) - 1
    best = np.full(nodes, np.inf)
    settled = np.zeros(nodes, np.bool_)
    rank = np.empty(len(heads) + 1)
    heap = np.empty(len(heads) + 1, np.int32)
    best[target] = 0.0
    rank[0], heap[0] = 0.0, target
    size, reached = 1, 0
    while size > 0:
        cost, node = rank[0], heap[0]
        size -= 1
        _sink(rank, heap, size, rank[size], heap[size])
        if settled[node]:
            continue
        settled[node] = True
        reached += 1
        for i in range(first[node], first[node + 1]):
            other = heads[i]
            through = cost + costs[i]
            if through < best[other]:
                best[other] = through
                hops[other] = twins[i]
                _rise(rank, heap, size, through, other)
                size += 1
    return reached


@njit(nogil=True, cache=True, inline="always")
def _rise(rank, heap, place, value, item):
    while place > 0:
        parent = (place - 1) >> 1
        if rank[parent] <= value:
            break
        rank[place], heap[place] = rank[parent], heap[parent]
        place = parent
    rank[place], heap[place] = value, item


@njit(nogil=True, cache=True, inline="always")
def _sink(rank, heap, size, value, item):
    """Put an item in the place of the top of a heap that has `size` places."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and rank[child + 1] < rank[child]:
            child += 1
        if rank[child] >= value:
            break
        rank[place], heap[place] = rank[child], heap[child]
        place = child
    rank[place], heap[place] = value, item


@njit(nogil=True, cache=True)
def span(starts, ends, nodes):
    """Which edges, taken in their order, join two parts; and the part of each node."""
    roots = np.arange(nodes)
    joins = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        one, other = _root(roots, starts[i]), _root(roots, ends[i])
        if one != other:
            roots[max(one, other)] = min(one, other)
            joins[i] = True
    for node in range(nodes):
        roots[node] = _root(roots, node)
    return joins, roots


@njit(nogil=True, cache=True)
def _root(roots, node):
    while roots[node] != node:
        roots[node] = roots[roots[node]]
        node = roots[node]
    return node
