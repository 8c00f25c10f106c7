"""What the demo does, step by step. Every step counts what it left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_durable.protocol import DurableClient

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ORDERS = "id LONG, customer STRING, amount DOUBLE"
CUSTOMERS = 500


@dataclass(slots=True)
class Step:
    """What is done, how, what should be there afterwards and what is there."""

    title: str
    how: str
    rows: int = 0
    expected: int = 0
    found: int = -1
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return self.expected == self.found


@dataclass(slots=True)
class Demo:
    """One run against a server whose bucket ``shop`` is its own.

    ``tell`` is called with each step as it begins.
    """

    spark: SparkSession
    server: str
    work: Path
    rows: int
    tell: Callable[[Step], None]
    steps: list[Step] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.server}/ds/shop/orders"

    def play(self) -> list[Step]:
        with DurableClient() as client:
            client.create_bucket(f"{self.server}/ds/shop")
        self.write_table()
        self.stream_more()
        self.kill_a_worker()
        self.compact()
        self.bootstrap_and_tail()
        return self.steps

    def write_table(self) -> None:
        with self.step("Write a table", "df.write, two tasks, two producers") as step:
            self.append(0, self.rows)
            step.rows = self.rows
        step.expected, step.found = self.rows, self.count()

    def stream_more(self) -> None:
        before, more = self.steps[-1].found, self.rows // 2
        incoming = str(self.work / "incoming")
        orders(self.spark, self.rows, more).write.parquet(incoming)
        with self.step("Stream more into it", "writeStream with a checkpoint") as step:
            files = self.spark.readStream.schema(ORDERS).parquet(incoming)
            query = (
                files.writeStream.format("durablestream")
                .option("checkpointLocation", str(self.work / "sink"))
                .trigger(availableNow=True)
                .start(self.url)
            )
            query.awaitTermination()
            step.rows = more
        step.expected, step.found = before + more, self.count()

    def kill_a_worker(self) -> None:
        before, more = self.steps[-1].found, self.rows // 4
        marker = self.work / "killed"
        with self.step("Kill a worker in the middle", "kill -9, Spark retries the task") as step:
            rows = orders(self.spark, 2 * self.rows, more).repartition(2)
            (
                rows.mapInArrow(dying_once(str(marker)), ORDERS)
                .write.format("durablestream")
                .option("rowOrder", "sort")
                .option("maxAppendBytes", "256k")
                .mode("append")
                .save(self.url)
            )
            step.rows = more
        step.expected, step.found = before + more, self.count()
        if not marker.exists():
            raise RuntimeError("no worker was killed, so this step has shown nothing")

    def compact(self) -> None:
        covered = self.steps[-1].found
        with self.step("Compact to a snapshot", "totals per customer, published") as step:
            with DurableClient() as client:
                tail = client.head(self.url).tail
                totals = self.read().groupBy("customer").agg({"id": "max", "amount": "sum"})
                texts = (
                    totals.toDF("customer", "id", "amount")
                    .selectExpr("to_json(struct(id, customer, amount)) AS text")
                    .collect()
                )
                body = ("[" + ",\n".join(row.text for row in texts) + "]").encode()
                client.publish_snapshot(self.url, tail, body, content_type="application/json")
            step.rows = covered
        step.expected, step.found = CUSTOMERS, self.read().where("_kind = 'snapshot'").count()

    def bootstrap_and_tail(self) -> None:
        after = 1000
        target = str(self.work / "delta")
        with self.step("Bootstrap and tail into Delta", "snapshot first, then updates") as step:
            query = (
                self.spark.readStream.format("durablestream")
                .schema(ORDERS)
                .load(self.url)
                .writeStream.format("delta")
                .option("checkpointLocation", str(self.work / "source"))
                .start(target)
            )
            query.processAllAvailable()
            self.append(3 * self.rows, after)
            query.processAllAvailable()
            query.stop()
            step.rows = CUSTOMERS + after
        found = self.spark.read.format("delta").load(target)
        step.expected, step.found = CUSTOMERS + after, found.count()

    def append(self, first: int, count: int) -> None:
        rows = orders(self.spark, first, count)
        rows.write.format("durablestream").mode("append").save(self.url)

    def read(self) -> DataFrame:
        reader = self.spark.read.format("durablestream").schema(f"{ORDERS}, _kind STRING")
        return reader.load(self.url)

    def count(self) -> int:
        return self.read().count()

    @contextmanager
    def step(self, title: str, how: str) -> Iterator[Step]:
        """Times the block; what is counted to check it comes after, and is not timed."""
        step = Step(title, how)
        self.steps.append(step)
        self.tell(step)
        start = time.perf_counter()
        yield step
        step.seconds = time.perf_counter() - start


def orders(spark: SparkSession, first: int, count: int) -> DataFrame:
    return spark.range(first, first + count, 1, 2).selectExpr(
        "id",
        f"concat('customer-', id % {CUSTOMERS}) AS customer",
        "CAST(round(id * 0.01, 2) AS DOUBLE) AS amount",
    )


def dying_once(marker: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A stage that kills its own Python worker in the middle of a partition, the first time."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal

        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(half)

    return stage
