"""Statements of the catalog that are written anew, because what they define has changed.

A definition is kept as the statement that made it. So what changes a definition changes that
statement, and there is one way to read the language.
"""

from __future__ import annotations

from collections.abc import Sequence

from place.model.schema import Stream
from place.plan.define import STREAM_OPTIONS
from place.plan.options import Options
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.statements import wrong

ALTERABLE = ("lateness", "history", "max_future", "timestamps", "columns", "bounds")
"""Options that say how readings come in from now on, and nothing about those that came."""
_UNALTERABLE = {
    "evaluate": "the instants that were told follow from it",
    "timeout": "objects that are gone by it are forgotten",
    "space": "positions that came would lie elsewhere",
    "time": "times that came would be others",
    "missing": "the readings that came were filled by it, or not",
    "motion": "the readings that came were kept without it, or with it",
    "retain": "objects that were let go of are forgotten",
    "max_speed": "objects that were let go of are forgotten",
    "report_every": "objects that were let go of are forgotten",
    "cache": "objects that were let go of are forgotten",
}


def renamed(text: str, name: str) -> str:
    """A statement that defines something, with another spelling of its name.

    >>> renamed('REGISTER OR REPLACE QUERY TOWN AS SELECT id FROM Cars', "Town")
    'REGISTER OR REPLACE QUERY Town AS SELECT id FROM Cars'
    """
    statement = parse_one(text)
    assert isinstance(statement, s.Creation)
    start = offset_of(text, statement.name.at)
    quoted = text[start] == '"'
    written = statement.name.text.replace('"', '""') if quoted else statement.name.text
    shown = name.replace('"', '""') if quoted else name
    return text[: start + quoted] + shown + text[start + quoted + len(written) :]


def offset_of(text: str, at: s.Position) -> int:
    """Where a place of a text is, counted from its beginning."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: at.line - 1]) + at.column - 1


def with_options(text: str, options: Sequence[s.Option]) -> str:
    """A CREATE STREAM with other values of options, which are texts.

    >>> at = s.Position(1, 1)
    >>> option = s.Option(s.Name("lateness", at), s.Literal("2 seconds", at))
    >>> made = with_options("CREATE STREAM Cars (id BIGINT KEY)", [option])
    >>> made
    "CREATE STREAM Cars (id BIGINT KEY)\\nWITH (lateness = '2 seconds')"
    >>> with_options(made, [s.Option(s.Name("lateness", at), s.Literal("0 seconds", at))])
    "CREATE STREAM Cars (id BIGINT KEY)\\nWITH (lateness = '0 seconds')"
    """
    for option in options:
        statement = parse_one(text)
        assert isinstance(statement, s.CreateStream)
        name = option.name.text.casefold()
        written = f"{name} = {_quoted(str(option.value.value))}"
        known = {each.name.text.casefold(): each for each in statement.options}
        if name in known:
            held = known[name]
            start = offset_of(text, held.name.at)
            value = offset_of(text, held.value.at)
            end = value + len(_quoted(str(held.value.value)))
            text = text[:start] + written + text[end:]
        elif statement.options:
            start = offset_of(text, statement.options[0].name.at)
            text = f"{text[:start]}{written}, {text[start:]}"
        else:
            text = f"{text}\nWITH ({written})"
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def check_alterable(stream: Stream, options: tuple[s.Option, ...]) -> None:
    """Raise a StatementError for an option that cannot change while a stream runs."""
    known = Options(options, STREAM_OPTIONS)
    source = {} if stream.source is None else dict(stream.source.options)
    for name in STREAM_OPTIONS:
        option = known.get(name)
        if option is None:
            continue
        if name not in ALTERABLE:
            reason = _UNALTERABLE.get(name, "what is kept follows it from its beginning")
            raise wrong(
                f'option "{name}" of stream "{stream.name}" cannot change: {reason}',
                option.name.at,
                expected=f"one of {', '.join(ALTERABLE)}",
                hint="drop the stream and create it again",
            )
        if not isinstance(option.value.value, str):
            raise wrong(
                f'option "{name}": {option.value.value!r} is not a text',
                option.value.at,
                hint="write it in single quotes",
            )
        if name in source:
            raise wrong(
                f'option "{name}" is one of the source of stream "{stream.name}"',
                option.name.at,
                hint="drop the stream and create it again",
            )
