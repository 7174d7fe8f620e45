"""`place bench triggers --lonely F`: what loose and tight expiry keep where readings wait in vain.

One event a second, at each of several sites, is a first, second, third or fourth reading of a
chain. A share of the first ones is far from all others and never finds a partner; the others do. A
reading has its second within a minute, and the last within ten more. Loose keeps a first reading as
long as the whole chain may last. Tight lets it go after a minute, unless a partner comes; then both
keep it alike. So with three variables tight keeps no less than the share of those that find a
partner. With four, a second reading waits for its third in the same way, which seldom comes.
"""

from __future__ import annotations

import numpy as np

from bench.buoys import BUOYS, MEASURES, START, Reports
from bench.trigger_queries import STREAM_NAME, Asked, Chain
from bench.triggers import opened, triggers_of, worker_of
from place.engine.slices import Segment
from place.model.time import SECOND

SOON, LAST = 60, 600
"""Seconds until the next variable at most, and until the last."""
OFTEN = {3: (0.9, 0.05, 0.05), 4: (0.896, 0.05, 0.004, 0.05)}
"""How often an event is a reading of each variable."""
SITES = 20
"""Places that know nothing of each other: together they seldom keep much more than on average, as
one does after each of its rare third readings."""
NEAR, APART, AWAY = 1_000.0, 10_000.0, 900_000.0
"""Metres within which all readings of a site are, to the next site, and to the lonely ones."""


def measure(events: int, lonely: float, seed: int = 1) -> list[dict[str, float | str]]:
    """The most readings that are kept, for chains of three and four variables."""
    return [_kept(events, lonely, variables, seed) for variables in OFTEN]


def _kept(events: int, lonely: float, variables: int, seed: int) -> dict[str, float | str]:
    reports = _reports(events, lonely, variables, seed)
    asked = tuple(
        (Asked("sst", True, float(number)), Asked("sst", False, float(number)))
        for number in range(variables)
    )
    after = (*((0, SOON) for _ in range(variables - 2)), (0, LAST))
    chain = Chain(asked, after, (2 * NEAR,) * (variables - 1))
    peaks = {}
    for hint in ("LOOSE", "TIGHT", "NO INDEX"):
        with opened("planar", [chain.statement("t0", hint) + " REPORT FIRST"]) as (session, _):
            worker = worker_of(session)
            columns = session.stream(STREAM_NAME).columns
            worker.take([Segment(STREAM_NAME, reports.as_segment(columns))])
            peaks[hint] = triggers_of(worker).store.peak
    return {
        "variables": variables,
        "events": events,
        "lonely": lonely,
        "loose_peak": peaks["LOOSE"],
        "tight_peak": peaks["TIGHT"],
        "noindex_peak": peaks["NO INDEX"],
        "tight_to_loose": peaks["TIGHT"] / peaks["LOOSE"],
    }


def _reports(events: int, lonely: float, variables: int, seed: int) -> Reports:
    chance = np.random.default_rng([seed, variables])
    kinds = chance.choice(variables, events, p=OFTEN[variables])
    away = (kinds == 0) & (chance.random(events) < lonely)
    places = chance.uniform(0, NEAR, (events, 2))
    places[:, 0] += chance.integers(SITES, size=events) * APART
    places[away] += AWAY
    measured = {name: np.zeros(events) for name in MEASURES}
    measured["sst"] = kinds.astype(np.float64)
    times = START + np.arange(events) // SITES * SECOND
    return Reports(np.arange(events) % BUOYS, places, measured, times)
