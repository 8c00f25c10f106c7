"""``protocol=topics``: DataFrames into a topic, once within the window."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import requests
from pyspark.sql import SparkSession

from spark_durable.protocol.errors import BadRowError
from spark_durable.sink.identity import Place, WriteIdentity
from spark_durable.sink.topics import MAX_KEY, MAX_RECORD_BYTES, _OpenWrite
from tests.conftest import Server
from tests.faults import Fault, FaultProxy, Kind, seeded
from tests.publish.conftest import read_records


@pytest.fixture
def topic(embedded: Server) -> str:
    return f"{embedded.url}/v0/topics/sink-{uuid.uuid4().hex[:10]}"


def numbers(topic: str) -> list[int]:
    return sorted(json.loads(record["data"])["id"] for record in read_records(topic))


def test_a_rerun_within_the_window_appends_nothing(spark: SparkSession, topic: str) -> None:
    rows = spark.range(0, 25_000, 1, 3)
    writer = rows.write.format("durablestream").mode("append").option("protocol", "topics")
    writer = writer.option("txnAppId", "job").option("txnVersion", 7)
    writer.save(topic)
    assert numbers(topic) == list(range(25_000))
    writer.save(topic)
    assert requests.get(topic, timeout=10).json()["head_seq"] == 25_000
    writer.option("txnVersion", 8).save(topic)
    assert requests.get(topic, timeout=10).json()["head_seq"] == 50_000


def test_lost_answers_and_refusals_double_nothing(
    spark: SparkSession, topic: str, embedded: Server
) -> None:
    faults = (Fault(Kind.LOSE_ANSWER), Fault(Kind.REFUSE, status=503), Fault(Kind.LOSE_REQUEST))
    with FaultProxy(embedded.url, seeded(3, 0.4, *faults)) as proxy:
        rows = spark.range(0, 3000, 1, 2)
        writer = rows.write.format("durablestream").mode("append").option("protocol", "topics")
        writer.option("maxAppendBytes", 1000).save(proxy.through(topic))
        assert proxy.seen(Kind.LOSE_ANSWER) > 0
    assert numbers(topic) == list(range(3000))


def test_a_streaming_query_and_rows_that_name_their_topic(
    spark: SparkSession, embedded: Server, tmp_path: Path
) -> None:
    mark = uuid.uuid4().hex[:8]
    source = tmp_path / "in"
    spark.range(40).selectExpr("id", f"concat('{mark}-', id % 2) AS topic").write.parquet(
        str(source)
    )
    query = (
        spark.readStream.schema("id long, topic string")
        .parquet(str(source))
        .writeStream.format("durablestream")
        .option("protocol", "topics")
        .option("streamColumn", "topic")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(f"{embedded.url}/v0/topics")
    )
    query.awaitTermination()
    for remainder in (0, 1):
        found = numbers(f"{embedded.url}/v0/topics/{mark}-{remainder}")
        assert found == list(range(remainder, 40, 2))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"closeStream": "true"}, "closeStream"),
        ({"contentType": "text/plain"}, "JSON"),
        ({"createIfMissing": "false"}, "createIfMissing"),
    ],
)
def test_what_a_topic_cannot_do_is_refused_on_the_driver(
    spark: SparkSession, topic: str, options: dict[str, str], said: str
) -> None:
    writer = spark.range(1).write.format("durablestream").mode("append")
    with pytest.raises(Exception, match=said):
        writer.option("protocol", "topics").options(**options).save(topic)


def place(batch: int = 1, partition: int = 0, prefix: str | None = None) -> Place:
    return Place(WriteIdentity("query", batch, prefix=prefix), partition)


def key_of(data: bytes, at: Place, seq: int = 0) -> str:
    write = _OpenWrite("http://t", seq=seq)
    write.add(data)
    document: dict[str, Any] = json.loads(write.take(at))
    assert document["records"] == [{"data": json.loads(data)}]
    key = document["idempotency_key"]
    assert isinstance(key, str)
    assert len(key) <= MAX_KEY
    return key


def test_a_key_is_that_of_batch_partition_seq_and_records() -> None:
    same = key_of(b"1", place())
    assert key_of(b"1", place()) == same
    others = [
        key_of(b"2", place()),
        key_of(b"1", place(batch=2)),
        key_of(b"1", place(partition=1)),
        key_of(b"1", place(), seq=1),
        key_of(b"1", place(prefix="p" * 300)),
    ]
    assert len({same, *others}) == 6


def test_a_record_that_no_topic_takes_is_refused_before_it_is_sent() -> None:
    with pytest.raises(BadRowError, match="protocol=durable"):
        _OpenWrite("http://t").add(b"x" * (MAX_RECORD_BYTES + 1))
