"""How many examples a random search tries: few in `make test`, and the same ones in each run."""

import os

SEARCHES = "PLACE_EXAMPLES" in os.environ
"""Whether this run searches: `make test-all` names a number of examples."""


ROUNDS = [2, 6, 10] if SEARCHES else [2, 3, 4]
"""How many instants a random script of queries over several streams has."""


def examples(few: int) -> int:
    """As many as PLACE_EXAMPLES says, or else a few."""
    return int(os.environ.get("PLACE_EXAMPLES", few))
