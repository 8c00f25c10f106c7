"""The server's process, started again whenever it dies."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A server that cannot start so often in a row, with room on its disk, will never.
_MAX_REFUSALS = 30


class SupervisedServer:
    """Most of its lives run on files whose unsynced bytes die with the process."""

    def __init__(
        self, data: Path, control: Path, log: Path, seed: int, environment: Mapping[str, str]
    ) -> None:
        self._data, self._control, self._log = data, control, log
        self._rng = random.Random(f"server {seed}")
        self._environment = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
        self._process: subprocess.Popen[str] | None = None
        self._stopping = False
        self._up = threading.Event()
        self.disk_full = threading.Event()
        self.url = ""
        self.lives = 0
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._supervise, daemon=True)

    def start(self) -> None:
        self._thread.start()
        if not self._up.wait(60):
            raise RuntimeError(f"the server did not start: see {self._log}")

    def _supervise(self) -> None:
        refusals = 0
        while not self._stopping:
            if self._live():
                refusals = 0
            elif not self.disk_full.is_set():
                refusals += 1
                if refusals == _MAX_REFUSALS:
                    self.failure = f"the server does not start again: {self._last_words()}"
                    return
            time.sleep(self._rng.uniform(0.0, 1.0))

    def _live(self) -> bool:
        """One life of the process. False if it never answered."""
        port = self.url.rsplit(":", 1)[-1] or "0"
        layer = self._rng.choice(["volatile", "volatile", "volatile", "plain"])
        arguments = [port, str(self._data), str(self._control), layer]
        with self._log.open("a") as log:
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.serve", *arguments],
                cwd=ROOT,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        if "http://" in line:
            self.url = next(word for word in line.split() if word.startswith("http://"))
            self.lives += 1
            self._up.set()
        if self._stopping:
            process.kill()
        process.wait()
        process.stdout.close()
        self._up.clear()
        return "http://" in line

    def _last_words(self) -> str:
        return " | ".join(self._log.read_text().splitlines()[-3:])

    def wait_until_up(self, timeout: float) -> bool:
        return self._up.wait(timeout)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def forbid_writes(self) -> bool:
        """No file may grow any more: the next write fails, which nothing but a restart mends."""
        if self._process is None or self._process.poll() is not None:
            return False
        try:
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (0, 0))
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> None:
        self._stopping = True
        self.kill()
        self._thread.join(30)
