from __future__ import annotations

from pathlib import Path

import pytest

from spark_durable.server.store import ForkSpec
from spark_durable.server.store.errors import (
    BadOffset,
    NotFound,
    OffsetGone,
    SnapshotConflict,
    SnapshotMissing,
    TooLarge,
)
from tests.server.store.driver import JSON, SMALL, TEXT, Driver

S, F = "/v1/stream/s", "/v1/stream/f"


def publish(driver: Driver, offset: int, body: bytes, key: str = S, kind: str = TEXT) -> None:
    driver.run(driver.store.publish_snapshot(key, offset, kind, body))


@pytest.fixture
def tens(driver: Driver) -> Driver:
    """A stream of ten messages of ten bytes each, on several segments."""
    driver.create(S, TEXT)
    for each in range(10):
        driver.append(S, b"%010d" % each, TEXT)
    return driver


def test_a_snapshot_is_the_earliest_offset_kept(tens: Driver) -> None:
    publish(tens, 30, b"three", kind="text/x")
    stat = tens.call(tens.store.stat, S)
    assert (stat.retained, stat.snapshot_offset) == (30, 30)
    for offset in (0, 10, 29):
        with pytest.raises(OffsetGone) as gone:
            tens.read(S, offset)
        assert gone.value.retained == 30
    assert tens.read(S, 30, limit=10) == b"%010d" % 3
    found = tens.call(tens.store.snapshot, S)
    assert (found.offset, found.content_type, found.size, found.read()) == (
        30,
        "text/x",
        5,
        b"three",
    )


def test_what_is_refused(tens: Driver) -> None:
    publish(tens, 30, b"three")
    with pytest.raises(BadOffset):
        publish(tens, 35, b"x")
    with pytest.raises(SnapshotConflict, match="past"):
        publish(tens, 110, b"x")
    with pytest.raises(OffsetGone):
        publish(tens, 20, b"x")
    with pytest.raises(SnapshotConflict, match="another"):
        publish(tens, 30, b"other")
    with pytest.raises(SnapshotConflict, match="another"):
        publish(tens, 30, b"three", kind="text/other")
    with pytest.raises(NotFound):
        publish(tens, 0, b"x", key="/v1/stream/none")
    publish(tens, 30, b"three")


def test_a_snapshot_is_bounded() -> None:
    driver = Driver(max_snapshot_bytes=3)
    driver.create(S)
    with pytest.raises(TooLarge):
        publish(driver, 0, b"1234")
    publish(driver, 0, b"123")
    driver.close()


def test_a_superseded_one_stays_for_a_while(tens: Driver) -> None:
    publish(tens, 30, b"three")
    publish(tens, 60, b"six")
    assert tens.call(tens.store.snapshot, S).read() == b"six"
    old = tens.call(tens.store.snapshot, S, 30)
    assert old.read() == b"three"
    tens.clock.now += 3_601
    with pytest.raises(SnapshotMissing):
        tens.call(tens.store.snapshot, S, 30)
    assert tens.call(tens.store.snapshot, S, 60).read() == b"six"


def test_the_latest_cannot_be_deleted_and_older_ones_count_as_gone(tens: Driver) -> None:
    with pytest.raises(SnapshotMissing):
        tens.call(tens.store.snapshot, S)
    publish(tens, 30, b"three")
    publish(tens, 60, b"six")
    with pytest.raises(SnapshotConflict):
        tens.run(tens.store.delete_snapshot(S, 60))
    for offset in (30, 10):
        with pytest.raises(SnapshotMissing):
            tens.run(tens.store.delete_snapshot(S, offset))


def test_bootstrap_is_the_snapshot_and_what_follows_as_of_the_call(tens: Driver) -> None:
    publish(tens, 80, b"eight")
    start = tens.call(tens.store.bootstrap, S)
    tens.append(S, b"later", TEXT)
    publish(tens, 100, b"ten")
    assert start.snapshot is not None
    assert (start.snapshot.offset, start.snapshot.read()) == (80, b"eight")
    assert (start.start, start.end) == (80, 100)
    assert [each for chunk in start.chunks for each in chunk] == [b"%010d" % 8, b"%010d" % 9]


