"""The benchmarks of the engine on streams: readings as promised, and the rival's deltas."""

import json
from argparse import Namespace
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench import progressive, stream, stream_city
from bench.command import run_progressive
from bench.stream_rival import FixedRegions, vectors
from place.cli import main
from place.errors import ConfigurationError, InternalError
from place.model.shape import Circle, contains
from place.model.space import Space
from place.model.time import SECOND

KEYS = """readings queries shape space readings_per_s pushed_per_s instants deltas seconds
    baseline_s ratio register_s calibration_s""".split()
FEW = stream.Setting(readings=1_200, queries=40)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about times."""
    monkeypatch.setattr(stream, "WARM_UP", (60, 6))
    for module in (stream, progressive):
        monkeypatch.setattr(module, "calibrate", lambda: 0.5)


def measure(setting: stream.Setting) -> stream.Figures:
    return stream.measure(setting, Console(quiet=True), repetitions=1)


@pytest.mark.parametrize("space", Space)
def test_about_six_readings_are_in_an_instant_of_a_second(space: Space) -> None:
    readings = stream_city.drive(space, 20_000)
    _, counts = np.unique(readings.times, return_counts=True)
    assert 6 < counts.mean() < 6.6
    assert not (readings.times % SECOND).any()
    assert (np.diff(readings.times) >= 0).all()


def test_readings_one_by_one_have_a_time_each() -> None:
    readings = stream_city.drive(Space.WGS84, 20_000, one_by_one=True)
    assert (np.diff(readings.times) > 0).all()


def test_vehicles_drive_through_the_city_as_fast_as_they_say() -> None:
    readings = stream_city.drive(Space.PLANAR, 20_000, one_by_one=True)
    assert (readings.places >= 0).all()
    assert (readings.places <= stream_city.CITY).all()
    assert ((readings.speeds >= 10) & (readings.speeds <= 20)).all()
    for vehicle in range(stream_city.VEHICLES):
        mine = readings.keys == vehicle
        assert np.count_nonzero(mine) == 40
        ways = np.linalg.norm(np.diff(readings.places[mine], axis=0), axis=1)
        gaps = np.diff(readings.times[mine]) / SECOND
        assert (ways <= readings.speeds[mine][1:] * gaps + 0.001).all()
        assert 60 < gaps.mean() < 100


def test_the_same_seed_drives_the_same_way_in_both_spaces() -> None:
    planar, sphere = (stream_city.drive(space, 1_000, seed=3) for space in Space)
    assert np.array_equal(stream_city.positions(Space.WGS84, planar.places), sphere.places)
    assert np.array_equal(planar.times, sphere.times)


@pytest.mark.parametrize("queries", [300, 1_000, 10_000])
@pytest.mark.parametrize("shape", stream_city.SHAPES)
def test_regions_have_about_five_deltas_for_each_reading(queries: int, shape: str) -> None:
    setting = stream.Setting(queries=queries, shape=shape)
    readings = stream.readings_of(setting, 20_000)
    assert 4 < len(stream.rival_of(setting).find(readings)) / len(readings) < 6


@pytest.mark.parametrize(
    ("shape", "space"), list(product([*stream_city.SHAPES, "mixed"], ["planar", "wgs84"]))
)
def test_the_rival_finds_the_same_deltas(shape: str, space: str) -> None:
    figures = measure(replace(FEW, shape=shape, space=space))
    assert (figures.readings, figures.queries, figures.left_out) == (1_200, 40, 0)
    assert figures.deltas > figures.readings / 2


@pytest.mark.parametrize("space", ["planar", "wgs84"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_rival_finds_the_same_deltas_of_moving_circles(space: str, one_by_one: bool) -> None:
    figures = measure(replace(FEW, moving=20, space=space, one_by_one=one_by_one))
    assert figures.queries == figures.moving == 20
    assert figures.deltas > figures.readings / 2


def test_queries_beside_have_deltas_of_their_own() -> None:
    alone = measure(FEW)
    among = measure(replace(FEW, aggregate=True, window=True, knn=True))
    assert among.beside == "aggregate, window, knn"
    assert among.deltas > alone.deltas


def test_a_delta_too_few_is_noticed() -> None:
    readings, rival = stream.readings_of(FEW, FEW.readings), stream.rival_of(FEW)
    found = rival.find(readings)
    assert stream.compare(found, found, rival, readings) == 0
    names = ("queries", "keys", "instants", "signs")
    fewer = replace(found, **{name: getattr(found, name)[:-1] for name in names})
    with pytest.raises(InternalError, match=f"q{found.queries[-1]}"):
        stream.compare(fewer, found, rival, readings)


def test_a_query_with_a_reading_on_its_edge_is_left_out() -> None:
    readings = stream.readings_of(FEW, 600)
    x, y = readings.places[0].tolist()
    circle = Circle(x + 0.01, y, 0.0)
    centre = vectors(Space.WGS84, np.array([[circle.x, circle.y], [x, y]]))
    reach = 2 * np.arcsin(np.linalg.norm(centre[1] - centre[0]) / 2) * 6_371_008.8
    rival = FixedRegions([replace(circle, r=float(reach))], Space.WGS84)
    found = rival.find(readings)
    none = replace(found, **{name: getattr(found, name)[:0] for name in vars(found)})
    assert len(found)
    assert stream.compare(none, found, rival, readings) == 1


@pytest.mark.parametrize("space", Space)
def test_the_rival_asks_shapes_as_the_model_does(space: Space) -> None:
    shapes = stream_city.make_shapes(space, "mixed", 12)
    readings = stream_city.drive(space, stream_city.VEHICLES)
    found = FixedRegions(shapes, space).find(readings)
    expected = {
        (number, key)
        for number, shape in enumerate(shapes)
        for key, (x, y) in zip(readings.keys.tolist(), readings.places.tolist(), strict=True)
        if contains(shape, space, x, y)
    }
    assert set(zip(found.queries.tolist(), found.keys.tolist(), strict=True)) == expected
    assert set(found.signs.tolist()) == {1}


def test_the_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "stream.json"
    call = ["bench", "stream", "--readings", "600", "--queries", "9", "--shape", "mixed"]
    assert main([*call, "--space", "planar", "--json", str(file)]) == 0
    figures = json.loads(file.read_text("utf-8"))
    assert set(KEYS) <= set(figures)
    assert (figures["shape"], figures["space"], figures["readings"]) == ("mixed", "planar", 600)
    told = capsys.readouterr().out
    assert all(key in told for key in KEYS)


def test_more_moving_queries_than_vehicles_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="500"):
        measure(replace(FEW, moving=501))


def test_squares_have_the_same_deltas_with_other_queries_beside(tmp_path: Path) -> None:
    file = tmp_path / "beside.json"
    sizes = ["--objects", "60", "--queries", "50", "--side", "0.4", "--readings", "80"]
    assert main(["bench", "progressive", "--beside", *sizes, "--json", str(file)]) == 0
    figures = json.loads(file.read_text("utf-8"))
    assert figures["deltas"] > 80
    assert figures["share"] == figures["beside_readings_per_s"] / figures["readings_per_s"]


def test_focal_readings_are_of_the_kernel_alone() -> None:
    with pytest.raises(ConfigurationError, match="focal"):
        run_progressive(Namespace(**vars(progressive.Setting(focal=0.1)), beside=True, json=None))
