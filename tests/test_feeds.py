"""Feeds against their counterparts: a broker of MQTT, a receiver of AIS, an agency of transport."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.transit import gtfs_realtime_pb2
from pyais.encode import encode_dict

from place.errors import ConfigurationError
from place.session import Session
from tests.harness import LOOPBACK
from tests.harness.mosquitto import Broker, broker, unavailable
from tests.harness.pipeline import opened, runtime_of
from tests.harness.server import wait_for

START = 1_767_225_600  # 2026-01-01


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if reason := unavailable():
        pytest.skip(reason)
    with broker(tmp_path_factory.mktemp("mosquitto")) as running:
        yield running


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path / "home") as made:
        yield made


def taken(session: Session, stream: str) -> int:
    counts = session.runtime.statistics(stream)
    return counts["readings"] + counts["late"]


def reasons(session: Session) -> list[str]:
    """Why messages were set aside, in the order of their ticks."""
    found = Path(runtime_of(session).directory / "quarantine").glob("*.jsonl")
    lines = [line for path in sorted(found) for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line)["reason"] for line in lines]


# MQTT


def test_messages_of_json_are_readings(mosquitto: Broker, session: Session) -> None:
    session.sql(
        "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, topic STRING)"
        f" FROM MQTT ({mosquitto.options}, topic = 'cars/+');"
        "CREATE STREAM Taps (tap STRING KEY, x DOUBLE, y DOUBLE)"
        f" FROM MQTT ({mosquitto.options}, topic = 'taps/#', columns = 'tap = topic');"
        "REGISTER QUERY near AS SELECT id, topic FROM Cars INSIDE (0, 0, 5, 5);"
        "REGISTER QUERY open AS SELECT tap FROM Taps"
    )
    session.start()
    wait_for(lambda: len(mosquitto.subscribed()) == 2)
    mosquitto.publish(
        ("cars/1", {"id": 1, "x": 1, "y": 1, "ts": START}),
        ("cars/2", {"ID": 2, "X": 9, "Y": 9, "ts": "2026-01-01T00:00:01Z"}),
        ("cars/3", b"no json"),
        ("cars/4", {"id": "four", "x": 1, "y": 1, "ts": START}),
        ("cars/5/deeper", {"id": 5, "x": 1, "y": 1, "ts": START}),
        ("taps/kitchen", {"x": 1, "y": 2}),
        ("cars/6", {"id": 6, "x": 2, "y": 2, "ts": START + 2}),
    )
    wait_for(lambda: taken(session, "Cars") == 3 and taken(session, "Taps") == 1)
    session.advance("2026-01-02")
    assert list(session.answer("near")) == [(1, "cars/1"), (6, "cars/6")]
    assert session.runtime.statistics("Cars")["bad"] == 2
    assert [reason.partition(":")[0] for reason in reasons(session)] == ["not JSON", 'column "id"']
    session.sql("DROP QUERY near; DROP STREAM Cars")
    mosquitto.publish(("cars/7", {"id": 7, "x": 1, "y": 1, "ts": START}))
    session.stop()


def test_phones_of_owntracks_are_objects(mosquitto: Broker, session: Session) -> None:
    before = len(mosquitto.subscribed())
    session.sql(
        "CREATE STREAM Phones (who STRING KEY, lon DOUBLE, lat DOUBLE, at TIMESTAMP, batt BIGINT)"
        f" FROM MQTT ({mosquitto.options}, topic = 'owntracks/+/+', format = 'owntracks')"
        " WITH (space = 'wgs84');"
        "REGISTER QUERY all AS SELECT who, lon, lat, batt FROM Phones"
    )
    session.start()
    wait_for(lambda: len(mosquitto.subscribed()) > before)
    place = {"_type": "location", "lat": 47.25, "lon": 8.5, "tst": START, "batt": 80, "tid": "an"}
    mosquitto.publish(
        ("owntracks/anna/phone", {"_type": "lwt", "tst": START}),
        ("owntracks/ben/phone", {**place, "tst": "noon"}),
        ("owntracks/anna/phone", place),
    )
    wait_for(lambda: taken(session, "Phones"))
    session.advance("2026-01-02")
    assert list(session.answer("all")) == [("anna/phone", 8.5, 47.25, 80)]
    assert set(reasons(session)) == {'tst: "noon" is no time'}


def test_a_broker_that_is_away_is_tried_again(tmp_path: Path, session: Session) -> None:
    if reason := unavailable():
        pytest.skip(reason)
    with broker(tmp_path) as running:
        running.stop()
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            f" FROM MQTT ({running.options}, topic = 'cars');"
        )
        session.start()
        time.sleep(0.5)
        session.runtime.tend()  # which a broker that is away does not end
        for part in range(2):
            running.start()
            wait_for(lambda part=part: running.subscribed()[part:])
            rows = [{"id": i, "x": 1, "y": 1, "ts": START + part} for i in range(100)]
            running.publish(*(("cars", row) for row in rows))
            wait_for(lambda part=part: taken(session, "Cars") >= 100 * (part + 1))
            running.stop()
        assert taken(session, "Cars") == 200
        session.stop()


# AIS over TCP


class Receiver:
    """Sends lines to who connects; then the connection ends."""

    def __init__(self, *turns: list[str]) -> None:
        self._socket = socket.create_server((LOOPBACK, 0))
        self.port = self._socket.getsockname()[1]
        self._turns = turns
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for lines in self._turns:
            connection, _ = self._socket.accept()
            for line in lines:  # in pieces that are no lines
                data = (line + "\r\n").encode()
                connection.sendall(data[:7])
                time.sleep(0.01)
                connection.sendall(data[7:])
            connection.close()


def sentences(**message: Any) -> list[str]:
    return list(encode_dict(message, talker_id="AI"))


def test_ships_of_a_receiver_are_objects(session: Session) -> None:
    first = [
        *sentences(type=5, mmsi="219000606", shipname="MARIE"),
        *sentences(type=1, mmsi="219000606", lon=11.5, lat=55.25, speed=10.2),
        "nonsense",
        *sentences(type=5, mmsi="219000606", shipname="HALF OF IT")[:1],
    ]
    second = sentences(type=18, mmsi="219000607", lon=12.5, lat=55.5)
    receiver = Receiver(first, second, [])
    session.sql(
        "CREATE STREAM Ships (mmsi BIGINT KEY, x DOUBLE, y DOUBLE, at TIMESTAMP, shipname STRING)"
        f" FROM NMEA (host = '{LOOPBACK}', port = {receiver.port}) WITH (space = 'wgs84');"
        "REGISTER QUERY ships AS SELECT mmsi, x, y, shipname FROM Ships"
    )
    before = time.time()
    session.start()
    wait_for(lambda: taken(session, "Ships") == 2)
    session.stop()
    (at,) = {row.at.timestamp() >= before - 1 for row in session.sql("SELECT at FROM Ships").rows}
    assert at, "the time at which it was received"
    session.advance(int((time.time() + 60) * 1e6))
    assert list(session.answer("ships")) == [
        (219000606, 11.5, 55.25, "MARIE"),
        (219000607, 12.5, 55.5, None),
    ]
    assert reasons(session) == ["no sentence of NMEA"]


def test_a_feed_has_no_end(session: Session) -> None:
    session.sql(
        "CREATE STREAM Ships (mmsi BIGINT KEY, x DOUBLE, y DOUBLE)"
        f" FROM NMEA (host = '{LOOPBACK}', port = 1) WITH (space = 'wgs84')"
    )
    with pytest.raises(ConfigurationError, match='the feed of stream "Ships" has no end'):
        session.drain()


# Public transport


class Agency:
    """An agency that publishes where its vehicles are: an HTTP server on loopback."""

    def __init__(self) -> None:
        self.vehicles: dict[str, tuple[float, float, int]] = {}
        self.broken = False
        self.asked = 0
        agency = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                agency.asked += 1
                allowed = self.headers["Authorization"] == "key 7"
                body = b"<html>" if agency.broken else agency.feed()
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self.server.server_port}/vehicles.pb"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def feed(self) -> bytes:
        message = gtfs_realtime_pb2.FeedMessage()
        message.header.gtfs_realtime_version = "2.0"
        message.header.timestamp = START
        for name, (lon, lat, at) in self.vehicles.items():
            entity = message.entity.add(id=f"e{name}")
            entity.vehicle.vehicle.id = name
            entity.vehicle.trip.route_id = "U4"
            entity.vehicle.position.longitude = lon
            entity.vehicle.position.latitude = lat
            entity.vehicle.timestamp = at
        alert = message.entity.add(id="alert")
        alert.alert.header_text.translation.add(text="no trains")
        found: bytes = message.SerializeToString()
        return found


def test_vehicles_of_an_agency_are_objects(session: Session) -> None:
    agency = Agency()
    agency.vehicles = {"1": (16.35, 48.2, START), "2": (16.4, 48.25, START)}
    session.sql(
        "CREATE STREAM Trains (train STRING KEY, x DOUBLE, y DOUBLE, at TIMESTAMP, route STRING)"
        f" FROM GTFS_REALTIME (url = '{agency.url}', every = '100 ms', authorization = 'key 7')"
        " WITH (space = 'wgs84');"
        "REGISTER QUERY trains AS SELECT train, x, y, route FROM Trains"
    )
    session.start()
    wait_for(lambda: taken(session, "Trains") == 2)
    asked = agency.asked
    wait_for(lambda: agency.asked > asked + 2)
    assert taken(session, "Trains") == 2, "what was told before is no news"
    agency.broken = True
    asked = agency.asked
    wait_for(lambda: agency.asked > asked)
    agency.vehicles = {"1": (16.36, 48.2, START + 15), "2": (16.4, 48.25, START)}
    agency.broken = False
    wait_for(lambda: taken(session, "Trains") == 3)
    session.stop()
    session.advance("2026-01-02")
    assert list(session.answer("trains")) == [
        ("1", 16.36, 48.2, "U4"),
        ("2", 16.4, 48.25, "U4"),
    ]
    assert "key 7" not in str(session.sql("SHOW STREAMS").rows)
    agency.server.shutdown()
