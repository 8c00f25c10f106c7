"""The Spark application of a run: ``python -m tests.chaos.spark_app JSON``.

Two queries write files into streams, two tail streams into Delta tables. A query that fails is
started again from its checkpoint, with its failure told on standard output. On ``finish`` all that
is there is worked off, and the tables are written out for the checker.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import spark_durable
from spark_durable.local import local_spark
from tests.chaos.streams import FOLLOWED, SHUFFLED, SUNK, TAILED
from tests.sink.queries import SCHEMA

# Longer than a server needs to come back, shorter than a reader of the report wants to wait.
RETRY = {"retryTimeout": "20s", "readTimeout": "10s", "connectTimeout": "5s"}
CUT = {"maxAppendBytes": "4k"}
SINKS = ("sunk", "shuffled")
SOURCES = ("tailed", "followed")


class Queries:
    def __init__(self, spark: SparkSession, job: dict[str, str]) -> None:
        self._spark = spark
        self._base = job["base"]
        self._directory = Path(job["directory"])

    def start(self, name: str, trigger: dict[str, Any]) -> StreamingQuery:
        shapes = {
            "sunk": self._sunk,
            "shuffled": self._shuffled,
            "tailed": self._tailed,
            "followed": self._followed,
        }
        writer, target = shapes[name]()
        checkpoint = str(self._directory / "checkpoints" / name)
        return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start(target)

    def _files(self) -> DataFrame:
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4)
        return reader.parquet(str(self._directory / "files"))

    def _sunk(self) -> tuple[DataStreamWriter, str]:
        writer = self._files().writeStream.format("durablestream").options(**RETRY, **CUT)
        return writer, f"{self._base}/{SUNK}"

    def _shuffled(self) -> tuple[DataStreamWriter, str]:
        df = spark_durable.repeatable(self._files().repartition(4), partitions=3)
        writer = df.writeStream.format("durablestream").options(**RETRY, **CUT, rowOrder="sort")
        return writer, f"{self._base}/{SHUFFLED}"

    def _tailed(self) -> tuple[DataStreamWriter, str]:
        writer = self._reading(TAILED, failOnDataLoss="true", maxPartitionBytes="100k")
        return writer, self._table("tailed")

    def _followed(self) -> tuple[DataStreamWriter, str]:
        return self._reading(FOLLOWED, failOnDataLoss="false"), self._table("followed")

    def _reading(self, streams: tuple[str, ...], **options: str) -> DataStreamWriter:
        reader = self._spark.readStream.format("durablestream").options(**RETRY, **options)
        df = reader.option("streams", json.dumps(streams)).load(self._base)
        return df.writeStream.format("delta")

    def _table(self, name: str) -> str:
        return str(self._directory / "tables" / name)

    def dump(self, name: str) -> None:
        """A table's rows, one JSON text a line."""
        table = self._spark.read.format("delta").load(self._table(name))
        rows = table.selectExpr("stream", "offset", "kind", "cast(value as string) as value")
        with (self._directory / f"{name}.jsonl").open("w") as file:
            for row in rows.toLocalIterator():
                file.write(json.dumps(list(row)) + "\n")


def tell(event: str, **more: str) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


def run(queries: Queries, finishing: threading.Event) -> None:
    """Keeps the queries running until told to finish, and tells when all of them get on."""
    running: dict[str, StreamingQuery] = {}
    getting_on = False
    while not finishing.wait(0.3):
        # Sources first: Spark gives their planning process ten seconds to start, and no more.
        for name in (*SOURCES, *SINKS):
            query = running.get(name)
            if query is not None and not query.isActive:
                tell("failed", query=name, error=str(query.exception()))
                query = None
            if query is None:
                query = running[name] = queries.start(name, {"processingTime": "500 milliseconds"})
                # One after the other: starting is what costs most.
                while query.isActive and not query.recentProgress and not finishing.wait(0.2):
                    pass
        if not getting_on and all(query.recentProgress for query in running.values()):
            getting_on = True
            tell("running")
    for query in running.values():
        query.stop()


def finish(queries: Queries) -> None:
    """Sinks first: what they write is there for the sources."""
    for group in (SINKS, SOURCES):
        for name in group:
            for attempt in range(10):
                query = queries.start(name, {"availableNow": True})
                try:
                    query.awaitTermination()
                    break
                except Exception as error:
                    tell("failed", query=name, error=str(error))
                    if attempt == 9:
                        raise
    for name in SOURCES:
        queries.dump(name)
    tell("finished")


def main() -> None:
    job = json.loads(sys.argv[1])
    conf = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.task.maxFailures": "8",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.python.daemon.module": "tests.chaos.daemon",
        "spark.sql.shuffle.partitions": "3",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": f"{job['directory']}/warehouse",
    }
    spark = local_spark("chaos", master="local-cluster[2,1,1024]", delta=True, conf=conf)
    spark_durable.register(spark)
    # A local cluster leaves its executors' directories where Spark is installed, jars and all.
    work = Path(_find_spark_home()) / "work" / spark.sparkContext.applicationId
    tell("application", work=str(work))
    finishing = threading.Event()

    def wait_for_the_word() -> None:
        # The one line that can come is "finish"; the end of input means that nobody listens.
        sys.stdin.readline()
        finishing.set()

    threading.Thread(target=wait_for_the_word, daemon=True).start()
    queries = Queries(spark, job)
    run(queries, finishing)
    finish(queries)
    spark.stop()


if __name__ == "__main__":
    main()
