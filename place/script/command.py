"""`place script`: runs scripts and says how many hold."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from place.errors import ConfigurationError, PlaceError
from place.script.blocks import read_script
from place.script.runner import Batching, Open, ScriptRunner, completed
from place.session import Session, connect, parse_matrix

RUNTIMES = ("reference", "local", "spark")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "script",
        help="run continuous-query scripts (.cq) and check what they expect",
        description="Runs scripts, or all scripts below a directory. Each is also run on the "
        "reference, which recomputes every answer at every instant from its definition; the "
        "runtime has to send exactly the same deltas.",
        epilog="example: place script tests/scripts --runtime reference --batching random:1",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE-OR-DIR")
    parser.add_argument("--runtime", choices=RUNTIMES, default="reference", help="what runs them")
    parser.add_argument("--cells", default="1x1", metavar="RxC", help="rows and columns of cells")
    parser.add_argument(
        "--batching",
        default="each",
        metavar="each|one|random:SEED",
        help="how readings fall into ticks: a tick a block, as few as can be, or cut at random",
    )
    parser.add_argument("--complete", action="store_true", help="write the expectations in")
    parser.add_argument("-v", "--verbose", action="store_true", help="name each script")
    parser.set_defaults(run=run)


def find_scripts(paths: Iterable[Path]) -> list[Path]:
    """The scripts that the paths name, in order."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.rglob("*.cq"))
        elif path.is_file():
            found.append(path)
        else:
            raise ConfigurationError(f"{path} does not exist")
    if not found:
        raise ConfigurationError("there are no scripts (*.cq) there")
    return found


def opener(runtime: str, cells: str) -> Open:
    """How sessions of a runtime are opened for a script."""
    if runtime == "reference" and cells != "1x1":
        raise ConfigurationError(
            "the reference has no cells", hint="leave --cells out, or use another runtime"
        )
    parse_matrix(cells)

    def open_session(home: Path | None, directory: Path) -> Session:
        session = connect(home, runtime=runtime, cells=cells)
        session.loader.directory = directory
        return session

    return open_session


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 0 if all scripts hold."""
    console = Console(highlight=False, soft_wrap=True)
    batching = Batching.parse(arguments.batching)
    open_session = opener(arguments.runtime, arguments.cells)
    passed = failed = 0
    for path in find_scripts(arguments.paths):
        try:
            script = read_script(path)
            runner = ScriptRunner(script, open_session, batching, complete=arguments.complete)
            outcome = runner.run()
            if arguments.complete:
                path.write_text(completed(script, outcome), "utf-8")
            passed += 1
            if arguments.verbose:
                console.print(f"[green]passed[/] {escape(str(path))}")
        except PlaceError as error:
            failed += 1
            console.print(f"[red]failed[/] {escape(str(error))}")
    console.print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
