"""One benchmark run: the cases asked for, the parties they need, one report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from spark_durable.bench import relay as relay_bench
from spark_durable.bench import server as server_bench
from spark_durable.bench.growth import measure_growth
from spark_durable.bench.harness import Figure, Report
from spark_durable.bench.latency import measure_latency
from spark_durable.bench.loop import measure_loop
from spark_durable.bench.memory import measure_memory
from spark_durable.bench.parties import Parties, parties
from spark_durable.bench.rows import RowShape
from spark_durable.bench.sink import measure_floor
from spark_durable.bench.source import measure_ceiling, measure_streams
from spark_durable.bench.versus_kafka import measure_sink, measure_source

_WITH_KAFKA = {"sink", "source", "latency"}
_ON_SPARK = {*_WITH_KAFKA, "loop", "growth", "streams"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured, and how thoroughly."""

    shape: RowShape
    rows: int
    rounds: int
    latency_messages: int = 200
    streams: int = 10_000


def measure(cases: Sequence[str], settings: Settings) -> Report:
    """Runs the cases, telling on stderr which one it is at."""
    report = Report()
    if _ON_SPARK.intersection(cases):
        with parties(kafka=bool(_WITH_KAFKA.intersection(cases))) as everyone:
            for case in cases:
                if case in _ON_SPARK:
                    _tell(case)
                    _measure_on_spark(case, everyone, settings, report)
            measure_memory(everyone, report)
    for case, alone in (("relay", relay_bench.measure), ("server", server_bench.measure)):
        if case in cases:
            _tell(case)
            found = alone()
            report.figures += found.figures
            report.rates.update(found.rates)
    peaks = [figure.value for figure in report.figures if figure.name.startswith("server_rss_")]
    if peaks:
        report.add(Figure("server_rss_mb", max(peaks), unit="MB", detail="the most of any case"))
    return report


def _measure_on_spark(case: str, everyone: Parties, settings: Settings, report: Report) -> None:
    shape, rows, rounds = settings.shape, settings.rows, settings.rounds
    if case == "sink":
        measure_sink(everyone, shape, rows, rounds, report)
        measure_floor(everyone, shape, rows, rounds, report)
    elif case == "source":
        measure_source(everyone, shape, rows, rounds, report)
        measure_ceiling(everyone, shape, rows, rounds, report)
    elif case == "latency":
        measure_latency(everyone, settings.latency_messages, rounds, report)
    elif case == "streams":
        measure_streams(everyone, settings.streams, rounds, report)
    elif case == "loop":
        measure_loop(everyone, shape, rows, rounds, report)
    elif case == "growth":
        measure_growth(everyone, shape, rows // 8, rounds, report)


def _tell(case: str) -> None:
    print(f"measuring: {case} ...", file=sys.stderr, flush=True)
