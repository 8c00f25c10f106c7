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
_FIRST = 8  # messages of every query that are not counted: its first batches are slow
_WARM_UP = 150  # of the first, discarded turn: the JVM compiles what a micro-batch runs


def measure_latency(parties: Parties, messages: int, rounds: int, report: Report) -> None:
    """The same trickle into a stream and into a topic, a query tailing each, in turns."""
    parties_in_turn = {"latency_seconds": _of_stream, "latency_kafka_seconds": _of_topic}
    found: dict[str, list[float]] = {name: [] for name in parties_in_turn}
    for trickle in parties_in_turn.values():
        trickle(parties, _WARM_UP)
    for _ in range(rounds):
        for name, trickle in parties_in_turn.items():
            found[name] += trickle(parties, messages // rounds)
    for name, seconds in found.items():
        report.rates[name] = Samples(tuple(seconds))
    mine, peer = found.values()
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

    def await_arrival(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(arrived) < count:
            if (failure := query.exception()) is not None:
                raise failure
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(arrived)} of {count} messages arrived")
            time.sleep(0.05)

    def send_now() -> None:
        send(f'{{"at": {time.time():.6f}}}')

    with tempfile.TemporaryDirectory() as checkpoint:
        query = rows.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint).start()
        try:
            send_now()
            await_arrival(1)  # the query runs
            for _ in range(_FIRST + messages):
                send_now()
                time.sleep(_INTERVAL)
            await_arrival(1 + _FIRST + messages)
        finally:
            query.stop()
    return arrived[1 + _FIRST :]
