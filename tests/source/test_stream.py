"""``spark.readStream`` on real Spark."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_durable.protocol import DurableClient
from tests.conftest import Server
from tests.source.harness import append_numbers, create

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))


@pytest.fixture(autouse=True)
def _stop_queries(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


def stream(spark: SparkSession, url: str, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.readStream.format("durablestream").options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(url)


class Collected:
    """A query into foreachBatch that keeps what each batch had."""

    def __init__(self, frame: DataFrame, checkpoint: Path, **trigger: Any) -> None:
        self.batches: dict[int, list[Any]] = {}
        writer = frame.writeStream.foreachBatch(self._keep)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if trigger:
            writer = writer.trigger(**trigger)
        self.query: StreamingQuery = writer.start()

    def _keep(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = frame.collect()

    def numbers(self) -> list[int]:
        return [row.n for batch in sorted(self.batches) for row in self.batches[batch]]


def test_tailing(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    url = create(server.stream("tail"))
    append_numbers(url, 0, 10)
    got = Collected(stream(spark, url, "n long, _offset string"), tmp_path)
    got.query.processAllAvailable()
    assert got.numbers() == list(range(10))
    batches = len(got.batches)
    idle = got.query.lastProgress
    time.sleep(1.5)  # several triggers pass
    assert len(got.batches) == batches
    append_numbers(url, 10, 13)
    got.query.processAllAvailable()
    assert got.numbers() == list(range(13))
    assert len(got.batches) == batches + 1
    assert idle is not None
    progress = got.query.recentProgress[-1]
    if SPARK >= (4, 2):  # older ones do not ask for a report
        source = json.loads(json.dumps(progress["sources"][0]))
        latest = json.loads(source["latestOffset"])
        assert latest["lagStreams"] == 0
        assert list(latest["tails"]) == [url.rpartition("/")[2]]
    got.query.stop()


def test_restart_goes_on(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    url = create(server.stream("restart"))
    append_numbers(url, 0, 5)
    first = Collected(stream(spark, url, "n long"), tmp_path)
    first.query.processAllAvailable()
    first.query.stop()
    append_numbers(url, 5, 9)
    second = Collected(stream(spark, url, "n long"), tmp_path)
    second.query.processAllAvailable()
    second.query.stop()
    assert first.numbers() == list(range(5))
    assert second.numbers() == list(range(5, 9))


@pytest.mark.parametrize(
    "limit", [{"maxRecordsPerTrigger": "7"}, {"maxBytesPerTrigger": "100"}], ids=["rows", "bytes"]
)
def test_available_now_respects_limits(
    spark: SparkSession, server: Server, tmp_path: Path, limit: dict[str, str]
) -> None:
    url = create(server.stream("now"))
    append_numbers(url, 0, 30)
    got = Collected(stream(spark, url, "n long", **limit), tmp_path, availableNow=True)
    got.query.awaitTermination(120)
    assert not got.query.isActive
    assert got.numbers() == list(range(30))
    if SPARK >= (4, 2):  # older ones run AvailableNow as one batch
        assert len(got.batches) >= 4
    if SPARK >= (4, 2) and "maxRecordsPerTrigger" in limit:
        assert max(map(len, got.batches.values())) <= 7
    append_numbers(url, 30, 33)
    again = Collected(stream(spark, url, "n long", **limit), tmp_path, availableNow=True)
    again.query.awaitTermination(120)
    assert again.numbers() == [30, 31, 32]


def test_a_union_is_not_held_up(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    idle, busy = create(server.stream("idle")), create(server.stream("busy"))
    frame = stream(spark, idle, "n long").union(stream(spark, busy, "n long"))
    got = Collected(frame, tmp_path)
    append_numbers(busy, 0, 3)
    got.query.processAllAvailable()
    assert got.numbers() == [0, 1, 2]
    got.query.stop()


def test_stop_and_process_all_available_are_prompt(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    url = create(server.stream("prompt"))
    append_numbers(url, 0, 1)
    got = Collected(stream(spark, url, "n long"), tmp_path)
    got.query.processAllAvailable()
    began = time.monotonic()
    got.query.processAllAvailable()
    got.query.stop()
    assert time.monotonic() - began < 20
    assert not got.query.isActive


def test_snapshot_then_updates_then_tail(
    spark: SparkSession, embedded: Server, tmp_path: Path
) -> None:
    url = create(embedded.stream("boot"))
    offset = append_numbers(url, 0, 10)
    with DurableClient() as client:
        client.publish_snapshot(
            url, offset, b'[{"n": 1000}, {"n": 1001}]', content_type="application/json"
        )
    append_numbers(url, 10, 12)
    got = Collected(stream(spark, url, "n long, _kind string"), tmp_path)
    got.query.processAllAvailable()
    append_numbers(url, 12, 14)
    got.query.processAllAvailable()
    got.query.stop()
    assert [tuple(row) for row in got.batches[0]] == [
        (1000, "snapshot"),
        (1001, "snapshot"),
        (10, "update"),
        (11, "update"),
    ]
    assert got.numbers()[4:] == [12, 13]


def test_bootstrap_races(spark: SparkSession, embedded: Server, tmp_path: Path) -> None:
    """Appends and snapshots keep coming until the first batch has been read: what a snapshot folds
    and what follows it are each there once."""
    url = create(embedded.stream("race"))
    written, snapshots = append_and_count(url, 0), 0
    stop_snapshots, stop = threading.Event(), threading.Event()

    def write() -> None:
        nonlocal written, snapshots
        with DurableClient() as client:
            while not stop.is_set():
                written = append_and_count(url, written)
                if stop_snapshots.is_set():
                    time.sleep(0.05)
                    continue
                tail = client.head(url).tail
                folded = json.dumps([{"n": -written}]).encode()
                client.publish_snapshot(url, tail, folded, content_type="application/json")
                snapshots += 1
                written = append_and_count(url, written)
                time.sleep(0.02)

    class Racing(Collected):
        def _keep(self, frame: DataFrame, batch: int) -> None:
            before = snapshots
            super()._keep(frame, batch)
            if batch == 0:
                while snapshots < before + 2:  # one more than may have been under way
                    time.sleep(0.01)
                stop_snapshots.set()
                time.sleep(0.5)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        got = Racing(stream(spark, url, "n long, _kind string"), tmp_path)
        deadline = time.monotonic() + 120
        while len(got.batches) < 4 and got.query.isActive and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        stop.set()
        writer.join()
    got.query.processAllAvailable()
    got.query.stop()
    assert snapshots > 2
    state = None
    for batch in sorted(got.batches):
        for row in got.batches[batch]:
            if row._kind == "snapshot":
                state = -row.n  # folds 0 … state - 1
            else:
                assert state == row.n, f"{row.n} after {state}"
                state = row.n + 1
    assert state == written


def append_and_count(url: str, written: int) -> int:
    append_numbers(url, written, written + 5)
    return written + 5


def test_retention_passing_a_stopped_query(
    spark: SparkSession, embedded: Server, tmp_path: Path
) -> None:
    url = create(embedded.stream("retention"))
    append_numbers(url, 0, 5)
    first = Collected(stream(spark, url, "n long, _kind string"), tmp_path)
    first.query.processAllAvailable()
    first.query.stop()
    offset = append_numbers(url, 5, 20)
    with DurableClient() as client:
        client.publish_snapshot(url, offset, b'[{"n": 99}]', content_type="application/json")
    append_numbers(url, 20, 22)
    stuck = Collected(stream(spark, url, "n long, _kind string"), tmp_path)
    with pytest.raises(StreamingQueryException, match=r"new checkpoint.*failOnDataLoss"):
        stuck.query.processAllAvailable()
    on = Collected(stream(spark, url, "n long, _kind string", failOnDataLoss="false"), tmp_path)
    on.query.processAllAvailable()
    on.query.stop()
    rows = [tuple(row) for batch in sorted(on.batches) for row in on.batches[batch]]
    assert rows == [(99, "snapshot"), (20, "update"), (21, "update")]


def test_new_streams_are_picked_up(
    spark: SparkSession, embedded_server: str, tmp_path: Path
) -> None:
    bucket = f"{embedded_server}/ds/b-{uuid.uuid4().hex[:12]}"
    with DurableClient() as client:
        client.create_bucket(bucket)
    create(f"{bucket}/s-1")
    append_numbers(f"{bucket}/s-1", 0, 2)
    got = Collected(stream(spark, bucket, "_stream string, n long", streamPattern="s-.*"), tmp_path)
    got.query.processAllAvailable()
    create(f"{bucket}/s-2")
    append_numbers(f"{bucket}/s-2", 20, 22)
    append_numbers(f"{bucket}/s-1", 2, 3)
    got.query.processAllAvailable()
    got.query.stop()
    found = sorted((row._stream, row.n) for batch in got.batches.values() for row in batch)
    assert found == [("s-1", 0), ("s-1", 1), ("s-1", 2), ("s-2", 20), ("s-2", 21)]


def test_an_error_names_the_stream_and_no_secret(
    spark: SparkSession, embedded: Server, tmp_path: Path
) -> None:
    url = embedded.stream("missing")
    frame = stream(spark, url, token="s3cret-t0ken", headers='{"X-Key": "s3cret-key"}')
    got = Collected(frame, tmp_path)
    with pytest.raises(StreamingQueryException, match="does not exist") as failed:
        got.query.processAllAvailable()
    assert "s3cret" not in str(failed.value)


def test_ending_offsets_are_for_batches(
    spark: SparkSession, embedded: Server, tmp_path: Path
) -> None:
    url = create(embedded.stream("ends"))
    name = url.rpartition("/")[2]
    got = Collected(stream(spark, url, endingOffsets=json.dumps({name: "1"})), tmp_path)
    with pytest.raises(StreamingQueryException, match="endingOffsets belongs to batch reads"):
        got.query.processAllAvailable()


def test_a_checkpoint_of_another_stream_is_refused(
    spark: SparkSession, embedded: Server, embedded_server: str, tmp_path: Path
) -> None:
    url = create(embedded.stream("mine"))
    append_numbers(url, 0, 1)
    first = Collected(stream(spark, url, "n long"), tmp_path)
    first.query.processAllAvailable()
    first.query.stop()
    other = create(f"{embedded_server}/v1/stream/other-{uuid.uuid4().hex}")
    moved = Collected(stream(spark, other, "n long"), tmp_path)
    with pytest.raises(StreamingQueryException, match="checkpoint belongs to streams under"):
        moved.query.processAllAvailable()
