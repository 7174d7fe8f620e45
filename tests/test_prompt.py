"""The prompt: one readable message for each slip, and the next statement works."""

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import place
from place.cli import main
from place.model import deadline
from place.plan.past import Question
from place.prompt import Prompt
from place.runtime.interface import Recalled

START = """\
CREATE STREAM MovingObjects (ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, type STRING);
CREATE STREAM Gone (id BIGINT KEY, x DOUBLE, y DOUBLE);
DROP STREAM Gone;
CREATE REGION Downtown AS RECTANGLE (0, 0, 10, 10);
"""

# What is typed, and what the one message about it has to say.
NASTY = [
    ("SELECT ObjectID FROM MovingObjects WHERE type = 'Car;", "not closed", "column 49"),
    ("SELECT ObjectId, sped FROM MovingObjects;", 'column "sped" does not exist', "column 18"),
    ("SELECT ObjectID FROM MovingObjects kNN (0, 1, 1);", "0 neighbours", "from 1 to"),
    ("SELECT ObjectID FROM MovingObjects INSIDE (0, 0, 1, 1, 2, 2);", "6 numbers", "corners"),
    ("SELECT ObjectID FROM MovingObjects INSIDE ('M', 0.5, 0.1);", "0.5 is not the id", "BIGINT"),
    ("SELECT ObjectID FROM MovingObjects kNN ('M', 3);", "the id of the focal object", "column 47"),
    ("SELECT ObjectID FROM MovingObjects INSIDE (1, 1, NaN);", "found NaN", "a number"),
    ("SELECT ObjectID FROM MovingObjects INSIDE (1, 1, -2);", "radius cannot be negative", "-2"),
    ("CREATE STREAM movingobjects (id BIGINT KEY, x DOUBLE, y DOUBLE);", "exists already", "DROP"),
    ("REGISTER QUERY q AS SELECT id FROM Gone;", '"Gone" does not exist', "column 36"),
    ("REGISTER QUERY q AS SELECT ObjectID FROM MovingObject;", "did you mean", "MovingObjects"),
    ("SELECT ObjectID FROM MovingObjects INSIDE Downtwn;", "did you mean", "Downtown"),
    ("DROP QUERY nothing;", "does not exist", "no queries yet"),
    ("SELECT COUNT(*) FROM MovingObjects WHERE COUNT(*) > 1;", "cannot stand within", "HAVING"),
    ("SELECT ObjectID FROM MovingObjects WHERE type = Car;", "does not exist", "'Car'"),
    ("CREATE TABLE T FROM 'nowhere.csv';", "does not exist", "nowhere.csv"),
    ("UPDATE MovingObjects SET x = 1;", "found UPDATE", "expected CREATE"),
    (")))((;", "found )", "line 1"),
]


