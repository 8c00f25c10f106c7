"""Twins that race: speculative attempts on a cluster of two hosts.

Spark never starts a second attempt on a host that runs the first, so `local-cluster`, whose workers
share one name, cannot show this. Loopback has more than one address: each worker gets its own.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Request
from tests.sink.lab import Lab
from tests.sink.streams import assert_exactly_once, ids

ROWS = 4000
SPARK = Path(pyspark.__file__).parent


@contextmanager
def daemon(role: str, host: str, *arguments: str) -> Iterator[Iterator[str]]:
    """A master or a worker as a process. Yields its log, line by line."""
    process = subprocess.Popen(
        [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{role}", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "512m",
        },
    )
    assert process.stderr is not None
    try:
        yield iter(process.stderr)
    finally:
        process.kill()
        process.communicate()


def wait_for(log: Iterator[str], text: str) -> str:
    for line in log:
        if text in line:
            return line
    raise AssertionError(f"a daemon of Spark ended before it said {text!r}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        master = ("master.Master", "127.0.0.1", "--host", "127.0.0.1", "--port", "0")
        log = stack.enter_context(daemon(*master, "--webui-port", "0"))
        url = wait_for(log, "Starting Spark master at ").split(" at ")[1].strip()
        for host in ("127.0.0.2", "127.0.0.3"):
            worker = ("worker.Worker", host, "--host", host, "-c", "1", "-m", "1g")
            place = ("--webui-port", "0", "-d", str(home / host), url)
            wait_for(stack.enter_context(daemon(*worker, *place)), "Successfully registered")
        yield stack.enter_context(
            Lab(
                url,
                spark__driver__host="127.0.0.1",
                spark__executor__memory="512m",
                spark__speculation="true",
                spark__speculation__interval="200ms",
                spark__speculation__minTaskRuntime="3s",
                spark__speculation__multiplier=1.1,
                spark__speculation__quantile=0.3,
            )
        )


def test_twins_that_send_the_same_appends(cluster: Lab, server: Server) -> None:
    url = server.stream()

    def slow(request: Request) -> Fault:
        producer = request.headers.get("producer-id", "")
        slowed = request.is_append and producer.endswith("/3")
        return Fault(delay_s=1.5) if slowed else PASS

    # Spark compares with the tasks that are done: those of a cold cluster would excuse any delay.
    assert cluster.run("write", url=server.stream(), rows=100, partitions=4, options={}) is None
    with FaultProxy(server.url, slow) as proxy:
        # Eight appends: long enough for Spark to lose patience, which it does after 3 seconds here.
        arguments = {"rows": ROWS, "partitions": 4, "options": {"maxAppendBytes": "5k"}}
        assert cluster.run("write", url=proxy.through(url), **arguments) is None
        seqs = Counter(
            exchange.request.headers["producer-seq"]
            for exchange in proxy.exchanges
            if exchange.request.is_append and exchange.request.headers["producer-id"].endswith("/3")
        )
    assert max(seqs.values()) > 1, "Spark started no second attempt, so nothing was shown"
    assert_exactly_once(ids(url), range(ROWS))
