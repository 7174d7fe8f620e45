"""Files of formats that know what a position is: GeoJSON, GPX, and AIS as receivers write it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyais.encode import encode_dict

from place.cli import main
from place.model.reading import Reading
from place.model.segment import read_segment
from place.model.time import parse_timestamp
from place.plan.define import define_stream
from place.runtime.intake.check import Routed
from place.sql import statements
from place.sql.dialect import parse_one
from tests.harness.route import Folder, stream_of

EARTH = "space = 'wgs84'"


def readings(routed: Routed, stream: Any) -> list[Reading]:
    return read_segment(stream, routed.segment)


def rows(routed: Routed, stream: Any) -> list[tuple[Any, ...]]:
    assert not routed.rejected, routed.rejected
    return [tuple(reading.row or ()) for reading in readings(routed, stream)]


def moment(text: str) -> int:
    return parse_timestamp(text)


# GeoJSON

NOON = "2026-01-31T12:00:00Z"


def feature(place: Any, **properties: Any) -> dict[str, Any]:
    geometry = None if place is None else {"type": "Point", "coordinates": place}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def collection(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "name": "cars", "features": list(features), "crs": {}}


@pytest.mark.parametrize("name", ["a.geojson", "a.geojson.gz"])
def test_points_with_properties_are_readings(folder: Folder, name: str) -> None:
    stream = stream_of(
        "id BIGINT KEY, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, kind STRING", "", EARTH
    )
    features = [
        feature([8.5, 47.25, 400.0], id=1, ts=NOON, kind="cab", lon="no"),
        feature([8.75, 47.5], ID=2, TS=1_769_860_801),
        {**feature([9, 48], ts=NOON), "id": 3},
    ]
    text = json.dumps(collection(*features), indent=1).encode()
    found = folder.read(stream, name, gzip.compress(text) if name.endswith(".gz") else text)
    noon = moment(NOON)
    assert rows(found, stream) == [
        (1, 8.5, 47.25, noon, "cab"),
        (2, 8.75, 47.5, noon + 1_000_000, None),
        (3, 9.0, 48.0, noon, None),
    ]


def test_features_that_are_no_readings_are_set_aside_with_their_lines(folder: Folder) -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP")
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    features = [
        feature([1, 2], id=1, ts=NOON),
        {**feature(None, id=2, ts=NOON), "geometry": line},
        feature([1], id=3, ts=NOON),
        feature(["east", 2], id=4, ts=NOON),
        {"type": "Point", "coordinates": [1, 2]},
        feature([1, 2], id="five", ts=NOON),
        feature([3, 4], id=6, ts=NOON),
    ]
    lines = ",\n".join(map(json.dumps, features))
    found = folder.read(stream, "a.geojson", '{"features": [\n' + lines + '\n], "type": 1}')
    assert [reading.key for reading in readings(found, stream)] == [1, 6]
    reasons = {each.line: (each.reason, each.hint) for each in found.rejected}
    assert reasons[3] == (
        'a geometry of type "LineString"',
        "only points are readings: write a feature for each place and time",
    )
    assert reasons[4][0] == "a point without two coordinates"
    assert "'east' is not a DOUBLE" in reasons[5][0]
    assert reasons[6][0] == "an object that is no feature"
    assert set(reasons) == {3, 4, 5, 6, 7}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"type": "Topology"}', 'GeoJSON of type "Topology", not FeatureCollection'),
        ("[1]", "no JSON object, so no collection of features"),
        ('{"type": "FeatureCollection"}', 'a JSON object without "features"'),
        ('{"type": ', "not JSON: Expecting value (column 10)"),
        ('{"type" 1}', "not JSON: Expecting ':' delimiter (column 9)"),
    ],
)
def test_what_is_no_collection_says_so(folder: Folder, text: str, reason: str) -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP")
    (rejected,) = folder.read(stream, "a.geojson", text).rejected
    assert rejected.reason == reason
    assert "FeatureCollection" in rejected.hint


def test_a_collection_that_breaks_off_keeps_what_came_before(folder: Folder) -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP")
    text = json.dumps(collection(feature([1, 2], id=1, ts=NOON), feature([3, 4], id=2, ts=NOON)))
    found = folder.read(stream, "a.geojson", text[: text.index("[3, 4]")])
    assert [reading.key for reading in readings(found, stream)] == [1]
    assert "the rest of the array is lost" in found.rejected[0].reason
    packed = gzip.compress(text.encode())
    found = folder.read(stream, "a.geojson.gz", packed[:-9])
    assert found.rejected, "cut off"


def test_a_column_that_no_feature_has_is_one_error(folder: Folder) -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP", "format = 'geojson'")
    text = json.dumps(collection(feature([1, 2], id=1, time=NOON)))
    (rejected,) = folder.read(stream, "a.json", text).rejected
    assert rejected.reason == 'no column "ts"'
    named = stream_of(
        "id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP",
        "format = 'geojson', columns = 'ts = time'",
    )
    assert rows(folder.read(named, "a.json", text), named) == [(1, 1.0, 2.0, moment(NOON))]


# GPX

GPX = """<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="hand" xmlns="http://www.topografix.com/GPX/1/1"
     xmlns:t="http://example.com/trackpoint">
 <metadata><name>all of it</name><time>2020-01-01T00:00:00Z</time></metadata>
 <wpt lat="47.0" lon="8.0"><time>2026-01-31T11:59:59Z</time><name>start</name></wpt>
 <trk><name>Anna</name><trkseg>
  <trkpt lat="47.25" lon="8.5"><ele>401.5</ele><time>2026-01-31T12:00:00Z</time>
   <extensions><t:TrackPointExtension><t:speed>2.5</t:speed></t:TrackPointExtension></extensions>
  </trkpt>
  <trkpt lat="47.5" lon="8.75"><time>2026-01-31T12:00:01.5+00:00</time></trkpt>
 </trkseg></trk>
 <trk><trkseg><trkpt lat="1" lon="2"><time>2026-01-31T12:00:02Z</time></trkpt></trkseg></trk>
