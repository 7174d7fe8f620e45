"""Options of every command from a file, `place.toml`, and from variables of the environment.

The parsers of the commands are the only list of options: a key of the file is the name of an option
without its dashes, and the variable of `--files-per-tick` is PLACE_FILES_PER_TICK. What is said
for one command goes before what is said for all of them, and who is nearer to the act goes before
who is farther: the command line, the environment, the file, the default.
"""

from __future__ import annotations

import argparse
import datetime
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from place.errors import ConfigurationError, suggestion

FILE, PREFIX, NAMED = "place.toml", "PLACE_", "PLACE_CONFIG"
OTHERS = re.compile(
    f"{NAMED}|PLACE_(CLASSES_AT_EXIT|CRASH_AT|SAVE_OFTEN|EXAMPLES|KILLS|SEARCH_RUNTIME|TAO|DATA)"
)
"""Variables that are no options: which file, and those of tests and benchmarks."""
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
SECRET = r"\w*(?:secret|password|passwd|token|credential|signature|key|auth)\w*"
Words = tuple[str, ...]
"""The words of a command: ("serve",), or ("token", "create")."""


@dataclass(frozen=True)
class Given:
    """What a file or a variable says of an option."""

    value: object
    origin: str
    folder: Path | None = None
    """Where relative paths begin, if not where the command runs."""


class Configuration:
    """What holds for each option of each command besides the command line, and who says so."""

    def __init__(
        self, parser: argparse.ArgumentParser, environment: Mapping[str, str], file: Path | None
    ) -> None:
        self.file = file
        self._leaves = dict(_leaves(parser))
        self.commands = {path: _options_of(leaf) for path, leaf in self._leaves.items()}
        self._environment = environment
        self._given: dict[Words, dict[str, Given]] = {path: {} for path in self.commands}
        self._from_file: dict[Words, dict[str, Given]] = {path: {} for path in self.commands}
        if file is not None:
            self._take_file(file)
        self._take_environment()
        for path, given in self._given.items():
            given.update({**self._from_file[path], **given})

    def given(self, path: Words) -> dict[str, Given]:
        """What is said of the options of a command, by their names."""
        return self._given[path]

    def prepare(self) -> None:
        """Let the command line leave out what is given."""
        for path, given in self._given.items():
            self._leaves[path].set_defaults(command_words=path)
            for name in given:
                action = self.commands[path][name]
                action.default, action.required = argparse.SUPPRESS, False

    def fill(self, parsed: argparse.Namespace) -> None:
        """Put what is given where the command line said nothing."""
        path = getattr(parsed, "command_words", ())
        for name, given in self._given.get(path, {}).items():
            action = self.commands[path][name]
            if not hasattr(parsed, action.dest):
                setattr(parsed, action.dest, converted(name, action, given))

    def _take_file(self, file: Path) -> None:
        content = read_toml(file)
        groups = {path[:n] for path in self.commands for n in range(1, len(path) + 1)}
        self._take_table(content, (), groups, file)

    def _take_table(
        self, table: Mapping[str, object], path: Words, groups: set[Words], file: Path
    ) -> None:
        """Take a table of the file: that of a command, of a group of them, or the outermost."""
        where = f"{file}, [{'.'.join(path)}]" if path else str(file)
        below = [each for each in self.commands if each[: len(path)] == path]
        names = {name for each in below for name in self.commands[each]}
        inner = [group[-1] for group in groups if group[:-1] == path and group]
        deeper: list[tuple[Words, Mapping[str, object]]] = []
        for key, value in table.items():
            if (*path, key) in groups:
                if not isinstance(value, dict):
                    raise ConfigurationError(
                        f"{where}: {key} is a command, and its options are a table",
                        hint=f"write [{'.'.join((*path, key))}] and the options below it",
                    )
                deeper.append(((*path, key), value))
                continue
            if key not in names:
                kind = f'"{key}" is no option' + (f" of place {' '.join(path)}" if path else "")
                known = sorted(names | set(inner))
                raise ConfigurationError(
                    f"{where}: {kind}", hint=suggestion(key.replace("_", "-"), known, "options")
                )
            given = Given(value, where, file.absolute().parent)
            for each in below:
                if key in self.commands[each]:
                    self._from_file[each][key] = given
        for further, content in deeper:
            self._take_table(content, further, groups, file)

    def _take_environment(self) -> None:
        known = self.variables()
        for variable in sorted(self._environment, key=len):  # those of one command go last
            if not variable.startswith(PREFIX) or variable == NAMED:
                continue
            if variable not in known:
                if OTHERS.fullmatch(variable):
                    continue
                raise ConfigurationError(
                    f"the variable {variable} names no option of a command",
                    hint=suggestion(variable, sorted(known), "variables"),
                )
            value = self._environment[variable]
            if value == "":  # as if it were not there: how compose files and units leave one out
                continue
            for path, name in known[variable]:
                self._given[path][name] = Given(_text_value(value, variable), variable)

    def variables(self) -> dict[str, list[tuple[Words, str]]]:
        """The variables that may be set, and the options that each of them stands for."""
        found: dict[str, list[tuple[Words, str]]] = {}
        for path, options in self.commands.items():
            for name in options:
                for n in range(len(path) + 1):
                    found.setdefault(variable_of(path[:n], name), []).append((path, name))
        return found


