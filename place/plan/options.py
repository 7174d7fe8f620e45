"""The options of a statement, and the forms that their values have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from place.errors import PlaceError, suggestion
from place.model.space import Space
from place.model.time import LATEST, parse_duration
from place.model.types import Type, ValueMismatch, coerce
from place.sql import statements as s
from place.sql.statements import wrong

PROGRESSIVE = "progressive"


class Options:
    """The options of a statement: known, each once, read by a function that knows its form."""

    def __init__(self, options: tuple[s.Option, ...], known: tuple[str, ...]) -> None:
        self._options: dict[str, s.Option] = {}
        for option in options:
            name = option.name.text.casefold()
            if name not in known:
                raise wrong(
                    f'option "{option.name.text}" does not exist',
                    option.name.at,
                    hint=suggestion(name, known, "options"),
                )
            if name in self._options:
                raise wrong(f'option "{option.name.text}" is given twice', option.name.at)
            self._options[name] = option

    def get(self, name: str) -> s.Option | None:
        return self._options.get(name)

    def read(self, name: str, form: Callable[[Any], Any]) -> Any:
        option = self._options.get(name)
        if option is None:
            return None
        value = option.value.value
        try:
            if not isinstance(value, str) and form not in NUMBERS:
                raise PlaceError(f"{value!r} is not a text", hint="write it in single quotes")
            return form(value)
        except PlaceError as error:
            raise wrong(
                f'option "{name}": {error.message}', option.value.at, hint=error.hint
            ) from None


def positive_duration(text: str) -> int:
    """A time that is longer than none."""
    duration = parse_duration(text)
    if duration == 0:
        raise PlaceError(f"'{text}' is no time at all", hint="leave the option out for none")
    return duration


def furthest(text: str) -> int:
    """How far ahead something may be; 'any' for as far as it likes."""
    return LATEST if text.strip().casefold() == "any" else parse_duration(text)


def keeps_last(text: str) -> bool:
    """Whether what is missing is as it was last; else it is NULL."""
    chosen = text.strip().casefold()
    if chosen not in ("last", "null"):
        raise PlaceError(f"missing = '{text}' does not exist", hint="write 'last' or 'null'")
    return chosen == "last"


def archived(text: str) -> tuple[int, int | None]:
    """Which readings of an object are archived: every n-th, or one in each period."""
    words = text.split()
    match [word.casefold() for word in words]:
        case ["all"]:
            return 1, None
        case ["every", "reading"]:
            return 1, None
        case ["every", number, "readings"] if number.isascii() and number.isdigit():
            if int(number) > 0:
                return int(number), None
        case ["every", *_]:
            return 1, positive_duration(" ".join(words[1:]))
    raise PlaceError(
        f"'{text}' does not say which readings are archived",
        hint="write 'all', 'every 10 readings' or 'every 30 seconds'",
    )


def stored(text: str) -> int:
    """Which readings of an object that memory does not hold go to the disk: every n-th."""
    match text.casefold().split():
        case ["every", "reading"]:
            return 1
        case ["every", number, "readings"] if number.isascii() and number.isdigit():
            if int(number) > 0:
                return int(number)
    raise PlaceError(
        f"'{text}' does not say which readings are stored",
        hint="write 'every reading' or 'every 10 readings'",
    )


def evaluation(text: str) -> int | None:
    """The period of the instants; None for every timestamp."""
    if text.strip().casefold() == PROGRESSIVE:
        return None
    try:
        return positive_duration(text)
    except PlaceError as error:
        raise PlaceError(error.message, hint="write 'progressive' or '5 seconds'") from None


def space(text: str) -> Space:
    """A space by its name."""
    try:
        return Space(text.strip().casefold())
    except ValueError:
        raise PlaceError(f"'{text}' is not a space", hint="write 'planar' or 'wgs84'") from None


def bounds(text: str) -> tuple[float, float, float, float]:
    """Four numbers, as a box."""
    try:
        x1, y1, x2, y2 = (coerce(part, Type.DOUBLE) for part in text.replace(",", " ").split())
    except (ValueError, ValueMismatch):
        x1 = None
    if x1 is None:
        raise PlaceError(f"'{text}' is not four numbers", hint="write bounds = '0 0 100 100'")
    low_x, high_x = sorted((float(x1), float(x2)))  # type: ignore[arg-type]
    low_y, high_y = sorted((float(y1), float(y2)))  # type: ignore[arg-type]
    return low_x, low_y, high_x, high_y


def _number(value: Any) -> float:
    try:
        number = coerce(value, Type.DOUBLE)
    except ValueMismatch as error:
        raise PlaceError(error.message) from None
    if not isinstance(number, float):
        raise PlaceError(f"{value!r} is not a number")
    return number


def positive_number(value: Any) -> float:
    """A number above 0."""
    number = _number(value)
    if number <= 0:
        raise PlaceError(f"{value!r} is not a positive number")
    return number


def number_from_zero(value: Any) -> float:
    """A number from 0 on."""
    number = _number(value)
    if number < 0:
        raise PlaceError(f"{value!r} is not a number from 0 on")
    return number


def fraction(value: Any) -> float:
    """A number from 0 to 1."""
    number = _number(value)
    if number > 1 or number < 0:
        raise PlaceError(f"{value!r} is not between 0 and 1")
    return number


def whole(value: Any) -> int:
    """A whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise PlaceError(f"{value!r} is not a whole number from 0 on")
    return value


def count(value: Any) -> int:
    """A whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PlaceError(f"{value!r} is not a whole number from 1 on")
    return value


def port(value: Any) -> int:
    """A port of a machine."""
    number = count(value)
    if number > 65_535:
        raise PlaceError(f"there is no port {number}", hint="ports are from 1 to 65535")
    return number


def truth(value: Any) -> bool:
    """TRUE or FALSE."""
    if not isinstance(value, bool):
        raise PlaceError(f"{value!r} is neither TRUE nor FALSE")
    return value


NUMBERS = (positive_number, number_from_zero, fraction, whole, count, port, truth)
"""The forms that are no texts."""
