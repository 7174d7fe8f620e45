"""The blocks of a script: statements, instants, recoveries and answers, with what is expected.

Blocks are separated by blank lines; a line that begins with `#` is a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from place.errors import ConfigurationError, PlaceError
from place.model.time import parse_duration, parse_timestamp

EPOCH = parse_timestamp("2000-01-01 00:00:00")
"""The instant that the times of scripts count from."""

SEPARATOR = "----"
_READING = re.compile(
    r"(?P<stream>\"[^\"]+\"|\w+)\s*(?P<values>\(.*\))\s*(?P<gone>disappear)?"
    r"(?:\s+at\s+(?P<time>\S+))?",
    re.DOTALL,
)


class ScriptError(ConfigurationError):
    """A script cannot be read; the message names the file and line."""


@dataclass(frozen=True)
class ScriptReading:
    """A line of an `at` block: a stream, its values as written, perhaps a time of its own."""

    line: int
    stream: str
    values: str
    disappears: bool
    time: int | None


@dataclass(frozen=True)
class Block:
    """`expected` is None where nothing is checked; `last` is the last line of the block's input."""

    line: int
    last: int
    expected: tuple[str, ...] | None


@dataclass(frozen=True)
class StatementBlock(Block):
    sql: str
    error: str | None


@dataclass(frozen=True)
class InstantBlock(Block):
    time: int
    readings: tuple[ScriptReading, ...]
    error: str | None


@dataclass(frozen=True)
class RecoverBlock(Block):
    pass


@dataclass(frozen=True)
class AnswerBlock(Block):
    query: str


@dataclass(frozen=True)
class Script:
    path: Path
    lines: tuple[str, ...]
    blocks: tuple[Block, ...]


def read_script(path: Path) -> Script:
    """The script of a file."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"script {path} cannot be read: {error}") from None
    return parse_script(text, path)


def parse_script(text: str, path: Path = Path("script")) -> Script:
    """The script of a text."""
    lines = text.splitlines()
    blocks: list[Block] = []
    group: list[tuple[int, str]] = []
    for number, line in [*enumerate(lines, start=1), (len(lines) + 1, "")]:
        if line.lstrip().startswith("#"):
            continue
        if line.strip():
            group.append((number, line.rstrip()))
        elif group:
            try:
                blocks.append(_parse_block(group))
            except PlaceError as error:
                raise ScriptError(f"{path}:{group[0][0]}: {error}") from None
            group = []
    return Script(path, tuple(lines), tuple(blocks))


def _parse_block(group: list[tuple[int, str]]) -> Block:
    (line, head), body = group[0], group[1:]
    expected: tuple[str, ...] | None = None
    for index, (_, text) in enumerate(body):
        if text.strip() == SEPARATOR:
            expected = tuple(text.strip() for _, text in body[index + 1 :])
            body = body[:index]
            break
    last = body[-1][0] if body else line
    words = head.split()
    if words[:2] == ["statement", "ok"] and len(words) == 2:
        return StatementBlock(line, last, expected, "\n".join(t for _, t in body), None)
    if words[:2] == ["statement", "error"]:
        part = head.strip().removeprefix("statement").strip().removeprefix("error").strip()
        return StatementBlock(line, last, expected, "\n".join(t for _, t in body), part)
    if words[0] == "at" and len(words) >= 2:
        return _parse_instant(line, last, expected, words, body)
    if words == ["recover"] and not body:
        return RecoverBlock(line, last, expected)
    if words[0] == "answer" and len(words) == 2 and not body:
        return AnswerBlock(line, last, expected, words[1])
    raise ScriptError(
        f"'{head.strip()}' begins no block",
        hint="a block begins with 'statement ok', 'statement error …', 'at <time>', 'recover' or"
        " 'answer <query>'",
    )


def _parse_instant(
    line: int,
    last: int,
    expected: tuple[str, ...] | None,
    words: list[str],
    body: list[tuple[int, str]],
) -> InstantBlock:
    error = None
    if "error" in words:
        cut = words.index("error")
        words, error = words[:cut], " ".join(words[cut + 1 :])
    time = EPOCH + parse_duration(" ".join(words[1:]))
    readings = tuple(_parse_reading(number, text.strip()) for number, text in body)
    return InstantBlock(line, last, expected, time, readings, error)


def _parse_reading(number: int, text: str) -> ScriptReading:
    match = _READING.fullmatch(text)
    if match is None:
        raise ScriptError(
            f"line {number}: '{text}' is not a reading", hint="write Stream (1, 5, 5, 'Car')"
        )
    time = EPOCH + parse_duration(match["time"]) if match["time"] else None
    stream = match["stream"].strip('"')
    return ScriptReading(number, stream, match["values"], bool(match["gone"]), time)
