"""Random scripts over streams without KEY: the local runtime tells what the reference tells.

Windows of all kinds, beside tables and other streams, with and without EMIT ARRIVALS. What fails is
a script, so that it can be committed as it is.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from place.script.blocks import parse_script
from place.script.command import opener
from place.script.runner import Batching, ScriptRunner
from tests.harness.examples import examples

EXAMPLES = examples(24)

CREATED = """
CREATE TABLE Kinds (kind STRING, weight BIGINT) AS VALUES ('a', 1), ('b', 2), ('b', 3), (NULL, 4);
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)
"""
OPTIONS = ["evaluate = '2 seconds'", "lateness = '2 seconds'", "history = '1 minute'"]
SHOWN = ["kind", "DISTINCT kind", "n, kind", "x, y", "*", "COUNT(*)", "SUM(n), MIN(kind)"]
WINDOWS = ["1 SECOND", "3 SECONDS", "10 SECONDS", "1 ROW", "2 ROWS", "5 ROWS"]
CONDITIONS = ["", "", "WHERE n > 1", "WHERE kind = 'a'", "WHERE kind IS NULL OR n < 2"]
AREAS = ["", "", "INSIDE (0, 0, 2, 2)", "INSIDE (1, 1, 1)", "INSIDE ('M', 1 OF Cars, 1)"]
SMALL = st.integers(0, 3)


def select(draw: st.DrawFn) -> str:
    window = draw(st.sampled_from(WINDOWS))
    which = draw(st.integers(0, 9))
    if which == 0:
        other = draw(st.sampled_from(WINDOWS))
        return (
            f"SELECT a.n, b.kind FROM Shots a WINDOW {window}, Shots b WINDOW {other}"
            " WHERE a.n = b.n"
        )
    if which == 1:
        return (
            f"SELECT c.id, s.kind FROM Shots s WINDOW {window}, Cars c WHERE DISTANCE(s, c) <= 1.5"
        )
    if which == 2:
        return (
            "SELECT k.weight, COUNT(*) FROM Shots s, Kinds k WHERE s.kind = k.kind"
            f" WINDOW {window} GROUP BY k.weight"
        )
    if which == 3:
        return f"SELECT kind, COUNT(*) FROM Shots WINDOW {window} GROUP BY kind"
    shown = draw(st.sampled_from(SHOWN))
    where, area = draw(st.sampled_from(CONDITIONS)), draw(st.sampled_from(AREAS))
    return f"SELECT {shown} FROM Shots {where} {area} WINDOW {window}"


def shot(draw: st.DrawFn, clock: int, is_slow: bool) -> str:
    kind = draw(st.sampled_from(["'a'", "'b'", "NULL"]))
    line = f"Shots ({draw(SMALL)}, {draw(SMALL)}, {draw(SMALL)}, {kind})"
    ago = draw(st.sampled_from([0, 0, 1, 2, 4] if is_slow else [0, 0, 0, 0, 1]))
    return f"{line} at {max(0, clock - ago)}s"


@st.composite
def scripts(draw: st.DrawFn) -> str:
    options = draw(st.lists(st.sampled_from(OPTIONS), unique=True))
    written = f" WITH ({', '.join(options)})" if options else ""
    columns = "(x DOUBLE, y DOUBLE, n BIGINT, kind STRING)"
    blocks = [f"statement ok\nCREATE STREAM Shots {columns}{written};{CREATED.strip()}"]
    live: list[str] = []
    clock = 0
    for number in range(draw(st.integers(3, 14))):
        happens = draw(st.sampled_from(["at"] * 4 + ["query"] * 2 + ["drop", "select", "recover"]))
        if number < 1 or happens == "query":
            live.append(f"q{number}")
            emit = draw(st.sampled_from(["", "", " EMIT ARRIVALS"]))
            blocks.append(f"statement ok\nREGISTER QUERY q{number}{emit} AS {select(draw)}")
        elif happens == "drop" and live:
            blocks.append(f"statement ok\nDROP QUERY {live.pop()}")
        elif happens == "select":
            blocks.append(f"statement ok\n{select(draw)}")
        elif happens == "recover":
            blocks.append("recover")
        else:
            clock += draw(st.sampled_from([0, 1, 1, 2, 5]))
            slow = "lateness" in written
            lines = [shot(draw, clock, slow) for _ in range(draw(st.integers(0, 6)))]
            if draw(st.booleans()):
                lines.append(f"Cars ({draw(st.integers(1, 2))}, {draw(SMALL)}, {draw(SMALL)})")
            blocks.append("\n".join([f"at {clock}s", *lines]))
    blocks.append(f"at {clock + 20}s")
    return "\n\n".join([*blocks, *(f"answer {name}" for name in live)]) + "\n"


@pytest.mark.parametrize("cells", ["1x1", "2x2", "3x1"])
@settings(
    max_examples=EXAMPLES // 3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=scripts(), batching=st.sampled_from(["each", "one", "random:1", "random:2"]))
def test_random_scripts(text: str, batching: str, cells: str, tmp_path: Path) -> None:
    note(text)
    script = parse_script(text, tmp_path / "search.cq")
    ScriptRunner(script, opener("local", cells), Batching.parse(batching)).run()
