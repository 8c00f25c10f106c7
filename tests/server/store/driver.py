"""A store driven from plain tests: own loop, a clock that moves when told, crashes on demand."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from spark_durable.server.store import (
    Appended,
    AppendSpec,
    Created,
    CreateSpec,
    ProducerTriple,
    Store,
    StoreConfig,
)
from spark_durable.server.store.committer import Committer

T = TypeVar("T")
JSON = "application/json"
TEXT = "text/plain"
# small files, so that a test of a few kilobytes crosses every boundary there is
SMALL: dict[str, Any] = {
    "segment_bytes": 150,
    "log_segment_bytes": 4096,
    "checkpoint_bytes": 8192,
    "open_files": 4,
}


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Driver:
    def __init__(self, data_dir: Path | None = None, **settings: Any) -> None:
        self.clock = Clock()
        self.config = StoreConfig(data_dir=data_dir, clock=self.clock, **settings)
        self._generation = 0
        self._open()

    def _open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = Store.open(self.config)

    def run(self, awaitable: Awaitable[T]) -> T:
        async def wait() -> T:
            return await awaitable

        return self.loop.run_until_complete(wait())

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls on the loop what must be called there: the store's synchronous half."""

        async def wait() -> T:
            return function(*args, **kwargs)

        return self.loop.run_until_complete(wait())

    def close(self) -> None:
        self.run(self.store.close())
        self.loop.close()

    def reopen(self, *, crash: bool = False) -> None:
        """A clean restart, or one from what the disk held without any goodbye."""
        if crash:
            assert self.config.data_dir is not None
            self._settle()
            self._generation += 1
            copy = self.config.data_dir.with_name(f"crashed-{self._generation}")
            shutil.copytree(self.config.data_dir, copy)
            self.close()
            self.config = dataclasses.replace(self.config, data_dir=copy)
        else:
            self.close()
        self._open()

    def _settle(self) -> None:
        """Waits for work in the background: a copy made during it is not what a crash leaves."""
        journal = self.store._core.journal
        assert isinstance(journal, Committer)
        while journal._checkpoint is not None:
            self.run(asyncio.sleep(0.001))
        chores_done = threading.Event()
        journal.later(chores_done.set)
        chores_done.wait()

    def create(self, key: str, content_type: str | None = JSON, **spec: Any) -> Created:
        return self.run(self.store.create(key, CreateSpec(content_type=content_type, **spec)))

    def append(
        self,
        key: str,
        body: bytes,
        content_type: str | None = JSON,
        producer: tuple[str, int, int] | None = None,
        **spec: Any,
    ) -> Appended:
        triple = ProducerTriple(*producer) if producer else None
        sent = AppendSpec(content_type=content_type, body=body, producer=triple, **spec)
        return self.run(self.store.append(key, sent))

    def read(self, key: str, offset: int = 0, limit: int = 1 << 20, **how: Any) -> bytes:
        return bytes(self.call(self.store.read, key, offset, limit, **how).body)

    def messages(self, key: str) -> list[bytes]:
        """All messages after the snapshot, one by one."""

        def collect() -> list[bytes]:
            return [message for chunk in self.store.bootstrap(key).chunks for message in chunk]

        return self.call(collect)
