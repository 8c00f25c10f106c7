"""The parties of a Spark benchmark: our server on disk, a Kafka broker, one session for both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_durable.bench.kafka import KafkaBroker, resolve_jars
from spark_durable.bench.servers import embedded
from spark_durable.local import local_spark
from spark_durable.protocol import DurableClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class Parties:
    """Everyone on the same machine. ``fresh`` gives stream URLs and topics nobody has used."""

    spark: SparkSession
    server_url: str
    server_pid: int
    bootstrap: str | None
    _made: int = 0

    @property
    def spark_pid(self) -> int:
        """The driver: this process, whose child is Spark's Java process."""
        return os.getpid()

    def fresh_stream(self) -> str:
        self._made += 1
        return f"{self.server_url}/ds/bench/stream-{self._made}"

    def fresh_topic(self) -> str:
        self._made += 1
        return f"topic-{self._made}"


@contextlib.contextmanager
def parties(*, kafka: bool, cores: int = 2) -> Iterator[Parties]:
    """Starts all of them, and ends them with the block."""
    with contextlib.ExitStack() as stack:
        bootstrap, connector = None, {}
        if kafka:
            jars = resolve_jars()
            bootstrap = stack.enter_context(KafkaBroker(jars)).bootstrap
            connector = {"spark.jars": jars.connector}
        server = stack.enter_context(embedded())
        with DurableClient() as client:
            client.create_bucket(f"{server.url}/ds/bench")
        spark = local_spark(
            "spark-durable bench",
            master=f"local[{cores}]",
            conf={"spark.driver.memory": "3g", **connector},
        )
        stack.callback(spark.stop)
        yield Parties(spark, server.url, server.pid, bootstrap)
