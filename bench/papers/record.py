"""What an experiment is, and what it leaves behind.

Counts follow from the setting and the seed; times are of one run on one machine. They are kept in
two files, so that the first can be compared byte by byte. Tables, plots and verdicts are made from
a record alone: a page can be written again from the files, and a verdict cannot know more than the
reader does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench.papers.sizes import Size
from place.errors import ConfigurationError

Value = int | float | str
Row = Mapping[str, Value]
T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    """What was set, what was counted, and what took how long on a machine that was how fast.

    `machine` has its cores, calibration_s, and the load that all its users made meanwhile.
    """

    setting: Mapping[str, Any]
    counts: Sequence[Row]
    times: Sequence[Row] = ()
    machine: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What a paper states and where, what was found here, and by which rule that is the same."""

    stated: str
    where: str
    found: str
    rule: str
    agrees: bool

    @property
    def word(self) -> str:
        return "agrees" if self.agrees else "differs"


@dataclass(frozen=True)
class Shown:
    """A table as people read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Line:
    """A line of a plot; a dashed one is what a paper or a formula says."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    is_dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `marks` are horizontal lines with the words that stand at them."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)


class Watch:
    """Tells people how far an experiment is; this one tells nobody."""

    def each(self, items: Sequence[T], what: str) -> Iterable[T]:
        """The items, one after the other."""
        return items


@dataclass(frozen=True)
class Experiment:
    """A figure of the papers, or several that show the same."""

    name: str
    title: str
    figures: str
    about: Callable[[Record], str]
    measure: Callable[[Size, int, Watch], Record]
    tables: Callable[[Record], list[Shown]]
    panels: Callable[[Record], list[Panel]]
    judge: Callable[[Record], list[Verdict]]


def write_record(directory: Path, name: str, record: Record) -> None:
    """Write a record: what was counted, and in a file of its own what took how long, if told."""
    counts = {"setting": dict(record.setting), "counts": list(record.counts)}
    (directory / f"{name}.json").write_text(_lines(counts), "utf-8")
    if record.times:
        times = {"machine": dict(record.machine), "times": list(record.times)}
        (directory / f"{name}.times.json").write_text(_lines(times), "utf-8")


def read_record(directory: Path, name: str) -> Record | None:
    """The record that was written there, if there is one."""
    counted, timed = directory / f"{name}.json", directory / f"{name}.times.json"
    if not counted.exists():
        return None
    try:
        counts = json.loads(counted.read_text("utf-8"))
        if not timed.exists():
            return Record(counts["setting"], counts["counts"])
        times = json.loads(timed.read_text("utf-8"))
        return Record(counts["setting"], counts["counts"], times["times"], times["machine"])
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(
            f"{counted} is no record of an experiment",
            hint="delete it and run the experiment again",
        ) from error


def _lines(data: Mapping[str, Any]) -> str:
    """JSON with a line for each row, as a diff shows it best."""
    parts = []
    for key, value in data.items():
        if isinstance(value, list):
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            parts.append(f"  {json.dumps(key)}: [\n{rows}\n  ]" if rows else f'  "{key}": []')
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def column(rows: Iterable[Row], name: str, **where: Value) -> list[Any]:
    """The values of a column, of the rows that have these values in others.

    >>> column([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "a", b="y")
    [2]
    """
    return [row[name] for row in rows if all(row[key] == value for key, value in where.items())]
