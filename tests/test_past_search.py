"""Random worlds and queries of the whole language, asked about their past.

For all kinds of queries, the archive's answer about an instant is what the reference answers there
and what the query told live, and its rows over a time are the deltas of that time.
"""

import os

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from place.plan.past import Question
from place.runtime.interface import Recalled
from place.runtime.local import LocalRuntime
from tests import test_join_search, test_keyless_search, test_language_search, test_trigger_search
from tests.harness.examples import examples
from tests.harness.past import run_past, with_archives
from tests.harness.shares import recall_in_shares

EXAMPLES = examples(12)
RUNTIME = os.environ.get("PLACE_SEARCH_RUNTIME", "local")
SCRIPTS = {
    "language": test_language_search.scripts(),
    "joins": test_join_search.scripts(),
    "keyless": test_keyless_search.scripts(),
    "triggers": test_trigger_search.scripts(),
}


@pytest.mark.parametrize("kind", SCRIPTS)
@settings(
    max_examples=EXAMPLES // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    data=st.data(),
    cells=st.sampled_from(["1x1", "2x2"]),
    batching=st.sampled_from(["each", "one", "random:1"]),
)
def test_the_past_is_what_it_was(kind: str, data: st.DataObject, cells: str, batching: str) -> None:
    text = with_archives(data.draw(SCRIPTS[kind]))
    note(text)
    run_past(text, RUNTIME, cells, batching)


@pytest.mark.parametrize("kind", SCRIPTS)
@settings(
    max_examples=max(1, EXAMPLES // 6),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data(), shares=st.sampled_from([2, 3]), slices=st.sampled_from([1, 2, 5]))
def test_a_question_in_shares_has_the_same_answer(
    kind: str, data: st.DataObject, shares: int, slices: int
) -> None:
    text = with_archives(data.draw(SCRIPTS[kind]))
    note(text)

    def recall(runtime: LocalRuntime, question: Question, most: int | None = None) -> Recalled:
        return recall_in_shares(runtime.archive, question, most, shares, slices)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRuntime, "recall", recall)
        run_past(text, "local", "1x1", "one")
