"""Readers by the thousand beside producers: no error, memory bounded, appends not starved."""

from __future__ import annotations

import asyncio
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.server.load import BODY, Load

MIB = 1 << 20


class Process:
    """A server of its own, on disk."""

    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "spark_durable", "serve", "--port", "0"]
        self._popen = subprocess.Popen(
            [*command, "--data-dir", str(data)], stdout=subprocess.PIPE, text=True
        )
        assert self._popen.stdout is not None
        self.url = self._popen.stdout.readline().split()[4]

    def memory(self) -> int:
        status = Path(f"/proc/{self._popen.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None, "the server is gone"
        return int(found[1]) << 10

    def stop(self) -> None:
        self._popen.terminate()
        self._popen.communicate(timeout=30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    process = Process(tmp_path / "data")
    yield process
    process.stop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def measure(
    server: Process, seconds: float, *, producers: int, long_polls: int, sse: int
) -> tuple[Load, float, list[int]]:
    """A run with its rate of appends and the server's memory, second by second. Each producer has
    its stream, as sessions do; readers are spread over them."""
    load = Load(server.url, streams=producers)
    await load.create_streams()
    loop = asyncio.get_running_loop()
    readers = load.clients(0, long_polls, sse)
    if readers:
        await asyncio.sleep(min(2.0, seconds / 4))
    clients = readers + load.clients(producers, 0, 0)
    memory: list[int] = []
    began = loop.time()
    while loop.time() - began < seconds and not load.totals.errors:
        await asyncio.sleep(1)
        memory.append(server.memory())
    rate = load.totals.appends / (loop.time() - began)
    await load.finish(clients)
    return load, rate, memory


def soak(server: Process, seconds: float, *, producers: int, long_polls: int, sse: int) -> None:
    _, unloaded, _ = asyncio.run(
        measure(server, max(5.0, seconds / 10), producers=producers, long_polls=0, sse=0)
    )
    load, rate, memory = asyncio.run(
        measure(server, seconds, producers=producers, long_polls=long_polls, sse=sse)
    )
    totals = load.totals
    print(
        f"\n{long_polls} long-polls, {sse} SSE readers, {producers} producers, {seconds:.0f} s: "
        f"{rate:.0f} appends/s, {rate / unloaded:.2f} of the {unloaded:.0f} without readers; "
        f"{totals.polls} polls and {totals.events} events with {totals.read_bytes / MIB:.0f} MiB; "
        f"memory {max(memory) / MIB:.0f} MiB at most, {memory[-1] / MIB:.0f} at the end"
    )
    assert totals.errors == []
    assert totals.polls > 0
    assert totals.events > 0
    stored = 0
    for stream in load.streams:
        head = requests.head(f"{server.url}{stream}", timeout=30)
        stored += int(head.headers["Stream-Next-Offset"])
    # Those cut off at the end may have been stored without an acknowledgement.
    assert 0 <= stored - totals.appends * len(BODY) <= producers * len(BODY)
    third = len(memory) // 3
    assert max(memory[-third:]) < max(memory[third : 2 * third]) * 1.25 + 32 * MIB
    assert max(memory) < 512 * MIB
    # Starved would be next to nothing; how much is the readers' fair share, the figure says.
    assert rate > unloaded / 100


def test_a_short_soak(server: Process) -> None:
    soak(server, 15, producers=20, long_polls=100, sse=100)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_1000_long_polls_1000_sse_readers_200_producers_for_5_minutes(server: Process) -> None:
    soak(server, 300, producers=200, long_polls=1000, sse=1000)
