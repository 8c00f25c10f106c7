"""The driver dies with SIGKILL, again and again, and the query is restarted from its checkpoint."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Request
from tests.sink.queries import write_files
from tests.sink.streams import assert_exactly_once, ids

ROOT = Path(__file__).parents[2]


class Killer:
    """Kills the driver's process group at some append, counted from its start, once a life."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._driver: subprocess.Popen[bytes] | None = None
        self._left = 0

    def watch(self, driver: subprocess.Popen[bytes], appends: int) -> None:
        with self._lock:
            self._driver, self._left = driver, appends

    def __call__(self, request: Request) -> Fault:
        with self._lock:
            if self._driver is not None and request.is_append:
                self._left -= 1
                if self._left == 0:
                    # Driver and JVM: local mode has its executors in there too.
                    os.killpg(self._driver.pid, signal.SIGKILL)
                    self._driver = None
        return PASS


def kill_and_restart(
    spark: SparkSession, servers: list[Server], tmp_path: Path, kills: int, seed: int
) -> None:
    rng = random.Random(seed)
    files = 4 + 2 * kills
    rows = files * 300
    write_files(spark, tmp_path / "in", rows, files)
    killer = Killer()
    with FaultProxy(servers[0].url, killer) as first, FaultProxy(servers[1].url, killer) as second:
        urls = [server.stream() for server in servers]
        through = [proxy.through(url) for proxy, url in zip((first, second), urls, strict=True)]
        survived = 0
        for life in range(kills + 1):
            driver = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.sink.restarted"),
                    *(str(tmp_path / "in"), str(tmp_path / "checkpoint"), *through),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            if life < kills:
                # A batch is two appends a stream; some kills come before the first one ends.
                killer.watch(driver, appends=rng.randint(1, 9))
            try:
                survived += driver.wait(900) == 0
            finally:
                if driver.poll() is None:
                    os.killpg(driver.pid, signal.SIGKILL)
        assert survived == 1, "a driver was to be killed in every life but the last"
        for url in urls:
            assert_exactly_once(ids(url), range(rows))


@pytest.mark.timeout(1800)
def test_killed_twice(spark: SparkSession, embedded: Server, node: Server, tmp_path: Path) -> None:
    kill_and_restart(spark, [embedded, node], tmp_path, kills=2, seed=1)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_killed_twenty_times(
    spark: SparkSession, embedded: Server, node: Server, tmp_path: Path
) -> None:
    kill_and_restart(spark, [embedded, node], tmp_path, kills=20, seed=2)
