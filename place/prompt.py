"""`place sql`: a prompt for statements and readings, or the statements of a file.

A statement ends with a semicolon and may run over several lines. Lines that begin with a dot are
the prompt's own: they push readings, move the clock, and show answers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, InMemoryHistory
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from place.errors import ConfigurationError, PlaceError, suggestion
from place.model import deadline
from place.model.delta import Delta
from place.model.reading import Advance
from place.model.time import SECOND, format_timestamp
from place.model.types import format_row, format_value
from place.script.blocks import EPOCH, InstantBlock, parse_script
from place.script.inputs import make_input
from place.session import RUNTIMES, Result, Session, connect
from place.sql.scan import is_complete, split
from place.statements import counted

HELP = """\
Statements end with a semicolon and may run over several lines:
  CREATE STREAM, CREATE TABLE, CREATE REGION, CREATE SINK, REGISTER QUERY, CREATE TRIGGER, SELECT,
  INSERT INTO, DELETE FROM, ALTER STREAM, DROP, REFRESH, DESCRIBE name,
  SHOW STREAMS | TABLES | REGIONS | QUERIES | TRIGGERS | SINKS,
  EXPLAIN [ANALYZE] …, EXPLAIN TRIGGER name
Deltas are shown as they come: + a row joins an answer, - it leaves it, ! an alert of a trigger.
Lines that begin with a dot are for the prompt:
  .push Cars (1, 5, 5, 'Taxi')    push a reading, a second after the clock, which it moves
  .push Cars (1, 5, 5) at 9s      push a reading with a time of its own
  .push Cars (1) disappear        an object disappears
  .at 10s                         move the clock, counted from the start of 2000
  .answer downtown                the answer of a query
  .read file.sql                  execute the statements of a file
  .help  .quit"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "sql",
        help="type statements, or execute those of a file",
        description="A prompt with history and statements over several lines; or, with -f, the "
        "statements of a file. An error is one message, and the next statement works.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-f", "--file", type=Path, help="execute the statements of this file")
    parser.add_argument(
        "--home", type=Path, help="keep everything in this directory; without it, in memory"
    )
    parser.add_argument(
        "--runtime", choices=RUNTIMES, default="local", help="what keeps the answers"
    )
    parser.set_defaults(run=run)


class Prompt:
    """Takes lines one by one, and shows what they answer."""

    def __init__(self, session: Session, console: Console) -> None:
        self.session = session
        self.console = console
        self.clock = EPOCH
        self.failed = False
        self._lines: list[str] = []

    @property
    def lead(self) -> str:
        """What stands before the cursor."""
        return "   ...> " if self._lines else "place> "

    def take(self, line: str) -> bool:
        """Take a line; False when it was `.quit`."""
        if not self._lines and line.lstrip().startswith("."):
            return self._command(line.strip())
        self._lines.append(line)
        text = "\n".join(self._lines)
        if is_complete(text):
            self._lines = []
            self.execute(text)
        return True

    def end(self) -> None:
        """There are no more lines: an unfinished statement is executed as it stands."""
        text, self._lines = "\n".join(self._lines), []
        if text.strip():
            self.execute(text)

    def cancel(self) -> None:
        """Forget the lines of an unfinished statement."""
        self._lines = []

    def execute(self, text: str) -> None:
        """Execute statements one by one; each that is wrong is answered by one message."""
        for offset, sql in split(text):
            try:
                with deadline.asked_by(self):
                    result = self.session.run(sql, text, offset)
                self.show(result)
            except PlaceError as error:
                self.complain(error)
            except deadline.Interrupted:
                self.console.print(Text("given up", style="dim"))
                return

    def is_there(self) -> bool:
        """Somebody waits for the answer; who does not presses Ctrl-C."""
        return True

    def hear(self, progress: str) -> None:
        """How far a long question is."""
        self.console.print(Text(progress, style="dim"))

    def complain(self, error: PlaceError) -> None:
        self.failed = True
        self.console.print(Text.assemble(("error: ", "bold red"), str(error)))

    def show(self, result: Result) -> None:
        """A result as a table or a message, and its deltas."""
        if result.columns == ("plan",):
            for (line,) in result.rows:
                self.console.print(Text(str(line)))
        elif result.columns:
            grid = Grid(*result.columns, header_style="bold", box=None, pad_edge=False)
            for row in result.rows:
                cells = zip(row, result.types, strict=True)
                grid.add_row(*(Text(_cell(value, kind)) for value, kind in cells))
            self.console.print(grid)
            self.console.print(Text(f"({counted(len(result.rows), 'row')})", style="dim"))
        else:
            self.console.print(Text(result.message, style="dim"))
        self.show_deltas(result.deltas)

    def show_deltas(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            self.console.print(delta_text(self.session, delta))

    # Commands of the prompt

    def _command(self, line: str) -> bool:
        word, _, rest = line[1:].partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "push": self._push,
            "at": self._at,
            "answer": self._answer,
            "read": self._read,
            "help": lambda _: self.console.print(Text(HELP)),
        }
        if word in ("quit", "exit", "q"):
            return False
        try:
            if word not in commands:
                raise ConfigurationError(
                    f'".{word}" is not a command',
                    hint=suggestion(word, [*commands, "quit"], "commands"),
                )
            commands[word](rest.strip())
        except PlaceError as error:
            self.complain(error)
        return True

    def _push(self, rest: str) -> None:
        """Push a reading. The instants up to the clock are complete, so it comes a second later."""
        block = _instant_block(f"at 0s\n{rest}")
        if not block.readings:
            raise ConfigurationError(".push takes a reading", hint="write .push Cars (1, 5, 5)")
        for line in block.readings:
            time = self.clock + SECOND if line.time is None else line.time
            reading = make_input(self.session.stream(line.stream), line, time)
            self.clock = max(self.clock, time)
            self.show_deltas(self.session.feed([reading, Advance(self.clock)]))

    def _at(self, rest: str) -> None:
        block = _instant_block(f"at {rest}")
        if block.time < self.clock:
            raise ConfigurationError("the clock cannot go back")
        self.clock = block.time
        self.show_deltas(self.session.feed([Advance(block.time)]))
        self.console.print(Text(f"it is {format_timestamp(self.clock)}", style="dim"))

    def _answer(self, rest: str) -> None:
        plan = self.session.query(rest)
        if plan.trigger is not None:
            raise ConfigurationError(
                f'"{plan.name}" is a trigger, which has no answer',
                hint="its alerts are told as they come",
            )
        rows = tuple(self.session.answer(rest))
        self.show(Result(counted(len(rows), "row"), plan.names, plan.types, rows))

    def _read(self, rest: str) -> None:
        self.execute(read_text(Path(rest)))


