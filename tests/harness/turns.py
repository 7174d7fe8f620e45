"""Scripts that take turns: `make test` runs each in some of the ways, `make test-all` in all."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def in_turns(
    paths: Iterable[Path], ways: Sequence[Any], turns: Sequence[int] = (0,), *, every: int = 1
) -> Iterator[ParameterSet]:
    """Each script beside each way. Its turns are those of `ways` from its own place on, so that
    neighbours, which are alike, have different ones; the others are long, and so are all ways of
    the scripts between, if only one of `every` so many is to be run."""
    for number, path in enumerate(paths):
        chosen = {(number // every + turn) % len(ways) for turn in turns if number % every == 0}
        for place, way in enumerate(ways):
            marks = () if place in chosen else (pytest.mark.long,)
            told = way if isinstance(way, str) else "-".join(way)
            name = f"{path.parent.name}/{path.stem}-{told}"
            yield pytest.param(path, way, marks=marks, id=name)
