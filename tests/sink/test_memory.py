"""A partition far larger than what a worker may hold of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_durable.protocol import DurableClient
from tests.conftest import Server

MB = 1 << 20


def workers(root: int) -> list[int]:
    """Spark's Python workers below a process."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                below = [int(child) for child in children.read_text().split()]
            except OSError:
                continue  # ended meanwhile
            waiting += below
            found += below
    return [pid for pid in found if b"pyspark" in _command(pid) and b"java" not in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """How much each Python worker grows while the block runs."""

    def __enter__(self) -> Watch:
        self._first: dict[int, int] = {}
        self._most: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._over.wait(0.02):
            for pid in workers(os.getpid()):
                now = resident(pid)
                self._first.setdefault(pid, now)
                self._most[pid] = max(now, self._most.get(pid, 0))

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        return max(self._most[pid] - self._first[pid] for pid in self._first)


def write_partition(spark: SparkSession, server: Server, order: str, megabytes: int) -> int:
    """Writes one partition of that size. Returns how much the worker grew."""
    url = server.stream("large")
    # Incompressible in memory: every row has its own text.
    df = spark.range(0, megabytes * 1024, 1, 1).selectExpr(
        "id", "repeat(sha2(cast(id as string), 256), 16) as text"
    )
    with Watch() as watch:
        df.write.format("durablestream").option("rowOrder", order).mode("append").save(url)
    with DurableClient() as client:
        assert int(client.head(url).tail) > megabytes * MB
        client.delete(url)
    return watch.growth


@pytest.mark.parametrize("order", ["keep", "sort", "trust"])
def test_a_partition_of_400_megabytes(spark: SparkSession, embedded: Server, order: str) -> None:
    # A worker may begin as a bare fork, so that a third of this is what it imports.
    assert write_partition(spark, embedded, order, 400) < 360 * MB


@pytest.mark.long
@pytest.mark.parametrize("order", ["keep", "sort", "trust"])
def test_a_partition_of_two_gigabytes(spark: SparkSession, embedded: Server, order: str) -> None:
    assert write_partition(spark, embedded, order, 2048) < 512 * MB
