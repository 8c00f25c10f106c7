"""Write, read and stream with the installed package alone, without ``register``.

Run as a script, outside of the repository: ``python zero_step.py classic|connect``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession


def session(kind: str) -> SparkSession:
    if kind == "connect":
        return SparkSession.builder.remote("local[2]").getOrCreate()
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def main(kind: str) -> None:
    import spark_durable

    spark = session(kind)
    assert ("connect" in type(spark).__module__) == (kind == "connect"), type(spark)
    with spark_durable.EmbeddedServer() as server, tempfile.TemporaryDirectory() as work:
        first, second = (f"{server.url}/v1/stream/{name}" for name in ("first", "second"))
        rows = spark.range(1000).selectExpr("id", "id / 4 AS quarter", "concat('n ', id) AS text")
        rows.write.format("durablestream").mode("append").save(first)
        query = (
            spark.readStream.format("durablestream")
            .schema("id LONG, quarter DOUBLE, text STRING")
            .load(first)
            .where("id % 2 = 0")
            .writeStream.format("durablestream")
            .option("checkpointLocation", work)
            .trigger(availableNow=True)
            .start(second)
        )
        assert query.awaitTermination(300)
        assert query.exception() is None
        found = (
            spark.read.format("durablestream")
            .schema("id LONG, quarter DOUBLE, text STRING, _kind STRING")
            .load(second)
            .collect()
        )
    assert sorted(map(tuple, found)) == [
        (n, n / 4, f"n {n}", "update") for n in range(0, 1000, 2)
    ], found[:3]
    spark.stop()
    package = Path(spark_durable.__file__).parent.parent
    import pyspark

    print(f"{len(found)} rows, {kind}, pyspark {pyspark.__version__}, package in {package}")


if __name__ == "__main__":
    main(sys.argv[1])
