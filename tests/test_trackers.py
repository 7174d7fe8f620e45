"""Phones and trackers over HTTP, as OsmAnd and Traccar's client send their readings."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.server import Running, bearer, serving, wait_for

SETUP = """
CREATE STREAM Phones (who STRING KEY, x DOUBLE, y DOUBLE, at TIMESTAMP, speed DOUBLE, batt DOUBLE)
  WITH (space = 'wgs84', timestamps = 'milliseconds');
CREATE STREAM Arriving (id BIGINT KEY, lon DOUBLE, lat DOUBLE) WITH (space = 'wgs84');
REGISTER QUERY phones AS SELECT who, x, y, at, speed, batt FROM Phones;
REGISTER QUERY arriving AS SELECT id, lon, lat FROM Arriving;
"""
AT = 1_767_225_600  # 2026-01-01


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("trackers") / "home", SETUP) as running:
        yield running


@pytest.fixture(scope="module")
def tokens(served: Running) -> dict[str, str]:
    store = served.server.store
    return {role: store.create_token(f"the.{role}", role) for role in ("admin", "ingest")}


def path(stream: str = "phones") -> str:
    return f"/streams/{stream}/osmand"


def test_parameters_of_each_form_are_a_reading(served: Running) -> None:
    http = served.http
    place = {"lat": "47.25", "lon": "8.5", "altitude": "400.1", "hdop": ""}
    replies = [
        http.get(path(), params={**place, "id": "7", "timestamp": str(AT), "speed": "2.5"}),
        http.post(path(), params={**place, "deviceid": "8", "timestamp": str(AT * 1000 + 500)}),
        http.post(path(), data={**place, "id": "9", "timestamp": "2026-01-01T00:00:01Z"}),
        http.get(path(), params={"id": "10", "location": "1,2", "timestamp": str(AT + 2)}),
        http.get(path("arriving"), params={**place, "id": "7", "batt": "80"}),
    ]
    assert [reply.json() for reply in replies] == [
        {"taken": 1, "late": 0, "refused": [], "refused_count": 0}
    ] * len(replies)
    wait_for(lambda: len(served.answer("phones")) == 4)
    at = AT * 1_000_000
    assert served.answer("phones") == [
        ["10", 2.0, 1.0, at + 2_000_000, None, None],
        ["7", 8.5, 47.25, at, 2.5, None],
        ["8", 8.5, 47.25, at + 500_000, None, None],
        ["9", 8.5, 47.25, at + 1_000_000, None, None],
    ]
    wait_for(lambda: served.answer("arriving") == [[7, 8.5, 47.25]])


def test_what_the_newer_client_of_traccar_sends(served: Running) -> None:
    def location(second: int) -> dict[str, Any]:
        return {
            "timestamp": f"2026-01-01T01:00:{second:02d}.000Z",
            "coords": {"latitude": 46.5, "longitude": 9.5, "speed": 1.5, "heading": 90},
            "is_moving": True,
            "battery": {"level": 0.8, "is_charging": False},
            "activity": {"type": "still"},
        }

    one = {"location": location(0), "device_id": "tc"}
    assert served.http.post(path(), json=one).json()["taken"] == 1
    several = {"location": [location(1), location(2)], "device_id": "tc"}
    assert served.http.post(path(), json=several).json()["taken"] == 2
    last = AT * 1_000_000 + 3_602_000_000
    wait_for(lambda: ["tc", 9.5, 46.5, last, 1.5, 0.8] in served.answer("phones"))


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"lat": "1", "lon": "2", "timestamp": str(AT)}, 'column "who"'),
        ({"id": "7", "lat": "91", "lon": "2", "timestamp": str(AT)}, "91"),
        ({"id": "7", "lat": "north", "lon": "2", "timestamp": str(AT)}, "'north' is not a DOUBLE"),
        ({"id": "7", "lat": "1", "lon": "2", "timestamp": "noon"}, "'noon' is not a TIMESTAMP"),
        ({"id": "7", "lat": "1", "lon": "2"}, "at"),
    ],
)
def test_a_reading_that_is_wrong_is_refused(
    served: Running, parameters: dict[str, str], reason: str
) -> None:
    reply = served.http.get(path(), params=parameters)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "wrong_reading")
    assert reason in reply.json()["error"]["message"]


@pytest.mark.parametrize("body", ["{", "[]", '{"location": 1}', '{"location": {"coords": 2}}'])
def test_json_that_is_none_of_theirs_is_refused(served: Running, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    reply = served.http.post(path(), content=body, headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "wrong_json")
    assert served.http.get(path("no")).status_code == 404


def test_a_token_may_stand_in_the_address_if_it_only_sends(
    served: Running, tokens: dict[str, str]
) -> None:
    reading = {"id": "t", "lat": "1", "lon": "2", "timestamp": str(AT + 9000)}

    def status(headers: dict[str, str] | None = None, **more: str) -> int:
        found = served.http.get(path(), params={**reading, **more}, headers=headers or {})
        return found.status_code

    assert status() == 401
    assert status(token="place_wrong") == 401
    assert status(token=tokens["admin"]) == 403
    assert status(token=tokens["ingest"]) == 200
    assert status(bearer(tokens["ingest"])) == 200
    assert status(bearer(tokens["admin"])) == 200
    assert status({**bearer(tokens["ingest"]), "Sec-Fetch-Site": "cross-site"}) == 403
    other = served.http.post(
        "/streams/phones/readings", params={"token": tokens["ingest"]}, json=[]
    )
    assert other.status_code == 401, "nowhere else"
