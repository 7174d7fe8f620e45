"""The demonstration: on the real pipeline, it ends by itself, and its deltas add up."""

from __future__ import annotations

import argparse
import io
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

import place
from place.demo import View, Watch, statements
from place.kernels.cache import choose_cache, fingerprint
from place.operate.compiling import (
    JOIN_STATEMENTS,
    JOINS,
    PARTS,
    TICKS,
    Compiling,
    compile_part,
    demo_statements,
    missing_parts,
)
from place.operate.options import set_up
from place.session import Session
from place.sql.scan import split

COMMAND = [sys.executable, "-m", "place.cli", "demo", "--objects", "500", "--rate", "4"]


def test_it_ends_by_itself_and_its_deltas_match_the_answers(tmp_path: Path) -> None:
    command = [*COMMAND, "--seconds", "12", "--home", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the live map is at http://127.0.0.1:" in done.stdout
    assert len(re.findall(r"│ +yes │", done.stdout)) == 14
    assert len(re.findall(r"│ +alerts, none taken back │", done.stdout)) == 2
    found = re.search(r"([\d,]+) readings, ([\d,]+) deltas: ([\d,]+) positive", done.stdout)
    assert found is not None
    readings, deltas, positive = (int(text.replace(",", "")) for text in found.groups())
    with place.connect(tmp_path, master="local[2]") as session:
        kept = Counter(each.delta.sign for each in session.resume())
        assert (kept.total(), kept[1]) == (deltas, positive)
        counts = [session.runtime.statistics(name)["readings"] for name in ("Vehicles", "Police")]
        assert sum(counts) == readings
        assert (counts[0] % 500, counts[1] % 40) == (0, 0)  # whole steps of each stream


@pytest.mark.long
def test_it_stops_cleanly_when_asked(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--no-map"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if " 0 objects" not in line and "objects" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert len(re.findall(r"│ +yes │", out)) == 14


def test_the_view_shows_queries_figures_and_deltas(tmp_path: Path) -> None:
    arguments = argparse.Namespace(objects=300, rate=0, seed=1)
    text = statements(arguments).replace("rate = 0", "rate = 0, steps = 3")
    text += "CREATE TRIGGER drives FOR Vehicles AS V WHEN V.speed > 0 REPORT FIRST"
    with place.connect(tmp_path, master="local[2]") as session:
        watch = Watch(session)
        set_up(session, text)
        session.drain()
        picture = drawn(session, watch)
        assert "340 objects" in picture
        assert "+ per_type ('bus'," in picture or "! drives" in picture
        assert "alert (" in picture
        assert watch.counts["drives", 1] > 300
        for query in session.catalog.queries.values():
            assert query.name in picture
            made = {row: n for row, n in watch.answers.get(query.name, Counter()).items() if n}
            assert made == dict(session.runtime.answer(query.name))
        assert watch.counts.total() > 50


def test_kernels_are_compiled_once_and_kept_where_it_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    environ = {"XDG_CACHE_HOME": str(file), "HOME": str(tmp_path)}
    assert choose_cache(environ) == tmp_path / ".cache" / "place" / "kernels"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert missing_parts(PARTS) == list(PARTS)
    for part in PARTS:  # as if it had been compiled
        (tmp_path / f"compiled-{part}-{fingerprint()}").touch()
    assert missing_parts(PARTS) == []
    compiling = Compiling()
    assert (compiling.is_needed, compiling.is_over, compiling.steps) == (False, True, 0)


@pytest.mark.parametrize("part", PARTS)
def test_what_compiles_kernels_runs_queries_of_every_kind(part: str) -> None:
    text = JOIN_STATEMENTS if part == JOINS else demo_statements(200, 1, 1)
    wanted = [
        sql for _, sql in split(text) if part in (JOINS, "nearest" if "kNN" in sql else "others")
    ]
    asked = sum(_tells_deltas(sql) for sql in wanted)
    others = sum(not _tells_deltas(sql) for _, sql in split(text))
    assert len(list(compile_part(part))) == asked + others + TICKS


def _tells_deltas(sql: str) -> bool:
    return "REGISTER QUERY" in sql or "CREATE TRIGGER" in sql


def drawn(session: Session, watch: Watch) -> str:
    out = io.StringIO()
    console = Console(width=160, height=50, file=out)
    console.print(View(session, watch, None).draw(50))
    return out.getvalue()
