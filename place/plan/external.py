"""Where streams come from and where sinks go, checked: what each kind is told by its options."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from place.errors import PlaceError, suggestion
from place.model.schema import Column, External, Stream, find_column
from place.model.time import parse_timestamp
from place.model.types import Type
from place.plan.options import (
    Options,
    count,
    number_from_zero,
    port,
    positive_duration,
    positive_number,
    truth,
    whole,
)
from place.sql import statements as s
from place.sql.statements import wrong

Form = Callable[[Any], object]
GENERATOR: dict[str, Form] = {
    "objects": count,
    "city": str,
    "edges": str,
    "nodes": count,
    "metres": positive_number,
    "centre": str,
    "seed": whole,
    "period": positive_number,
    "destinations": count,
    "weather": whole,
    "crowding": number_from_zero,
    "roam": truth,
    "start": parse_timestamp,
    "steps": count,
    "rate": number_from_zero,
}
CONNECTION = (
    *("security", "mechanism", "username", "password"),
    *("ca", "certificate", "private_key", "key_password"),
)
"""How to connect to Kafka: by SASL and TLS."""
MQTT = ("host", "port", "topic", *(name for name in CONNECTION if name != "mechanism"))
"""How to connect to a broker of MQTT."""
SOURCES = {
    "FILES": ("format", "columns", "timestamps", "header", "separator"),
    "KAFKA": (
        *("servers", "topic", "format", "columns", "timestamps"),
        *("schema", "descriptor", "message", "framing"),
        *CONNECTION,
    ),
    "MQTT": (*MQTT, "format", "columns", "timestamps"),
    "NMEA": ("path", "host", "port", "columns"),
    "GTFS_REALTIME": ("url", "every", "authorization", "columns"),
    "GENERATOR": (*GENERATOR, "columns"),
}
GENERATED = {"type": Type.STRING, "class": Type.STRING, "speed": Type.DOUBLE}
"""The attributes of generated objects; a type is also called a class."""
TARGETS: dict[str, tuple[str, ...]] = {
    "PARQUET": (),
    "KAFKA": ("servers", "topic", *CONNECTION),
    "WEBHOOK": ("url", "secret"),
    "MQTT": (*MQTT, "tells"),
    "POSTGRES": (
        *("host", "port", "database", "table"),
        *("username", "password", "security", "ca"),
    ),
}
REQUIRED = {
    "KAFKA": ("servers", "topic"),
    "MQTT": ("host", "topic"),
    "POSTGRES": ("host", "database", "table"),
    "GTFS_REALTIME": ("url",),
    "WEBHOOK": ("url",),
}
FORMATS = ("csv", "json", "parquet", "geojson", "gpx", "nmea")
MESSAGE_FORMATS = {"json": (), "avro": ("schema",), "protobuf": ("descriptor", "message")}
"""The formats of Kafka's messages, and what each needs to be read."""
FRAMINGS = ("none", "registry")
SEPARATORS = {",": ",", ";": ";", "|": "|", "tab": "\t", "space": " "}
"""What may stand between the fields of a line."""
TELLS = ("deltas", "answers")
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "FILES": {"format": FORMATS, "separator": tuple(SEPARATORS)},
    "KAFKA": {"format": tuple(MESSAGE_FORMATS), "framing": FRAMINGS},
    "MQTT": {"format": ("json", "owntracks"), "security": ("none", "tls"), "tells": TELLS},
    "POSTGRES": {"security": ("disable", "prefer", "require", "verify-ca", "verify-full")},
}
"""What the options of a kind may say, where that is one of a few words."""
TIMESTAMPS = (
    *("iso", "seconds", "milliseconds", "microseconds", "nanoseconds"),
    *("day/month/year", "month/day/year"),
)


_PAIR = re.compile(r'(\s*"[^"]+"\s*|[^=,"]+)=(\s*"[^"]+"\s*|[^=,"]+)(?:,|\Z)')


