"""A one-broker Kafka on loopback, and the jars of Spark's connector: the peer to measure against.

The jars come from Maven Central through the resolver that Spark itself ships, once, then from its
cache.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
# Named one by one: the connector's own list asks for a token provider that was never released.
_CONNECTOR = ",".join(
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    )
)


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """Class paths: the broker's, and what a Spark session needs for ``format("kafka")``."""

    broker: str
    connector: str


def resolve_jars() -> KafkaJars:
    """Fetches the jars, in a Java process of its own that ends before Spark starts."""
    import pyspark
    from pyspark.java_gateway import launch_gateway

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        jvm = gateway.jvm
        maven = jvm.org.apache.spark.util.MavenUtils
        none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        nil = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
        quiet = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
        settings = maven.buildIvySettings(none, none, False, quiet)

        def resolve(coordinates: str, transitive: bool, separator: str) -> str:
            jars = maven.resolveMavenCoordinates(
                coordinates, settings, none, transitive, nil, False, quiet
            )
            return str(jars.mkString(separator))

        # The resolver leaves out what Spark has already: Scala's library.
        scala = next((Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar"))
        broker = f"{resolve(_BROKER, True, ':')}:{scala}"
        return KafkaJars(broker, resolve(_CONNECTOR, False, ","))
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()


class KafkaBroker:
    """One broker with its defaults, data in a temporary directory; a context manager."""

    def __init__(self, jars: KafkaJars) -> None:
        self._classpath = jars.broker
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._port = _free_port()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> KafkaBroker:
        config = self._directory / "server.properties"
        config.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{(controller := _free_port())}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            # One broker cannot keep three copies of its own topics.
            "offsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
            f"log.dirs={self._directory / 'data'}\n"
        )
        cluster = uuid.uuid4().hex[:22]
        self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)).wait(60)
        self._process = self._java("kafka.Kafka", str(config))
        self._await_port()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        java = shutil.which("java")
        if java is None:
            raise RuntimeError("Kafka needs Java: install a JDK 17.")
        log = (self._directory / "kafka.log").open("ab")
        return subprocess.Popen(  # noqa: S603 - our own arguments
            [java, "-Xmx1g", "-cp", self._classpath, *command], stdout=log, stderr=log
        )

    def _await_port(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                    return
            except OSError:
                time.sleep(0.2)
        log = (self._directory / "kafka.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"Kafka did not start:\n{log}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
