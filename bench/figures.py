"""What benchmarks share on the command line: numbers that are checked, and tables of figures."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from place.errors import ConfigurationError


def number(text: str) -> int:
    """A number of things."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("is at least 1")
    return value


def share(text: str) -> float:
    """A part of a whole."""
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError("is between 0 and 1")
    return value


def tell(title: str, figures: Sequence[Mapping[str, float | str]], file: Path | None) -> None:
    """A row for each figure and a column for each setting; JSON is one object, or a list.

    What could not be measured in so short a run is a dash, and null in JSON.
    """
    table = Table(title=f"place bench {title}", title_justify="left")
    table.add_column("figure")
    for _ in figures:
        table.add_column("value", justify="right")
    for name in figures[0]:
        table.add_row(name, *(_shown(found[name]) for found in figures))
    Console(highlight=False).print(table)
    if file is not None:
        known = [{name: _known(value) for name, value in found.items()} for found in figures]
        data: Any = known[0] if len(known) == 1 else known
        try:
            file.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error


def _known(value: float | str) -> float | str | None:
    """
    >>> _known(1.5), _known(float("nan"))
    (1.5, None)
    """
    return value if isinstance(value, str) or math.isfinite(value) else None


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if _known(value) is None:
        return "–"
    if isinstance(value, int) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
