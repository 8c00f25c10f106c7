"""The servers under test, each a process of its own with a directory of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NODE: Final = Path(__file__).parents[2] / "tests" / "node"


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server."""

    name: str
    url: str
    pid: int

    def peak_rss_mb(self) -> float:
        return peak_rss_mb(self.pid)


def peak_rss_mb(pid: int) -> float:
    """The most memory a process has ever held (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no memory figure for process {pid}")


@contextlib.contextmanager
def embedded() -> Iterator[ServerProcess]:
    """Ours, on disk, every acknowledged append synced."""
    with _scratch("embedded") as directory:
        serve = [sys.executable, "-m", "spark_durable", "serve"]
        command = [*serve, "--port", "0", "--data-dir", directory]
        with _running("embedded", command) as server:
            yield server


@contextlib.contextmanager
def reference() -> Iterator[ServerProcess]:
    """The Node reference server, on disk."""
    node = shutil.which("node")
    if node is None or not (_NODE / "node_modules").is_dir():
        raise RuntimeError("the comparison needs Node.js and its packages: run `make bench`")
    with _scratch("node") as directory:
        command = [node, str(_NODE / "reference_server.mjs"), "0", directory]
        with _running("node", command) as server:
            yield server


@contextlib.contextmanager
def _scratch(name: str) -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix=f"bench-{name}-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _running(name: str, command: list[str]) -> Iterator[ServerProcess]:
    process = subprocess.Popen(  # noqa: S603 - our own arguments
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield ServerProcess(name, _announced_url(process), process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _announced_url(process: subprocess.Popen[str]) -> str:
    """The URL a server prints when it is ready; other lines before it are its log."""
    assert process.stdout is not None
    for line in process.stdout:
        for word in line.split():
            if word.startswith("http://"):
                return word
    raise RuntimeError("a server under test did not start")
