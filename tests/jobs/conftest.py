from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from spark_durable import job
from tests.jobs.harness import load


@pytest.fixture
def run(spark: SparkSession) -> Iterator[Callable[..., int]]:
    """Runs a job inside the test's own session, which is quick; returns its exit code."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(name: str, *arguments: str) -> int:
        module = load(name)
        return job.run(getattr(module, name), module.arguments(), arguments)

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)
