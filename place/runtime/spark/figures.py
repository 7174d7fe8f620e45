"""What a manifest says of a tick in numbers, from what its cells have answered."""

from __future__ import annotations

from collections.abc import Sequence

from place.runtime.spark.requests import CellResult


def last_reasons(results: Sequence[CellResult]) -> dict[str, str]:
    """Why a reading of each stream was set aside last: what one row says of late ones, or else what
    was found when readings were checked."""
    reasons = dict(results[0].reasons)
    late = [
        (result.last_late[stream], stream, reason)
        for result in results
        for stream, reason in result.reasons.items()
        if stream in result.last_late
    ]
    return reasons | {stream: reason for _, stream, reason in sorted(late)}


def metrics_of(
    results: Sequence[CellResult],
    began: float,
    ran: float,
    settled: float,
) -> dict[str, float]:
    """Seconds of the stages (the slowest cell's); what is left of the action is that of Spark's
    jobs, if there were any, and of the channel."""
    longest: dict[str, float] = {}
    for result in results:
        for name, seconds in result.times.items():
            longest[name] = max(longest.get(name, 0.0), seconds)
    busy = max((sum(result.times.values()) for result in results), default=0.0)
    return {
        **{name: round(seconds, 6) for name, seconds in longest.items()},
        "rows": float(max(result.rows for result in results)),
        "read": float(max(result.read for result in results)),
        "action": round(ran - began, 6),
        "spark": round(max(0.0, ran - began - busy), 6),
        "settle": round(settled - ran, 6),
        "seconds": round(settled - began, 6),
    }
