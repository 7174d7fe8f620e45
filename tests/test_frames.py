"""Frames of the map: what their bytes say, and that a slot is one object's while it lives."""

import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import place
from place.model.schema import Stream
from place.runtime.durable.positions import Positions
from place.server.frames import HEADER, MOST_CLASSES, OTHER, REST, Classes, Layer, Slots
from place.server.live import roads_of
from place.server.query_info import key_places
from tests.harness.examples import examples


def stream_of(sql: str) -> Stream:
    session = place.connect()
    session.sql(sql)
    return next(iter(session.catalog.streams.values()))


CARS = stream_of(
    "CREATE STREAM Cars (x DOUBLE, y DOUBLE, id BIGINT KEY, ts TIMESTAMP, type STRING)"
)


def positions(rows: list[tuple[int, float, float, str | None]], tick: int = 1) -> Positions:
    """Objects as the runtime gives them: key, x, y, type."""
    keys, xs, ys, kinds = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 4
    times = np.arange(len(rows), dtype=np.int64) * 1_000_000
    columns = {
        0: pa.array(xs, pa.float64()),
        1: pa.array(ys, pa.float64()),
        2: pa.array(keys, pa.int64()),
        3: pa.array(times),
        4: pa.array(kinds, pa.string()).dictionary_encode(),
    }
    place_of = (np.array(keys, np.int64), np.array(xs, np.float64), np.array(ys, np.float64))
    return Positions(tick, CARS, *place_of, times, columns)


def test_a_frame_is_what_the_contract_says() -> None:
    layer = Layer(3, CARS)
    frame = layer.take(positions([(7, 1.5, -2, "bus"), (9, 0.25, 4, None)], tick=12), now=0)
    magic, version, index, tick, count, instant = HEADER.unpack_from(frame.data)
    assert frame.data[:4] == b"PLCE"
    assert (magic, version, index, tick, count) == (0x45434C50, 1, 3, 12, 2)
    assert instant == 1000.0
    assert struct.unpack("<2I4f2B", frame.data[24:]) == (0, 1, 1.5, -2, 0.25, 4, 0, OTHER)


def test_an_empty_frame_is_a_header() -> None:
    assert len(Layer(0, CARS).take(positions([]), now=0).data) == HEADER.size


def test_a_frame_of_some_objects() -> None:
    layer = Layer(0, CARS)
    frame = layer.take(positions([(i, i, -i, "car") for i in range(5)]), now=0)
    part = frame.only(np.array([1, 3, 77], np.uint32))
    assert part.slots.tolist() == [1, 3]
    assert part.places.tolist() == [[1, -1], [3, -3]]


def test_slots_are_found_by_keys_and_rows_by_slots() -> None:
    layer = Layer(0, CARS)
    layer.take(positions([(7, 1, 1, "bus"), (9, 2, 2, "car")]), now=0)
    layer.take(positions([(9, 3, 3, "car"), (8, 4, 4, "car")]), now=1)
    assert layer.slots.locate([9, 7, 8]) == [1, None, 2]
    assert layer.slots.find([8, 7, 9, 9]).tolist() == [1, 2]
    row = layer.row(1)
    assert row is not None
    assert (row["id"], row["x"], row["type"]) == (9, 3.0, "car")
    assert layer.row(0) is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_slot_rests_before_it_is_another_objects(kind: pa.DataType) -> None:
    def keys(*numbers: int) -> pa.Array:
        return pa.array(numbers, pa.int64()).cast(kind)

    slots = Slots()
    assert slots.number(keys(1, 2, 3), now=0).tolist() == [0, 1, 2]
    slots.number(keys(3), now=10)
    assert slots.number(keys(3, 4), now=10 + REST - 1).tolist() == [2, 3]
    assert slots.number(keys(3, 4, 5, 6, 7), now=10 + REST).tolist() == [2, 3, 0, 1, 4]


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.sets(st.integers(0, 12)), max_size=12), st.sampled_from([1.0, 25.0]))
def test_slots_are_unique_and_stay(frames: list[set[int]], pace: float) -> None:
    slots, held = Slots(), dict[int, int]()
    left: dict[int, float] = {}
    for number, alive in enumerate(frames):
        now = number * pace
        keys = sorted(alive, key=lambda key: (key * 7 + number) % 13)
        given_now = dict(
            zip(keys, slots.number(pa.array(keys, pa.int64()), now).tolist(), strict=True)
        )
        assert len(set(given_now.values())) == len(given_now)
        for key, slot in given_now.items():
            if key in held:
                assert slot == held[key]
            else:
                assert slot not in left or now - left[slot] >= REST
        for key in held.keys() - given_now.keys():
            left[held[key]] = now
        held = given_now


def test_classes_are_numbered_as_they_appear() -> None:
    classes = Classes()
    first = pa.array(["car", None, "bus", "car"]).dictionary_encode()
    assert classes.codes(first, 4).tolist() == [1, OTHER, 0, 1]
    assert classes.codes(pa.array(["car", "tram"]).dictionary_encode(), 2).tolist() == [1, 2]
    assert classes.names == ["bus", "car", "tram"]


def test_classes_are_bounded() -> None:
    classes = Classes()
    many = pa.array([f"class {i}" for i in range(MOST_CLASSES + 5)]).dictionary_encode()
    codes = classes.codes(many, len(many)).tolist()
    assert len(classes.names) == MOST_CLASSES
    assert codes.count(OTHER) == 5


def test_what_colours_a_stream() -> None:
    assert Layer(0, CARS).class_column == "type"
    plain = stream_of("CREATE STREAM Plain (id STRING KEY, x DOUBLE, y DOUBLE, class BIGINT)")
    assert Layer(0, plain).class_column is None


def test_bounds_are_the_streams_or_what_was_seen() -> None:
    layer = Layer(0, CARS)
    assert layer.bounds() is None
    layer.take(positions([(1, 1, 9, None), (2, 4, 3, None)]), now=0)
    assert layer.bounds() == (1, 3, 4, 9)


@pytest.mark.parametrize(
    ("select", "places"),
    [
        ("type, id FROM Cars", [("Cars", 1)]),
        ("b.x, a.id FROM Cars a, Cars b WHERE a.id = b.id WINDOW PREVIOUS", [("Cars", 1)]),
        ("type, COUNT(*) FROM Cars GROUP BY type", []),
        ("id + 1 FROM Cars", []),
    ],
)
def test_where_the_keys_stand_in_rows(select: str, places: list[tuple[str, int]]) -> None:
    session = place.connect()
    session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING)")
    session.sql(f"REGISTER QUERY q AS SELECT {select}")
    assert key_places(session.catalog.queries["q"]) == places


def test_roads_are_those_of_the_generator() -> None:
    stream = stream_of(
        "CREATE STREAM G (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING)"
        " FROM GENERATOR (objects = 10)"
    )
    found = json.loads(roads_of(stream))
    assert [feature["properties"]["class"] for feature in found["features"]] == list(range(7))
    line = found["features"][0]["geometry"]["coordinates"][0]
    assert len(line) == 2
    assert all(0 <= number <= 1 for point in line for number in point)


def test_a_stream_of_texts_without_objects_has_a_frame() -> None:
    ships = stream_of("CREATE STREAM Ships (name STRING KEY, x DOUBLE, y DOUBLE)")
    blank, keys = np.empty(0), np.empty(0, np.int64)
    columns = {i: pa.array([], pa.null()) for i in range(3)}
    frame = Layer(0, ships).take(Positions(1, ships, keys, blank, blank, keys, columns), now=0)
    assert len(frame.data) == HEADER.size
