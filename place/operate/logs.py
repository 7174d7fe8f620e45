"""What operators read: levels, one line for each thing, as text or as JSON, on standard error.

A line that repeats is counted and not repeated: whoever can make a server complain must not be
able to fill its disk. Other packages say nothing below a warning, and nothing as Python warnings.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
OURS, WARNINGS = "place", "py.warnings"
WINDOW = 10.0
"""Seconds within which a line that is there already is only counted."""
BURST = 5
"""Different lines of one kind that are shown within this time."""
MOST_KINDS = 500
"""Kinds of lines that are remembered."""


def add_log_options(parser: argparse.ArgumentParser, level: str = "info") -> None:
    """How much is logged, and in which form."""
    parser.add_argument(
        "--log-level", choices=LEVELS, default=level, help=f"the least that is logged ({level})"
    )
    parser.add_argument("--log-json", action="store_true", help="log lines of JSON instead of text")


def start_logging(arguments: argparse.Namespace) -> Repeats:
    """Log as the options ask for it; the filter that counts repeated lines."""
    repeats = Repeats()
    handler = Console()
    handler.setFormatter(JsonLines() if arguments.log_json else TextLines())
    handler.addFilter(repeats)
    level = logging.getLevelNamesMapping()[arguments.log_level.upper()]
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, Console)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger(OURS).setLevel(level)
    logging.captureWarnings(True)
    logging.getLogger(WARNINGS).setLevel(logging.CRITICAL)
    # What goes wrong in a batch is raised through Java, and said once, by who waits for it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return repeats


class Console(logging.StreamHandler[TextIO]):
    """Standard error as it is when a line is written: others may have put something before it."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None: ...


class TextLines(logging.Formatter):
    """The time, the level, and what happened."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")


class JsonLines(logging.Formatter):
    """An object for each line; numbers that a line tells are also there as numbers."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


@dataclass
class _Kind:
    """Lines of one kind within the present window."""

    began: float
    shown: set[str] = field(default_factory=set)
    hidden: int = 0
    last: str = ""


class Repeats(logging.Filter):
    """Lets a line pass once in a while, and of lines that differ only in what they name, a few.

    The next one that passes tells how many did not. `ended` tells it of lines that came no more.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: OrderedDict[tuple[str, int, str], _Kind] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.INFO:
            return True  # what goes well comes at a pace of its own
        now, text = self._clock(), record.getMessage()
        key = record.name, record.levelno, str(record.msg)
        kind = self._kinds.get(key)
        if kind is None or now - kind.began >= WINDOW:
            before, kind = kind, _Kind(now)
            self._kinds[key] = kind
            if before is not None and before.hidden:
                record.msg, record.args = f"{text} ({_more(before.hidden)})", ()
        self._kinds.move_to_end(key)
        while len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)
        if text in kind.shown or len(kind.shown) >= BURST:
            kind.hidden, kind.last = kind.hidden + 1, text
            return False
        kind.shown.add(text)
        return True

    def ended(self) -> list[str]:
        """What to say of lines that were held back and have not come again since."""
        now, said = self._clock(), []
        for key, kind in list(self._kinds.items()):
            if now - kind.began >= WINDOW:
                del self._kinds[key]
                if kind.hidden:
                    said.append(f"{_more(kind.hidden)}, the last: {kind.last}")
        return said


def _more(count: int) -> str:
    return f"{count:,} more like it in {WINDOW:.0f} s"
