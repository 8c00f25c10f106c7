"""What cannot be written: one clear error each, early, and without credentials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from pyspark.sql import DataFrame, SparkSession

from spark_durable import EmbeddedServer
from spark_durable.protocol import DurableClient
from tests.conftest import Server
from tests.faults import Fault, FaultProxy, Kind, Request
from tests.sink.streams import content, exists, ids, messages

SECRET = "s3cret-token"


def refused(write: Callable[[], Any]) -> str:
    """The text of the error a write ends with; it holds no credentials."""
    with pytest.raises(Exception) as failure:  # noqa: PT011  (Spark wraps errors in its own)
        write()
    text = str(failure.value)
    assert SECRET not in text
    return text


def save(df: DataFrame, url: str | None, **options: object) -> None:
    writer = df.write.format("durablestream").mode(str(options.pop("mode", "append")))
    for name, value in {"retryTimeout": "2s", **options}.items():
        writer = writer.option(name, str(value))
    writer.save(url)


def frame(spark: SparkSession, *values: str | None) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)


def test_a_null_value(spark: SparkSession, server: Server) -> None:
    for content_type in ("application/json", "text/plain"):
        url = server.stream()
        df = frame(spark, "1", "2", None)
        text = refused(lambda url=url, t=content_type, df=df: save(df, url, contentType=t))
        assert "Row 2 of the partition" in text
        assert "null" in text
        assert content(url) in (b"", b"[]")


@pytest.mark.parametrize("value", ["{", "1,2", "nope", "", '{"a":1} {"b":2}'])
def test_a_value_that_is_not_json_is_named_by_its_row(
    spark: SparkSession, embedded: Server, value: str
) -> None:
    url = embedded.stream()
    text = refused(lambda: save(frame(spark, "1", value, "3"), url))
    assert "Row 1 of the partition" in text
    assert messages(url) == []


def test_rows_that_only_together_are_json(spark: SparkSession, embedded: Server) -> None:
    url = embedded.stream()
    text = refused(lambda: save(frame(spark, "1,2", "[3", "4]"), url))
    assert "Row 0 of the partition" in text
    assert messages(url) == []


def test_a_row_beyond_what_the_server_takes(spark: SparkSession) -> None:
    with EmbeddedServer(max_append_bytes=1000) as small:
        requests.put(f"{small.url}/ds/tests", timeout=10)
        url = f"{small.url}/ds/tests/large"
        df = spark.range(0, 3, 1, 1).selectExpr("id", "repeat('x', int(id * 600)) as text")
        text = refused(lambda: save(df, url))
        assert "Row 2 of the partition makes an append of" in text
        assert "1000" in text
        assert ids(url) == []


def test_an_unannounced_limit_names_the_option(spark: SparkSession, server: Server) -> None:
    url = server.stream()

    def small_proxy(request: Request) -> Fault:
        return Fault(Kind.REFUSE, status=413) if request.size > 5000 else Fault()

    with FaultProxy(server.url, small_proxy) as proxy:
        df = spark.range(0, 1000, 1, 1)
        if server.kind == "node":
            text = refused(lambda: save(df, proxy.through(url)))
            assert "maxAppendBytes" in text
        save(df, proxy.through(url), maxAppendBytes="5000")
        assert len(ids(url)) == 1000


def test_a_closed_stream(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    with DurableClient() as client:
        client.create(url)
        client.close_stream(url)
    assert "is closed and takes nothing more" in refused(lambda: save(spark.range(3), url))


def test_another_content_type(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    with DurableClient() as client:
        client.create(url, content_type="text/plain")
    text = refused(lambda: save(spark.range(3), url))
    assert "has content type text/plain" in text
    assert "set contentType" in text


def test_a_missing_bucket(spark: SparkSession, embedded: Server) -> None:
    text = refused(lambda: save(spark.range(3), f"{embedded.url}/ds/nowhere/stream"))
    assert "bucket" in text
    routed = spark.range(3).selectExpr("id", "'s' as stream")
    text = refused(lambda: save(routed, f"{embedded.url}/ds/nowhere", streamColumn="stream"))
    assert "bucket" in text


def test_a_missing_stream_that_may_not_be_created(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    text = refused(lambda: save(spark.range(3), url, createIfMissing="false"))
    assert "createIfMissing is false" in text
    base, _, name = url.rpartition("/")
    routed = spark.range(3).selectExpr("id", f"'{name}' as stream")
    text = refused(lambda: save(routed, base, streamColumn="stream", createIfMissing="false"))
    assert "404" in text
    assert not exists(url)


def test_a_wrong_token(spark: SparkSession) -> None:
    with EmbeddedServer(token="right") as guarded:
        url = f"{guarded.url}/ds/tests/stream"
        assert "token" in refused(lambda: save(spark.range(3), url, token=SECRET))
        routed = spark.range(3).selectExpr("id", "'s' as stream")
        base = f"{guarded.url}/ds/tests"
        text = refused(lambda: save(routed, base, streamColumn="stream", token=SECRET))
        assert "token" in text


def test_an_unreachable_server(spark: SparkSession) -> None:
    url = f"http://user:{SECRET}@127.0.0.1:9/ds/tests/stream"
    text = refused(lambda: save(spark.range(3), url, token=SECRET))
    assert "127.0.0.1:9" in text
    assert "retryTimeout" in text


def test_a_servers_producer_limit_is_final(spark: SparkSession, server: Server) -> None:
    url = server.stream()

    def full(request: Request) -> Fault:
        if request.is_append:
            return Fault(Kind.REFUSE, status=429, text="too many producers on this stream")
        return Fault()

    with FaultProxy(server.url, full) as proxy:
        text = refused(lambda: save(spark.range(0, 3, 1, 1), proxy.through(url), retryTimeout="2m"))
        assert "txnAppId" in text
        assert proxy.seen(Kind.REFUSE) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"maxAppendByte": "1m"}, "Did you mean maxAppendBytes?"),
        ({"rowOrder": "random"}, "keep, sort, trust"),
        ({"orderBy": "id"}, "orderBy needs rowOrder=sort"),
        ({"rowOrder": "sort", "orderBy": "nothing"}, "no column nothing"),
        ({"streamColumn": "nothing"}, "no column nothing"),
        ({"streamColumn": "id"}, "no string"),
        ({"txnAppId": "a", "txnVersion": 2**40}, "2^33"),
        ({"mode": "overwrite"}, "overwrite"),
    ],
)
def test_options_that_cannot_be_meant(
    spark: SparkSession, options: dict[str, Any], told: str
) -> None:
    # Nothing listens there: the options are refused before anybody is asked.
    assert told in refused(lambda: save(spark.range(3), "http://127.0.0.1:9/s", **options))


def test_a_type_that_cannot_travel(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("map(cast('k' as binary), id) as m")
    text = refused(lambda: save(df, "http://127.0.0.1:9/s"))
    assert "key" in text


def test_no_url_at_all(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().writeStream.format("durablestream")
    text = refused(
        lambda: stream.option("checkpointLocation", str(tmp_path)).toTable("u").awaitTermination(60)
    )
    assert "url" in text.lower()


def test_streaming_writes_refuse_what_only_batch_writes_know(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rate").load()
    cases: list[tuple[DataFrame, dict[str, str], str, str]] = [
        (stream, {"txnAppId": "a", "txnVersion": "1"}, "append", "a streaming query has its own"),
        (stream, {"closeStream": "true"}, "append", "a streaming query has no end"),
        (stream.groupBy("value").count(), {}, "complete", "Output mode complete"),
    ]
    for n, (df, options, mode, told) in enumerate(cases):
        writer = df.writeStream.format("durablestream").outputMode(mode).options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / str(n)))
        url = server.stream()
        text = refused(lambda w=writer, u=url: w.start(u).awaitTermination(60))
        assert told in text
        assert not exists(url)
