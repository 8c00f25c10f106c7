"""df.write on real Spark, against the embedded server and the reference."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.conftest import Server
from tests.sink.streams import assert_exactly_once, content, ids, messages, values


def save(df: DataFrame, url: str, **options: object) -> None:
    writer = df.write.format("durablestream").mode("append")
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save(url)


def partition_of(found: list[int], partition: range) -> list[int]:
    return [n for n in found if n in partition]


@pytest.mark.parametrize("order", ["keep", "sort", "trust"])
def test_every_row_once_in_the_order_of_its_partition(
    spark: SparkSession, server: Server, order: str
) -> None:
    url = server.stream()
    df = spark.range(0, 9000, 1, 3).select("id", F.expr("9000 - id as other"))
    save(
        df,
        url,
        rowOrder=order,
        maxAppendBytes="10k",
        **({"orderBy": "other"} if order == "sort" else {}),
    )
    found = ids(url)
    assert_exactly_once(found, range(9000))
    for partition in (range(3000), range(3000, 6000), range(6000, 9000)):
        expected = list(partition) if order != "sort" else list(partition)[::-1]
        assert partition_of(found, partition) == expected


def test_rows_are_what_to_json_gives(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    df = spark.range(4).selectExpr(
        "id",
        "if(id = 1, null, concat('ä \"', id)) as text",
        "array(id, null) as list",
        "named_struct('a', date'2024-02-29', 'b', decimal('1.50')) as nested",
    )
    save(df, url)
    expected = [row.value for row in df.select(F.to_json(F.struct("*")).alias("value")).collect()]
    assert sorted(map(_normal, messages(url))) == sorted(map(_normal, expected))


def _normal(text: str | bytes) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def test_a_value_column_goes_out_byte_for_byte(spark: SparkSession, embedded: Server) -> None:
    # The reference server writes values anew, so bytes can be compared on ours only.
    texts = ['{"b" : 1,  "a":1.0}', "12345678901234567890", '"\\u00e4"', "[1, 2]", "null", " 7 "]
    for kind in ("string", "binary"):
        url = embedded.stream()
        df = spark.createDataFrame([(t,) for t in texts], "value string").coalesce(1)
        save(df.select(F.col("value").cast(kind)), url)
        assert [m.decode().strip() for m in messages(url)] == [t.strip() for t in texts]


def test_a_value_of_another_type_is_a_row(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    save(spark.range(2).selectExpr("id as value"), url)
    assert sorted(value["value"] for value in values(url)) == [0, 1]


def test_other_content_types_hold_a_row_an_append(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    df = spark.createDataFrame([("hello",), ("wörld",), ("!",)], "value string").coalesce(1)
    save(df, url, contentType="text/plain")
    assert content(url).decode() == "hellowörld!"
    save(df, url, contentType="text/plain", concatenate="true")
    assert content(url).decode() == "hellowörld!" * 2
    if server.kind == "node":
        # Framing counts 5 bytes an append: three single ones and one of all.
        tail = requests.head(url, timeout=10).headers["Stream-Next-Offset"]
        assert int(tail.split("_")[1]) == len("hellowörld!".encode()) * 2 + 4 * 5


def test_empty_partitions_and_frames_send_nothing(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    save(spark.range(0), url)
    save(spark.range(0, 100, 1, 4).where("id < 3"), url)
    assert ids(url) == [0, 1, 2]


def test_the_cut_stays_within_what_the_server_announces(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from spark_durable import EmbeddedServer

    with EmbeddedServer(max_append_bytes=20_000) as small:
        requests.put(f"{small.url}/ds/tests", timeout=10)
        url = f"{small.url}/ds/tests/cut"
        save(spark.range(0, 9000, 1, 2), url)
        save(spark.range(9000, 18000, 1, 2), url, maxAppendBytes="1m")
        assert_exactly_once(ids(url), range(18000))


def test_a_rerun_under_the_same_version_adds_nothing(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    df = spark.range(0, 3000, 1, 3)
    for _ in range(3):
        save(df, url, txnAppId="job", txnVersion=7, maxAppendBytes="4k")
    assert_exactly_once(ids(url), range(3000))
    save(spark.range(3000, 4000), url, txnAppId="job", txnVersion=8)
    assert_exactly_once(ids(url), range(4000))
    with pytest.raises(Exception, match="txnVersion below one already written") as failure:
        save(df, url, txnAppId="job", txnVersion=7, maxAppendBytes="4k")
    assert "epoch" in str(failure.value)
    assert_exactly_once(ids(url), range(4000))


def test_without_a_version_every_write_counts(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    for _ in range(2):
        save(spark.range(0, 100, 1, 2), url)
    assert_exactly_once(ids(url), [*range(100), *range(100)])


def test_another_application_is_another_writer(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    for app in ("a", "b"):
        save(spark.range(0, 100, 1, 2), url, txnAppId=app, txnVersion=1)
    assert_exactly_once(ids(url), [*range(100), *range(100)])


@pytest.mark.parametrize("order", ["keep", "trust"])
def test_close_after_the_write_and_again_on_a_rerun(
    spark: SparkSession, server: Server, order: str
) -> None:
    url = server.stream()
    options: dict[str, Any] = {"txnAppId": "j", "txnVersion": 1, "closeStream": "true"}
    options |= {"maxAppendBytes": "2k", "rowOrder": order}
    df = spark.range(0, 1000, 1, 2)
    save(df, url, **options)
    assert requests.head(url, timeout=10).headers["Stream-Closed"] == "true"
    save(df, url, **options)
    assert_exactly_once(ids(url), range(1000))
    with pytest.raises(Exception, match="closed by another write"):
        save(spark.range(0, 1001, 1, 2), url, **options | {"rowOrder": "keep"})
    with pytest.raises(Exception, match="is closed and takes nothing more"):
        save(df, url, closeStream="true")
    assert_exactly_once(ids(url), range(1000))


def test_an_empty_frame_closes_too(spark: SparkSession, server: Server) -> None:
    url = server.stream()
    save(spark.range(0), url, closeStream="true")
    assert requests.head(url, timeout=10).headers["Stream-Closed"] == "true"


def test_writes_in_foreach_batch_do_not_share_the_querys_ids(
    spark: SparkSession, server: Server, tmp_path: Any
) -> None:
    url = server.stream()

    def write_twice(df: DataFrame, batch: int) -> None:
        save(df.select("value"), url, txnAppId="first", txnVersion=batch)
        save(
            df.selectExpr("cast(cast(value as int) + 100 as string) as value"),
            url,
            txnAppId="second",
            txnVersion=batch,
        )

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("".join(f"{n}\n" for n in range(10)))
    query = (
        spark.readStream.text(str(tmp_path / "in"))
        .writeStream.foreachBatch(write_twice)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert_exactly_once(values(url), [*range(10), *range(100, 110)])
