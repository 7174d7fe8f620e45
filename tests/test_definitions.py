"""Definitions as a value: what a dictionary does, without ever changing one that was given."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

import place
from place.plan.catalog import Catalog
from place.plan.definitions import FEW, Definitions

STEPS = st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=400)


@given(STEPS)
def test_it_does_what_a_dictionary_does(steps: list[tuple[int, bool]]) -> None:
    """A name that is defined again stands at the end."""
    wanted: dict[str, object] = {}
    found: Definitions[object] = Definitions()
    versions = [(found, dict(wanted))]
    for number, comes in steps:
        key = str(number)
        if comes:
            wanted.pop(key, None)
            wanted[key] = value = [number]
            found = found.put(key, value)
        elif key in wanted:
            del wanted[key]
            found = found.without(key)
        versions.append((found, dict(wanted)))
    for version, expected in versions[:: max(1, len(versions) // 7)]:
        assert list(version.items()) == list(expected.items())
        assert len(version) == len(expected)
        assert dict(pickle.loads(pickle.dumps(version))) == expected
        ended, begun = found.since(version)
        assert set(ended) == {k for k, v in expected.items() if wanted.get(k) != v}
        assert begun == [k for k, v in wanted.items() if expected.get(k) != v]


def test_what_is_shared_is_not_copied() -> None:
    many: Definitions[int] = Definitions({str(i): i for i in range(10 * FEW)})
    more = many.put("one more", 0)
    assert more._base is many._base
    assert more.since(many) == ([], ["one more"])
    assert "one more" not in many


def test_a_catalog_is_had_from_another_by_what_changed() -> None:
    with place.connect() as session:
        session.sql("CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE)")
        session.sql(
            "CREATE TABLE T (id BIGINT) AS VALUES (1); REGISTER QUERY a AS SELECT id FROM S"
        )
        before = session.catalog
        session.sql("DROP QUERY a; REGISTER QUERY b AS SELECT id FROM S; DROP TABLE T")
        after = session.catalog
        change = after.since(before)
        assert len(change) == 3
        made = before.after(pickle.loads(pickle.dumps(change)))
        assert made.version == after.version
        for kind in ("stream", "table", "query"):
            assert dict(made.store_of(kind)) == dict(after.store_of(kind))
        assert dict(Catalog().after(after.since(Catalog())).queries) == dict(after.queries)


def test_two_versions_that_follow_one_do_not_see_each_other() -> None:
    first: Definitions[int] = Definitions[int]().put("a", 1)
    left, right = first.put("b", 2), first.put("c", 3)
    again = left.put("b", 4)
    assert dict(first) == {"a": 1}
    assert (dict(left), dict(right), dict(again)) == (
        {"a": 1, "b": 2},
        {"a": 1, "c": 3},
        {"a": 1, "b": 4},
    )
    assert right.without("a").since(left) == (["b", "a"], ["c"])
    assert left.get("c") is None
    assert "c" not in left
    assert "b" not in first
