"""The readings of a script as inputs of a runtime."""

from __future__ import annotations

from place.errors import ReadingError
from place.model.reading import Reading
from place.model.schema import Stream
from place.runtime.intake.pushed import disappearance_of, reading_of
from place.script.blocks import ScriptReading
from place.sql.dialect import parse_row


def make_input(stream: Stream, line: ScriptReading, time: int) -> Reading:
    """The reading of a line at a time, or a ReadingError that says why the door refuses it."""
    values = [literal.value for literal in parse_row(line.values)]
    if line.disappears:
        if len(values) != 1:
            raise ReadingError("a disappearance has the key alone", hint="write Cars (1) disappear")
        return disappearance_of(stream, values[0], time)
    return reading_of(stream, values, time, now=None)
