"""Rows that name their streams."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_durable.sink.routes import by_stream
from tests.conftest import Server
from tests.sink.streams import ids


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.sampled_from(["a", "b", "ä/ö", " "]), min_size=1, max_size=50))
def test_each_stream_gets_its_rows_in_order(streams: list[str]) -> None:
    texts = pa.array([str(n) for n in range(len(streams))])
    found = {name: part.to_pylist() for name, part in by_stream(texts, pa.array(streams))}
    expected: dict[str, list[str]] = {}
    for n, name in enumerate(streams):
        expected.setdefault(name, []).append(str(n))
    assert found == expected
    assert list(found) == list(expected)


def test_a_thousand_streams_in_one_job(spark: SparkSession, server: Server) -> None:
    base, _, prefix = server.stream("many").rpartition("/")
    df = spark.range(0, 4000, 1, 2).selectExpr("id", f"concat('{prefix}', id % 1000) as stream")
    for _ in range(2):
        writer = df.write.format("durablestream").mode("append")
        writer = writer.option("streamColumn", "stream")
        writer.option("txnAppId", "many").option("txnVersion", 1).save(base)
    for n in range(1000):
        assert sorted(ids(f"{base}/{prefix}{n}")) == list(range(n, 4000, 1000))
