"""A process whose memory `place bench store` measures: a session, and nothing beside it.

It has what an installed package has. Arrow and Numba load some large libraries where they find
them, and a checkout has these for its developers only; the other experiments have theirs, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.abc import MetaPathFinder
from types import ModuleType

FOR_DEVELOPERS = ("pandas", "scipy", "yaml")


class Absent(MetaPathFinder):
    """Says of libraries that they are not there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> None:
        """Nothing, so that others look for it, unless it is not to be there."""
        if fullname.partition(".")[0] in FOR_DEVELOPERS:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def main() -> None:
    """Measure one kind of stream; the arguments are a setting, as JSON, and the kind."""
    sys.meta_path.insert(0, Absent())
    from bench.store_memory import Setting, measure  # only now: it loads Numba and Arrow

    setting, mode = sys.argv[1:]
    print(json.dumps(asdict(measure(Setting(**json.loads(setting)), mode))))


if __name__ == "__main__":
    main()
