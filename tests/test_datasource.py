"""The door Spark knocks on: found without registration, wrong use refused in time."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.conftest import Server


def test_format_is_found_without_register(spark: SparkSession, embedded: Server) -> None:
    url = embedded.stream()
    spark.range(3).write.format("durablestream").mode("append").save(url)
    assert spark.read.format("durablestream").schema("id LONG").load(url).count() == 3


def test_overwrite_is_refused(spark: SparkSession, embedded: Server) -> None:
    with pytest.raises(PySparkException, match="A stream only grows"):
        spark.range(3).write.format("durablestream").mode("overwrite").save(embedded.stream())


def test_save_without_a_url_says_where_to_put_it(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="No stream given"):
        spark.range(3).write.format("durablestream").mode("append").save()


def test_unknown_option_is_refused_before_any_work(spark: SparkSession, embedded: Server) -> None:
    with pytest.raises(AnalysisException, match="Did you mean startingOffsets"):
        spark.read.format("durablestream").option("startingOffset", "x").load(embedded.stream())


def test_token_is_not_in_the_error_of_an_unreachable_server(spark: SparkSession) -> None:
    reader = spark.read.format("durablestream").option("token", "s3cr3t")
    with pytest.raises(PySparkException) as failure:
        reader.option("retryTimeout", "1s").load("http://127.0.0.1:1/v1/stream/x").count()
    assert "Check that the server runs" in str(failure.value)
    assert "s3cr3t" not in str(failure.value)