def variable_of(path: Words, name: str) -> str:
    """The variable of an option, of one command or of all.

    >>> variable_of(("serve",), "tls-cert"), variable_of((), "home")
    ('PLACE_SERVE_TLS_CERT', 'PLACE_HOME')
    """
    return PREFIX + "_".join((*path, name)).upper().replace("-", "_")


def configuration_of(
    parser: argparse.ArgumentParser, environment: Mapping[str, str], named: Path | None
) -> Configuration:
    """The configuration: of the file that the command line or PLACE_CONFIG names, or of the one
    that lies where the command runs."""
    if named is None and environment.get(NAMED):
        named = Path(environment[NAMED])
    if named is None and Path(FILE).is_file():
        named = Path(FILE)
    return Configuration(parser, environment, named)


def read_toml(file: Path) -> dict[str, object]:
    """The content of a file of settings."""
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"the configuration {file} is not there") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration {file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is no TOML: {error}") from None


def converted(name: str, action: argparse.Action, given: Given) -> object:
    """The value of an option as the command line would have made it."""
    value = given.value
    if action.nargs == 0:
        return action.const if _flag(name, given) else not action.const
    if isinstance(action, argparse._AppendAction) or action.nargs == "+":
        return [_single(name, action, each, given) for each in _several(value)]
    return _single(name, action, value, given)


def _flag(name: str, given: Given) -> bool:
    text = str(given.value).lower()
    if not isinstance(given.value, bool | str) or text not in (*YES, *NO):
        raise _wrong(name, given, f"{shown(name, given.value)} is neither true nor false")
    return text in YES


def _several(value: object) -> list[object]:
    """The values of an option that may be given several times: a list, or a table of names."""
    if isinstance(value, dict):
        return [f"{key}={_plain(each)}" for key, each in value.items()]
    return list(value) if isinstance(value, list) else [value]


def _single(name: str, action: argparse.Action, value: object, given: Given) -> object:
    if isinstance(value, bool | list | dict):
        raise _wrong(name, given, "a single text or number is expected")
    text = _plain(value)
    kind = action.type if callable(action.type) else str
    try:
        made = kind(text)
    except argparse.ArgumentTypeError as error:
        raise _wrong(name, given, str(error)) from None
    except (TypeError, ValueError):
        what = {"int": "whole number", "float": "number"}.get(
            named := getattr(kind, "__name__", "value"), named
        )
        raise _wrong(name, given, f"{shown(name, text)} is not a {what}") from None
    if action.choices is not None and made not in action.choices:
        message = f"{shown(name, text)} is not one of {', '.join(map(str, action.choices))}"
        raise _wrong(name, given, message)
    if isinstance(made, Path) and given.folder is not None:
        return given.folder / made
    return made


def _plain(value: object) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong(name: str, given: Given, message: str) -> ConfigurationError:
    where = given.origin if given.folder is None else f"{given.origin}: {name}"
    return ConfigurationError(f"{where}: {message}")


def _text_value(text: str, variable: str) -> object:
    """What a variable holds: a text, or a list in brackets where an option takes several."""
    if not re.match(r"\[\s*[\"'\]]", text):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        raise ConfigurationError(
            f"{variable} begins with a bracket and is no list", hint='write ["one", "two"]'
        ) from None


def shown(name: str, value: object) -> str:
    """A value of an option as it may be shown to anybody who looks over the shoulder.

    >>> shown("storage", "s3://ann:pw@store/x?access_key=1&region=eu")
    's3://***@store/x?access_key=***&region=eu'
    >>> shown("set", ["spark.hadoop.fs.s3a.secret.key=abc", "spark.x=1"])
    'spark.hadoop.fs.s3a.secret.key=***, spark.x=1'
    """
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict | list):
        return ", ".join(shown(name, each) for each in _several(value))
    if value is None:
        return "-"
    if re.fullmatch(SECRET, name.replace("-", "_")):
        return "***"
    text = re.sub(r"(?<=://)[^/@\s]+@", "***@", _plain(value))
    return re.sub(rf"(?i)((?:[?&]|^)[\w.-]*{SECRET}[\w.-]*=)[^&\s]*", r"\1***", text)


def _leaves(
    parser: argparse.ArgumentParser, path: Words = ()
) -> list[tuple[Words, argparse.ArgumentParser]]:
    """The parsers that end a command, with its words."""
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not groups:
        return [(path, parser)]
    return [
        leaf
        for group in groups
        for word, inner in group.choices.items()
        for leaf in _leaves(inner, (*path, word))
    ]


def _options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The options of a command by their names; what has no dashes is said with the command."""
    return {
        _name(action.option_strings): action
        for action in parser._actions
        if action.option_strings and not isinstance(action, argparse._HelpAction)
    }


def _name(strings: Sequence[str]) -> str:
    return max(strings, key=len).removeprefix("--")
