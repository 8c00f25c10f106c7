"""Jobs as users run them: spark-submit, signals, and a proxy that sees what they ask for."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import msgspec
import pyarrow.parquet as pq
import pyspark
import requests

from tests.faults import PASS, Fault, Kind, Request

ROOT = Path(__file__).parents[2]
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
SUBMIT = ("--master", "local[2]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false")


class Job:
    """A running job. Its output is read as it comes, so that it never waits for the reader."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: dict[str, list[str]] = {"out": [], "err": []}
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, self._lines[name]), daemon=True)
            for name, pipe in (("out", self.process.stdout), ("err", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(pipe: IO[str] | None, lines: list[str]) -> None:
        assert pipe is not None
        lines.extend(pipe)

    @property
    def out(self) -> str:
        return "".join(self._lines["out"])

    @property
    def err(self) -> str:
        return "".join(self._lines["err"])

    def terminate(self) -> None:
        """As a process manager does: the one process it started."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """The JVM and the driver at once; workers notice by themselves."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def exit_code(self, timeout: float = 400) -> int:
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(10)
        return code

    def until(self, reached: Callable[[], bool], timeout: float = 400) -> None:
        """Waits for something the job brings about."""
        deadline = time.monotonic() + timeout
        while not reached():
            assert self.process.poll() is None, f"the job ended too early:\n{self.err}"
            assert time.monotonic() < deadline, f"not reached in {timeout} s:\n{self.err}"
            time.sleep(0.2)


@contextmanager
def submitted(
    name: str, *arguments: str, submit: tuple[str, ...] = (), **environment: str
) -> Iterator[Job]:
    """``spark-submit jobs/{name}.py``; whatever is left of it at the end is killed."""
    job = Job(
        [str(SPARK_SUBMIT), *SUBMIT, *submit, str(ROOT / "jobs" / f"{name}.py"), *arguments],
        environment,
    )
    try:
        yield job
    finally:
        if job.process.poll() is None:
            job.kill()
            job.process.wait(30)


def plain(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python jobs/{name}.py``, to its end."""
    return subprocess.run(
        [sys.executable, str(ROOT / "jobs" / f"{name}.py"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def load(name: str) -> ModuleType:
    """A job's module, for runs inside the test's own session."""
    spec = importlib.util.spec_from_file_location(f"jobs_{name}", ROOT / "jobs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def messages(url: str) -> list[bytes]:
    """Every message of a JSON stream, as stored."""
    found: list[bytes] = []
    offset = "-1"
    while True:
        answer = requests.get(url, params={"offset": offset}, timeout=60)
        answer.raise_for_status()
        found += map(bytes, msgspec.json.decode(answer.content or b"[]", type=list[msgspec.Raw]))
        offset = answer.headers["Stream-Next-Offset"]
        if "Stream-Up-To-Date" in answer.headers:
            return found


def delta_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of an unpartitioned Delta table by its log, read without a session."""
    live: dict[str, bool] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            for kind in ("remove", "add"):
                if kind in action:
                    live[action[kind]["path"]] = kind == "add"
    files = [name for name, there in live.items() if there]
    return [row for name in files for row in pq.read_table(table / name).to_pylist()]


class KillAt:
    """Kills a job in the middle of a request: what the server does then, nobody hears of."""

    def __init__(self, fatal: Callable[[Request], bool], nth: int, last: Kind) -> None:
        self._fatal = fatal
        self._left = nth
        self._last = last
        self._lock = threading.Lock()
        self.job: Job | None = None
        self.happened = threading.Event()

    def __call__(self, request: Request) -> Fault:
        with self._lock:
            if self.happened.is_set() or not self._fatal(request):
                return PASS
            self._left -= 1
            if self._left > 0:
                return PASS
            assert self.job is not None
            self.job.kill()
            self.happened.set()
            return Fault(self._last)
