"""Random scripts over the whole language, whose objects are mostly on the disk: the local runtime
sends what the reference sends, which knows nothing of a disk.

Runs, blocks and what waits for them are so small here that a handful of objects fills several.
"""

from unittest.mock import patch

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from place.engine import stored_objects, stored_run
from tests.harness.examples import examples
from tests.harness.scene import run
from tests.test_language_search import scripts

EXAMPLES = examples(8)

STORED = ["retain = 'cache'", "store = 'every reading'", "flush = '2 seconds'"]
FAST = ["retain = 'cache'", "max_speed = 1000000000", "report_every = '1 second'"]
"""Nothing is let go of, and yet ticks go instant by instant."""
ALWAYS = [
    {"Cars": STORED, "Drones": STORED, "Zones": STORED},
    {"Cars": STORED},
    {"Cars": STORED, "Drones": FAST},
]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    text=st.sampled_from(ALWAYS).flatmap(scripts),
    cells=st.sampled_from(["1x1", "2x2", "1x3", "3x1"]),
    batching=st.sampled_from(["each", "one", "random:1", "random:2"]),
    waiting=st.sampled_from([1, 3, 1000]),
)
def test_what_is_on_the_disk_answers_as_if_it_were_in_memory(
    text: str, cells: str, batching: str, waiting: int
) -> None:
    note(text)
    small = {"MOST_WAITING": waiting, "ALIKE": 2, "BLOCK": 2}
    with (
        patch.multiple(stored_objects, **small),
        patch.multiple(stored_run, BLOCK=small["BLOCK"], KEYS=3),
    ):
        run(text, "local", cells, batching)
