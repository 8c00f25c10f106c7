"""Fixtures that run the real thing: one Spark session per process, real servers on loopback."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODE = Path(__file__).parent / "node"

# Spark's workers run PYSPARK_PYTHON, not the driver's interpreter.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Tests start many short-lived JVMs: they end before what the optimizing compiler makes pays off.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Examples wait for servers and share cores: how long one takes says nothing. A change must not
# fail in CI by what it has not touched: there the examples are the same each time.
settings.register_profile("here", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("here")


# Files whose tests start JVMs of their own. Begun first, none of them runs alone in the end.
_SLOWEST = (
    "publish/relay/test_delta",
    "test_notebooks",
    "publish/relay/test_postgres",
    "sink/test_",
    "source/test_",
    "jobs/test_",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((n for n, part in enumerate(_SLOWEST) if part in path), len(_SLOWEST))

    items.sort(key=rank)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and how to name fresh streams on it."""

    kind: str
    url: str
    base: str

    def stream(self, name: str = "s") -> str:
        """The URL of a stream that no other test uses. It does not exist yet."""
        return f"{self.base}/{quote(name, safe='')}-{uuid.uuid4().hex[:10]}"


def start_node_server(*args: str) -> tuple[subprocess.Popen[str], str]:
    """Starts the reference server and returns it with its URL."""
    node = shutil.which("node")
    if node is None:
        pytest.fail("Node.js is needed for the reference server: install it.")
    process = subprocess.Popen(
        [node, str(NODE / "reference_server.mjs"), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:  # on disk it logs before it tells its URL
        if line.startswith("http"):
            return process, line.strip()
    pytest.fail("the reference server did not start: run `make test`, which installs it")


@pytest.fixture(scope="session")
def node_server() -> Iterator[str]:
    """Base URL of the Node reference server."""
    process, url = start_node_server()
    yield url
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of the embedded server, on disk."""
    from spark_durable.server.embedded import EmbeddedServer

    with EmbeddedServer(data_dir=tmp_path_factory.mktemp("embedded")) as server:
        yield server.url


@pytest.fixture(scope="session")
def embedded(embedded_server: str) -> Server:
    import requests

    bucket = f"{embedded_server}/ds/tests"
    requests.put(bucket, timeout=10).raise_for_status()
    return Server("embedded", embedded_server, bucket)


@pytest.fixture(scope="session")
def node(node_server: str) -> Server:
    return Server("node", node_server, f"{node_server}/v1/stream")


@pytest.fixture(params=["embedded", "node"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each server our users run, one after the other."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Server)
    return found


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session for the whole process, with Delta where it is installed."""
    from spark_durable.local import local_spark

    session = local_spark(
        "spark_durable tests",
        delta=importlib.util.find_spec("delta") is not None,
        conf={
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield session
    session.stop()
