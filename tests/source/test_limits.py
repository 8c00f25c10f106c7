from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.options import SourceOptions
from spark_durable.source.limits import Limit, shares, spark_limit
from tests.source.harness import MaxBytes, MaxRows

OPTIONS = SourceOptions(url="http://h/s", max_bytes_per_trigger=77)


class AllAvailable:
    pass


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        (None, Limit(max_bytes=77)),  # Spark before 4.2
        (AllAvailable(), Limit()),  # Spark overrules the option
        (MaxBytes(5), Limit(max_bytes=5)),
        (MaxRows(5), Limit(max_messages=5)),
    ],
)
def test_what_spark_asks_for_holds(asked: object | None, limit: Limit) -> None:
    assert spark_limit(asked, OPTIONS) == limit


def test_the_limits_of_this_spark_are_understood() -> None:
    datasource = pytest.importorskip("pyspark.sql.streaming.datasource")
    assert spark_limit(datasource.ReadMaxRows(3), OPTIONS) == Limit(max_messages=3)
    assert spark_limit(datasource.ReadMaxBytes(3), OPTIONS) == Limit(max_bytes=3)
    assert spark_limit(datasource.ReadAllAvailable(), OPTIONS).unlimited


@given(st.lists(st.none() | st.integers(0, 10**6), min_size=1), st.integers(1, 10**7))
def test_shares_use_the_limit_and_no_more(sizes: list[int | None], limit: int) -> None:
    given_out = shares(sizes, limit)
    assert sum(given_out) <= limit
    if limit >= len(sizes):
        assert all(
            size is None or share <= size for share, size in zip(given_out, sizes, strict=True)
        )
        wanted = sum(10**9 if size is None else size for size in sizes)
        assert sum(given_out) == min(limit, wanted)


def test_small_streams_are_served_whole() -> None:
    assert shares([10, 1000, 10, 5000], 100) == [10, 40, 10, 40]
    assert shares([None, 10], 100) == [90, 10]
    assert shares([None, None, None], 2) == [1, 1, 0]
