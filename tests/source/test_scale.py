"""One stream that is long, and many that are not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_durable.bench.source import fill as fill_streams
from spark_durable.protocol import DurableClient
from tests.conftest import Server
from tests.source.harness import append_numbers, create

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


def fill(url: str, megabytes: int) -> int:
    """Numbered messages of about a hundred bytes. Returns how many."""
    written, per_append = 0, 20_000
    with DurableClient() as client:
        client.create(url)
        size = 0
        while size < megabytes * MIB:
            texts = [
                b'{"n":%d,"name":"number %d","text":"%b"}' % (n, n, b"x" * (n % 97))
                for n in range(written, written + per_append)
            ]
            body = b"[" + b",".join(texts) + b"]"
            client.append(url, body)
            size += len(body)
            written += per_append
    return written


def read_in_order(spark: SparkSession, url: str, count: int, **options: str) -> int:
    """Reads typed and checks that tasks hold consecutive numbers. Returns how many tasks."""
    frame = spark.read.format("durablestream").schema("n long, name string").options(**options)
    tasks = (
        frame.load(url)
        .withColumn("task", F.spark_partition_id())
        .withColumn("place", F.monotonically_increasing_id() % (1 << 33))
        .groupBy("task")
        .agg(
            F.min("n").alias("low"),
            F.max("n").alias("high"),
            F.count("*").alias("rows"),
            F.min(F.col("n") - F.col("place")).alias("least"),
            F.max(F.col("n") - F.col("place")).alias("most"),
        )
        .orderBy("task")
        .collect()
    )
    expected = 0
    for task in tasks:
        assert (task.low, task.high) == (expected, expected + task.rows - 1)
        assert task.least == task.most == task.low  # each in its place
        expected += task.rows
    assert expected == count
    return len(tasks)


def test_a_long_stream_by_many_tasks(spark: SparkSession, embedded: Server) -> None:
    url = embedded.stream("long")
    count = fill(url, 100)
    assert read_in_order(spark, url, count, maxPartitionBytes="12m") >= 8


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_gigabyte_by_many_tasks(spark: SparkSession, embedded: Server) -> None:
    url = embedded.stream("gigabyte")
    count = fill(url, 1024)
    assert read_in_order(spark, url, count) >= 8


# What a worker does, in a process of its own: plan and read, and tell how much memory it took.
WORKER = """
import json, resource, sys
from spark_durable.source.read import PartReader
from tests.source.harness import START, Query
import pyarrow.json, spark_durable.codec.decode
url, count = sys.argv[1], int(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
query = Query(url)
end = query.latest()
expected = 0
for partition in query.partitions(START, end):
    for batch in PartReader(query.options, query.place, query.columns).read(partition.parts):
        for value in (batch.column("value")[0], batch.column("value")[-1]):
            number = json.loads(value.as_py())["n"]
            assert expected <= number < expected + batch.num_rows
        expected += batch.num_rows
assert expected == count, (expected, count)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def growth_of_a_worker(url: str, count: int) -> int:
    """Kilobytes that planning and reading a stream adds to a process."""
    ran = subprocess.run(
        [sys.executable, "-c", WORKER, url, str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_one_unbounded_answer_in_bounded_memory(node: Server) -> None:
    url = node.stream("unbounded")
    count = fill(url, 100)
    assert growth_of_a_worker(url, count) < 100 * 1024


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_longest_answer_of_the_reference_server(spark: SparkSession, node: Server) -> None:
    """It makes its answer as one string, and V8 has none past 512 MB: then it answers 500."""
    url = node.stream("longest")
    count = fill(url, 480)
    assert growth_of_a_worker(url, count) < 300 * 1024
    assert read_in_order(spark, url, count) >= 1


def many_streams(
    spark: SparkSession, embedded_server: str, tmp_path: Path, streams: int
) -> dict[str, Any]:
    bucket = f"{embedded_server}/ds/many-{uuid.uuid4().hex[:12]}"
    with DurableClient() as client:
        client.create_bucket(bucket)
    urls = fill_streams(bucket, streams)
    frame = spark.read.format("durablestream").schema("_stream string, n long")
    found = frame.option("streamPattern", ".*").load(bucket)
    # Not by collect_list, which keeps no order once an aggregation has more than 128 groups.
    per_stream: dict[str, list[int]] = {}
    for row in found.toLocalIterator():
        per_stream.setdefault(row["_stream"], []).append(row["n"])
    assert len(per_stream) == streams
    assert all(numbers == list(range(10)) for numbers in per_stream.values())

    counts: list[int] = []
    query = (
        spark.readStream.format("durablestream")
        .schema("_stream string, n long")
        .option("streamPattern", ".*")
        .load(bucket)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda batch, _: counts.append(batch.count()))
        .start()
    )
    try:
        query.processAllAvailable()
        assert sum(counts) == streams * 10
        before = heap(spark)
        for round_ in range(3):
            for url in urls[:: max(1, streams // 50)]:
                append_numbers(url, 10 + round_, 11 + round_)
            query.processAllAvailable()
        after = heap(spark)
        touched = len(urls[:: max(1, streams // 50)])
        assert sum(counts) == streams * 10 + 3 * touched
        progress = query.lastProgress
        assert progress is not None
        return {"grown": after - before, "latest": progress["sources"][0]["latestOffset"]}
    finally:
        query.stop()


def heap(spark: SparkSession) -> int:
    """Bytes the driver's Java heap holds after a collection."""
    jvm: Any = spark._jvm
    for _ in range(3):
        jvm.java.lang.System.gc()
        time.sleep(0.2)
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def test_hundreds_of_streams(spark: SparkSession, embedded_server: str, tmp_path: Path) -> None:
    seen = many_streams(spark, embedded_server, tmp_path, 500)
    assert json.loads(seen["latest"])["streamCount"] == 500


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_thousand_streams(spark: SparkSession, embedded_server: str, tmp_path: Path) -> None:
    seen = many_streams(spark, embedded_server, tmp_path, 10_000)
    assert json.loads(seen["latest"])["streamCount"] == 10_000
    assert seen["grown"] < 100 * MIB


def test_ordinary_streams_are_read_in_order(spark: SparkSession, embedded: Server) -> None:
    """The check itself can fail: numbers that go back are noticed."""
    url = create(embedded.stream("back"))
    append_numbers(url, 0, 10)
    append_numbers(url, 5, 6)
    with pytest.raises(AssertionError):
        read_in_order(spark, url, 11)
