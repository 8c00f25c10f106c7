"""``spark.read`` on real Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_durable.protocol import DurableClient
from tests.conftest import Server
from tests.source.harness import append, append_numbers, create


def load(spark: SparkSession, url: str, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("durablestream").options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(url)


def ns(frame: DataFrame) -> list[int]:
    return [json.loads(bytes(row.value))["n"] for row in frame.collect()]


def test_raw_columns(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("raw"))
    append(url, {"n": 0}, {"n": 1})
    frame = load(spark, url)
    assert frame.columns == ["stream", "offset", "kind", "content_type", "value"]
    rows = frame.collect()
    assert [json.loads(bytes(row.value)) for row in rows] == [{"n": 0}, {"n": 1}]
    assert {row.stream for row in rows} == {url.rpartition("/")[2]}
    assert {row.kind for row in rows} == {"update"}
    assert {row.content_type for row in rows} == {"application/json"}


def test_typed_columns(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("typed"))
    append(
        url,
        {"id": 1, "name": "ä", "nested": {"xs": [1, 2]}, "at": "2025-01-02T03:04:05Z", "d": 1.25},
        {"id": 2, "extra": True},
        {"id": "not a number", "name": "kept"},
        None,
    )
    schema = (
        "_stream string, id long, name string, nested struct<xs: array<int>>, at timestamp, "
        "d decimal(5,2), _kind string, _corrupt_record string"
    )
    frame = load(spark, url, schema)
    assert frame.columns[0] == "_stream"
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert [row["id"] for row in rows] == [1, 2, None, None]
    assert rows[0]["nested"] == {"xs": [1, 2]}
    assert str(rows[0]["d"]) == "1.25"
    assert rows[2]["name"] == "kept"
    assert json.loads(rows[2]["_corrupt_record"]) == {"id": "not a number", "name": "kept"}
    assert {row["_kind"] for row in rows} == {"update"}


def test_modes(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("modes"))
    append(url, {"n": 1}, {"n": "x"}, {"n": 3})
    assert [row.n for row in load(spark, url, "n long").collect()] == [1, None, 3]
    dropped = load(spark, url, "n long, _offset string", mode="DROPMALFORMED").collect()
    assert [row.n for row in dropped] == [1, 3]
    whole = load(spark, url, "n long, _offset string").collect()
    assert [row._offset for row in dropped] == [whole[0]._offset, whole[2]._offset]
    with pytest.raises(PySparkException, match="FAILFAST"):
        load(spark, url, "n long", mode="FAILFAST").collect()


def test_the_time_zone_of_the_session(spark: SparkSession, embedded: Server) -> None:
    url = create(embedded.stream("zone"))
    append(url, {"at": "2025-01-02 03:04:05"}, {"at": "2025-01-02T03:04:05Z"})
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        seconds = load(spark, url, "at timestamp").selectExpr("unix_seconds(at) AS s").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert seconds[1].s - seconds[0].s == 9 * 3600


def test_a_second_action_reads_the_same(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("twice"))
    append_numbers(url, 0, 50)
    frame = load(spark, url)
    assert ns(frame) == list(range(50))
    append_numbers(url, 50, 60)
    assert ns(frame) == list(range(50))
    assert ns(load(spark, url)) == list(range(60))


def test_between_offsets(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("between"))
    name = url.rpartition("/")[2]
    low = append_numbers(url, 0, 10)
    high = append_numbers(url, 10, 20)
    append_numbers(url, 20, 30)
    options = {
        "startingOffsets": json.dumps({name: low}),
        "endingOffsets": json.dumps({name: high}),
    }
    assert ns(load(spark, url, **options)) == list(range(10, 20))
    assert ns(load(spark, url, endingOffsets=json.dumps({name: low}))) == list(range(10))
    assert load(spark, url, startingOffsets="latest").count() == 0
    with pytest.raises(PySparkException, match="before it begins"):
        load(
            spark,
            url,
            startingOffsets=json.dumps({name: high}),
            endingOffsets=json.dumps({name: low}),
        ).collect()


def test_an_empty_stream(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("empty"))
    assert load(spark, url).count() == 0
    assert load(spark, url, "n long").collect() == []


def test_a_missing_stream(spark: SparkSession, server: Server) -> None:
    with pytest.raises(PySparkException, match="does not exist"):
        load(spark, server.stream("missing")).collect()


def test_only_null_messages(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("nulls"))
    append(url, None, None, None)
    rows = load(spark, url, "n long, s string").collect()
    assert [tuple(row) for row in rows] == [(None, None)] * 3


def test_a_message_of_3_mb(spark: SparkSession, server: Server) -> None:
    url = create(server.stream("large"))
    text = "x" * 3_000_000
    append(url, {"n": 1})
    append(url, {"n": 2, "text": text})
    append(url, {"n": 3})
    rows = load(spark, url, "n long, text string", maxPartitionBytes="100k").collect()
    assert [row.n for row in rows] == [1, 2, 3]
    assert rows[1].text == text


def test_one_long_stream_is_read_by_many_tasks(spark: SparkSession, embedded: Server) -> None:
    url = create(embedded.stream("long"))
    append_numbers(url, 0, 5000, padding=100, per_append=1000)
    frame = load(spark, url, maxPartitionBytes="32k")
    assert frame.rdd.getNumPartitions() >= 8
    assert ns(frame) == list(range(5000))
    assert load(spark, url, minPartitions="11").rdd.getNumPartitions() >= 11


def test_several_streams(spark: SparkSession, server: Server) -> None:
    urls = [create(server.stream("several")) for _ in range(3)]
    names = [url.rpartition("/")[2] for url in urls]
    for i, url in enumerate(urls):
        append_numbers(url, i * 10, i * 10 + 5)
    rows = load(spark, server.base, streams=json.dumps(names)).collect()
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row.stream, []).append(json.loads(bytes(row.value))["n"])
    assert found == {name: list(range(i * 10, i * 10 + 5)) for i, name in enumerate(names)}


def snapshot(url: str, body: bytes, content_type: str) -> None:
    with DurableClient() as client:
        client.publish_snapshot(url, client.head(url).tail, body, content_type=content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'[{"n": 100}, {"n": 101}]', "application/json"),
        (b'{"n": 100}\n\n{"n": 101}\n', "application/x-ndjson"),
    ],
)
def test_a_snapshot_of_rows(
    spark: SparkSession, embedded: Server, body: bytes, content_type: str
) -> None:
    url = create(embedded.stream("snapshot"))
    append_numbers(url, 0, 5)
    snapshot(url, body, content_type)
    append_numbers(url, 5, 7)
    rows = load(spark, url, "n long, _kind string").collect()
    assert [tuple(row) for row in rows] == [
        (100, "snapshot"),
        (101, "snapshot"),
        (5, "update"),
        (6, "update"),
    ]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"\x00\x01", "application/octet-stream"), (b'{"state": 1}', "application/json")],
)
def test_a_snapshot_of_something_else(
    spark: SparkSession, embedded: Server, body: bytes, content_type: str
) -> None:
    url = create(embedded.stream("snapshot"))
    append_numbers(url, 0, 5)
    snapshot(url, body, content_type)
    append_numbers(url, 5, 6)
    raw = load(spark, url).collect()
    assert [(row.kind, row.content_type) for row in raw] == [
        ("snapshot", content_type),
        ("update", "application/json"),
    ]
    assert bytes(raw[0].value) == body
    with pytest.raises(PySparkException, match="only a JSON array or NDJSON becomes rows"):
        load(spark, url, "n long").collect()


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (None, {"startingOffset": "latest"}, "Did you mean startingOffsets"),
        (None, {"startingOffsets": '{"other": "1"}'}, "names streams that the query does not read"),
        ("n long, _offset long", {}, "_offset describes the message and is a string"),
        (None, {"token": "s3cret", "mode": "WRONG"}, "expected one of PERMISSIVE"),
    ],
)
def test_slips_are_told(
    spark: SparkSession,
    embedded: Server,
    schema: str | None,
    options: dict[str, Any],
    message: str,
) -> None:
    url = create(embedded.stream("slips"))
    with pytest.raises(PySparkException, match=message) as refused:
        load(spark, url, schema, **options).collect()
    assert "s3cret" not in str(refused.value)
