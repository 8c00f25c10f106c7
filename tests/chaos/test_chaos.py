"""One whole run: every kind of fault, Spark with executors of its own, and the checker's word."""

from __future__ import annotations

import pytest

from tests.chaos.run import run

SEED = 20
SECONDS = 75


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_nothing_is_lost_and_nothing_doubled() -> None:
    report = run(SEED, SECONDS)
    print(report.text())
    assert report.passed, report.text()
    assert report.acknowledged > 500
    assert report.rows_in_tables > 1000
    for fault in (
        "server killed",
        "driver killed",
        "disk full",
        "stream deleted and created again",
    ):
        assert report.faults[fault] > 0, report.text()


def test_without_spark() -> None:
    report = run(3, 20, spark=False)
    assert report.passed, report.text()


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(100, 120))
def test_twenty_seeds(seed: int) -> None:
    report = run(seed, 120)
    assert report.passed, report.text()
