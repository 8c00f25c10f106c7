"""Beyond its capacity the server says so, keeps its memory, and goes on afterwards."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

TEXT = {"Content-Type": "text/plain"}
MIB = 1 << 20
CLIENTS = 96
BODY = 4 * MIB

SETTINGS = f"""
max_append_bytes = {BODY}
body_budget_bytes = {16 * MIB}
response_budget_bytes = {16 * MIB}
budget_timeout = 0.2
"""


class Process:
    def __init__(self, directory: Path) -> None:
        config = directory / "server.toml"
        config.write_text(SETTINGS)
        command = [sys.executable, "-m", "spark_durable", "serve", "--port", "0"]
        self.popen = subprocess.Popen(
            [*command, "--config", str(config), "--data-dir", str(directory / "data")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.popen.stdout is not None
        self.url = self.popen.stdout.readline().split()[4]

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) << 10


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    process.popen.terminate()
    process.popen.communicate(timeout=20)


def test_beyond_capacity_503_with_retry_after_and_bounded_memory(server: Process) -> None:
    """96 clients send 4 MiB each: 384 MiB at once against a budget of 16."""
    for client in range(CLIENTS):
        url = f"{server.url}/v1/stream/{client}"
        assert requests.put(url, headers=TEXT, timeout=10).status_code == 201
    before = server.peak_bytes()
    statuses: Counter[int] = Counter()
    stored = [0] * CLIENTS
    failures: list[str] = []

    def send(client: int) -> None:
        parts = urlsplit(server.url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        try:
            connection.request("POST", f"/v1/stream/{client}", b"x" * BODY, TEXT)
            response = connection.getresponse()
            response.read()
        except (ConnectionError, http.client.HTTPException) as error:
            failures.append(repr(error))
            return
        statuses[response.status] += 1
        stored[client] += response.status == 204
        if response.status == 503 and int(response.getheader("Retry-After", "0")) < 1:
            failures.append("503 without Retry-After")
        connection.close()

    threads = [threading.Thread(target=send, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(statuses) == {204, 503}, statuses
    grown = server.peak_bytes() - before
    print(f"{dict(statuses)}; peak memory grew by {grown / MIB:.0f} MiB")
    assert grown < 200 * MIB
    # Acknowledged is stored, refused is not, and the next one is served.
    for client in range(CLIENTS):
        url = f"{server.url}/v1/stream/{client}"
        tail = requests.head(url, timeout=10).headers["Stream-Next-Offset"]
        assert int(tail) == stored[client] * BODY
    assert requests.post(url, headers=TEXT, data=b"x", timeout=10).status_code == 204


def test_beyond_capacity_readers_cost_no_more_than_their_budget(server: Process, dial) -> None:
    """96 readers ask for 4 MiB and take nothing: the budget is 16 MiB, whatever the system's own
    buffers take of a response."""
    url = f"{server.url}/v1/stream/s"
    requests.put(url, headers=TEXT, data=b"x" * BODY, timeout=10)
    before = server.peak_bytes()
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(dial(server.url)) for _ in range(CLIENTS)]
        for reader in readers:
            reader.settimeout(60)
            reader.sendall(b"GET /v1/stream/s HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # Peeked at, so that each has been answered while none has taken anything.
        answers = [reader.recv(12, socket.MSG_PEEK) for reader in readers]
        statuses = Counter(answers)
        assert set(statuses) <= {b"HTTP/1.1 200", b"HTTP/1.1 503"}, statuses
        grown = server.peak_bytes() - before
        print(f"{dict(statuses)}; peak memory grew by {grown / MIB:.0f} MiB")
        assert grown < 100 * MIB
    assert len(requests.get(url, timeout=10).content) == BODY
