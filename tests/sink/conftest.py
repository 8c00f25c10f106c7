"""Files that streaming queries of several modules read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sink.queries import write_files


@pytest.fixture(scope="session")
def spark_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,000 rows in 8 files: as many partitions as there are cores, up to 8."""
    directory = tmp_path_factory.mktemp("files") / "in"
    write_files(spark, directory, rows=4000, files=8)
    return directory
