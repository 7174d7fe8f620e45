"""The recipes of docs/recipes.md: its files load at the first try, over samples made by hand.

Its scripts are run by test_docs.py, as those of all pages are.
"""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyais.encode import encode_dict

from tests.harness.pipeline import opened, runtime_of

PAGE = (Path(__file__).parent.parent / "docs" / "recipes.md").read_text("utf-8")

ADSB = """\
ts,icao24,callsign,latitude,longitude,altitude,groundspeed,track,vertical_rate
1633608001,398564,AFR9455,48.3633991823,1.4134778475,20250.0,385.0,16.2720967338,-2560.0
1633608001,39a415,VLJ681N,48.9543798414,2.3886590255,2050.0,155.0,248.0615195323,2560.0
1633608002,398564,AFR9455,48.364,1.4136,,385.0,16.2,
"""
DANISH = """\
# Timestamp,Type of mobile,MMSI,Latitude,Longitude,Navigational status,ROT,SOG,COG,Heading,IMO,\
Callsign,Name,Ship type,Cargo type
31/12/2023 00:00:00,Class A,219000606,55.25,11.5,Under way using engine,0.0,10.2,90.0,91,9187629,\
OXYZ,MARIE,Passenger,
31/12/2023 00:00:02,Class B,219000607,55.5,12.5,Unknown value,,0.0,,,Unknown,,"ONE, TWO",Pleasure,
"""
CADASTRE = """\
MMSI,BaseDateTime,LAT,LON,SOG,COG,Heading,VesselName,IMO,CallSign,VesselType,Status,Length,Width
367380120,2023-01-01T00:00:03,37.80695,-122.40433,0.1,245.2,511.0,PILOT,IMO8745333,WDE5433,31,0,30,9
368084090,2023-01-01T00:00:09,29.93174,-90.19,,0.0,,,,,31,,,
"""
TAXI = """\
1,2008-02-02 15:36:08,116.51172,39.92123
1,2008-02-02 15:46:08,116.51135,39.93883
"""
GPX = """<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><name>Anna</name><trkseg>
<trkpt lat="47.25" lon="8.5"><ele>401.5</ele><time>2026-01-31T12:00:00Z</time></trkpt>
<trkpt lat="47.26" lon="8.5"><ele>402</ele><time>2026-01-31T12:00:05Z</time></trkpt>
</trkseg></trk></gpx>
"""


def geojson() -> str:
    properties = {"ts": "2026-01-31T12:00:00Z", "ele": 400}
    point = {"type": "Point", "coordinates": [8.5, 47.25]}
    feature = {"type": "Feature", "id": "Ben", "geometry": point, "properties": properties}
    return json.dumps({"type": "FeatureCollection", "features": [feature]})


def sentences() -> str:
    name = encode_dict({"type": 5, "mmsi": "219000606", "shipname": "MARIE"}, talker_id="AI")
    place = {"type": 1, "mmsi": "219000606", "lon": 11.5, "lat": 55.25, "speed": 10.2}
    (line,) = encode_dict(place, talker_id="AI")
    return "\n".join([*name, f"\\s:rx,c:1769860800*00\\{line}"])


def lay_out(directory: Path) -> None:
    """The samples, in the directories that the page names."""
    files: dict[str, str] = {
        "adsb/quickstart.csv.gz": ADSB,
        "ais/aisdk-2023-12-31.csv": DANISH,
        "cadastre/AIS_2023_01_01.csv": CADASTRE,
        "nmea/today.log": sentences(),
        "cabs/1.txt": TAXI,
        "cabs/2.txt": TAXI.replace("1,", "2,", 1).replace("\n1,", "\n2,"),
        "tracks/walk.gpx": GPX,
        "tracks/others.geojson": geojson(),
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def test_files_load_at_the_first_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    statements = re.findall(r"```sql\n(CREATE STREAM.*?)```", PAGE, re.DOTALL)
    assert len(statements) == 6
    with opened(tmp_path / "home") as session:
        for statement in statements:
            session.sql(statement)
        session.sql("REGISTER QUERY near AS SELECT mmsi, name FROM Ships")
        session.sql("CREATE SINK out FOR near TO PARQUET ('changes/')")
        session.drain()
        names = [stream.name for stream in session.catalog.streams.values()]
        found = {name: session.runtime.statistics(name) for name in names}
        aside = {name: counts["bad"] + counts["late"] for name, counts in found.items()}
        assert aside == dict.fromkeys(found, 0)
        assert {name: counts["readings"] for name, counts in found.items()} == {
            "Aircraft": 3,
            "Ships": 2,
            "Vessels": 2,
            "Heard": 1,
            "Cabs": 4,
            "Walks": 3,
        }
        for stream in found:
            runtime_of(session).finish(stream)

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in session.sql(sql).rows]

        assert rows("SELECT icao24, callsign, altitude FROM Aircraft") == [
            ("398564", "AFR9455", None),
            ("39a415", "VLJ681N", 2050.0),
        ]
        assert rows("SELECT mmsi, lon, sog, name, kind FROM Ships") == [
            (219000606, 11.5, 10.2, "MARIE", "Passenger"),
            (219000607, 12.5, 0.0, "ONE, TWO", "Pleasure"),
        ]
        assert rows("SELECT mmsi, name FROM Vessels") == [(367380120, "PILOT"), (368084090, None)]
        assert rows("SELECT mmsi, shipname, speed FROM Heard") == [(219000606, "MARIE", 10.2)]
        assert rows("SELECT taxi, lat FROM Cabs") == [(1, 39.93883), (2, 39.93883)]
        assert rows("SELECT who, ele FROM Walks") == [("Anna", 402.0), ("Ben", 400.0)]
        runtime_of(session).deliveries.settle()
    append: Callable[..., None] = scope()["append_ticks"]
    files = list((tmp_path / "changes").rglob("*.parquet"))
    assert files
    for _ in range(2):  # a second time appends nothing
        append(files, str(tmp_path / "delta"))
    table = deltalake.DeltaTable(str(tmp_path / "delta")).to_pyarrow_table()
    assert sorted(table.column("mmsi").to_pylist()) == [219000606, 219000607]


def scope() -> dict[str, Any]:
    """What the Python of the page defines."""
    found: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, found)
    return found


@pytest.mark.long
def test_deltas_are_written_by_spark(tmp_path: Path) -> None:
    """As Parquet here: Delta's package for Spark is not at hand."""
    with opened(tmp_path / "home") as session:
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP);"
            "REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5, 5)"
        )
        session.push("Cars", [(1, 1, 1, "2026-01-01"), (2, 9, 9, "2026-01-01")], time="2026-01-01")
        out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
        query = scope()["write_deltas"](session, out, checkpoint, form="parquet")
        query.processAllAvailable()
        query.stop()
        rows = runtime_of(session).spark.read.parquet(out).collect()
        assert [(row.query, row.sign, row.row) for row in rows] == [("near", 1, "[1]")]
