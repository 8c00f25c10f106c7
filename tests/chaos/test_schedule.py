from __future__ import annotations

import pytest

from tests.chaos.schedule import SPARK, Strike, schedule


def test_the_seed_decides() -> None:
    assert schedule(7, 120) == schedule(7, 120)
    assert schedule(7, 120) != schedule(8, 120)


@pytest.mark.parametrize("seconds", [10, 60, 600])
@pytest.mark.parametrize("seed", range(5))
def test_no_kind_is_left_out_and_none_comes_late(seed: int, seconds: float) -> None:
    planned = schedule(seed, seconds)
    assert {each.strike for each in planned} == set(Strike)
    moments = [each.at_s for each in planned]
    assert moments == sorted(moments)
    assert moments[-1] <= seconds


def test_without_spark_nothing_of_it_is_struck() -> None:
    assert {each.strike for each in schedule(1, 60, spark=False)} == set(Strike) - SPARK
