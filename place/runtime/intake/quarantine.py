"""The quarantine: what was rejected, as lines of JSON that a person reads and a tool searches."""

from __future__ import annotations

import json
from collections.abc import Iterator

from place.runtime.intake.check import Rejected


def pack(stream: str, tick: int, rejected: list[Rejected]) -> bytes:
    """Rejected rows of a tick, a line each.

    >>> pack("Cars", 7, [Rejected("a.csv", 3, "1 field, but the header has 4", "oops")]).decode()
    '{"stream": "Cars", "tick": 7, "source": "a.csv", "line": 3, "reason": "1 field, but the header\
 has 4", "text": "oops"}\\n'
    """
    return b"".join(_line(stream, tick, row) for row in rejected)


def unpack(content: bytes) -> Iterator[Rejected]:
    """The rejected rows of such lines."""
    for line in content.splitlines():
        found = json.loads(line)
        yield Rejected(
            found["source"], found["line"], found["reason"], found["text"], found.get("hint", "")
        )


def _line(stream: str, tick: int, row: Rejected) -> bytes:
    fields = {
        "stream": stream,
        "tick": tick,
        "source": row.source,
        "line": row.line,
        "reason": row.reason,
        "text": row.text,
    }
    if row.hint:
        fields["hint"] = row.hint
    # a file's name may hold bytes that are no text, which Python keeps as half letters
    return (json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
