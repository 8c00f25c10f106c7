"""What a task leaves behind in Spark's Python worker."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

from pyspark.sql import SparkSession

from spark_durable.worker import after_task
from tests.conftest import Server


def frozen(_: Iterator[int]) -> Iterator[int]:
    time.sleep(0.3)  # long enough that the other task needs another worker
    yield gc.get_freeze_count()


def test_a_task_leaves_little_to_collect_after_the_next_one(
    spark: SparkSession, embedded: Server
) -> None:
    stream = embedded.stream()
    rows = spark.range(20, numPartitions=2)
    rows.write.format("durablestream").mode("append").save(stream)
    assert spark.read.format("durablestream").load(stream).count() == 20
    # Modules of pyarrow, pandas and this package are tens of thousands of objects.
    assert max(spark.sparkContext.parallelize([0, 1], 2).mapPartitions(frozen).collect()) > 10_000


def test_outside_of_a_task_the_collector_is_left_alone() -> None:
    before = gc.get_freeze_count()
    after_task()
    assert gc.get_freeze_count() == before
