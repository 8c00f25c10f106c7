from __future__ import annotations

import asyncio
import dataclasses
import errno
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_durable.server.store import AppendSpec, CreateSpec, ProducerTriple
from spark_durable.server.store.errors import (
    Closed,
    DiskFull,
    NotFound,
    Overloaded,
    SequenceGap,
    StoreError,
    StoreFailed,
)
from tests.server.store.driver import JSON, Driver
from tests.server.store.gated import GatedFiles

KEY = "/v1/stream/s"


class GatedDriver(Driver):
    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self.failures: list[Exception] = []
        super().__init__(data_dir, on_failure=self.failures.append, **settings)

    def _open(self) -> None:
        assert self.config.data_dir is not None
        self.files = GatedFiles(self.config.data_dir)
        self.config = dataclasses.replace(self.config, files=self.files)
        super()._open()

    def hold_the_next_sync(self) -> None:
        self.files.gate.clear()
        self.files.syncing.clear()

    def start(self, awaitable: Awaitable[Any]) -> asyncio.Task[Any]:
        """Begins a call and lets it get as far as it can."""

        async def begin() -> asyncio.Task[Any]:
            task = asyncio.ensure_future(awaitable)
            for _ in range(5):
                await asyncio.sleep(0)
            return task

        return self.loop.run_until_complete(begin())

    def begin_append(
        self, body: bytes, producer: tuple[str, int, int] | None = None, **spec: Any
    ) -> asyncio.Task[Any]:
        triple = ProducerTriple(*producer) if producer else None
        return self.start(self.store.append(KEY, AppendSpec(JSON, body, triple, **spec)))


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[GatedDriver]:
    driver = GatedDriver(tmp_path / "data")
    driver.create(KEY)
    yield driver
    driver.files.gate.set()
    driver.close()


def test_nothing_is_answered_or_seen_before_it_is_synced(driver: GatedDriver) -> None:
    driver.files.gate.clear()
    append = driver.begin_append(b"1")
    driver.files.syncing.wait()
    creation = driver.start(driver.store.create("/v1/stream/new", CreateSpec(body=b"x")))
    assert not append.done()
    assert driver.read(KEY) == b"[]"
    with pytest.raises(NotFound):
        driver.call(driver.store.stat, "/v1/stream/new")
    driver.files.gate.set()
    assert driver.run(append).next_offset == 3
    assert driver.run(creation).created
    assert driver.read(KEY) == b"[1]"


def test_what_comes_in_during_a_sync_shares_the_next_one(driver: GatedDriver) -> None:
    driver.hold_the_next_sync()
    first = driver.begin_append(b"0")
    driver.files.syncing.wait()
    before = driver.files.log_syncs
    rest = [driver.begin_append(b"%d" % each) for each in range(1, 200)]
    driver.files.gate.set()
    driver.run(asyncio.wait([first, *rest]))
    assert driver.files.log_syncs == before + 1
    assert driver.messages(KEY) == [b"%d" % each for each in range(200)]


def test_a_repetition_of_an_append_in_flight_is_answered_with_it(driver: GatedDriver) -> None:
    driver.files.gate.clear()
    first = driver.begin_append(b"1", ("p", 0, 0))
    second = driver.begin_append(b"1", ("p", 0, 0))
    following = driver.begin_append(b"2", ("p", 0, 1))
    gap = driver.begin_append(b"9", ("p", 0, 5))
    assert not any(each.done() for each in (first, second, following, gap))
    driver.files.gate.set()
    assert driver.run(first).outcome == "appended"
    assert driver.run(second).outcome == "duplicate"
    assert driver.run(following).outcome == "appended"
    with pytest.raises(SequenceGap):
        driver.run(gap)
    assert driver.messages(KEY) == [b"1", b"2"]


def test_creating_twice_at_once_creates_once(driver: GatedDriver) -> None:
    driver.files.gate.clear()
    first = driver.start(driver.store.create("/v1/stream/x", CreateSpec(JSON)))
    second = driver.start(driver.store.create("/v1/stream/x", CreateSpec(JSON)))
    assert not second.done()
    driver.files.gate.set()
    assert driver.run(first).created
    assert not driver.run(second).created


