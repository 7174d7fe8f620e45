"""Every script holds, on every runtime, in whatever ticks its readings come.

That is what docs/design.md calls batch invariance.
"""

from pathlib import Path

import pytest

from place.script.blocks import Script, parse_script, read_script
from place.script.command import find_scripts, opener
from place.script.runner import (
    Batching,
    ScriptFailure,
    ScriptRunner,
    completed,
)
from place.tour import tour
from tests.harness.turns import in_turns

SCRIPTS = find_scripts([Path(__file__).parent / "scripts"])
BATCHINGS = ("one", "random:1", "random:2")
"""With `each` the reference would be compared with itself: it takes a tick for each block beside
every runtime, and there it is held against what the script expects."""


# Every number of rows and columns, every batching; the whole matrix is `place script`'s to run.
LOCAL = [("1x1", "each"), ("1x2", "one"), ("2x1", "random:1"), ("2x3", "random:2")]


def run(
    script: Script, batching: str = "each", runtime: str = "reference", cells: str = "1x1"
) -> ScriptRunner:
    runner = ScriptRunner(script, opener(runtime, cells), Batching.parse(batching))
    runner.run()
    return runner


@pytest.mark.parametrize(("path", "batching"), list(in_turns(SCRIPTS, BATCHINGS, every=4)))
def test_reference(path: Path, batching: str) -> None:
    run(read_script(path), batching)


@pytest.mark.parametrize(("path", "way"), list(in_turns(SCRIPTS, LOCAL)))
def test_local(path: Path, way: tuple[str, str]) -> None:
    cells, batching = way
    run(read_script(path), batching, "local", cells)


def test_there_are_enough_of_them() -> None:
    assert len(SCRIPTS) >= 60


@pytest.mark.parametrize("batching", ["each", *BATCHINGS])
def test_the_tour_holds(batching: str) -> None:
    run(tour(), batching)


GOOD = """
statement ok
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)

statement ok
REGISTER QUERY q AS SELECT id FROM Cars INSIDE (0, 0, 5, 5)

at 1s
Cars (1, 1, 1)
----
+ q (1)

at 2s
Cars (1, 9, 9)
----
- q (1)

answer q
----
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("+ q (1)", "+ q (2)", "expected"),
        ("+ q (1)", "", "expected"),
        ("- q (1)", "+ q (1)", "expected"),
        ("answer q\n----", "answer q\n----\n(1)", "expected"),
        ("Cars (1, 9, 9)", "Cars (1, 9)", "has 3 values besides"),
        ("Cars (1, 9, 9)", "Cabs (1, 9, 9)", "does not exist"),
        ("at 2s", "at 0s", "cannot go back"),
        ("statement ok\nREGISTER", "statement error nothing\nREGISTER", "succeeded"),
        ("INSIDE (0, 0, 5, 5)", "INSIDE (0, 0)", "failed"),
        ("at 2s", "at 2s error latitude", "expected an error"),
        ("+ q (1)", "+ nothing (1)", "does not exist"),
        ("+ q (1)", "plus q (1)", "not a delta"),
    ],
)
def test_a_script_that_does_not_hold_fails(right: str, wrong: str, message: str) -> None:
    assert right in GOOD
    run(parse_script(GOOD))
    with pytest.raises(ScriptFailure, match=message):
        run(parse_script(GOOD.replace(right, wrong, 1)))


def test_a_runtime_that_forgets_a_delta_is_caught() -> None:
    class Forgetful(ScriptRunner):
        def _compare(self, got):  # type: ignore[no-untyped-def]
            super()._compare([delta for delta in got if delta.sign > 0])

    runner = Forgetful(parse_script(GOOD), opener("reference", "1x1"), Batching.parse("one"))
    with pytest.raises(ScriptFailure, match=r"missing    - q \(1\)"):
        runner.run()


def test_complete_writes_what_the_reference_answers() -> None:
    bare = GOOD.replace("+ q (1)", "").replace("----\n- q (1)\n", "# a comment stays\n")
    script = parse_script(bare)
    runner = ScriptRunner(script, opener("reference", "1x1"), Batching.parse("each"), complete=True)
    text = completed(script, runner.run())
    assert "----\n+ q (1)" in text
    assert "# a comment stays\n----\n- q (1)" in text
    run(parse_script(text))
