"""`place config`: what holds for the options of commands, and who says so."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from place.errors import ConfigurationError, suggestion
from place.operate.configuration import FILE, Configuration, Given, converted, shown, variable_of


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "config",
        help="show which options hold, and whether a file or the environment says so",
        description="Options of every command may stand in a file, place.toml, and in variables of"
        " the environment. Shows what these say; with the words of a command, every option of it"
        " with its value and where that comes from. Secrets are shown as ***.",
        epilog="examples: place config; place config serve; place --config /etc/place.toml config"
        " token create",
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="a command, such as serve")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    configuration: Configuration = arguments.configuration
    words = tuple(arguments.words)
    console = Console(highlight=False, soft_wrap=True)
    if configuration.file is None:
        console.print(f"no {FILE} here, and no other file is named", markup=False)
    else:
        console.print(f"the file is {configuration.file.absolute()}", markup=False)
    if words:
        _show_command(configuration, words, console)
    else:
        _show_given(configuration, console)
    return 0


def _show_command(configuration: Configuration, words: tuple[str, ...], console: Console) -> None:
    """Every option of a command."""
    if words not in configuration.commands:
        known = [" ".join(path) for path in configuration.commands]
        inside = [each for each in known if each.startswith(" ".join(words) + " ")]
        raise ConfigurationError(
            f"place {' '.join(words)} is no command",
            hint=f"name one of {', '.join(inside)}"
            if inside
            else suggestion(" ".join(words), known, "commands"),
        )
    table = _table("option", "value", "from")
    for name, action in configuration.commands[words].items():
        given = configuration.given(words).get(name)
        if given is not None:
            value, origin = shown(name, converted(name, action, given)), given.origin
        else:
            value = shown(name, action.default)
            origin = "to be given" if action.required else "default"
        table.add_row(f"--{name}", value or "-", origin)
    console.print(table, markup=False)
    if configuration.commands[words]:
        name = next(iter(configuration.commands[words]))
        console.print(f"variables: {variable_of(words, name)} is --{name}, and so on")


def _show_given(configuration: Configuration, console: Console) -> None:
    """What the file and the environment say, once for all commands that it is said for."""
    said: dict[tuple[str, str], tuple[Given, list[str]]] = {}
    for path, options in configuration.commands.items():
        for name, given in configuration.given(path).items():
            converted(name, options[name], given)  # what is wrong is told here, too
            said.setdefault((name, given.origin), (given, []))[1].append(" ".join(path))
    if not said:
        console.print("nothing is set; place config serve shows the options of a command")
        return
    table = _table("option", "value", "from", "for")
    for (name, origin), (given, commands) in said.items():
        whom = ", ".join(commands) if len(commands) <= 3 else f"{len(commands)} commands"
        table.add_row(f"--{name}", shown(name, given.value), origin, whom)
    console.print(table, markup=False)


def _table(*titles: str) -> Table:
    table = Table()
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