def _instant_block(text: str) -> InstantBlock:
    (block,) = parse_script(text).blocks
    if not isinstance(block, InstantBlock):
        raise ConfigurationError(f"'{text}' is not a time")
    return block


def _cell(value: object, kind: object) -> str:
    return value if isinstance(value, str) else format_value(value, kind)  # type: ignore[arg-type]


def delta_text(session: Session, delta: Delta) -> Text:
    """A delta in its colour: green comes, red goes, and an alert is yellow."""
    known = session.catalog.queries.get(delta.query.casefold())
    row = format_row(delta.row, known.types) if known else str(delta.row)
    sign, colour = ("+", "green") if delta.sign > 0 else ("-", "red")
    if known is not None and known.trigger is not None:
        sign, colour = "!", "bold yellow"
    return Text(f"{sign} {delta.query} {row}", style=colour)


def read_text(path: Path) -> str:
    """The text of a file, or a ConfigurationError."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"file {path} cannot be read: {error}") from None


def lines_of(prompt: Prompt) -> Iterator[str]:
    """The lines that are typed, or that come through a pipe."""
    if not sys.stdin.isatty():
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    state = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "place"
    history: FileHistory | InMemoryHistory
    try:
        state.mkdir(parents=True, exist_ok=True)
        history = FileHistory(str(state / "history"))
    except OSError:
        history = InMemoryHistory()
    reader: PromptSession[str] = PromptSession(history=history)
    while True:
        try:
            yield reader.prompt(prompt.lead)
        except KeyboardInterrupt:
            prompt.cancel()
        except EOFError:
            return


def run(arguments: argparse.Namespace) -> int:
    """Run the command; with -f or through a pipe, 1 if any statement was wrong."""
    console = Console(highlight=False, soft_wrap=True)
    with connect(arguments.home, runtime=arguments.runtime) as session:
        prompt = Prompt(session, console)
        if arguments.file is not None:
            prompt.execute(read_text(arguments.file))
            return 1 if prompt.failed else 0
        if sys.stdin.isatty():
            console.print(Text("PLACE: statements end with ';', .help tells more", style="dim"))
        for line in lines_of(prompt):
            if not prompt.take(line):
                break
        prompt.end()
    return 1 if prompt.failed and not sys.stdin.isatty() else 0
