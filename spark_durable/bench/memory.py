"""Peak memory of the processes that took part."""

from __future__ import annotations

from pathlib import Path

from spark_durable.bench.harness import Figure, Report
from spark_durable.bench.parties import Parties
from spark_durable.bench.servers import peak_rss_mb

_WORKERS = (b"pyspark.daemon", b"pyspark.worker")


def measure_memory(parties: Parties, report: Report) -> None:
    """Over the whole run: our server, and the hungriest of Spark's Python workers."""
    report.add(Figure("server_rss_spark_mb", peak_rss_mb(parties.server_pid), unit="MB"))
    workers = max(map(peak_rss_mb, _descendants(parties.spark_pid)), default=0.0)
    report.add(Figure("worker_rss_mb", workers, unit="MB"))


def _descendants(root: int) -> list[int]:
    """Python workers among the processes below one."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                children = [int(child) for child in task.read_text().split()]
            except OSError:  # ended meanwhile
                continue
            waiting += children
            found += children
    return [pid for pid in found if _is_worker(pid)]


def _is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(name in command for name in _WORKERS)