def parse_columns(text: str) -> dict[str, str]:
    """The option `columns` of a stream: how whoever sends its readings calls its columns.

    >>> parse_columns('ObjectID = mmsi, ts = "# Timestamp"')
    {'ObjectID': 'mmsi', 'ts': '# Timestamp'}
    """
    given: dict[str, str] = {}
    folded: set[str] = set()
    position = 0
    while match := _PAIR.match(text, position):
        if not all(map(str.strip, match.groups())):
            break
        name, source = (part.strip().strip('"').strip() for part in match.groups())
        if name.casefold() in folded:
            raise PlaceError(f'column "{name}" is there twice')
        folded.add(name.casefold())
        given[name] = source
        position = match.end()
    if position < len(text) or not given or text.rstrip().endswith(","):
        raise PlaceError(
            f"'{text}' is not a list of names", hint="write columns = 'ObjectID = mmsi, x = lon'"
        )
    return given


def names_of_columns(columns: tuple[Column, ...], text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of the option `columns`, whose first names are columns of the stream."""
    given = parse_columns(text)
    for name in given:
        if find_column(columns, name) is None:
            hint = suggestion(name, (column.name for column in columns), "columns")
            raise PlaceError(f'the stream has no column "{name}"', hint=hint)
    return tuple(given.items())


def names_of_fields(text: str) -> tuple[str, ...]:
    """The option `header` of FILES: what the fields of lines are, where no line of a file says so.

    >>> names_of_fields("taxi, ts, lon, lat")
    ('taxi', 'ts', 'lon', 'lat')
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise PlaceError(
            f"'{text}' is not a list of names", hint="write header = 'id, ts, lon, lat'"
        )
    return names


def form_of_timestamps(text: str) -> str:
    """The option `timestamps` of a stream."""
    if text not in TIMESTAMPS:
        hint = suggestion(text, TIMESTAMPS, "forms of timestamps")
        raise PlaceError(f"'{text}' does not exist", hint=hint)
    return text


def define_target(spec: s.ExternalSpec, queries: int | None) -> External:
    """Where a sink of so many queries goes; None if it is for all."""
    target = _external(spec, TARGETS, "sink")
    if target.kind == "POSTGRES" and queries != 1:
        raise wrong(
            "a table holds the answer of one query",
            spec.kind.at,
            hint="write FOR and the name of one query, and a sink for each",
        )
    if target.kind == "MQTT" and target.option("tells") == "answers" and queries is None:
        raise wrong(
            "answers are told of queries that are named",
            spec.kind.at,
            hint="write FOR and the names of queries, or tells = 'deltas'",
        )
    return target


def define_source(spec: s.ExternalSpec, columns: tuple[Column, ...]) -> External:
    """Where a stream comes from."""
    external = _external(spec, SOURCES, "source")

    options = Options(spec.options, SOURCES[external.kind])
    options.read("columns", partial(names_of_columns, columns))
    options.read("timestamps", form_of_timestamps)
    options.read("header", names_of_fields)
    if external.kind == "GENERATOR":
        for name, form in GENERATOR.items():
            options.read(name, form)
    return external


def check_source(stream: Stream, source: External, spec: s.ExternalSpec) -> None:
    """Raise a StatementError if a source cannot give what its stream has."""
    if source.kind == "GENERATOR":
        try:
            generated_fields(stream)
        except PlaceError as error:
            raise wrong(error.message, spec.kind.at, hint=error.hint) from None


def generated_fields(stream: Stream) -> list[str]:
    """What of a generated reading each column of a stream holds: id, x, y, time, type, speed."""
    if stream.x is None or stream.y is None:
        raise PlaceError("the generator makes positions, and the stream has no x and y")
    given = stream.source.option("columns") if stream.source is not None else None
    called = {
        name.casefold(): field.casefold()
        for name, field in (parse_columns(given) if isinstance(given, str) else {}).items()
    }
    roles = {stream.key: "id", stream.x: "x", stream.y: "y", stream.time: "time"}
    attributes = GENERATED if stream.key is not None else GENERATED | {"id": Type.BIGINT}
    fields = []
    for index, column in enumerate(stream.columns):
        name = column.name.casefold()
        field = roles.get(index, called.get(name, name))
        if index not in roles:
            known = attributes.get(field)
            if known is None:
                hint = suggestion(field, attributes, "attributes")
                raise PlaceError(f'generated objects have no "{field}"', hint=hint)
            if column.type is not known:
                raise PlaceError(
                    f'column "{column.name}" is a {column.type.value},'
                    f" and the {field} of generated objects is a {known.value}"
                )
        fields.append("type" if field == "class" else field)
    return fields


def _external(spec: s.ExternalSpec, kinds: dict[str, tuple[str, ...]], what: str) -> External:
    kind = spec.kind.text.upper()
    if kind not in kinds:
        raise wrong(
            f"{what} {spec.kind.text} does not exist",
            spec.kind.at,
            hint=suggestion(kind, kinds, f"{what}s"),
        )
    Options(spec.options, kinds[kind])
    given: dict[str, Any] = {o.name.text.casefold(): o.value.value for o in spec.options}
    if kind in ("FILES", "PARQUET"):
        if spec.argument is None or not isinstance(spec.argument.value, str):
            raise wrong(
                f"{kind} has no directory", spec.kind.at, hint=f"write {kind} ('directory/')"
            )
        given["path"] = spec.argument.value
    elif spec.argument is not None:
        raise wrong(
            f"{kind} takes options", spec.argument.at, hint=f"write {kind} ({kinds[kind][0]} = …)"
        )
    for name in REQUIRED.get(kind, ()):
        if not isinstance(given.get(name), str) or not given[name]:
            raise wrong(
                f'{kind} needs the option "{name}"', spec.kind.at, hint=f"write {name} = '…'"
            )
    if "url" in REQUIRED.get(kind, ()) and not given["url"].startswith(("http://", "https://")):
        raise wrong(
            f"{given['url']!r} is not an address of the web",
            spec.kind.at,
            hint="write url = 'https://…'",
        )
    for name, known in CHOICES.get(kind, {}).items():
        if name in given and given[name] not in known:
            option = next(o for o in spec.options if o.name.text.casefold() == name)
            raise wrong(
                f"{name} {given[name]!r} does not exist",
                option.value.at,
                hint=suggestion(str(given[name]), known, f"{name}s"),
            )
    if kind == "KAFKA":
        _check_messages(spec, given)
    options = Options(spec.options, kinds[kind])
    options.read("port", port)
    options.read("every", positive_duration)
    if kind == "NMEA":
        _check_receiver(spec, given)
    return External(kind, tuple(sorted(given.items())))


def _check_receiver(spec: s.ExternalSpec, given: dict[str, Any]) -> None:
    """Sentences come from the files of a directory, or from a machine that sends them."""
    texts = [name for name in ("path", "host") if isinstance(given.get(name), str) and given[name]]
    if len(texts) != 1 or ("port" in given) != (texts == ["host"]):
        raise wrong(
            "NMEA comes from the files of a directory, or from a host and its port",
            spec.kind.at,
            hint="write NMEA (path = 'directory/') or NMEA (host = '…', port = 10110)",
        )


def _check_messages(spec: s.ExternalSpec, given: dict[str, Any]) -> None:
    """Each format of messages has what it needs to be read, and nothing that is another's."""
    form = given.get("format", "json")
    for name in MESSAGE_FORMATS[form]:
        if not isinstance(given.get(name), str) or not given[name]:
            raise wrong(
                f'format {form!r} needs the option "{name}"',
                spec.kind.at,
                hint=f"write {name} = '…'",
            )
    others = {name for needs in MESSAGE_FORMATS.values() for name in needs}
    others |= {"framing"} if form == "json" else set()
    for option in spec.options:
        name = option.name.text.casefold()
        if name in others - set(MESSAGE_FORMATS[form]):
            raise wrong(
                f'format {form!r} has no option "{name}"',
                option.name.at,
                hint="say the format: format = 'avro' or format = 'protobuf'",
            )
