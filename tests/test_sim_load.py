"""Road networks of others are read as they are, and bad files say what is wrong and where."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from place.errors import ConfigurationError
from place.model.space import Space
from place.sim import Generator, read_brinkhoff, read_geojson

NODES = "30\t0\t0\t*\r\n10\t300\t400\t*\r\n20\t300\t0\t*"
EDGES = "7001\t30\t10\t6\t*\r\n7002\t10\t20\t0\t*\r\n\r\n7003\t20\t30\t2\t*\r\n"


def files(folder: Path, nodes: str, edges: str) -> tuple[Path, Path]:
    for name, text in (("nodes.txt", nodes), ("edges.txt", edges)):
        (folder / name).write_bytes(text.encode())
    return folder / "nodes.txt", folder / "edges.txt"


def geojson(folder: Path, document: Any) -> Path:
    path = folder / "roads.geojson"
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return path


def feature(kind: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def collection(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


def test_brinkhoffs_files(tmp_path: Path) -> None:
    city = read_brinkhoff(*files(tmp_path, NODES, EDGES), metres=4000)
    assert (city.xs.tolist(), city.ys.tolist()) == ([0, 300, 300], [0, 400, 0])
    assert (city.starts.tolist(), city.ends.tolist()) == ([0, 1, 2], [1, 2, 0])
    assert city.classes.tolist() == [6, 0, 2]
    assert np.allclose(city.lengths, [5000, 4000, 3000])
    assert city.limits.tolist() == [15, 110, 60]
    assert len(Generator(city, objects=5).at(3).keys) == 5


def test_edges_with_lengths_in_place_of_classes(tmp_path: Path) -> None:
    nodes = "0 0.5 0.0\n1 1.5 0.0\n"
    city = read_brinkhoff(*files(tmp_path, nodes, "0 0 1 57.403187"), metres=100)
    assert city.classes.tolist() == [3]
    assert city.lengths.tolist() == [100]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("1 0 0\n2 1\n", "1 1 2 0", r"nodes.txt, line 2: 2 fields, expected 3: a node is `id x y`"),
        ("1 0 0\n\n2 1 one\n", "1 1 2 0", r"nodes.txt, line 3: y is a number, not 'one'"),
        ("1 0 0\n2 nan 1\n", "1 1 2 0", r"nodes.txt, line 2: x is a number, not 'nan'"),
        ("1 0 0\na 1 1\n", "1 1 2 0", r"nodes.txt, line 2: the node's id is a whole number"),
        ("1 0 0\n1 1 1\n", "1 1 2 0", r"nodes.txt, line 2: node 1 is in the file twice"),
        ("", "1 1 2 0", r"nodes.txt has no nodes"),
        ("1 0 0\n2 1 1", "1 1 2 0\n2 1 3 0", r"edges.txt, line 2: node 3 is not in .*nodes.txt"),
        ("1 0 0\n2 1 1", "1 1 2 7", r"edges.txt, line 1: the class of an edge is 0 to 6, not 7"),
        ("1 0 0\n2 1 1", "1 1 2 x", r"edges.txt, line 1: the class of an edge is a whole number"),
        ("1 0 0\n2 1 1", "1 1 2 1.x", r"edges.txt, line 1: the length of an edge is a number"),
        ("1 0 0\n2 1 1", "1 1 2", r"edges.txt, line 1: 3 fields, expected 4: an edge is"),
        ("1 0 0\n2 1 1", "", r"edges.txt has no edges"),
        ("1 0 0\n2 1 1", "1 2 2 0", r"at least one road between two different nodes"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, nodes: str, edges: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_brinkhoff(*files(tmp_path, nodes, edges))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*none\.txt: No such file"):
        read_brinkhoff(tmp_path / "none.txt", tmp_path / "edges.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="binary is not a text file"):
        read_geojson(tmp_path / "binary")


def test_lines_of_geojson_meet_where_they_share_a_point(tmp_path: Path) -> None:
    document = collection(
        feature("LineString", [[8.0, 53.0], [8.1, 53.0], [8.1, 53.1]], **{"class": 1}),
        feature("Point", [8.0, 53.0]),
        {"type": "Feature", "geometry": None, "properties": None},
        feature("MultiLineString", [[[8.1, 53.0, 4.0], [8.2, 53.0]], [[8.2, 53.0], [8.3, 53.0]]]),
    )
    city = read_geojson(geojson(tmp_path, document))
    assert city.xs.tolist() == [8.0, 8.1, 8.1, 8.2, 8.3]
    assert city.classes.tolist() == [1, 1, 3, 3]
    assert (city.starts.tolist(), city.ends.tolist()) == ([0, 1, 1, 3], [1, 2, 3, 4])
    degree = 6_371_008.8 * np.pi / 180
    narrower = np.cos(np.radians(53))
    assert np.allclose(city.lengths, degree * 0.1 * np.array([narrower, 1, narrower, narrower]))


def test_geojson_in_the_plane(tmp_path: Path) -> None:
    document = {"type": "LineString", "coordinates": [[0, 0], [1000, 0], [1000, 500]]}
    city = read_geojson(geojson(tmp_path, document), space=Space.PLANAR, metres=2000)
    assert city.lengths.tolist() == [2000, 1000]
    with pytest.raises(ConfigurationError, match=r"feature 1: \(1000, 0\) is no longitude"):
        read_geojson(geojson(tmp_path, document))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"type":\n "Feature",}', r"roads.geojson, line 2: not JSON: .*column"),
        ([], r"roads.geojson is not GeoJSON"),
        ({"type": "FeatureCollection"}, r"roads.geojson is not GeoJSON"),
        (collection(7), r"feature 1: a feature is an object"),
        (collection(feature("Point", [0, 0])), r"roads.geojson has no roads; roads are LineString"),
        (collection(feature("LineString", [[0, 0]])), r"feature 1: a line has at least two points"),
        (collection(feature("LineString", None)), r"feature 1: `coordinates` is a list"),
        (
            collection(
                feature("LineString", [[0, 0], [1, 1]]),
                feature("LineString", [[0, 0], [1, "1"]]),
            ),
            r"feature 2: a point is a list of two numbers, not \[1, '1'\]",
        ),
        (
            collection(feature("LineString", [[0, 0], [1, 1]], **{"class": 9})),
            r"feature 1: `class` is a whole number from 0 to 6, not 9",
        ),
    ],
)
def test_bad_geojson_is_explained(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_geojson(geojson(tmp_path, document))