class TestFullDisk:
    """Out of space: everything in flight is taken back as if it had never been sent."""

    def test_is_answered_and_undone(self, driver: GatedDriver) -> None:
        driver.hold_the_next_sync()
        first = driver.begin_append(b"1", ("p", 0, 0))
        driver.files.syncing.wait()
        driver.files.free = 0
        tasks = [
            driver.begin_append(b"2", ("p", 0, 1), stream_seq="b"),
            driver.begin_append(b"3", ("p", 1, 0)),
            driver.start(driver.store.create("/v1/stream/y", CreateSpec(body=b"x"))),
            driver.begin_append(b"", ("q", 0, 0), close=True),
            driver.start(driver.store.create_bucket("full")),
            driver.start(driver.store.delete(KEY)),
        ]
        driver.files.gate.set()
        assert driver.run(first).outcome == "appended"
        for task in tasks:
            with pytest.raises(DiskFull):
                driver.run(task)
        assert driver.messages(KEY) == [b"1"]
        assert not driver.call(driver.store.stat, KEY).closed

        driver.files.free = None
        assert driver.append(KEY, b"2", producer=("p", 0, 1), stream_seq="a").next_offset == 6
        assert driver.append(KEY, b"", producer=("q", 0, 0), close=True).closed
        assert driver.create("/v1/stream/y", None).created
        driver.run(driver.store.create_bucket("full"))
        driver.reopen()
        assert driver.messages(KEY) == [b"1", b"2"]

    def test_frees_what_was_written_in_part(self, driver: GatedDriver, tmp_path: Path) -> None:
        driver.append(KEY, b"1")
        # the append's bytes fit, its index entry does not
        driver.files.free = 12
        with pytest.raises(DiskFull):
            driver.append(KEY, b"1234567")
        log = next(tmp_path.rglob("*00.log"))
        assert log.stat().st_size == 3

    def test_for_a_new_log_segment(self, tmp_path: Path) -> None:
        driver = GatedDriver(tmp_path / "small", log_segment_bytes=2000)
        driver.create(KEY)
        driver.files.free = 3000
        sent = 0
        while sent < 100:
            try:
                driver.append(KEY, b"%d" % sent)
            except DiskFull:
                assert driver.files.free is not None
                driver.files.free = None
            else:
                sent += 1
        assert driver.files.free is None
        driver.reopen(crash=True)
        assert driver.messages(KEY) == [b"%d" % each for each in range(100)]
        driver.close()

    def test_a_refusal_that_rested_on_it_is_thought_over(self, driver: GatedDriver) -> None:
        driver.hold_the_next_sync()
        first = driver.begin_append(b"0")
        driver.files.syncing.wait()
        driver.files.free = 30
        closing = driver.begin_append(b"1" * 40, close=True)
        late = driver.begin_append(b"2")
        assert not late.done()
        driver.files.gate.set()
        assert driver.run(first).outcome == "appended"
        with pytest.raises(DiskFull):
            driver.run(closing)
        assert driver.run(late).outcome == "appended"
        assert driver.messages(KEY) == [b"0", b"2"]

    def test_while_a_snapshot_is_written(self, driver: GatedDriver) -> None:
        tail = driver.append(KEY, b"1").next_offset
        driver.files.free = 2
        with pytest.raises(DiskFull):
            driver.run(driver.store.publish_snapshot(KEY, tail, "text/plain", b"snapshot"))
        driver.files.free = None
        driver.run(driver.store.publish_snapshot(KEY, tail, "text/plain", b"snapshot"))
        assert driver.call(driver.store.snapshot, KEY).read() == b"snapshot"

    def test_for_the_catalog_puts_the_checkpoint_off(
        self, driver: GatedDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal: Any = driver.store._core.journal
        write = journal._catalog.write

        def full(*_: object) -> None:
            raise DiskFull()

        driver.append(KEY, b"1", producer=("p", 0, 0))
        monkeypatch.setattr(journal._catalog, "write", full)
        driver.run(journal.checkpoint())
        assert driver.failures == []
        monkeypatch.setattr(journal._catalog, "write", write)
        driver.run(journal.checkpoint())
        driver.reopen(crash=True)
        assert driver.append(KEY, b"1", producer=("p", 0, 0)).outcome == "duplicate"


class TestFailedSync:
    """Nobody knows what the disk holds: the store stops, and says so."""

    @pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
    def test_stops_the_store(self, driver: GatedDriver, code: int) -> None:
        driver.append(KEY, b"1")
        driver.files.sync_error = OSError(code, "the disk is tired")
        driver.files.gate.clear()
        tasks = [driver.begin_append(b"2"), driver.begin_append(b"3")]
        driver.files.gate.set()
        for task in tasks:
            with pytest.raises(StoreFailed, match="tired"):
                driver.run(task)
        assert [type(each) for each in driver.failures] == [StoreFailed]
        with pytest.raises(StoreFailed):
            driver.append(KEY, b"4")
        with pytest.raises(StoreFailed):
            driver.create("/v1/stream/x")
        # what was durable before stays readable
        assert driver.read(KEY) == b"[1]"

    def test_what_was_not_stored_is_no_repetition_afterwards(self, driver: GatedDriver) -> None:
        tail = driver.append(KEY, b"1").next_offset
        driver.files.sync_error = OSError(errno.EIO, "the disk is tired")
        for _ in range(2):
            with pytest.raises(StoreFailed):
                driver.append(KEY, b"2", producer=("p", 0, 0))
        for _ in range(2):
            with pytest.raises(StoreFailed):
                driver.run(driver.store.publish_snapshot(KEY, tail, "text/plain", b"snapshot"))

    def test_of_a_checkpoint_stops_it_too(
        self, driver: GatedDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(names: object) -> None:
            raise OSError(errno.ENOSPC, "no space for what was promised")

        driver.append(KEY, b"1")
        monkeypatch.setattr(driver.files, "sync_all", fail)
        journal: Any = driver.store._core.journal
        driver.run(journal.checkpoint())
        with pytest.raises(StoreFailed, match="promised"):
            driver.append(KEY, b"2")

    def test_is_found_whole_by_the_next_start(self, driver: GatedDriver) -> None:
        driver.append(KEY, b"1", producer=("p", 0, 0))
        driver.files.sync_error = OSError(errno.EIO, "gone")
        with pytest.raises(StoreFailed):
            driver.append(KEY, b"2", producer=("p", 0, 1))
        driver.files.sync_error = None
        driver.reopen()
        # this one had reached the log; either way the producer and its bytes agree
        outcome = driver.append(KEY, b"2", producer=("p", 0, 1)).outcome
        assert outcome in ("appended", "duplicate")
        assert driver.messages(KEY) == [b"1", b"2"]


def test_too_much_in_flight_is_refused_for_now(tmp_path: Path) -> None:
    driver = GatedDriver(tmp_path / "data", max_pending_bytes=1000)
    driver.create(KEY)
    driver.files.gate.clear()
    first = driver.begin_append(b'"' + b"x" * 900 + b'"')
    with pytest.raises(Overloaded) as refused:
        driver.append(KEY, b'"' + b"y" * 200 + b'"')
    assert refused.value.retry_after >= 1
    driver.files.gate.set()
    driver.run(first)
    assert driver.append(KEY, b'"' + b"y" * 2000 + b'"').outcome == "appended"
    driver.close()


def test_a_stream_in_flight_takes_appends_and_deletion(driver: GatedDriver) -> None:
    key = "/v1/stream/quick"
    driver.files.gate.clear()
    tasks = [
        driver.start(driver.store.create(key, CreateSpec(JSON))),
        driver.start(driver.store.append(key, AppendSpec(JSON, b"1", close=True))),
        driver.start(driver.store.append(key, AppendSpec(JSON, b"2"))),
        driver.start(driver.store.delete(key)),
        driver.start(driver.store.create(key, CreateSpec(JSON, body=b"[7]"))),
    ]
    driver.files.gate.set()
    results = driver.run(asyncio.gather(*tasks, return_exceptions=True))
    assert [type(each) for each in results if isinstance(each, StoreError)] == [Closed]
    assert driver.read(key) == b"[7]"
    driver.reopen(crash=True)
    assert driver.read(key) == b"[7]"


def test_checkpoints_come_by_themselves_and_free_the_log(tmp_path: Path) -> None:
    driver = GatedDriver(tmp_path / "data", log_segment_bytes=4096, checkpoint_bytes=10_000)
    driver.create(KEY)
    for each in range(600):
        driver.append(KEY, b'"%0100d"' % each, producer=("p", 0, each))
    driver._settle()
    assert len(list((tmp_path / "data" / "wal").iterdir())) < 8
    driver.reopen(crash=True)
    assert len(driver.messages(KEY)) == 600
    assert driver.append(KEY, b"1", producer=("p", 0, 599)).outcome == "duplicate"
    driver.close()


def test_a_segment_given_up_in_the_same_group_stays_given_up(tmp_path: Path) -> None:
    driver = GatedDriver(tmp_path / "data", segment_bytes=100)
    driver.create(KEY)
    tail = driver.append(KEY, b'"' + b"x" * 90 + b'"').next_offset
    journal: Any = driver.store._core.journal
    driver.run(journal.checkpoint())
    driver.hold_the_next_sync()
    first = driver.start(driver.store.create("/v1/stream/other", CreateSpec()))
    driver.files.syncing.wait()
    snapshot = driver.start(driver.store.publish_snapshot(KEY, tail, "text/plain", b"all"))
    while not journal._queue:
        driver.run(asyncio.sleep(0.001))
    append = driver.begin_append(b'"' + b"y" * 90 + b'"')
    driver.files.gate.set()
    driver.run(asyncio.wait([first, snapshot, append]))
    driver.config = dataclasses.replace(driver.config, verify=True)
    driver.reopen(crash=True)
    assert driver.messages(KEY) == [b'"' + b"y" * 90 + b'"']
    assert driver.config.data_dir is not None
    assert len(list((driver.config.data_dir / "streams").rglob("*.log"))) == 1
    driver.close()


def test_readers_do_not_look_at_what_is_still_to_be_written(driver: GatedDriver) -> None:
    key, kind = "/v1/stream/text", "text/plain"
    driver.create(key, kind)
    for body in (b"one", b"two", b"three"):
        driver.append(key, body, kind)
    driver.hold_the_next_sync()
    tasks = [driver.begin_append(b"0")]
    driver.files.syncing.wait()
    for _ in range(20):
        tasks.append(driver.start(driver.store.append(key, AppendSpec(kind, b"later"))))
    assert driver.read(key, 3, limit=4) == b"two"
    assert driver.messages(key) == [b"one", b"two", b"three"]
    driver.files.gate.set()
    driver.run(asyncio.wait(tasks))
    assert len(driver.messages(key)) == 23
