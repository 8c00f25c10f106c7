"""A local Spark session that works out of the box: for demo, notebooks and benchmarks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def local_spark(
    app_name: str = "spark_durable",
    *,
    master: str = "local[2]",
    delta: bool = False,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A quiet session whose Python workers run this interpreter.

    Spark's workers run ``PYSPARK_PYTHON``, by default whatever ``python3`` is on the PATH, where
    this package and pyarrow may be missing.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(app_name)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # After every commit Delta runs this many tasks over its log: 50 unless told otherwise.
        **({**DELTA, "spark.databricks.delta.snapshotPartitions": "2"} if delta else {}),
        **(conf or {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    if delta:
        from delta import configure_spark_with_delta_pip

        builder = configure_spark_with_delta_pip(builder)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
