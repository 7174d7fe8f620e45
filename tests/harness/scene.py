"""A random script as it is written: statements, readings and recoveries in every order."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from place.script.blocks import parse_script
from place.script.command import opener
from place.script.runner import Batching
from tests.harness.search import ScriptWithFiles, TableSpec, World

HAPPENINGS = ["at"] * 6 + ["query"] * 2
HAPPENINGS += ["drop", "refresh", "rows", "replace", "select", "recover"]


ALTERNATIVES = {
    r"WINDOW \S+ (SECONDS|ROWS)$": ["WINDOW 4 SECONDS", "WINDOW 2 ROWS", "WINDOW 9 SECONDS"],
    r"kNN \(\d+": ["kNN (1", "kNN (2"],
    r"FOR '\S+ seconds'": ["FOR '1 seconds'", "FOR '3 seconds'"],
    r"(?<=Cars C WHERE) ": [" C.speed > 5 AND ", " C.type = 'Car' AND "],
}
"""What may stand in a query instead of what stands there, without another change of its columns."""


@dataclass
class Scene:
    """The blocks of a script, with its clock, its queries and its tables of files.

    `select` draws a SELECT, and `tell` a reading.
    """

    world: World
    select: Callable[[st.DrawFn], str]
    tell: Callable[[st.DrawFn], str]
    blocks: list[str] = field(default_factory=list)
    clock: float = 0.0
    live: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    files: list[TableSpec] = field(default_factory=list)
    tables: list[TableSpec] = field(default_factory=list)
    selects: dict[str, str] = field(default_factory=dict)

    def statement(self, sql: str, comment: str = "") -> None:
        self.blocks.append(f"{comment}\nstatement ok\n{sql}".strip())

    def create(self, draw: st.DrawFn, spec: TableSpec, most: int = 6) -> None:
        options = self.world.with_options(spec.name)
        self.tables.append(spec)
        if draw(st.integers(0, 2)) < 2:
            self.statement(spec.create(spec.rows(draw, 1, most), options))
            return
        self.files.append(spec)
        self.statement(spec.create_from_file(options), spec.comment(spec.rows(draw, 0, most)))

    def register(self, draw: st.DrawFn) -> None:
        name = f"q{len(self.live) + len(self.dropped)}"
        if self.dropped and draw(st.booleans()):
            name = self.dropped.pop()
        self.live.append(name)
        self.selects[name] = self.select(draw)
        self.statement(f"REGISTER QUERY {name} AS {self.selects[name]}")

    def replace(self, draw: st.DrawFn) -> None:
        """Another query of the same columns in the place of one."""
        name = draw(st.sampled_from(self.live))
        text = self.selects[name]
        for pattern, others in ALTERNATIVES.items():
            if draw(st.booleans()):
                text = re.sub(pattern, draw(st.sampled_from(others)), text, count=1)
        self.selects[name] = text
        self.statement(f"REGISTER OR REPLACE QUERY {name} AS {text}")

    def change_rows(self, draw: st.DrawFn) -> None:
        """Rows more, or fewer, of a table."""
        spec = draw(st.sampled_from(self.tables))
        rows = spec.rows(draw, 1, 3)
        shown = ", ".join(f"({', '.join(row)})" for row in rows)
        column = spec.columns[0].split()[0]
        self.statement(
            draw(
                st.sampled_from(
                    [
                        f"INSERT INTO {spec.name} VALUES {shown}",
                        f"DELETE FROM {spec.name} WHERE {column} = {rows[0][0]}",
                        f"DELETE FROM {spec.name} WHERE {column} IS NOT NULL",
                    ]
                )
            )
        )

    def happen(self, draw: st.DrawFn, what: str) -> None:
        if what == "query":
            self.register(draw)
        elif what == "drop" and self.live:
            name = self.live.pop(draw(st.integers(0, len(self.live) - 1)))
            self.dropped.append(name)
            self.statement(f"DROP QUERY {name}")
        elif what == "refresh" and self.files:
            spec = draw(st.sampled_from(self.files))
            self.statement(f"REFRESH TABLE {spec.name}", spec.comment(spec.rows(draw, 0, 6)))
        elif what == "rows" and self.tables:
            self.change_rows(draw)
        elif what == "replace" and self.live and self.selects:
            self.replace(draw)
        elif what == "select":
            self.statement(self.select(draw))
        elif what == "recover" and draw(st.booleans()):
            self.blocks.append("recover")
        else:
            self.clock += draw(st.sampled_from([0.5, 1, 1, 2.5, 5, 8]))
            self.instant(draw, draw(st.sampled_from([0, 2, 5, 8, 10])))

    def instant(self, draw: st.DrawFn, readings: int) -> None:
        lines = [self.reading(draw) for _ in range(readings)]
        self.blocks.append("\n".join([f"at {self.clock}s", *lines]))

    def reading(self, draw: st.DrawFn) -> str:
        """A reading of now; of a while ago, above all where that is not too late; of ahead."""
        line = self.tell(draw)
        options = " ".join(self.world.options[line.split()[0]])
        often = 2 if "lateness" in options else 19
        if draw(st.integers(0, often)) < often:
            return line
        ago = draw(st.sampled_from([0.5, 1, 2, 3, 4.5, -1] if "lateness" in options else [1, -1]))
        return f"{line} at {max(0.0, self.clock - ago)}s"

    def text(self) -> str:
        """The whole script: it ends when all that is due has happened, with all answers."""
        ending = [f"at {self.clock + 20}s", *(f"answer {name}" for name in self.live)]
        return "\n\n".join([*self.blocks, *ending]) + "\n"


def run(text: str, runtime: str, cells: str, batching: str) -> None:
    """Run a script whose files stand in it."""
    with tempfile.TemporaryDirectory(prefix="place-search-") as directory:
        script = parse_script(text, Path(directory) / "search.cq")
        ScriptWithFiles(script, opener(runtime, cells), Batching.parse(batching)).run()


def unreached(scripts: st.SearchStrategy[str], features: Sequence[str]) -> list[str]:
    """The features, as patterns, that are in none of many random scripts.

    One search for all of them: it is over when the rarest has been found.
    """
    missing = {feature: re.compile(feature) for feature in features}

    @settings(
        max_examples=2000,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(scripts)
    def look(text: str) -> None:
        for feature in [each for each, found in missing.items() if found.search(text)]:
            del missing[feature]
        if not missing:
            raise Reached

    with contextlib.suppress(Reached):
        look()
    return list(missing)


class Reached(Exception):
    """There is nothing left to look for."""
