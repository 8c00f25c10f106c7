"""`kill -9` at random moments under load: what was acknowledged is there once, in order, for good.

Producers repeat what was not answered under the same triple, as the protocol tells them to. After
each restart, before they go on, everything they know is compared with what the server has.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

PRODUCERS = 8
JSON = "application/json"


class Server:
    """A server process on one data directory and one port, killed and started again."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.start()

    def start(self) -> None:
        port = self.url.rsplit(":", 1)[-1] or "0"
        arguments = ["--port", port, "--data-dir", str(self._data_dir)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spark_durable", "serve", *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "http://" in line, "the server did not start again"
        self.url = next(word for word in line.split() if word.startswith("http://"))

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def kill_while_starting(self, after_s: float) -> None:
        """A crash in the middle of recovery."""
        arguments = ["--port", "0", "--data-dir", str(self._data_dir)]
        process = subprocess.Popen(
            [sys.executable, "-m", "spark_durable", "serve", *arguments], stdout=subprocess.DEVNULL
        )
        time.sleep(after_s)
        process.kill()
        process.wait()


class Producer(threading.Thread):
    """Sends numbered messages one after the other, each until it is acknowledged."""

    def __init__(self, number: int, urls: list[str], gate: threading.Event, seed: int) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.choice = random.Random(seed)
        self._urls = urls
        self._gate = gate
        self.stopping = False
        self.failure: str | None = None
        self.repeated = 0
        # by stream: the offset each acknowledgement gave, in the order of the messages
        self.acknowledged: dict[str, list[int]] = {url: [] for url in urls}

    def run(self) -> None:
        with requests.Session() as session:
            while not self.stopping:
                url = self.choice.choice(self._urls)
                self._send(session, url)

    def _send(self, session: requests.Session, url: str) -> None:
        sequence = len(self.acknowledged[url])
        size = self.choice.choice([0, 10, 200, 5_000, 60_000])
        message = {"p": self.number, "n": sequence, "x": "x" * size}
        headers = {
            "Content-Type": JSON,
            "Producer-Id": f"p{self.number}",
            "Producer-Epoch": "0",
            "Producer-Seq": str(sequence),
        }
        while not self.stopping:
            self._gate.wait()
            try:
                answer = session.post(url, data=json.dumps(message), headers=headers, timeout=20)
            except requests.RequestException:
                self.repeated += 1
                time.sleep(0.01)
                continue
            if answer.status_code not in (200, 204):
                self.failure = f"{url} {sequence}: {answer.status_code} {answer.text}"
                self.stopping = True
                return
            self.acknowledged[url].append(int(answer.headers["Stream-Next-Offset"]))
            return


class Bystander(threading.Thread):
    """Makes the changes that are not appends: streams that come, close and go, snapshots."""

    def __init__(self, base: str, gate: threading.Event) -> None:
        super().__init__(daemon=True)
        self._base = base
        self._gate = gate
        self.stopping = False
        self.facts: dict[str, tuple[str, ...]] = {}

    def run(self) -> None:
        number = 0
        while not self.stopping:
            self._gate.wait()
            number += 1
            kind = ("closed", "deleted", "snapshot", "fork")[number % 4]
            url = f"{self._base}/{kind}-{number}"
            try:
                self.facts[url] = self._make(url, kind)
            except requests.RequestException:
                continue

    def _make(self, url: str, kind: str) -> tuple[str, ...]:
        def call(method: str, url: str, **more: object) -> requests.Response:
            answer = requests.request(method, url, timeout=20, **more)  # type: ignore[arg-type]
            answer.raise_for_status()
            return answer

        made = call("PUT", url, data=b"abc", headers={"Content-Type": "text/plain"})
        if kind == "closed":
            call("POST", url, headers={"Stream-Closed": "true"})
        elif kind == "deleted":
            call("DELETE", url)
        elif kind == "snapshot":
            offset = made.headers["Stream-Next-Offset"]
            call("PUT", f"{url}/snapshot/{offset}", data=url.encode() * 50)
            return kind, offset
        else:
            path = "/" + url.split("/", 3)[3]
            call("PUT", f"{url}-f", data=b"de", headers={"Stream-Forked-From": path})
            call("DELETE", url)
        return (kind,)

    def check(self) -> None:
        for url, (kind, *rest) in list(self.facts.items()):
            head = requests.head(url, timeout=20)
            if kind == "deleted":
                assert head.status_code == 404, url
            elif kind == "closed":
                assert head.headers.get("Stream-Closed") == "true", url
            elif kind == "snapshot":
                assert head.headers.get("Stream-Snapshot-Offset") == rest[0], url
                body = requests.get(f"{url}/snapshot", timeout=20).content
                assert body == url.encode() * 50
            else:
                assert head.status_code == 410, url
                assert requests.get(f"{url}-f", timeout=20).content == b"abcde"


def read_all(url: str) -> tuple[list[dict[str, int]], list[int]]:
    """All messages of a stream and the offset after each."""
    messages: list[dict[str, int]] = []
    ends: list[int] = []
    offset = 0
    while True:
        answer = requests.get(url, params={"offset": f"{offset:020d}"}, timeout=20)
        assert answer.status_code == 200, answer.text
        for line in (answer.content[1:-1] + b",\n").splitlines(keepends=True):
            if line != b",\n":
                offset += len(line)
                messages.append(json.loads(line[:-2]))
                ends.append(offset)
        assert offset == int(answer.headers["Stream-Next-Offset"])
        if answer.headers.get("Stream-Up-To-Date") == "true":
            return messages, ends


def check_streams(urls: list[str], producers: list[Producer]) -> int:
    """Each acknowledged message once, in order; each offset handed out still the same place."""
    total = 0
    for url in urls:
        messages, ends = read_all(url)
        total += len(messages)
        for producer in producers:
            mine = [index for index, each in enumerate(messages) if each["p"] == producer.number]
            assert [messages[index]["n"] for index in mine] == list(range(len(mine)))
            acknowledged = producer.acknowledged[url]
            assert len(acknowledged) <= len(mine) <= len(acknowledged) + 1
            for index, offset in zip(mine, acknowledged, strict=False):
                assert offset in ends
                assert offset >= ends[index]
            for offset in producer.choice.sample(acknowledged, min(2, len(acknowledged))):
                following = ends.index(offset) + 1
                answer = requests.get(url, params={"offset": f"{offset:020d}"}, timeout=20)
                assert answer.status_code == 200
                assert answer.json()[:1] == messages[following : following + 1]
    return total


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data")
    yield server
    server.kill()


def crash_repeatedly(server: Server, kills: int, seed: int) -> None:
    choice = random.Random(seed)
    assert requests.put(f"{server.url}/ds/crash", timeout=20).status_code == 201
    urls = [f"{server.url}/v1/stream/a", f"{server.url}/v1/stream/b/c", f"{server.url}/ds/crash/d"]
    for url in urls:
        created = requests.put(url, headers={"Content-Type": JSON}, timeout=20)
        assert created.status_code == 201
    gate = threading.Event()
    gate.set()
    producers = [Producer(each, urls, gate, seed + each) for each in range(PRODUCERS)]
    bystander = Bystander(f"{server.url}/ds/crash", gate)
    workers: list[Producer | Bystander] = [*producers, bystander]
    for worker in workers:
        worker.start()

    def acknowledged() -> int:
        return sum(len(each) for one in producers for each in one.acknowledged.values())

    for _ in range(kills):
        goal = acknowledged() + choice.randrange(5, 300)
        while acknowledged() < goal and not any(each.failure for each in producers):
            time.sleep(0.001)
        server.kill()
        gate.clear()
        if choice.random() < 0.25:
            server.kill_while_starting(choice.uniform(0.2, 0.8))
        server.start()
        settle(producers)
        check_streams(urls, producers)
        bystander.check()
        gate.set()

    for worker in workers:
        worker.stopping = True
    for worker in workers:
        worker.join(60)
    assert [each.failure for each in producers] == [None] * PRODUCERS
    assert sum(each.repeated for each in producers) >= kills
    assert check_streams(urls, producers) >= acknowledged()


def settle(producers: list[Producer]) -> None:
    """Waits until whoever passed the gate before it was shut has seen its request fail or end."""
    while True:
        before = [len(each) for one in producers for each in one.acknowledged.values()]
        time.sleep(0.1)
        if before == [len(each) for one in producers for each in one.acknowledged.values()]:
            return


def test_what_was_acknowledged_survives_kill_9(server: Server) -> None:
    crash_repeatedly(server, kills=8, seed=1)


@pytest.mark.long
def test_what_was_acknowledged_survives_fifty_times_kill_9(server: Server) -> None:
    crash_repeatedly(server, kills=50, seed=2)
