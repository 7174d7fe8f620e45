"""Messages in Avro and Protobuf: read as JSON's are, framed by a registry or not, good and bad."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

import place
from place.errors import ConfigurationError, StatementError
from place.model.schema import External, Stream
from place.runtime.intake.binary import BinaryForm, binary_form, check_binary
from place.runtime.intake.files import check_json

SCHEMA = {
    "type": "record",
    "name": "Position",
    "namespace": "city",
    "fields": [
        {"name": "note", "type": ["null", "string"]},
        {"name": "ID", "type": "long"},
        {"name": "x", "type": "double"},
        {"name": "y", "type": ["null", "double"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CAR", "BUS"]}},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
START = datetime(2026, 1, 1, tzinfo=UTC)


def stream_of(columns: str) -> Stream:
    session = place.connect(runtime="reference")
    session.sql(f"CREATE STREAM Cars ({columns})")
    return session.catalog.streams["cars"]


CARS = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING, ts TIMESTAMP")
ROWS = [
    {"note": None, "ID": 1, "x": 0.5, "y": 1.0, "kind": "CAR", "ts": START},
    {"note": "slow", "ID": 2, "x": -1.5, "y": 2.0, "kind": "BUS", "ts": START.replace(second=1)},
    {"note": "", "ID": 3, "x": 2.5, "y": 3.0, "kind": "CAR", "ts": START.replace(second=2)},
]


def avro(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), row)
    return out.getvalue()


def descriptors() -> bytes:
    """`city.Position` with a double without presence, an optional one, an enum and a timestamp."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="city.proto",
        package="city",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    enum = file.enum_type.add(name="Kind")
    enum.value.add(name="CAR", number=0)
    enum.value.add(name="BUS", number=1)
    message = file.message_type.add(name="Position")
    message.oneof_decl.add(name="_y")
    fields = [
        ("id", kind.TYPE_INT64, ""),
        ("x", kind.TYPE_DOUBLE, ""),
        ("y", kind.TYPE_DOUBLE, ""),
        ("kind", kind.TYPE_ENUM, ".city.Kind"),
        ("ts", kind.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
        ("tags", kind.TYPE_STRING, ""),
    ]
    for number, (name, form, type_name) in enumerate(fields, 1):
        field = message.field.add(name=name, number=number, type=form, type_name=type_name or None)
        field.label = kind.LABEL_REPEATED if name == "tags" else kind.LABEL_OPTIONAL
        if name == "y":
            field.proto3_optional, field.oneof_index = True, 0
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def protobuf(row: dict[str, Any]) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("city.Position"))()
    made.id, made.x, made.kind = row["ID"], row["x"], ["CAR", "BUS"].index(row["kind"])
    if row["y"] is not None:
        made.y = row["y"]
    made.ts.FromDatetime(row["ts"])
    made.tags.append("a")
    return bytes(made.SerializeToString())


WRITERS = {"avro": avro, "protobuf": protobuf}
FORMS = {
    "avro": BinaryForm("avro", json.dumps(SCHEMA).encode()),
    "protobuf": BinaryForm("protobuf", descriptors(), "city.Position"),
}
PREFIX = {"avro": b"\0\0\0\0\7", "protobuf": b"\0\0\0\0\7\0"}


def framed(form: BinaryForm) -> BinaryForm:
    return BinaryForm(form.format, form.definition, form.message, True)


def as_json(row: dict[str, Any]) -> str:
    return json.dumps({**row, "ts": row["ts"].isoformat()})


@pytest.mark.parametrize("kind", FORMS)
def test_messages_say_what_json_says(kind: str) -> None:
    values = pa.chunked_array([[WRITERS[kind](row) for row in ROWS]])
    routed = check_binary(CARS, FORMS[kind], values, "k")
    expected = check_json(CARS, pa.array([as_json(row) for row in ROWS]), "k")
    assert routed.rejected == expected.rejected == []
    assert routed.segment.to_pylist() == expected.segment.to_pylist()
    registry = pa.chunked_array([[PREFIX[kind] + WRITERS[kind](row) for row in ROWS]])
    again = check_binary(CARS, framed(FORMS[kind]), registry, "k")
    assert again.segment.to_pylist() == routed.segment.to_pylist()


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_wrong_is_set_aside_and_the_rest_is_read(kind: str) -> None:
    write = WRITERS[kind]
    absent = write({**ROWS[1], "y": None})
    values = [write(ROWS[0]), None, b"\xff\xff\xff", absent, write(ROWS[2])[:-1], write(ROWS[2])]
    routed = check_binary(CARS, FORMS[kind], pa.chunked_array([values]), "partition 0")
    assert [row["id"] for row in routed.segment.to_pylist()] == [1, 3]
    assert [each.line for each in routed.rejected] == [2, 3, 4, 5]
    reasons = [each.reason for each in routed.rejected]
    assert reasons[0] == "no message"
    assert reasons[1].startswith("no message of the")
    assert "y" in reasons[2]
    assert reasons[3].startswith("no message of the")
    assert routed.rejected[1].text == "ffffff"
    assert json.loads(routed.rejected[2].text)["y"] is None


