"""`place tour`: plays a script that shows continuous queries and their deltas."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from place.model.delta import Delta
from place.model.reading import Advance, Input
from place.model.time import format_interval
from place.prompt import delta_text
from place.script.blocks import EPOCH, InstantBlock, Script, StatementBlock, parse_script
from place.script.inputs import make_input
from place.session import Session, connect
from place.statements import counted


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "tour",
        help="read along: statements, readings and the deltas of each instant",
        description="Plays a script: statements, readings as they come, and the deltas of each "
        "instant: green rows join an answer, red rows leave it. It ends with a summary.",
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=0.8,
        metavar="SECONDS",
        help="pause after each instant when shown on a terminal (default 0.8; 0 for none)",
    )
    parser.set_defaults(run=run)


def tour() -> Script:
    """The tour that comes with the package."""
    resource = files("place") / "tour.cq"
    return parse_script(resource.read_text("utf-8"), Path("tour.cq"))


class Player:
    """Plays a script on a session and tells what happens."""

    def __init__(self, session: Session, console: Console, pace: float) -> None:
        self.session = session
        self.console = console
        self.pace = pace
        self.readings = 0
        self.counts: Counter[int] = Counter()

    def play(self, script: Script) -> None:
        """Play all statements and instants; comments are its captions."""
        told = 0
        for block in script.blocks:
            self._tell(script.lines[told : block.line - 1])
            told = block.line
            if isinstance(block, StatementBlock):
                self.console.print(Syntax(block.sql, "sql", background_color="default"))
                self._show(self.session.sql(block.sql).deltas)
            elif isinstance(block, InstantBlock):
                self._play_instant(block)
                time.sleep(self.pace)

    def _tell(self, lines: tuple[str, ...]) -> None:
        captions = [line.lstrip("# ").rstrip() for line in lines if line.startswith("#")]
        if captions:
            self.console.print()
            self.console.print(Text(" ".join(captions), style="bold cyan"))

    def _play_instant(self, block: InstantBlock) -> None:
        inputs: list[Input] = []
        shown = []
        for line in block.readings:
            inputs.append(make_input(self.session.stream(line.stream), line, block.time))
            shown.append(f"{line.stream} {line.values}{' disappears' * line.disappears}")
        self.readings += len(inputs)
        clock = format_interval(block.time - EPOCH)
        self.console.print(Text(f"{clock}  {'; '.join(shown) or 'only the clock moves'}", "dim"))
        self._show(self.session.feed([*inputs, Advance(block.time)]))

    def _show(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            self.counts[delta.sign] += 1
            self.console.print(Text("    ").append_text(delta_text(self.session, delta)))

    def summarize(self) -> None:
        """What was read, what was sent, and what the answers are now."""
        self.console.print(Rule("summary"))
        self.console.print(
            f"{self.readings} readings, {len(self.session.catalog.queries)} queries,"
            f" {self.counts.total()} deltas:"
            f" [green]{self.counts[1]} positive[/], [red]{self.counts[-1]} negative[/]"
        )
        for query in self.session.catalog.queries.values():
            rows = self.session.answer(query.name)
            size = counted(len(rows), "row")
            self.console.print(Text(f"  {query.name}: {size} in the answer now"))


def run(arguments: argparse.Namespace) -> int:
    """Play the tour."""
    console = Console(highlight=False, soft_wrap=True)
    pace = max(arguments.pace, 0.0) if sys.stdout.isatty() else 0.0
    with connect() as session:
        player = Player(session, console, pace)
        player.play(tour())
        player.summarize()
    return 0
