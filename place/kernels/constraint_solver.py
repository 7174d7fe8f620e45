"""The matches of a trigger with a new reading: a search with forward checking.

The other variables have domains of readings that fit the new one. Variables are given readings in
the order of the sizes of their domains. Each reading that is given takes those that do not fit it
out of the domains that follow, by a mark with its depth; a domain without readings ends it.
"""

from __future__ import annotations

from place.kernels.constraint_pairs import do_rows_fit
from place.kernels.constraint_tables import (
    FOUND_SLOTS,
    MATCHED,
    MOST_MATCHES,
    MOST_STEPS,
    MOST_VARIABLES,
    PAIRS,
    ROLES,
    VALUE_MARK,
    VALUE_SLOT,
)
from place.kernels.uncounted import uncounted


@uncounted
def solve(rules, features, found, count, graph, role, bench, slot):
    """Write the matches in which the variable of a role has the reading at a slot behind the
    `count` that are found. On the bench, `values[begins[j]:ends[j]]` is the domain of variable j,
    and `header` begins each row.

    Returns how many are found then, and how many pairs were compared. Instead of the first, −1 says
    that there is no room, and −2 that the search is too long.
    """
    matched, roles = rules.graphs[graph, MATCHED], rules.graphs[graph, ROLES]
    offset = rules.graphs[graph, PAIRS]
    begins, ends, values, sites = bench.begins, bench.ends, bench.values, bench.sites
    plan, header = bench.plan, bench.header
    order, cursors, chosen, dirty = plan[0], plan[1], plan[2], plan[3]
    for k in range(MOST_VARIABLES):
        chosen[k], dirty[k] = -1, 0
    chosen[role] = slot
    last = _by_size(order, begins, ends, matched, role)
    steps, depth, most = 0, 0, count + MOST_MATCHES
    cursors[0] = begins[order[0]]
    while depth >= 0:
        if dirty[depth]:
            dirty[depth] = 0
            for d in range(depth + 1, last + 1):
                for q in range(begins[order[d]], ends[order[d]]):
                    if values[q, VALUE_MARK] == depth + 1:
                        values[q, VALUE_MARK] = 0
        j = order[depth]
        p, end = cursors[depth], ends[j]
        while p < end and values[p, VALUE_MARK] != 0:
            p += 1
        if p == end:
            depth -= 1
            continue
        cursors[depth] = p + 1
        chosen[j] = values[p, VALUE_SLOT]
        if steps > MOST_STEPS or count >= most:
            return -2, steps
        if depth == last:
            if count == len(found):
                return -1, steps
            for k in range(FOUND_SLOTS):
                found[count, k] = header[k]
            for k in range(FOUND_SLOTS, found.shape[1]):
                found[count, k] = chosen[k - FOUND_SLOTS]
            count += 1
            continue
        left = 1
        for d in range(depth + 1, last + 1):
            k = order[d]
            pair, left = offset + j * roles + k, 0
            for q in range(begins[k], ends[k]):
                if values[q, VALUE_MARK] == 0:
                    steps += 1
                    one, other = chosen[j], values[q, VALUE_SLOT]
                    rows = (values, sites, p, values, sites, q)
                    if other != one and do_rows_fit(rules, features, pair, one, other, *rows):
                        left += 1
                    else:
                        values[q, VALUE_MARK] = depth + 1
            if left == 0:
                break
        dirty[depth] = 1
        if left > 0:
            depth += 1
            cursors[depth] = begins[order[depth]]
    return count, steps


@uncounted
def _by_size(order, begins, ends, matched, role):
    """The other variables in the order of the sizes of their domains; the place of the last."""
    count = 0
    for j in range(matched):
        if j == role:
            continue
        size, at = ends[j] - begins[j], count
        while at > 0 and ends[order[at - 1]] - begins[order[at - 1]] > size:
            order[at] = order[at - 1]
            at -= 1
        order[at] = j
        count += 1
    return count - 1
