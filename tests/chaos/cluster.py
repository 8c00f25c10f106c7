"""The driver's process and what it has started: executors and Python workers, to be killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.chaos.streams import Ledger
from tests.source.test_kill import descendants

ROOT = Path(__file__).parents[2]

# What a query may fail with while faults strike. Anything else it says breaks a promise.
_FORBIDDEN = (
    "ReplayMismatchError",
    "DataLossError",
    "CheckpointError",
    "SequenceGapError",
    "StaleEpochError",
    "StreamClosedError",
    "BadRowError",
    "UnsupportedTypeError",
    "OptionError",
    "AssertionError",
)


class Cluster:
    """A `local-cluster` application, started again from its checkpoints when it dies."""

    def __init__(self, job: dict[str, str], ledger: Ledger, environment: Mapping[str, str]) -> None:
        self._job = job
        self._directory = Path(job["directory"])
        self._ledger = ledger
        self._environment = {
            **os.environ,
            **environment,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._directory / "local"),
        }
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._running = threading.Event()
        self._finished = threading.Event()
        self._leftovers: list[int] = []
        self._work: list[Path] = []
        self.lives = 0
        self.query_failures = 0

    def start(self) -> None:
        self._running.clear()
        self.lives += 1
        log = (self._directory / f"driver-{self.lives}.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.spark_app", json.dumps(self._job)],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        log.close()
        self._leftovers.append(self._process.pid)
        self._reader = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._reader.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            if told["event"] == "failed":
                self._failed(told["query"], told["error"])
            elif told["event"] == "finished":
                self._finished.set()
            elif told["event"] == "application":
                self._work.append(Path(told["work"]))
            elif process is self._process:
                self._running.set()

    def _failed(self, query: str, error: str) -> None:
        self.query_failures += 1
        with (self._directory / "query-failures.log").open("a") as log:
            log.write(f"--- {query}\n{error}\n")
        for name in _FORBIDDEN:
            if name in error:
                where = error.find(name)
                self._ledger.failed(f"query {query}: {error[where : where + 600]}")
                return

    def ensure(self) -> None:
        """Starts it again if it has died by itself."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def wait_until_running(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._running.wait(0.5):
                return True
            self.ensure()
        return False

    def kill_driver(self, *, executors_too: bool) -> bool:
        """Either everything at once, or driver and JVM only: executors outlive them a little."""
        if not self._running.is_set() or self._process is None:
            return False
        self._running.clear()
        pids = descendants(self._process.pid)
        if not executors_too:
            pids = [pid for pid in pids if "CoarseGrained" not in command(pid)]
        _kill([self._process.pid, *pids])
        self._process.wait()
        self.start()
        return True

    def kill_executor(self, rng: random.Random) -> bool:
        return self._kill_one(rng, "CoarseGrainedExecutorBackend")

    def kill_worker(self, rng: random.Random) -> bool:
        return self._kill_one(rng, "tests.chaos.daemon", "pyspark.")

    def _kill_one(self, rng: random.Random, *marks: str) -> bool:
        if not self._running.is_set() or self._process is None:
            return False
        pids = sorted(descendants(self._process.pid))
        pids = [pid for pid in pids if any(mark in command(pid) for mark in marks)]
        if pids:
            _kill([rng.choice(pids)])
        return bool(pids)

    def finish(self, timeout: float, broken: Callable[[], bool]) -> bool:
        """Has everything worked off. False if that did not happen in time, or never will."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not broken():
            self.ensure()
            assert self._process is not None
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):
                self._process.stdin.write("finish\n")
                self._process.stdin.flush()
            while self._process.poll() is None and time.monotonic() < deadline and not broken():
                if self._finished.wait(0.3):
                    return True
            if self._finished.wait(1):
                return True
        return False

    def stop(self) -> None:
        """Nothing of any of its lives is left."""
        if self._process is not None and self._process.poll() is None:
            if self._finished.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(20)
            _kill([self._process.pid, *descendants(self._process.pid)])
            self._process.wait()
        for group in self._leftovers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        for work in self._work:
            shutil.rmtree(work, ignore_errors=True)


def command(pid: int) -> str:
    """A process's command line; a forked Python worker has that of its daemon."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
