"""The lease of a storage: one holder at a time, and who takes over."""

import threading
import time
from pathlib import Path

import pytest

from place.errors import ConfigurationError
from place.runtime.durable import manifest as manifests
from place.runtime.durable.lease import Lease, newest
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.storage import Storage, TakenOver
from place.runtime.durable.takeover import fence
from tests.harness.object_store import Bucket


@pytest.fixture(params=["directory", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "directory":
        return Storage(str(tmp_path / "storage"))
    bucket: Bucket = request.getfixturevalue("bucket")
    return Storage(bucket.uri())


def die(lease: Lease) -> None:
    """As if its process had been killed: the lease is neither renewed nor released."""
    lease._ended.set()
    lease._thread.join()


def test_a_lease_that_is_released_can_be_taken_at_once(storage: Storage) -> None:
    first = Lease.taken(storage, "a", 60)
    assert (first.epoch, first.needs_fence) == (1, False)
    first.confirm()
    first.release()
    second = Lease.taken(storage, "b", 60)
    assert (second.epoch, second.needs_fence) == (2, False)
    with pytest.raises(TakenOver, match="another process has taken over this home"):
        first.confirm()
    second.release()


def test_a_lease_that_is_alive_is_not_taken(storage: Storage) -> None:
    lease = Lease.taken(storage, "a", 0.6)
    with pytest.raises(ConfigurationError, match=r"is in use by process \d+ on"):
        Lease.taken(storage, "b", 0.6)
    lease.confirm()
    lease.release()


def test_a_lease_that_has_run_out_is_taken_over(storage: Storage) -> None:
    dead = Lease.taken(storage, "a", 0.6)
    die(dead)
    began = time.monotonic()
    lease = Lease.taken(storage, "b", 60)
    assert time.monotonic() - began >= 0.6
    assert (lease.epoch, lease.needs_fence) == (2, True)
    with pytest.raises(TakenOver):
        dead.confirm()
    lease.release()


def test_the_next_process_of_a_home_directory_does_not_wait(storage: Storage) -> None:
    """The lock of the directory says that the one before is dead."""
    die(Lease.taken(storage, "a", 600))
    lease = Lease.taken(storage, "a", 600)
    assert (lease.epoch, lease.needs_fence) == (2, True)
    lease.release()


def test_who_gives_up_before_it_has_made_a_fence_leaves_that_to_the_next(storage: Storage) -> None:
    die(Lease.taken(storage, "a", 600))
    Lease.taken(storage, "a", 600).release()
    lease = Lease.taken(storage, "b", 600)
    assert lease.needs_fence
    lease.needs_fence = False  # it has made one
    lease.release()
    last = Lease.taken(storage, "c", 600)
    assert not last.needs_fence
    last.release()


def test_of_several_who_wait_one_gets_it(storage: Storage) -> None:
    die(Lease.taken(storage, "dead", 0.3))
    got: list[Lease] = []
    refused: list[str] = []

    def wait(holder: str) -> None:
        try:
            got.append(Lease.taken(storage, holder, 0.3))
        except ConfigurationError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=wait, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert (len(got), len(refused)) == (1, 2)
    got[0].release()


def test_a_holder_that_was_taken_over_does_not_renew_its_lease(storage: Storage) -> None:
    lease = Lease.taken(storage, "a", 0.3)
    assert storage.publish("lease/000000000002.json", b"{}")
    lease._thread.join(timeout=10)
    assert not lease._thread.is_alive()


def test_after_a_fence_the_one_before_cannot_commit(storage: Storage) -> None:
    mine = Storage(storage.root, 2)
    first = fence(mine, "home", "1x1")
    assert (first.tick, first.catalog, first.epoch) == (1, 0, 2)
    theirs = Manifest(1, "home", 1, "1x1", {}, epoch=1)
    with pytest.raises(TakenOver, match="tick 1 was committed by someone else"):
        manifests.publish(storage, theirs)
    # One that was committed before the fence is where the fence goes on.
    manifests.publish(storage, Manifest(2, "home", 7, "1x1", {}, ingest=5, epoch=1))
    second = fence(mine, "home", "1x1")
    assert (second.tick, second.catalog, second.ingest) == (3, 7, 5)
    assert manifests.load(storage, 3) == second


def test_leases_are_found_in_their_order(storage: Storage) -> None:
    assert newest(storage) is None
    for _ in range(11):
        Lease.taken(storage, "a", 60).release()
    found = newest(storage)
    assert found is not None
    assert (found.epoch, found.is_released) == (11, True)