</gpx>
"""


@pytest.mark.parametrize("name", ["walk.gpx", "walk.gpx.gz"])
def test_points_of_tracks_are_readings(folder: Folder, name: str) -> None:
    stream = stream_of(
        "who STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, speed DOUBLE, ele DOUBLE", "", EARTH
    )
    text = GPX.encode()
    found = folder.read(stream, name, gzip.compress(text) if name.endswith(".gz") else text)
    noon = moment(NOON)
    assert rows(found, stream) == [
        ("walk", 8.0, 47.0, noon - 1_000_000, None, None),
        ("Anna", 8.5, 47.25, noon, 2.5, 401.5),
        ("Anna", 8.75, 47.5, noon + 1_500_000, None, None),
        ("walk", 2.0, 1.0, noon + 2_000_000, None, None),
    ]


def test_a_member_of_a_point_may_be_the_object(folder: Folder) -> None:
    stream = stream_of(
        "label STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP",
        "format = 'gpx', columns = 'label = name'",
        EARTH,
    )
    first, *others = readings(folder.read(stream, "a.xml", GPX), stream)
    assert first.key == "start"
    assert {reading.key for reading in others} == {"Anna", "a"}, "others have no name"


def test_gpx_that_is_broken_keeps_what_came_before(folder: Folder) -> None:
    stream = stream_of("who STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP", "", EARTH)
    found = folder.read(stream, "walk.gpx", GPX[: GPX.index("</trk>")])
    assert len(readings(found, stream)) == 3
    (rejected,) = found.rejected
    assert rejected.reason.startswith("not XML: ")
    wrong = folder.read(stream, "page.gpx", "<html><body/></html>")
    assert wrong.rejected[0].reason == "XML that is no GPX"
    assert not folder.read(stream, "empty.gpx", "").rejected
    far = GPX.replace('lat="47.25"', 'lat="147.25"')
    (rejected,) = folder.read(stream, "walk.gpx", far).rejected
    assert (rejected.line, "147.25" in rejected.reason) == (2, True)


def test_entities_do_not_fill_the_memory(folder: Folder) -> None:
    stream = stream_of("who STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP", "", EARTH)
    names = [f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "ha"}">' for i in range(12)]
    text = f"<!DOCTYPE gpx [{''.join(names)}]><gpx><name>&a11;</name></gpx>"
    (rejected,) = folder.read(stream, "bomb.gpx", text).rejected
    assert "not XML" in rejected.reason


# AIS


def sentences(**message: Any) -> list[str]:
    return list(encode_dict(message, talker_id="AI"))


def position(ship: int, lon: float, lat: float, **more: Any) -> str:
    (line,) = sentences(type=1, mmsi=str(ship), lon=lon, lat=lat, **more)
    return line


def named(ship: int, name: str) -> list[str]:
    return sentences(type=5, mmsi=str(ship), shipname=name)


SHIPS = "mmsi BIGINT KEY, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, speed DOUBLE, heading BIGINT"
AT = 1_769_860_800


def test_sentences_with_times_are_readings(folder: Folder) -> None:
    stream = stream_of(SHIPS, "", EARTH)
    lines = [
        "# a log",
        f"\\s:station,c:{AT}*4B\\" + position(219000606, 11.5, 55.25, speed=10.2, heading=90),
        "$GPRMC,120000,A,5515.0,N,01130.0,E,10.2,90,310126,,*00",
        position(219000607, 12.5, 55.5, speed=102.3, heading=511) + f",{AT + 1}",
        *named(219000606, "MARIE"),
        f"\\c:{AT + 2}*00\\" + position(219000608, 181, 91),
        "",
    ]
    found = folder.read(stream, "log.nmea", "\r\n".join(lines))
    noon = moment(NOON)
    assert rows(found, stream) == [
        (219000606, 11.5, 55.25, noon, 10.2, 90),
        (219000607, 12.5, 55.5, noon + 1_000_000, None, None),
    ]


def test_what_is_said_of_a_ship_stands_beside_its_positions(folder: Folder) -> None:
    columns = "ship STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, shipname STRING"
    stream = stream_of(columns, "", EARTH)
    first, second = named(219000606, "MARIE OF THE SEA")
    lines = [
        position(219000606, 11.5, 55.25) + f",{AT}",
        first,
        position(219000607, 11.5, 55.25) + f",{AT}",
        second,
        position(219000606, 11.75, 55.25) + f",{AT + 1}",
    ]
    packed = gzip.compress("\n".join(lines).encode())
    noon = moment(NOON)
    assert rows(folder.read(stream, "log.nmea.gz", packed), stream) == [
        ("219000606", 11.5, 55.25, noon, None),
        ("219000607", 11.5, 55.25, noon, None),
        ("219000606", 11.75, 55.25, noon + 1_000_000, "MARIE OF THE SEA"),
    ]


def test_lines_that_are_no_ais_are_set_aside(folder: Folder) -> None:
    stream = stream_of(SHIPS, "", EARTH)
    good = position(219000606, 11.5, 55.25)
    lines = [good + f",{AT}", "nonsense", good.replace("*", "*A")[:-1] + f",{AT}", good]
    found = folder.read(stream, "log.nmea", "\n".join(lines))
    assert len(readings(found, stream)) == 1
    reasons = {each.line: each.reason for each in found.rejected}
    assert reasons[2] == "no sentence of NMEA"
    assert reasons[3].startswith("no message of AIS: ")
    assert "time" in reasons[4], "this one has none"
    untimed = folder.read(stream, "log.nmea", good)
    (rejected,) = untimed.rejected
    assert (rejected.reason, rejected.line) == ("no sentence has a time", None)
    assert "\\c:" in rejected.hint
    arriving = stream_of("mmsi BIGINT KEY, x DOUBLE, y DOUBLE", "", EARTH)
    taken = folder.read(arriving, "log.nmea", good, arrival=moment(NOON))
    assert [reading.time for reading in readings(taken, arriving)] == [moment(NOON)]


# The statements, and `place replay`


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cars.geojson", json.dumps(collection(feature([1, 2], who="7", ts=NOON)))),
        (
            "7.gpx",
            GPX[: GPX.index(" <wpt")]
            + '<wpt lat="2" lon="1"><time>2026-01-31T12:00:00Z</time></wpt></gpx>',
        ),
        ("ships.nmea", position(7, 1, 2) + f",{AT}"),
    ],
)
def test_a_recording_of_each_format_is_replayed(
    tmp_path: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = tmp_path / "setup.sql"
    setup.write_text(
        "CREATE STREAM Things (who STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
        " WITH (space = 'wgs84');"
        "REGISTER QUERY here AS SELECT who, x, y FROM Things INSIDE (0, 0, 3, 3)"
    )
    (tmp_path / name).write_text(text, "utf-8")
    changelog = tmp_path / "changes.parquet"
    arguments = ["replay", "--setup", str(setup), "--readings", str(tmp_path / name)]
    assert main([*arguments, "--out", str(changelog)]) == 0
    assert "1 readings, 1 deltas" in capsys.readouterr().out
    assert pq.read_table(changelog).column("row").to_pylist() == ['["7", 1.0, 2.0]']


@pytest.mark.parametrize(
    "source",
    [
        "FILES ('in/', {})",
        "KAFKA (servers = 'a', topic = 'b', {})",
        "MQTT (host = 'a', topic = 'b', {})",
        "NMEA (path = 'in/', {})",
        "NMEA (host = 'a', port = 1, {})",
        "GTFS_REALTIME (url = 'https://a', {})",
    ],
)
def test_every_source_may_say_what_columns_are_called(source: str) -> None:
    text = "CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE) FROM " + source.format(
        "columns = 'id = other'"
    )
    statement = parse_one(text, text, 0)
    assert isinstance(statement, statements.CreateStream)
    assert define_stream(statement).names_of(0) == ("other",)