def test_bootstrap_without_a_snapshot_starts_at_the_beginning(tens: Driver) -> None:
    start = tens.call(tens.store.bootstrap, S)
    assert start.snapshot is None
    assert [each for chunk in start.chunks for each in chunk] == [b"%010d" % n for n in range(10)]


def test_bootstrap_keeps_json_messages_apart(driver: Driver) -> None:
    driver.create(S, JSON, body=b'["a,\\n", {"b": 1}, [2]]')
    driver.append(S, b"3")
    assert driver.messages(S) == [rb'"a,\n"', b'{"b": 1}', b"[2]", b"3"]


def test_a_long_bootstrap_comes_in_bounded_chunks() -> None:
    driver = Driver()
    driver.create(S, JSON)
    message = b'"' + b"x" * 1000 + b'"'
    for _ in range(30):
        driver.append(S, b"[" + b",".join([message] * 100) + b"]")
    chunks = list(driver.call(driver.store.bootstrap, S).chunks)
    assert sum(map(len, chunks)) == 3000
    assert max(sum(map(len, chunk)) for chunk in chunks) <= 1 << 20
    driver.close()


def test_superseded_bytes_leave_the_disk(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "data", **SMALL)
    driver.create(S, TEXT)
    for _ in range(50):
        driver.append(S, b"x" * 100, TEXT)
    driver.create(F, TEXT, fork=ForkSpec(S, 1000))

    def kept() -> int:
        driver._settle()
        streams = tmp_path / "data" / "streams"
        return sum(each.stat().st_size for each in streams.rglob("*.log"))

    assert kept() == 5000
    publish(driver, 4000, b"snapshot")
    # the fork still reads the first thousand bytes, and bytes go from the front only
    assert kept() == 5000
    assert driver.read(F) == b"x" * 1000
    driver.run(driver.store.delete(F))
    assert 1000 <= kept() <= 1200
    driver.reopen()
    assert driver.read(S, 4000) == b"x" * 1000
    driver.run(driver.store.delete(S))
    assert kept() == 0
    assert list((tmp_path / "data" / "snapshots").iterdir()) == []
    driver.close()


def test_a_reader_of_old_bytes_keeps_them(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "data", **SMALL)
    driver.create(S, TEXT)
    for each in range(50):
        driver.append(S, b"%0100d" % each, TEXT)
    start = driver.call(driver.store.bootstrap, S)
    publish(driver, 5000, b"all")
    driver._settle()
    assert [each for chunk in start.chunks for each in chunk] == [b"%0100d" % n for n in range(50)]
    driver.close()


def test_a_fork_keeps_the_snapshot_it_started_with(tens: Driver) -> None:
    publish(tens, 30, b"three")
    tens.create(F, TEXT, fork=ForkSpec(S))
    publish(tens, 60, b"six")
    tens.clock.now += 3_601
    with pytest.raises(SnapshotMissing):
        tens.call(tens.store.snapshot, S, 30)
    assert tens.call(tens.store.snapshot, F).read() == b"three"
    assert tens.read(F, 30, limit=10) == b"%010d" % 3


def test_snapshots_survive_restarts(disk: Driver) -> None:
    disk.create(S, TEXT, body=b"hello")
    publish(disk, 0, b"nothing")
    publish(disk, 5, b"HELLO")
    disk.create(F, TEXT, fork=ForkSpec(S))
    disk.run(disk.store.delete(S))
    for crash in (True, False, True):
        disk.reopen(crash=crash)
        assert disk.call(disk.store.snapshot, F).read() == b"HELLO"
        with pytest.raises(OffsetGone):
            disk.read(F, 0)