def type_in(
    text: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "place.cli", "sql", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_each_slip_is_one_message_and_the_next_statement_works() -> None:
    typed = START
    for number, (slip, *_) in enumerate(NASTY):
        typed += f"{slip}\nCREATE REGION After{number} AS CIRCLE (0, 0, {number});\n"
    done = type_in(typed)
    assert done.stderr == ""
    assert done.returncode == 1
    lines = done.stdout.splitlines()[4:]
    assert len(lines) == 2 * len(NASTY), done.stdout
    for number, (slip, *parts) in enumerate(NASTY):
        message, after = lines[2 * number : 2 * number + 2]
        assert message.startswith("error: "), (slip, message)
        assert "(line " in message
        for part in parts:
            assert part in message, (slip, message)
        assert after == f'region "After{number}" created'


def test_statements_over_several_lines_readings_and_answers() -> None:
    done = type_in(
        START
        + "REGISTER QUERY here AS\n  SELECT ObjectID, type\n  FROM MovingObjects INSIDE Downtown;\n"
        ".push MovingObjects (1, 5, 5, 'Car')\n"
        ".at 10s\n"
        ".answer here\n"
        ".push MovingObjects (1) disappear\n"
        ".at 20s\n"
        ".at 5s\n"
        ".pusch x\n"
        "SHOW QUERIES;\n"
        ".quit\n"
        "this is not read\n"
    )
    assert "+ here (1, 'Car')" in done.stdout
    assert "- here (1, 'Car')" in done.stdout
    assert "error: the clock cannot go back" in done.stdout
    assert 'did you mean "push"?' in done.stdout
    assert "not read" not in done.stdout + done.stderr


def test_ctrl_c_gives_up_a_question_about_the_past_and_the_prompt_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    with place.connect() as session:
        prompt = Prompt(session, Console(file=out))
        prompt.take(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH (archive = 'all');"
        )
        prompt.take(".push Cars (1, 5, 5)")
        ask = "SELECT id FROM Cars AS OF '2000-01-01 00:00:01';"

        def recall(question: Question, most: int | None = None) -> Recalled:
            deadline.tell("half of it is read")
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("nobody was interrupted")

        # Whoever runs tests in the background has Ctrl-C ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with monkeypatch.context() as patch:
            patch.setattr(session.runtime, "recall", recall)
            prompt.take(ask)
        signal.signal(signal.SIGINT, before)
        prompt.take(ask)
    said = out.getvalue()
    assert "half of it is read\ngiven up\n" in said
    assert said.endswith("(1 row)\n")


def test_alerts_and_what_is_said_of_triggers() -> None:
    done = type_in(
        START
        + """CREATE TRIGGER close FOR MovingObjects AS V[2]
          WHEN DISTANCE(V, V) <= 1 AND SPAN(V) <= '10 seconds' AND V.ObjectID <> V.ObjectID;
.push MovingObjects (1, 5, 5, 'Taxi')
.push MovingObjects (2, 5, 5.5, 'Taxi')
SHOW TRIGGERS;
EXPLAIN TRIGGER close;
DROP QUERY close;
.answer close
.help
DROP TRIGGER close;
SHOW TRIGGERS;
"""
    )
    assert 'trigger "close" created' in done.stdout
    assert "! close (1, '2000-01-01 00:00:01', 2, '2000-01-01 00:00:02')" in done.stdout
    assert "V[1], V[2]" in done.stdout
    assert "Time from the row to the column" in done.stdout
    assert "write DROP TRIGGER close" in done.stdout
    assert "is a trigger, which has no answer" in done.stdout
    assert "CREATE TRIGGER" in done.stdout
    assert 'trigger "close" dropped' in done.stdout
    assert done.stdout.rstrip().endswith("(0 rows)")


def test_a_file_of_statements(tmp_path: Path) -> None:
    file = tmp_path / "setup.sql"
    file.write_text(START + "SELECT nothing FROM MovingObjects;\nSHOW REGIONS;\n")
    done = type_in("", "-f", str(file), "--home", str(tmp_path / "home"))
    assert done.returncode == 1
    assert "(line 5, column 8)" in done.stdout
    assert "RECTANGLE (0, 0, 10, 10)" in done.stdout
    again = type_in("SHOW STREAMS;", "--home", str(tmp_path / "home"))
    assert again.returncode == 0
    assert "MovingObjects" in again.stdout
    assert "Gone" not in again.stdout


def test_a_file_that_is_not_there() -> None:
    done = type_in("", "-f", "nowhere.sql")
    assert done.returncode == 1
    assert done.stderr.startswith("place: file nowhere.sql cannot be read")


@pytest.mark.parametrize("command", [[], ["sql"], ["script"], ["tour"], ["demo"], ["generate"]])
def test_help_teaches(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "usage: place" in said
    assert len(said.splitlines()) > 5


def test_the_tour_ends_with_a_summary() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "place.cli", "tour"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "+ downtown (1, 'Car')" in done.stdout
    assert "11 readings, 5 queries, 30 deltas: 17 positive, 13 negative" in done.stdout
