"""What the outbox relay costs: beside a bare loop of POSTs, and as its tables grow."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_durable.bench.harness import Report, ratio, take_turns
from spark_durable.local import local_spark
from spark_durable.publish import DurableStreamsPublisher
from spark_durable.publish.relay.delta.store import DeltaOutbox
from spark_durable.publish.relay.delta.tables import ATTEMPTS_DDL
from spark_durable.publish.relay.engine import Relay
from spark_durable.publish.relay.policy import RelayPolicy
from spark_durable.server import EmbeddedServer

BATCH_EVENTS = 500
KEYS = 1000
PENDING = 1000


def events(spark: SparkSession, first: int, count: int, status: str) -> DataFrame:
    """Events of about 150 bytes over ``KEYS`` ordering keys."""
    number = sf.col("id")
    return spark.range(first, first + count).select(
        sf.concat(sf.lit("e-"), number).alias("event_id"),
        sf.lit("OrderPlaced").alias("event_type"),
        sf.to_json(sf.struct(number.alias("n"), sf.repeat(sf.lit("x"), sf.lit(120)).alias("text")))
        .cast("binary")
        .alias("payload"),
        (number % KEYS).cast("string").alias("ordering_key"),
        sf.timestamp_seconds(sf.lit(1_700_000_000) + number / 1000).alias("created_at"),
        sf.lit(status).alias("status"),
    )


class Outbox:
    """Tables in a directory, and a relay over them."""

    def __init__(self, spark: SparkSession, base: Path, url: str) -> None:
        self._spark = spark
        self._base = base
        publisher = DurableStreamsPublisher(url)
        store = DeltaOutbox(
            spark,
            publisher,
            relay_id="bench",
            events=str(base / "events"),
            attempts=str(base / "attempts"),
            working=str(base / "open"),
        )
        policy = RelayPolicy(batch_events=BATCH_EVENTS, max_events=1_000_000)
        self.relay = Relay(store, publisher, policy, relay_id="bench")
        self._next = 0

    def append(self, count: int, status: str = "PENDING") -> None:
        rows = events(self._spark, self._next, count, status)
        rows.write.format("delta").mode("append").save(str(self._base / "events"))
        self._next += count

    def delivered(self, count: int) -> None:
        """Events that were delivered a month ago, each with its attempt."""
        self.append(count, "DELIVERED")
        done = sf.current_timestamp() - sf.expr("INTERVAL 30 DAYS")
        given = {
            "event_id": sf.concat(sf.lit("e-"), sf.col("id")),
            "attempt": sf.lit(1),
            "status": sf.lit("DELIVERED"),
            "code": sf.lit("200"),
            "batch_id": sf.lit(0),
            "relay_id": sf.lit("bench"),
            "started_at": done,
            "finished_at": done,
        }
        columns = [part.split() for part in ATTEMPTS_DDL.split(", ")]
        rows = self._spark.range(count).select(
            *(given.get(name, sf.lit(None)).cast(kind).alias(name) for name, kind in columns)
        )
        rows.write.format("delta").mode("append").save(str(self._base / "attempts"))

    def run(self, expected: int) -> float:
        """Seconds of one run that delivers ``expected`` events."""
        started = time.perf_counter()
        report = self.relay.run_once()
        seconds = time.perf_counter() - started
        if report.delivered != expected:
            raise RuntimeError(f"delivered {report.delivered} of {expected} events")
        return seconds


def bare_loop(url: str, count: int) -> float:
    """Seconds of the same appends without any relay: one connection, one POST after another."""
    text = "x" * 120
    requests.put(url, headers={"Content-Type": "application/json"}, timeout=30).raise_for_status()
    started = time.perf_counter()
    with requests.Session() as session:
        for first in range(0, count, BATCH_EVENTS):
            body = [{"n": n, "text": text} for n in range(first, first + BATCH_EVENTS)]
            session.post(url, json=body, timeout=30).raise_for_status()
    return time.perf_counter() - started


def measure_rate(
    spark: SparkSession, server: str, base: Path, report: Report, count: int, rounds: int
) -> None:
    """Events a second of a run, beside a bare loop with the same batch size."""
    outbox = Outbox(spark, base / "rate", f"{server}/v1/stream/relay")

    def relay() -> float:
        outbox.append(count)
        return count / outbox.run(count)

    def loop() -> float:
        return count / bare_loop(f"{server}/v1/stream/loop-{uuid.uuid4().hex}", count)

    rates = take_turns({"relay": relay, "bare loop": loop}, rounds)
    report.rates |= rates
    detail = f"{rates['relay'].median:,.0f} events/s beside {rates['bare loop'].median:,.0f}"
    report.add(ratio("relay_vs_bare_loop", rates["relay"], rates["bare loop"], detail=detail))


def measure_growth(
    spark: SparkSession,
    server: str,
    base: Path,
    report: Report,
    sizes: tuple[int, int],
    rounds: int,
) -> None:
    """Time of a run over ``PENDING`` new events, on a small and on a large table of old ones."""
    cases: dict[str, Callable[[], float]] = {}
    for size in sizes:
        outbox = Outbox(spark, base / f"size-{size}", f"{server}/v1/stream/size-{size}")
        outbox.delivered(size)
        outbox.run(0)  # the first run reads everything, once
        cases[f"{size}"] = _pending_run(outbox)
    times = take_turns(cases, rounds)
    small, large = (times[f"{size}"] for size in sizes)
    report.add(
        ratio(
            "relay_time_large_vs_small",
            large,
            small,
            detail=f"{PENDING} pending beside {sizes[1]:,} delivered: {large.median:.1f} s, "
            f"beside {sizes[0]:,}: {small.median:.1f} s",
        )
    )


def _pending_run(outbox: Outbox) -> Callable[[], float]:
    def run() -> float:
        outbox.append(PENDING)
        return outbox.run(PENDING)

    return run


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work one run does."""

    rounds: int = 3
    events: int = 20_000
    delivered: tuple[int, int] = (1_000_000, 10_000_000)


def measure(sizes: Sizes | None = None) -> Report:
    """Both figures, over Delta tables and the embedded server on disk."""
    sizes = sizes or Sizes()
    report = Report()
    spark = local_spark("relay benchmark", delta=True)
    with tempfile.TemporaryDirectory() as home, EmbeddedServer(Path(home) / "server") as server:
        base = Path(home)
        measure_rate(spark, server.url, base, report, sizes.events, sizes.rounds)
        measure_growth(spark, server.url, base, report, sizes.delivered, sizes.rounds)
    spark.stop()
    return report
