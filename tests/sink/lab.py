"""A Spark application in its own process, told what to run line by line.

The tests' own session cannot do what is needed here: retry tasks, lose executors, run speculative
attempts, or be killed. ``python -m tests.sink.lab MASTER [conf=value …]`` reads one JSON object a
line, ``{"job": name, …}``, runs that function of this module and answers with one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


class Lab:
    """The other side: starts the application and has it run jobs."""

    def __init__(self, master: str, **conf: object) -> None:
        settings = [f"{name.replace('__', '.')}={value}" for name, value in conf.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sink.lab", master, *settings],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def run(self, job: str, **arguments: Any) -> str | None:
        """Runs a job to its end. Returns the text of its failure, None if there was none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"job": job, **arguments}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                failure = json.loads(line)["failure"]
                assert failure is None or isinstance(failure, str)
                return failure
        raise AssertionError("the application has died")

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# -- in the application --------------------------------------------------------------------------


def write(
    spark: SparkSession,
    url: str,
    rows: int,
    partitions: int,
    options: dict[str, str],
    shuffled: bool = False,
    behaviour: str = "plain",
    directory: str = "",
) -> None:
    """A batch write whose tasks misbehave as told."""
    df = spark.range(0, rows, 1, partitions).selectExpr("id", "repeat(cast(id as string), 5) as t")
    if shuffled:
        df = df.repartition(partitions, "id")
    misbehave = globals()[f"_{behaviour}"](directory)
    df = df.mapInArrow(misbehave, df.schema)
    df.write.format("durablestream").mode("append").options(**options).save(url)


def _plain(directory: str) -> Any:
    return lambda batches: batches


def _fails_in_the_middle(directory: str) -> Any:
    """The first attempt of every task dies when it has handed on half of its rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            task = TaskContext.get()
            if task is not None and task.attemptNumber() == 0:
                raise RuntimeError("the first attempt dies here")
            yield batch.slice(half)

    return run


def _reorders(directory: str) -> Any:
    """Each attempt sees its rows in another order, as after a shuffle."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches))
        task = TaskContext.get()
        assert task is not None
        order = list(range(table.num_rows))
        turn = (task.attemptNumber() * 7919) % max(1, len(order))
        yield from table.take(order[turn:] + order[:turn]).to_batches()

    return run


def _tells_its_executor(directory: str) -> Any:
    """Leaves the process id of the executor's JVM in a file named after the partition."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        executor = stat.rpartition(")")[2].split()[1]
        Path(directory, f"{task.partitionId()}-{task.attemptNumber()}").write_text(executor)
        yield from batches

    return run


def stream(
    spark: SparkSession,
    url: str,
    source: str,
    checkpoint: str,
    options: dict[str, str],
    repeatable: int = 0,
) -> None:
    """A streaming query over parquet files, run until all of them are written."""
    import spark_durable

    df = spark.readStream.schema("id long, k long, text string").parquet(source)
    if repeatable:
        df = spark_durable.repeatable(df, partitions=repeatable)
    writer = df.writeStream.format("durablestream").options(**options)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(url).awaitTermination()


def main() -> None:
    import spark_durable
    from spark_durable.local import local_spark

    master, *settings = sys.argv[1:]
    conf = {"spark.driver.memory": "1g", **dict(setting.split("=", 1) for setting in settings)}
    spark = local_spark("lab", master=master, conf=conf)
    spark_durable.register(spark)
    for line in sys.stdin:
        arguments = json.loads(line)
        failure = None
        try:
            globals()[arguments.pop("job")](spark, **arguments)
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps({"failure": failure}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