def test_a_message_that_is_too_long_for_its_schema_is_wrong() -> None:
    values = pa.chunked_array([[avro(ROWS[0]) + b"\0", avro(ROWS[1])]])
    routed = check_binary(CARS, FORMS["avro"], values, "k")
    assert [row["id"] for row in routed.segment.to_pylist()] == [2]
    assert "1 bytes are left" in routed.rejected[0].reason


@pytest.mark.parametrize("kind", FORMS)
def test_a_registry_is_named_where_it_is_missing_or_there(kind: str) -> None:
    plain, numbered = WRITERS[kind](ROWS[1]), PREFIX[kind] + WRITERS[kind](ROWS[1])
    routed = check_binary(CARS, framed(FORMS[kind]), pa.chunked_array([[plain, numbered]]), "k")
    assert routed.segment.num_rows == 1
    assert routed.rejected[0].reason.startswith("no number of a registry")
    routed = check_binary(CARS, FORMS[kind], pa.chunked_array([[numbered]]), "k")
    assert "framing = 'registry'" in routed.rejected[0].hint


def test_which_message_of_a_file_stands_after_the_number() -> None:
    nested = b"\0\0\0\0\7" + b"\4\2\0" + protobuf(ROWS[0])
    routed = check_binary(CARS, framed(FORMS["protobuf"]), pa.chunked_array([[nested]]), "k")
    assert routed.segment.num_rows == 1


def test_messages_arrive_when_kafka_says() -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE")
    values = pa.chunked_array([[avro(row) for row in ROWS]])
    routed = check_binary(stream, FORMS["avro"], values, "k", arrival=pa.array([7, 8, 9]))
    assert routed.segment.column(routed.segment.num_columns - 2).to_pylist() == [7, 8, 9]


def test_what_cannot_be_read_is_known_before_any_message(tmp_path: Path) -> None:
    def opened(stream: Stream = CARS, **options: str) -> BinaryForm | None:
        return binary_form(stream, External("KAFKA", tuple(sorted(options.items()))))

    schema, desc = tmp_path / "a.avsc", tmp_path / "a.desc"
    schema.write_text(json.dumps(SCHEMA), "utf-8")
    desc.write_bytes(descriptors())
    assert opened(format="json") is None
    assert opened(format="avro", schema=str(schema)) == FORMS["avro"]
    found = opened(format="protobuf", descriptor=str(desc), message="city.Position")
    assert found == FORMS["protobuf"]
    wrong = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, speed DOUBLE, ts TIMESTAMP")
    with pytest.raises(ConfigurationError, match='no column "speed"'):
        opened(wrong, format="avro", schema=str(schema))
    with pytest.raises(ConfigurationError, match=r"none\.avsc cannot be read"):
        opened(format="avro", schema=str(tmp_path / "none.avsc"))
    with pytest.raises(ConfigurationError, match=r'no message "city.Car"; there are city.Position'):
        opened(format="protobuf", descriptor=str(desc), message="city.Car")
    schema.write_text('{"type": "record"', "utf-8")
    with pytest.raises(ConfigurationError, match="no schema of Avro"):
        opened(format="avro", schema=str(schema))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("format = 'avro'", 'needs the option "schema"'),
        ("format = 'protobuf', descriptor = 'a.desc'", 'needs the option "message"'),
        ("format = 'csv'", "format 'csv' does not exist"),
        ("schema = 'a.avsc'", "format 'json' has no option \"schema\""),
        ("format = 'avro', schema = 'a', message = 'b'", 'has no option "message"'),
        ("format = 'avro', schema = 'a', framing = 'glue'", "framing 'glue' does not exist"),
    ],
)
def test_options_that_do_not_fit_are_errors_of_the_statement(options: str, said: str) -> None:
    session = place.connect(runtime="reference")
    with pytest.raises(StatementError, match=said):
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)"
            f" FROM KAFKA (servers = 'h:1', topic = 't', {options})"
        )
