"""Latency of a trickle: from the append of a message to its row in ``foreachBatch``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_durable.bench.harness import Figure, Report, Samples, percentile
from spark_durable.bench.parties import Parties
from spark_durable.protocol import DurableClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTERVAL = 0.25
_WARM_UP = 12


def measure_latency(parties: Parties, messages: int, report: Report) -> None:
    """The same trickle into a stream and then into a topic, a query tailing each."""
    mine = _of_stream(parties, messages)
    peer = _of_topic(parties, messages)
    report.rates["latency_seconds"] = Samples(tuple(mine))
    report.rates["latency_kafka_seconds"] = Samples(tuple(peer))
    for name, share in (("latency_p50_vs_kafka", 0.5), ("latency_p99_vs_kafka", 0.99)):
        own, other = percentile(mine, share), percentile(peer, share)
        detail = f"{own * 1000:.0f} ms, Kafka {other * 1000:.0f} ms"
        report.add(Figure(name, own / other, detail=detail))


def _of_stream(parties: Parties, messages: int) -> list[float]:
    url = parties.fresh_stream()
    with DurableClient() as client:
        client.create(url)
        rows = (
            parties.spark.readStream.format("durablestream")
            .schema("at DOUBLE")
            .option("startingOffsets", "earliest")
            .load(url)
        )
        return _trickle(rows, messages, lambda text: client.append(url, f"[{text}]".encode()))


def _of_topic(parties: Parties, messages: int) -> list[float]:
    topic = parties.fresh_topic()
    jvm: Any = parties.spark._jvm
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", parties.bootstrap)
    for side in ("key", "value"):
        serializer = "org.apache.kafka.common.serialization.StringSerializer"
        settings.put(f"{side}.serializer", serializer)
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord
    producer.partitionsFor(topic)  # creates it
    rows = (
        parties.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", parties.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("from_json(CAST(value AS STRING), 'at DOUBLE').at AS at")
    )
    try:
        return _trickle(rows, messages, lambda text: producer.send(record(topic, text)).get())
    finally:
        producer.close()


def _trickle(rows: DataFrame, messages: int, send: Callable[[str], object]) -> list[float]:
    arrived: list[float] = []

    def note(batch: DataFrame, batch_id: int) -> None:
        sent = [row.at for row in batch.collect()]
        now = time.time()
        arrived.extend(now - at for at in sent)

    with tempfile.TemporaryDirectory() as checkpoint:
        query = rows.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint).start()
        try:
            for _ in range(_WARM_UP + messages):
                send(f'{{"at": {time.time():.6f}}}')
                time.sleep(_INTERVAL)
            deadline = time.monotonic() + 30
            while len(arrived) < _WARM_UP + messages and time.monotonic() < deadline:
                if (failure := query.exception()) is not None:
                    raise failure
                time.sleep(0.1)
        finally:
            query.stop()
    if len(arrived) < _WARM_UP + messages:
        raise RuntimeError(f"only {len(arrived)} of {_WARM_UP + messages} messages arrived")
    return arrived[_WARM_UP:]
