"""Networks that lose answers and servers that die in the middle of a write."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from pyspark.sql import SparkSession

from tests.conftest import Server, start_node_server
from tests.faults import PASS, Exchange, Fault, FaultProxy, Kind, Request, seeded
from tests.sink.queries import Query, write_files
from tests.sink.streams import assert_exactly_once, ids

FAULTS = [
    Fault(Kind.LOSE_ANSWER),
    Fault(Kind.LOSE_REQUEST),
    Fault(Kind.CUT_REQUEST),
    Fault(delay_s=0.3),
    Fault(Kind.REFUSE, status=429, retry_after="0"),
    Fault(Kind.REFUSE, status=503, retry_after="1"),
    Fault(Kind.REFUSE, status=503),
]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("order", "shuffled"), [("keep", False), ("trust", False), ("sort", True)])
def test_a_network_that_loses_and_delays(
    spark: SparkSession, server: Server, order: str, shuffled: bool, seed: int
) -> None:
    url = server.stream()
    with FaultProxy(server.url, seeded(seed, 0.2, *FAULTS)) as proxy:
        df = spark.range(0, 6000, 1, 3).selectExpr("id", "repeat('x', 20) as text")
        df = df.repartition(3, "id") if shuffled else df
        writer = df.write.format("durablestream").mode("append")
        writer = writer.option("maxAppendBytes", "8k").option("rowOrder", order)
        writer.save(proxy.through(url))
        assert proxy.seen(Kind.LOSE_ANSWER) > 0
        assert proxy.seen(Kind.REFUSE) > 0
    assert_exactly_once(ids(url), range(6000))


def test_a_query_over_a_network_that_loses_and_delays(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    write_files(spark, tmp_path / "in", 1000, 4)
    url = server.stream()
    with FaultProxy(server.url, seeded(7, 0.15, *FAULTS[:3])) as proxy:
        query = Query(spark, tmp_path / "in", tmp_path / "checkpoint", proxy.through(url))
        query.files_per_trigger = 2
        assert query.run(maxAppendBytes="4k") is None
        query.forget_last_commit()
        assert query.run(maxAppendBytes="4k") is None
        assert proxy.seen(Kind.LOSE_ANSWER) > 0
    assert_exactly_once(ids(url), range(1000))


class Mortal:
    """A server on disk in its own process, that can be killed and started again."""

    def __init__(
        self,
        start: Callable[[int], subprocess.Popen[str]],
        url: str,
        base: str,
        *,
        atomic: bool,
    ) -> None:
        self._start = start
        # Does an append become durable together with what the server knows of its producer?
        self.atomic = atomic
        self.url, self.base = url, base
        self.process = start(int(url.rpartition(":")[2]))
        self.wait()

    def wait(self) -> None:
        for _ in range(600):
            try:
                requests.head(self.url, timeout=5)
                return
            except requests.ConnectionError:
                time.sleep(0.1)
        raise AssertionError("the server did not come up")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.process = self._start(int(self.url.rpartition(":")[2]))
        self.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(params=["embedded", "node"])
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mortal]:
    data = tmp_path / "data"
    data.mkdir()
    url = f"http://127.0.0.1:{free_port()}"

    def embedded(port: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "spark_durable", "serve"]
        command += ["--port", str(port), "--data-dir", str(data)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True)

    def node(port: int) -> subprocess.Popen[str]:
        return start_node_server(str(port), str(data))[0]

    if request.param == "embedded":
        server = Mortal(embedded, url, f"{url}/ds/tests", atomic=True)
        requests.put(server.base, timeout=10).raise_for_status()
    else:
        # The reference writes the message, syncs it, then writes the producer's state: killed in
        # between, it knows a message but not who sent it, and no client can make that good.
        server = Mortal(node, url, f"{url}/v1/stream", atomic=False)
    yield server
    server.kill()
    shutil.rmtree(data, ignore_errors=True)


@pytest.mark.parametrize("order", ["keep", "trust"])
def test_a_server_killed_in_the_middle_of_a_write(
    spark: SparkSession, mortal: Mortal, order: str
) -> None:
    lock = threading.Lock()
    deaths = [4, 11]  # as many appends are acknowledged before each
    begun = 0

    def answered() -> list[Exchange]:
        return [e for e in list(proxy.exchanges) if e.request.is_append]

    def kill(request: Request) -> Fault:
        nonlocal begun
        if not request.is_append:
            return PASS
        with lock:
            stored = sum(e.status in (200, 204) for e in answered())
            if deaths and stored >= deaths[0]:
                deaths.pop(0)
                while not mortal.atomic and len(answered()) < begun:
                    time.sleep(0.01)
                mortal.kill()
                threading.Timer(0.5, mortal.restart).start()
            begun += 1
        return PASS

    with FaultProxy(mortal.url, kill) as proxy:
        url = f"{mortal.base}/written"
        df = spark.range(0, 6000, 1, 3).selectExpr("id", "repeat('x', 20) as text")
        writer = df.write.format("durablestream").mode("append").option("rowOrder", order)
        writer.option("maxAppendBytes", "16k").save(proxy.through(url))
        assert not deaths
        assert_exactly_once(ids(url), range(6000))
