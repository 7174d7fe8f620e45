"""What a home keeps, and the one reader of it, without Spark."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import place
from place.engine.changes import Change
from place.errors import ConfigurationError
from place.plan.query import Query
from place.runtime.durable import manifest as manifests
from place.runtime.durable.deltas import WHOLE, Deltas, NotKept, TickDeltas
from place.runtime.durable.kept_ticks import RECENT, Keep, KeptTicks
from place.runtime.durable.manifest import Enclosed, Manifest, Posted, Saved
from place.runtime.durable.outbox import pieces_of, post
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Damaged, Storage, StorageFault, StorageFull
from place.runtime.durable.webhook import LONGEST_PAUSE, Attempts
from place.runtime.spark.failure import failure_of
from place.server.encode import encode_tick

HOUR = 3600.0


@pytest.fixture(scope="module")
def queries() -> Iterator[tuple[Query, Query]]:
    """Two queries whose rows have other types."""
    with place.connect() as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING)")
        session.sql("REGISTER QUERY ids AS SELECT id FROM Cars")
        session.sql("REGISTER QUERY kinds AS SELECT id, kind FROM Cars")
        ids, kinds = session.catalog.queries.values()
        yield ids, kinds


def change(query: Query, instants: list[int]) -> Change:
    numbers = pa.array(instants, pa.int64())
    texts = pa.array([f"k{at}" for at in instants])
    columns = (numbers, texts)[: len(query.types)]
    return Change((query,), 1, np.array(instants), columns, True)


class Home:
    """Ticks as a pipeline commits them."""

    def __init__(self, directory: Path, query: Query, keep: Keep, small: int) -> None:
        self.storage = Storage(str(directory))
        self.query = query
        self.small = small
        self.open(keep)

    def open(self, keep: Keep) -> None:
        self.kept = KeptTicks(self.storage, keep)
        self.kept.open(set())
        self.last = self.kept.last
        self.deltas = Deltas(self.storage, self.kept)

    def tick(self, *instants: int, ago: float = 0.0, delivered: int = WHOLE) -> None:
        number = self.last.tick + 1 if self.last is not None else 1
        outbox: tuple[Posted, ...] = ()
        enclosed = Enclosed(number)
        if instants:
            name = f"outbox/{number:012d}-a-0.arrow"
            changes = [change(self.query, list(instants))]
            posted, pack = post(self.storage, name, changes, self.small)
            if pack is not None:
                posted = replace(posted, file=enclosed.add(pack, manifests.DELTAS))
            outbox = (posted,)
        written_at = time.time() - ago
        states = {"0-0": Saved(f"state/0-0/{number:012d}-a.arrow", number, 1)}
        manifest = Manifest(*(number, "home", 1, "1x1", states), outbox=outbox, written=written_at)
        manifest = self.kept.planned(manifest, lambda: delivered)
        manifests.publish(self.storage, manifest, enclosed)
        self.kept.committed(manifest)
        self.kept.sweep(manifest, self.last, ())
        self.last = manifest

    def ticks(self) -> list[int]:
        inside = [found.tick for found in self.deltas.after(None)]
        assert [found.tick for found in Deltas(self.storage).after(None)] == inside
        return inside


@pytest.fixture
def home(tmp_path: Path, queries: tuple[Query, Query]) -> Home:
    return Home(tmp_path, queries[0], Keep(), 0)


def test_positions_are_in_the_order_of_instants_across_queries(
    queries: tuple[Query, Query],
) -> None:
    ids, kinds = queries
    pieces = pieces_of([change(ids, [1, 4, 9]), change(kinds, [2, 4, 5])])
    assert len(pieces) == 2
    found = TickDeltas.of(7, pieces)
    expected = [(1, "ids"), (2, "kinds"), (4, "ids"), (4, "kinds"), (5, "kinds"), (9, "ids")]
    numbered = found.numbered()
    assert [(each.delta.instant, each.delta.query) for each in numbered] == expected
    assert [(each.tick, each.position) for each in numbered] == [(7, i) for i in range(6)]
    table = found.changelog()
    assert table["position"].to_pylist() == list(range(6))
    assert table["query"].to_pylist() == [query for _, query in expected]
    assert table["row"].to_pylist()[1] == '[2, "k2"]'
    for position in range(-1, 6):
        rest = found.after(position)
        assert rest.numbered() == numbered[position + 1 :]
        assert rest.changelog() == table.slice(position + 1)
    assert [each.position for each in found.numbered({"kinds"})] == [1, 3, 4]
    assert found.changelog({"kinds"})["position"].to_pylist() == [1, 3, 4]


def test_what_several_cells_tell_of_a_query_is_sent_in_order(
    queries: tuple[Query, Query],
) -> None:
    ids, _ = queries
    pieces = [*pieces_of([change(ids, [1, 9])]), *pieces_of([change(ids, [2, 4])])]
    encoded = encode_tick(TickDeltas.of(7, pieces), {"ids"})["ids"]
    assert encoded.positions == [0, 1, 2, 3]
    assert encoded.rows == ["[1]", "[2]", "[4]", "[9]"]
    (message,) = encoded.messages
    assert (message.first, message.last) == ("7-0", "7-3")


def test_ticks_in_which_nothing_happens_leave_nothing(home: Home) -> None:
    home.tick(1)
    for _ in range(3 * RECENT):
        home.tick()
    home.tick(2)
    names = home.storage.names("manifest")
    assert len(names) == RECENT + 1
    assert len(home.storage.names("outbox")) == 2
    assert home.ticks() == [1, 3 * RECENT + 2]
    assert [each.delta.instant for each in home.deltas.numbered((1, 0))] == [2]
    assert [each.delta.instant for each in home.deltas.numbered((30, WHOLE))] == [2]
    middle = home.deltas.manifest(30)
    assert middle is not None
    assert middle.tick == 1, "since then nothing has happened"
    home.open(Keep())
    assert home.ticks() == [1, 3 * RECENT + 2]


def test_deltas_are_kept_by_their_age(home: Home) -> None:
    for hours in (40, 30, 20, 10, 0):
        home.tick(hours, ago=hours * HOUR)
    assert home.ticks() == [3, 4, 5]
    assert home.storage.names("outbox")[0].startswith("000000000003")
    for reader in (home.deltas, Deltas(home.storage)):
        with pytest.raises(NotKept, match="tick 1 are not kept any more; they begin at tick 3"):
            list(reader.after((1, 0)))
        assert [found.tick for found in reader.after((2, WHOLE))] == [3, 4, 5]
    home.open(Keep(seconds=5 * HOUR))
    home.tick()
    assert home.ticks() == [5]


def test_a_sweep_that_was_cut_off_is_finished_at_the_next_start(home: Home) -> None:
    home.open(Keep(seconds=100 * HOUR))
    for hours in (40, 30, 0):
        home.tick(hours, ago=hours * HOUR)
    assert home.ticks() == [1, 2, 3]
    gone = {name: home.storage.read(name) for name, _ in home.storage.list("")}
    home.open(Keep(seconds=HOUR))
    home.tick()
    assert home.ticks() == [3]
    for name, content in gone.items():
        home.storage.replace(name, content)
    home.open(Keep())
    home.tick(4)
    assert home.ticks() == [3, 5]
    assert len(home.storage.names("outbox")) == 2
    assert home.kept.kept_from == 3


def test_deltas_are_kept_by_their_number_and_size(tmp_path: Path, home: Home) -> None:
    for number in range(4):
        home.tick(number)
    size = home.kept.size // 4
    home.open(Keep(ticks=3))
    home.tick(9)
    assert home.ticks() == [3, 4, 5]
    home.open(Keep(outbox_bytes=2 * size))
    home.tick(10)
    assert home.ticks() == [5, 6]
    assert home.kept.size == sum(size for _, size in home.storage.list("outbox"))


def test_deltas_that_somebody_has_not_got_are_kept(home: Home) -> None:
    home.open(Keep(ticks=1))
    for number in range(1, 5):
        home.tick(number, delivered=2)
    assert home.ticks() == [3, 4]
    assert home.kept.is_overdue(2)
    assert not home.kept.is_overdue(3)


def test_what_a_killed_process_has_left_is_swept(home: Home) -> None:
    home.tick(1)
    home.tick(2)
    left = ["outbox/000000000003-b-0.arrow", "outbox/000000000002-b-0.arrow", "state/0-0/3.arrow"]
    left += ["segments/000000000001-b-0.arrow", "quarantine/000000000003-b-0.jsonl"]
    for name in left:
        home.storage.write(name, lambda out: out.write(b"half"))
    home.storage.write("quarantine/000000000001-a-0.jsonl", lambda out: out.write(b"{}"))
    home.open(Keep())
    assert not any(home.storage.exists(name) for name in left)
    assert home.storage.exists("quarantine/000000000001-a-0.jsonl")
    assert home.ticks() == [1, 2]


@pytest.mark.parametrize("reopened", [False, True])
def test_an_outbox_that_is_missing_is_found(home: Home, reopened: bool) -> None:
    home.tick(1)
    home.tick(2)
    home.tick(3)
    home.storage.remove("outbox/000000000002-a-0.arrow")
    if reopened:
        home.open(Keep())
    with pytest.raises(Damaged, match="tick 2 are missing"):
        list(home.deltas.after(None))


def damages(content: bytes) -> Iterator[bytes]:
    """A file cut short, and eight bytes of it changed, at many places."""
    for end in range(0, len(content), max(1, len(content) // 25)):
        yield content[:end]
    for start in range(0, len(content), max(1, len(content) // 50)):
        eight = bytes(byte ^ 0xA5 for byte in content[start : start + 8])
        yield content[:start] + eight + content[start + 8 :]


def test_a_damaged_pack_is_found_wherever_it_is_damaged(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    tables = {"a": pa.table({"x": list(range(50))}), "b": pa.table({"y": ["one", None, "three"]})}
    storage.write("state/1.arrow", lambda out: write_tables(out, tables, {"more": [1, 2]}))
    assert load_pack(storage, "state/1.arrow") == (tables, {"more": [1, 2]})
    for content in damages(storage.read("state/1.arrow")):
        storage.replace("state/1.arrow", content)
        with pytest.raises(Damaged, match=r"state/1\.arrow is damaged"):
            load_pack(storage, "state/1.arrow")


def test_a_damaged_manifest_is_found_wherever_it_is_damaged(home: Home) -> None:
    home.tick(1)
    name = manifests.name_of(1)
    whole = home.storage.read(name)
    assert manifests.load(home.storage, 1) == home.last
    for content in damages(whole):
        home.storage.replace(name, content)
        with pytest.raises(Damaged, match=r"manifest/000000000001\.json is damaged"):
            manifests.load(home.storage, 1)


def test_small_deltas_are_enclosed_in_their_manifest(
    tmp_path: Path, queries: tuple[Query, Query]
) -> None:
    home = Home(tmp_path, queries[0], Keep(), 1 << 16)
    for number in range(1, 4):
        home.tick(number)
    for _ in range(2 * RECENT):
        home.tick()
    home.tick(9)
    assert home.storage.names("outbox") == ()
    for _ in range(2):
        assert home.ticks() == [1, 2, 3, 44]
        assert [each.delta.instant for each in home.deltas.numbered(None)] == [1, 2, 3, 9]
        home.open(Keep())
    assert home.kept.size > 0
    home.open(Keep(ticks=2))
    home.tick(10)
    assert home.ticks() == [44, 45]
    home.tick(*range(5_000))
    assert home.storage.names("outbox") == ["000000000046-a-0.arrow"]
    assert home.ticks() == [45, 46]


def test_damage_to_what_a_manifest_encloses_is_found(
    tmp_path: Path, queries: tuple[Query, Query]
) -> None:
    home = Home(tmp_path, queries[0], Keep(), 1 << 16)
    home.tick(1, 2, 3)
    name = manifests.name_of(1)
    whole = home.storage.read(name)
    assert whole.startswith(manifests.DELTAS)
    assert home.last is not None
    used = home.last.outbox[0].file.partition("#")[2].partition("+")[0]
    assert int(used) == 64
    for content in damages(whole):
        if content[:64] != whole[:64] and len(content) == len(whole):
            continue  # what only fills the place before the first pack
        home.storage.replace(name, content)
        with pytest.raises(Damaged, match=r"manifest/000000000001\.json\S* is damaged"):
            Deltas(home.storage).of(manifests.load(home.storage, 1))


def test_a_home_of_an_earlier_version_is_refused_in_words(home: Home) -> None:
    home.storage.replace(manifests.name_of(1), b'{"tick":1,"home":"a","format":1}')
    with pytest.raises(ConfigurationError, match="has format 1, this version of PLACE reads 4"):
        home.open(Keep())


def test_pauses_between_attempts_double_up_to_a_minute() -> None:
    attempts = Attempts()
    pauses = [attempts.fail(ValueError("it answered 500")) for _ in range(30)]
    assert not attempts.is_due
    assert attempts.error == "it answered 500"
    for pause, bound in zip(pauses[:4], (0.5, 1, 2, 4), strict=True):
        assert 0.5 * bound <= pause <= bound
    assert max(pauses) <= LONGEST_PAUSE
    attempts.succeed()
    assert attempts.is_due
    assert (attempts.failures, attempts.error) == (0, None)


def test_errors_of_tasks_are_told_apart_by_whose_fault_they_are() -> None:
    around = "org.apache.spark.SparkException: Job aborted\n{}\n\tat org.apache.spark.Thing"
    for line, kind in {
        "place.runtime.durable.storage.StorageFull: no space left for a; free some": StorageFull,
        "place.runtime.durable.storage.StorageFault: a cannot be written; mend it": StorageFault,
        "place.runtime.durable.storage.Damaged: a is damaged; restore it": Damaged,
        "OSError: [Errno 5] Input/output error": StorageFault,
        "PermissionError: [Errno 13] Permission denied: '/home/outbox'": StorageFault,
        "OSError: [Errno 28] No space left on device": StorageFull,
        "ValueError: the readings are strange": ConfigurationError,
    }.items():
        assert type(failure_of(around.format(line))) is kind, line


def test_a_changelog_of_one_query_has_its_columns(tmp_path: Path) -> None:
    with place.connect() as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)")
        session.sql("REGISTER QUERY q AS SELECT id, ts, x AS sign FROM Cars")
        query = session.query("q")
    rows = (pa.array([1, 2]), pa.array([3_000_000, None]), pa.array([0.5, 1.5]))
    found = TickDeltas.of(7, pieces_of([Change((query,), 1, np.array([5, 6]), rows, True)]))
    plain, wide = found.changelog(), found.changelog(query=query)
    assert wide.select(plain.column_names).equals(plain)
    assert wide.column_names[6:] == ["id", "ts", "sign_"]  # sign is the delta's own
    assert wide["ts"].type == pa.timestamp("us", "UTC")
    assert wide["sign_"].to_pylist() == [0.5, 1.5]
    other = place.connect()
    other.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)")
    other.sql("REGISTER QUERY q AS SELECT id FROM Cars")
    assert found.changelog(query=other.query("q")).equals(plain)
