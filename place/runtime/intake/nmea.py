"""Messages of ships (AIS) as receivers write them: sentences of NMEA, a line each.

A sentence says no time of its own. Receivers write one before it, in a tag block
(`\\c:1609841515*00\\!AIVDM…`), or behind it, after a comma; both are seconds since 1970. Messages
of several sentences are put together in the order of the lines. A message without a position says
something of its ship, such as the name: it stands beside the positions of that ship that follow in
the same file, or over the same connection. Sentences that are not AIS are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyais import decode
from pyais.exceptions import AISBaseException

from place.errors import ReadingError
from place.model.schema import Stream
from place.runtime.intake.check import Rejections, line_text
from place.runtime.intake.json_file import Item, ObjectReader, as_table
from place.runtime.intake.lines import Block
from place.runtime.intake.roles import KEY, TIME, Roles, X, Y

NOT_KNOWN = {"lon": 181.0, "lat": 91.0, "speed": 102.3, "course": 360.0, "heading": 511}
"""What members say that are not known."""
EXPECTED = "a line is a sentence of AIS, as in !AIVDM,1,1,,B,15NG6V0P01G?cFhE`R2IU?wn28R>,0*05"
TIMED = "a time stands before a sentence, \\c:1609841515*00\\!AIVDM…, or behind it, …*05,1609841515"

_LINE = re.compile(
    rb"(?:\\(?P<tags>[^\\]*)\\)?"
    rb"(?P<sentence>[!$](?P<talker>[A-Z]{5}),(?P<parts>\d),(?P<part>\d),(?P<group>\d?),"
    rb"(?P<channel>\w?),[^,*]*,\d\*[0-9A-Fa-f]{2})"
    rb"(?:,\s*(?P<after>\d{9,13}(?:\.\d+)?))?\s*"
)
_TIME = re.compile(rb"(?:^|,)c:(\d{9,13})")
MOST_OPEN, MOST_SHIPS = 1000, 100_000
"""Messages of which sentences are missing, at most: some never come; and ships that are known."""
STATIC = (5, 24)
"""The messages that say something of a ship."""


class AisReader:
    """Makes readings of sentences; those of a message may come in any number of calls."""

    def __init__(self, stream: Stream) -> None:
        self._roles = Roles(stream)
        self._ships: dict[int, dict[str, Any]] = {}
        self._open: dict[tuple[bytes, ...], dict[int, bytes]] = {}
        self._times: dict[tuple[bytes, ...], datetime] = {}

    def read(self, line: bytes, received: datetime | None = None) -> Item | None:
        """The reading that a line completes, or why it is none; None if there is nothing to say.

        `received` is the time of a message that has none.
        """
        line = line.strip()
        if not line or line[:1] in (b"#", b"$"):
            return None
        found = _LINE.fullmatch(line)
        if found is None:
            return ReadingError("no sentence of NMEA", hint=EXPECTED)
        if found["talker"][2:] not in (b"VDM", b"VDO"):
            return None
        try:
            at = _time_of(found)
        except (ValueError, OverflowError, OSError):
            return ReadingError("a time that cannot be read", hint=TIMED)
        parts, part = int(found["parts"]), int(found["part"])
        if parts < 2:
            return self._message([found["sentence"]], at or received)
        key = (found["talker"], found["group"], found["channel"])
        if part == 1:
            self._open.pop(key, None)
            self._times.pop(key, None)
        known = self._open.setdefault(key, {})
        known[part] = found["sentence"]
        if at is not None:
            self._times.setdefault(key, at)
        if len(known) < parts:
            if len(self._open) > MOST_OPEN:
                oldest = next(iter(self._open))
                del self._open[oldest]
                self._times.pop(oldest, None)
            return None
        del self._open[key]
        at = self._times.pop(key, None)
        return self._message([known[each] for each in sorted(known)], at or received)

    def _message(self, sentences: list[bytes], at: datetime | None) -> Item | None:
        try:
            message = decode(*sentences, error_if_checksum_invalid=True)
            members: dict[str, Any] = dict(message.asdict(enum_as_int=True))
        except AISBaseException as error:
            said = str(error).partition('"')[0].strip() or type(error).__name__
            return ReadingError(f"no message of AIS: {said}", hint=EXPECTED)
        for name, unknown in NOT_KNOWN.items():
            if members.get(name) == unknown:
                members[name] = None
        ship = members.get("mmsi", 0)
        if members.get("msg_type") in STATIC:
            self._learn(ship, {k: _plain(v) for k, v in members.items() if v not in ("", None)})
        if members.get("lon") is None or members.get("lat") is None:
            return None
        known: dict[str, Any] = {KEY: ship, X: members["lon"], Y: members["lat"]}
        if at is not None:
            known[TIME] = at
        own = {name: _plain(value) for name, value in members.items()}
        return self._roles.item(known, {**self._ships.get(ship, {}), **own})

    def _learn(self, ship: int, said: dict[str, Any]) -> None:
        if ship not in self._ships and len(self._ships) >= MOST_SHIPS:
            del self._ships[next(iter(self._ships))]
        self._ships.setdefault(ship, {}).update(said)


def read_nmea(
    stream: Stream,
    blocks: Iterable[Block],
    rejections: Rejections,
    arrival: int | None,
    latest: int | None = None,
) -> pa.Table:
    """The segment of the good messages of a file; what is not good is rejected."""
    ais, reader, parts = AisReader(stream), ObjectReader(stream, latest), []
    for block in blocks:
        if block.problem:
            rejections.add(block.line, block.problem, line_text(block.data))
            continue
        lines = block.data.split(b"\n")
        items: list[Item] = []
        places: list[int] = []
        for place, line in enumerate(lines):
            item = ais.read(line)
            if item is not None:
                items.append(item)
                places.append(place)

        def text_of(
            index: int,
            lines: list[bytes] = lines,
            places: list[int] = places,
            first: int = block.line,
        ) -> tuple[int | None, str]:
            return first + places[index], line_text(lines[places[index]])

        parts.append(reader.sort_out(items, rejections, text_of, arrival))
    missing = reader.missing(arrival)
    if (
        missing is not None
        and missing[0].message.startswith("no column")
        and stream.time is not None
    ):
        own = stream.names_of(stream.time)[0]
        if f'"{own}"' in missing[0].message:
            missing = ReadingError("no sentence has a time", hint=TIMED), missing[1]
    return as_table(stream, parts, rejections, missing)


def _time_of(found: re.Match[bytes]) -> datetime | None:
    """The time that stands with a sentence: seconds, or milliseconds where it is that large."""
    tagged = _TIME.search(found["tags"] or b"")
    text = tagged[1] if tagged is not None else found["after"]
    if text is None:
        return None
    seconds = float(text)
    return datetime.fromtimestamp(seconds / 1000 if seconds >= 1e11 else seconds, UTC)


def _plain(value: Any) -> Any:
    """A member as a plain value: some are numbers with names, others bytes."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return value.hex() if isinstance(value, bytes) else str(value)
