"""Sink and source beside Spark's Kafka connector: same rows, same machine, taking turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_durable.bench.harness import Report, rate, ratio, take_turns
from spark_durable.bench.parties import Parties
from spark_durable.bench.rows import RowShape
from spark_durable.sink.repeatable import repeatable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AS_JSON = "to_json(struct(*)) AS value"


def measure_sink(parties: Parties, shape: RowShape, rows: int, rounds: int, report: Report) -> None:
    """Rows per second into a stream and into a topic, from a cached DataFrame."""
    frame = shape.frame(parties.spark, rows, 2).cache()
    frame.count()
    texts = frame.selectExpr(_AS_JSON)

    def ours(written: DataFrame, **options: str) -> Callable[[], float]:
        def case() -> float:
            writer = written.write.format("durablestream").options(**options).mode("append")
            return rate(lambda: writer.save(parties.fresh_stream()), rows)

        return case

    def kafka() -> float:
        writer = texts.write.format("kafka").option("kafka.bootstrap.servers", parties.bootstrap)
        return rate(lambda: writer.option("topic", parties.fresh_topic()).save(), rows)

    rates = take_turns(
        {
            "sink_kafka": kafka,
            "sink_columns": ours(frame),
            "sink_raw": ours(texts),
            "sink_trust": ours(frame, rowOrder="trust"),
            "sink_repeatable": ours(repeatable(frame, partitions=2)),
        },
        rounds,
    )
    frame.unpersist()
    report.rates.update(rates)
    peer = rates["sink_kafka"]
    detail = f"Kafka {peer.median / 1000:,.0f} k rows/s"
    report.add(ratio("sink_vs_kafka", rates["sink_columns"], peer, detail=detail))
    report.add(ratio("sink_raw_vs_kafka", rates["sink_raw"], peer, detail=detail))
    report.add(ratio("sink_trust_vs_kafka", rates["sink_trust"], peer, detail=detail))
    report.add(ratio("sink_repeatable_vs_kafka", rates["sink_repeatable"], peer, detail=detail))


def measure_source(
    parties: Parties, shape: RowShape, rows: int, rounds: int, report: Report
) -> None:
    """Rows per second out of a stream and out of a topic, into nothing."""
    spark = parties.spark
    frame = shape.frame(spark, rows, 2)
    stream, topic = parties.fresh_stream(), parties.fresh_topic()
    frame.write.format("durablestream").mode("append").save(stream)
    to_kafka = frame.selectExpr(_AS_JSON).write.format("kafka")
    to_kafka.option("kafka.bootstrap.servers", parties.bootstrap).option("topic", topic).save()

    from_stream = spark.read.format("durablestream")
    from_topic = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", parties.bootstrap)
        .option("subscribe", topic)
    )

    def into_nothing(read: Callable[[], DataFrame]) -> Callable[[], float]:
        return lambda: rate(lambda: read().write.format("noop").mode("overwrite").save(), rows)

    def kafka_typed() -> DataFrame:
        parsed = from_topic.load().selectExpr(
            f"from_json(CAST(value AS STRING), '{shape.schema}') AS row"
        )
        return parsed.select("row.*")

    rates = take_turns(
        {
            "source_kafka_typed": into_nothing(kafka_typed),
            "source_typed": into_nothing(
                lambda: spark.read.format("durablestream").schema(shape.schema).load(stream)
            ),
            "source_kafka_raw": into_nothing(lambda: from_topic.load().select("value")),
            "source_raw": into_nothing(lambda: from_stream.load(stream)),
        },
        rounds,
    )
    report.rates.update(rates)
    for name, mine, peer in (
        ("source_typed_vs_kafka_from_json", "source_typed", "source_kafka_typed"),
        ("source_raw_vs_kafka", "source_raw", "source_kafka_raw"),
    ):
        detail = f"Kafka {rates[peer].median / 1000:,.0f} k rows/s"
        report.add(ratio(name, rates[mine], rates[peer], detail=detail))
