"""Drivers killed with SIGKILL at random points: every message once, in the table and counted."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.conftest import Server
from tests.sink.streams import assert_exactly_once
from tests.source.harness import append_numbers, create

SCRIPT = Path(__file__).with_name("tail_to_delta.py")
ROOT = Path(__file__).parents[2]

AVAILABLE_NOW = {"availableNow": True}

# How a restarted query is run, in turn: freely, under small limits, in AvailableNow runs.
RUNS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    ({"maxBytesPerTrigger": "400"}, {}),
    ({"maxRecordsPerTrigger": "50"}, AVAILABLE_NOW),
    ({}, AVAILABLE_NOW),
]


class Writer(threading.Thread):
    """Appends numbered messages all the time, in bursts and in trickles."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__()
        self.url = url
        self.written = 0
        self.stopping = threading.Event()
        self._random = random.Random(seed)

    def run(self) -> None:
        while not self.stopping.is_set():
            size = self._random.choice([1, 1, 2, 3, 40, 300])
            append_numbers(self.url, self.written, self.written + size, padding=30)
            self.written += size
            self.stopping.wait(self._random.choice([0.0, 0.05, 0.2]))

    def stop(self) -> int:
        self.stopping.set()
        self.join()
        return self.written


class Driver:
    """One life of the query's driver process."""

    def __init__(self, job: dict[str, Any], log: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._log = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), json.dumps(job)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            cwd=ROOT,
        )

    def wait_until_started(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "started\n", f"the driver did not start: see {self._log.name}"

    def kill(self) -> None:
        """Everything of it at once: Python, Java and its workers."""
        pids = [self.process.pid, *descendants(self.process.pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._end()

    def finish(self, timeout: float) -> None:
        code = self.process.wait(timeout)
        self._end()
        assert code == 0, f"the driver failed: see {self._log.name}"

    def _end(self) -> None:
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


def descendants(root: int) -> list[int]:
    found, waiting = [], [root]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                children = [int(pid) for pid in task.read_text().split()]
            except OSError:
                continue
            found += children
            waiting += children
    return found


def wait_for_a_batch(checkpoints: Path, driver: Driver) -> None:
    """Until both queries have finished one more batch, so that each life has done something."""
    logs = [checkpoints / query / "commits" for query in ("table", "counts")]
    before = [set(log.glob("[0-9]*")) for log in logs]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and driver.process.poll() is None:
        if all(set(log.glob("[0-9]*")) - old for log, old in zip(logs, before, strict=True)):
            return
        time.sleep(0.1)


def kill_and_restart(
    spark: SparkSession, server: Server, tmp_path: Path, kills: int, seed: int
) -> None:
    chance = random.Random(seed)
    url = create(server.stream("killed"))
    name = url.rpartition("/")[2]
    counts = tmp_path / "counts"
    counts.mkdir()
    job: dict[str, Any] = {
        "url": url,
        "schema": "n long, _stream string, _offset string",
        "table": str(tmp_path / "table"),
        "counts": str(counts),
        "checkpoints": str(tmp_path / "checkpoints"),
    }
    writer = Writer(url, seed)
    writer.start()
    try:
        for life in range(kills):
            options, trigger = RUNS[life % len(RUNS)]
            run = {**job, "options": options, "trigger": trigger}
            driver = Driver(run, tmp_path / f"life-{life}.log")
            driver.wait_until_started()
            wait_for_a_batch(tmp_path / "checkpoints", driver)
            time.sleep(chance.uniform(0, 3))
            driver.kill()
    finally:
        written = writer.stop()
    last = Driver({**job, "options": {}, "trigger": AVAILABLE_NOW}, tmp_path / "last.log")
    last.finish(300)
    table = spark.read.format("delta").load(str(tmp_path / "table"))
    assert_exactly_once([row.n for row in table.select("n").collect()], range(written))
    counted: Counter[tuple[str, int]] = Counter()
    for batch in counts.glob("*.json"):
        for stream, n, times in json.loads(batch.read_text()):
            counted[stream, n] += times
    assert counted == Counter({(name, n): 1 for n in range(written)})


@pytest.mark.timeout(900)
def test_killed_twice(spark: SparkSession, embedded: Server, tmp_path: Path) -> None:
    kill_and_restart(spark, embedded, tmp_path, kills=2, seed=41)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_twenty_times(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    kill_and_restart(spark, server, tmp_path, kills=20, seed=2025)
