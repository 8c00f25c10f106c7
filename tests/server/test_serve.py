"""The server as a process: its line of output, its arguments, and how it stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

TEXT = {"Content-Type": "text/plain"}


class Process:
    def __init__(self, *arguments: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "spark_durable", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.popen.stdout is not None
        self.line = self.popen.stdout.readline()

    @property
    def url(self) -> str:
        return self.line.split()[4]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Exit status, and how long it took."""
        started = time.monotonic()
        self.popen.send_signal(number)
        return self.popen.wait(20), time.monotonic() - started


@pytest.fixture
def start() -> Iterator[type[Process]]:
    started: list[Process] = []

    class Tracked(Process):
        def __init__(self, *arguments: str) -> None:
            super().__init__(*arguments)
            started.append(self)

    yield Tracked
    for process in started:
        process.popen.kill()
        process.popen.communicate()


def test_one_line_with_the_url_when_ready(start, tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path / "data"))
    assert process.line.startswith("serving Durable Streams on http://127.0.0.1:")
    assert requests.put(f"{process.url}/ds/bucket", timeout=10).status_code == 201


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it_within_5_seconds_with_open_readers(start, number: int) -> None:
    process = start()
    url = f"{process.url}/v1/stream/s"
    requests.put(url, headers=TEXT, data=b"x", timeout=10)
    readers = []
    for _ in range(20):
        readers.append(requests.get(f"{url}?offset=-1&live=sse", stream=True, timeout=10))
    polls = [subprocess.Popen(_poll(url), stdout=subprocess.PIPE) for _ in range(3)]
    for poll in polls:
        assert poll.stdout is not None
        assert poll.stdout.readline() == b"polling\n"
    time.sleep(0.3)
    status, seconds = process.stop(number)
    assert status == 0
    assert seconds < 5
    for reader in readers:
        # The response ends properly: its last chunk came.
        assert b"event: control" in reader.raw.read()
    for poll in polls:
        assert poll.communicate(timeout=10)[0] == b"204\n"


def _poll(url: str) -> list[str]:
    code = (
        "import requests, sys; print('polling', flush=True); "
        f"print(requests.get('{url}?offset=now&live=long-poll&timeout_ms=60000').status_code)"
    )
    return [sys.executable, "-c", code]


def test_sigterm_stops_it_while_a_body_is_half_sent(start) -> None:
    import socket

    process = start()
    host, port = process.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"PUT /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab"
        )
        time.sleep(0.2)
        status, seconds = process.stop()
    assert status == 0
    assert seconds < 5


def test_what_was_acknowledged_is_there_after_a_restart(start, tmp_path: Path) -> None:
    first = start("--data-dir", str(tmp_path))
    url = f"{first.url}/v1/stream/s"
    requests.put(url, headers=TEXT, data=b"kept", timeout=10)
    incarnation = requests.head(url, timeout=10).headers["Stream-Incarnation"]
    first.stop()
    second = start("--data-dir", str(tmp_path))
    response = requests.get(f"{second.url}/v1/stream/s", timeout=10)
    assert response.content == b"kept"
    assert response.headers["Stream-Incarnation"] == incarnation


def test_a_data_directory_in_use_is_refused(start, tmp_path: Path) -> None:
    start("--data-dir", str(tmp_path))
    second = start("--data-dir", str(tmp_path))
    assert second.popen.wait(20) == 1
    assert str(tmp_path) in second.popen.stderr.read()


def test_a_taken_port_is_refused(start) -> None:
    first = start()
    port = first.url.rsplit(":", 1)[1]
    second = start("--port", port)
    assert second.popen.wait(20) == 1
    assert "cannot listen" in second.popen.stderr.read()


def test_arguments_reach_the_server(start) -> None:
    process = start("--token", "secret", "--long-poll-timeout", "0.2", "--max-append-bytes", "10")
    url = f"{process.url}/v1/stream/s"
    assert requests.put(url, timeout=10).status_code == 401
    bearer = {"Authorization": "Bearer secret"}
    assert (
        requests.put(url, headers={**TEXT, **bearer}, data=b"x" * 11, timeout=10).status_code == 413
    )
    assert requests.put(url, headers={**TEXT, **bearer}, timeout=10).status_code == 201
    poll = requests.get(f"{url}?offset=now&live=long-poll", headers=bearer, timeout=10)
    assert poll.status_code == 204


def test_it_runs_without_spark() -> None:
    code = "import sys, spark_durable.server; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0
