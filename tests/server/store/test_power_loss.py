"""Acknowledged means synced: what was answered survives a power failure at any point.

A killed process loses nothing, since the kernel still has its writes; so these tests run on a disk
that forgets what was not synced. That they can fail is tested too: with any kind of sync taken out
the same campaign finds a loss.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest

from spark_durable.server.store import AppendSpec, CreateSpec, ProducerTriple, Store, StoreConfig
from spark_durable.server.store.errors import (
    BucketMissing,
    CorruptLog,
    CorruptStore,
    NotFound,
    SnapshotMissing,
    StoreError,
    StoreFailed,
)
from tests.server.store.lossy import LossyDisk

JSON = "application/json"
STREAMS = [f"/v1/stream/{each}" for each in range(4)]
PRODUCERS = 6


class Loss(AssertionError):
    """Something acknowledged is not there any more, or is there twice."""


class Campaign:
    """Producers that write, fail with the power, come back and repeat what was not answered."""

    def __init__(self, directory: Path, seed: int, ignored: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.choice = random.Random(seed)
        self.disk = LossyDisk(ignored)
        self.generation = 0
        # by stream and producer: how many messages were answered, and where they ended
        self.answered: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.snapshots: dict[str, tuple[int, bytes]] = {}
        self.buckets: set[str] = set()
        self.gone: set[str] = set()
        self.closed: set[str] = set()

    def run(self, cycles: int) -> None:
        for _ in range(cycles):
            asyncio.run(self._cycle())
            self._power_failure()
        self.disk.fail_after = None
        asyncio.run(self._check_only())

    def _power_failure(self) -> None:
        """The next start finds what the disk has kept. SQLite keeps its own promises."""
        self.disk = self.disk.after_power_failure(self.choice)
        self.generation += 1
        successor = self.directory.with_name(f"{self.directory.name}-{self.generation}")
        successor.mkdir()
        for name in ("FORMAT", "LOCK"):
            (successor / name).write_bytes((self.directory / name).read_bytes())
        if (self.directory / "catalog.sqlite").exists():
            source = sqlite3.connect(self.directory / "catalog.sqlite")
            target = sqlite3.connect(successor / "catalog.sqlite")
            source.backup(target)
            source.close()
            target.close()
        self.directory = successor

    def _open(self) -> Store:
        return Store.open(
            StoreConfig(
                data_dir=self.directory,
                files=self.disk,
                segment_bytes=600,
                log_segment_bytes=2048,
                checkpoint_bytes=4096,
                open_files=6,
            )
        )

    async def _cycle(self) -> None:
        if self.choice.random() < 0.3:
            # now and then the power fails again while recovery is at work
            self.disk.fail_after = self.choice.randrange(0, 40)
        try:
            store = self._open()
        except StoreFailed:
            return
        except Exception as error:
            if type(error).__name__ == "PowerFailure":
                return
            raise
        self.disk.fail_after = None
        self.check(store)
        self.disk.fail_after = self.choice.randrange(1, 300)
        writers = [self._produce(store, each) for each in range(PRODUCERS)]
        await asyncio.gather(*writers, self._change(store))
        self.disk.fail_after = 0
        await store.close()

    async def _check_only(self) -> None:
        store = self._open()
        self.check(store)
        await store.close()

    async def _produce(self, store: Store, producer: int) -> None:
        """Appends to its streams in turn until the power fails."""
        try:
            while True:
                key = self.choice.choice(STREAMS)
                try:
                    await store.create(key, CreateSpec(content_type=JSON))
                except StoreFailed:
                    raise
                except StoreError:
                    continue
                answered = self.answered[key, producer]
                number = len(answered)
                padding = "x" * self.choice.choice([0, 5, 50, 300])
                message = {"p": producer, "n": number, "x": padding}
                spec = AppendSpec(
                    JSON, json.dumps(message).encode(), ProducerTriple(f"p{producer}", 0, number)
                )
                done = await store.append(key, spec)
                answered.append(done.next_offset)
        except StoreFailed:
            return

    async def _change(self, store: Store) -> None:
        """Everything that is not an append: buckets, deletions, closures, snapshots."""
        try:
            while True:
                await asyncio.sleep(0)
                what = self.choice.randrange(4)
                name = f"b-{self.choice.randrange(1 << 30)}"
                if what == 0:
                    await store.create_bucket(name)
                    self.buckets.add(name)
                elif what == 1:
                    await store.create(f"/v1/stream/{name}", CreateSpec(body=b"x"))
                    await store.delete(f"/v1/stream/{name}")
                    self.gone.add(f"/v1/stream/{name}")
                elif what == 2:
                    await store.create(f"/v1/stream/{name}", CreateSpec(body=b"x"))
                    await store.append(f"/v1/stream/{name}", AppendSpec(close=True))
                    self.closed.add(f"/v1/stream/{name}")
                else:
                    key = f"/v1/stream/{name}"
                    created = await store.create(key, CreateSpec(body=b"y" * 40))
                    body = name.encode() * 20
                    await store.publish_snapshot(key, created.stat.tail, "text/plain", body)
                    self.snapshots[key] = (created.stat.tail, body)
        except StoreFailed:
            return

    def check(self, store: Store) -> None:
        for key in STREAMS:
            if any(self.answered[key, each] for each in range(PRODUCERS)):
                self._check_stream(store, key)
        for bucket in self.buckets:
            _expect(lambda bucket=bucket: store.bucket(bucket), f"bucket {bucket}")
        for key, (offset, body) in self.snapshots.items():
            found = _expect(lambda key=key: store.snapshot(key), f"snapshot of {key}")
            if (found.offset, _expect(found.read, f"snapshot of {key}")) != (offset, body):
                raise Loss(f"snapshot of {key}")
        for key in self.closed:
            if not _expect(lambda key=key: store.stat(key), key).closed:
                raise Loss(f"closure of {key}")
        for key in self.gone:
            try:
                store.stat(key)
            except NotFound:
                continue
            raise Loss(f"deletion of {key}")

    def _check_stream(self, store: Store, key: str) -> None:
        found = _expect(lambda: store.read(key, 0, 1 << 30), key)
        messages = json.loads(found.body)
        ends, end = [], 0
        for line in bytes(found.body[1:-1] + b",\n").splitlines(keepends=True):
            end += len(line)
            ends.append(end)
        for producer in range(PRODUCERS):
            answered = self.answered[key, producer]
            mine = [(m["n"], e) for m, e in zip(messages, ends, strict=True) if m["p"] == producer]
            if [n for n, _ in mine] != list(range(len(mine))):
                raise Loss(f"{key}: producer {producer} has {[n for n, _ in mine]}")
            if not len(answered) <= len(mine) <= len(answered) + 1:
                raise Loss(f"{key}: {len(mine)} of producer {producer}, {len(answered)} answered")
            for number, offset in enumerate(answered):
                # a repetition is answered with the tail, which may lie further on
                if offset < mine[number][1] or offset not in ends:
                    raise Loss(f"{key}: offset {offset} was handed out, messages end at {ends}")


def _expect(call, what: str):  # type: ignore[no-untyped-def]
    try:
        return call()
    except (NotFound, BucketMissing, SnapshotMissing) as error:
        raise Loss(f"{what} is gone") from error


@pytest.mark.parametrize("seed", range(40))
def test_what_was_answered_survives_power_failures(tmp_path: Path, seed: int) -> None:
    Campaign(tmp_path / "data", seed).run(cycles=6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_what_was_answered_survives_many_power_failures(tmp_path: Path, seed: int) -> None:
    Campaign(tmp_path / "data", seed).run(cycles=12)


@pytest.mark.parametrize(
    "sync", ["file in wal", "directory wal", "file in snapshots", "directory snapshots", "all"]
)
def test_a_missing_sync_would_be_found(tmp_path: Path, sync: str) -> None:
    def campaigns() -> None:
        for seed in range(60):
            Campaign(tmp_path / f"data-{seed}", seed, ignored=(sync,)).run(cycles=4)

    with pytest.raises((Loss, CorruptLog, CorruptStore)):
        campaigns()
