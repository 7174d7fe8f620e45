"""Whatever is asked in the terms of the API's own description, no answer is an error of ours."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error

from tests.harness.examples import SEARCHES
from tests.harness.server import Running, serving

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING);
REGISTER QUERY near AS SELECT id, kind FROM Cars INSIDE (0, 0, 5, 5);
"""
EXAMPLES = 12 if SEARCHES else 4
NAMES = {"name": ["near", "Cars", "no"], "stream": ["Cars", "no"], "number": ["0"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("schema") / "home"
    with serving(home, SETUP) as running:
        yield running


def operations(served: Running) -> Iterator[Any]:
    schema = schemathesis.openapi.from_dict(served.http.get("/openapi.json").json())
    schema.config.update(base_url=served.url)
    for result in schema.get_all_operations():
        yield result.ok()


def test_every_route_is_described(served: Running) -> None:
    paths = served.http.get("/openapi.json").json()["paths"]
    assert {"/sql", "/queries/{name}/updates", "/streams/{name}/readings", "/health"} <= set(paths)
    assert len(paths) >= 10


def test_no_answer_is_an_error_of_ours(served: Running) -> None:
    asked = 0
    for operation, mode in itertools.product(operations(served), schemathesis.GenerationMode):

        @hypothesis.given(
            case=operation.as_strategy(generation_mode=mode), chance=hypothesis.strategies.randoms()
        )
        @hypothesis.settings(
            max_examples=EXAMPLES,
            phases=(hypothesis.Phase.generate,),
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def check(case: Any, chance: Any) -> None:
            nonlocal asked
            for parameter in list(case.path_parameters or ()):
                if (
                    parameter in NAMES and chance.random() < 0.7
                ):  # most names of any letters are of nothing
                    case.path_parameters[parameter] = chance.choice(NAMES[parameter])
            if case.path.endswith("/updates"):
                case.query = {"after": "999999-0"}  # an answer that has an end
            reply = case.call(timeout=20)
            asked += 1
            case.validate_response(reply, checks=[not_a_server_error])
            if reply.status_code >= 400:
                assert set(reply.json()) == {"error"}

        is_negative = mode is schemathesis.GenerationMode.NEGATIVE
        # Where there is nothing to say, there is nothing wrong to say either.
        with contextlib.suppress(*[hypothesis.errors.Unsatisfiable] * is_negative):
            check()
    assert asked > 10 * EXAMPLES // 2
    assert served.http.get("/health").json()["status"] == "ok"
