"""Fixtures: Spark as the judge of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.codec.encode.real_spark import RealSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def real_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RealSpark:
    return RealSpark(spark, tmp_path_factory.mktemp("arrow"))


@pytest.fixture
def time_zone(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Sets the session's time zone for one test."""
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)
