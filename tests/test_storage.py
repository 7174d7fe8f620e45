"""Storages: a directory, and an object store that speaks S3's API."""

import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from place.errors import ConfigurationError
from place.runtime.durable.address import shown
from place.runtime.durable.storage import Storage, StorageFault, part_of
from tests.harness.object_store import SECRET, Bucket


@pytest.fixture(params=["directory", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "directory":
        return Storage(str(tmp_path / "storage"))
    bucket: Bucket = request.getfixturevalue("bucket")
    return Storage(bucket.uri("some/prefix"))


def test_one_contract_for_all_storages(storage: Storage) -> None:
    assert storage.write("a/b", lambda out: out.write(b"one")) == 3
    assert storage.publish("a/c", b"two")
    assert not storage.publish("a/c", b"three")
    assert storage.read("a/c") == b"two"
    with storage.open("a/b") as source:
        assert source.size() == 3
        assert source.read() == b"one"
    with storage.open(part_of("a/b", 1, 2)) as source:
        assert source.read() == b"ne"
    assert storage.head("a/b", 2) == (b"on", 3)
    storage.replace("a/c", b"four")
    storage.write("a/d/e", lambda out: out.write(b""))
    assert storage.head("a/d/e", 2) == (b"", 0)
    assert list(storage.list("a")) == [("a/b", 3), ("a/c", 4), ("a/d/e", 0)]
    assert [name for name in storage.names("a") if name != "d"] == ["b", "c"]
    assert storage.names("nothing") in ([], ())
    assert list(storage.list("nothing")) == []
    storage.move("a/c", "f/g")
    assert storage.read("f/g") == b"four"
    assert not storage.exists("a/c")
    storage.remove("f/g")
    storage.remove("f/g")
    assert not storage.exists("f/g")
    for missing in (storage.read, storage.open):
        with pytest.raises(FileNotFoundError):
            missing("f/g")
    storage.prove(["a", "new"])
    assert list(storage.list("new")) == []
    assert pickle.loads(pickle.dumps(storage)).read("a/b") == b"one"


def test_a_file_whose_writing_fails_does_not_appear(storage: Storage) -> None:
    def fail(out: pa.NativeFile) -> None:
        out.write(b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage.create("a/b", fail)
    assert not storage.exists("a/b")
    assert list(storage.list("a")) == []


def test_of_two_who_publish_exactly_one_succeeds(storage: Storage) -> None:
    rounds = 60
    won: list[list[int]] = [[] for _ in range(rounds)]
    together = threading.Barrier(2)

    def try_all(who: int) -> None:
        for number in range(rounds):
            together.wait(timeout=60)
            if storage.publish(f"tick/{number}", b"%d" % who):
                won[number].append(who)

    threads = [threading.Thread(target=try_all, args=(who,)) for who in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert all(len(winners) == 1 for winners in won)
    assert [storage.read(f"tick/{number}") for number in range(rounds)] == [
        b"%d" % winner for (winner,) in won
    ]


def test_a_put_that_was_sent_twice_finds_its_own_object(bucket: Bucket) -> None:
    """As when the answer to the first request is lost, and the request is sent again."""
    storage = Storage(bucket.uri())
    assert storage.publish("a", b"mine")
    assert storage.publish("a", b"mine")
    assert not storage.publish("a", b"another's")


def test_what_cannot_be_a_storage_is_refused(bucket: Bucket) -> None:
    for root, said in {
        "hdfs://host/a": "cannot be a storage",
        "s3://a/b?color=red": 'the option "color", which is not known; options: endpoint_override',
        "s3:///b": "names no bucket",
        "s3://b/c?endpoint_override=http://192.0.2.1:9000": "without encryption",
        f"s3://key:{SECRET}@bucket/home": "with credentials",
    }.items():
        with pytest.raises(ConfigurationError, match=said) as caught:
            Storage(root).exists("a")
        assert SECRET not in str(caught.value)
    away = Storage(bucket.uri().replace(bucket.name, "no-such-bucket"))
    with pytest.raises(StorageFault, match="no such bucket") as fault:
        away.publish("a", b"")
    assert SECRET not in str(fault.value)
    assert shown(f"s3://key:{SECRET}@bucket/home?region=x") == "s3://bucket/home"
    assert str(Storage(bucket.uri())) == f"s3://{bucket.name}/home"
