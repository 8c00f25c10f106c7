"""Streams into Delta: each message once, through a kill and a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from pyspark.sql import SparkSession

from tests.conftest import Server
from tests.faults import FaultProxy, Kind
from tests.jobs.harness import DELTA, KillAt, delta_rows, submitted

# Delta's own 50 tasks after every commit are for tables with many files.
WITH_DELTA = ("--packages", DELTA, "--conf", "spark.databricks.delta.snapshotPartitions=1")
JSON = {"Content-Type": "application/json"}


def append(url: str, first: int, count: int) -> None:
    requests.put(url, headers=JSON, timeout=10).raise_for_status()
    for start in range(first, first + count, 50):
        ids = range(start, min(start + 50, first + count))
        body = "[" + ",".join(f'{{"id":{n},"text":"order {n}"}}' for n in ids) + "]"
        requests.post(url, body.encode(), headers=JSON, timeout=10).raise_for_status()


def commits(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))


@pytest.mark.long  # twice spark-submit
def test_killed_in_the_middle_then_followed_until_told_to_stop(
    embedded: Server, tmp_path: Path
) -> None:
    url, table = embedded.stream("tailed"), tmp_path / "table"
    append(url, 0, 1000)
    reads = KillAt(lambda request: request.method == "GET", 5, Kind.LOSE_ANSWER)
    with FaultProxy(embedded.url, reads) as proxy:
        arguments = [
            *("--url", proxy.through(url), "--schema", "id LONG, text STRING, _stream STRING"),
            *("--table", str(table), "--checkpoint", str(tmp_path / "checkpoint")),
            *("--option", "maxRecordsPerTrigger=250"),
        ]
        with submitted("tail_to_delta", *arguments, submit=WITH_DELTA) as job:
            reads.job = job
            assert job.exit_code() != 0
        assert reads.happened.is_set()
        assert 0 < commits(table) < 4
        follow = [*arguments, "--follow", "--interval", "200ms"]
        with submitted("tail_to_delta", *follow, submit=WITH_DELTA) as job:
            job.until(lambda: commits(table) >= 4)
            append(url, 1000, 60)
            job.until(lambda: commits(table) >= 5)
            job.terminate()
            assert job.exit_code() == 0, job.err
    found = delta_rows(table)
    assert Counter(row["id"] for row in found) == Counter(range(1060))
    assert {row["text"] for row in found} == {f"order {n}" for n in range(1060)}
    assert {row["_stream"] for row in found} == {url.rpartition("/")[2]}


def test_many_streams_go_into_one_named_table_as_they_are(
    spark: SparkSession, embedded: Server, tmp_path: Path, run: Callable[..., int]
) -> None:
    bucket = f"{embedded.url}/ds/tailed-bucket"
    requests.put(bucket, timeout=10).raise_for_status()
    for number in range(5):
        append(f"{bucket}/session-{number}", number * 10, 10)
    append(f"{bucket}/other", 900, 10)
    arguments = ["--url", bucket, "--stream-pattern", "session-.*", "--table", "tailed_sessions"]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint")]
    for expected in (50, 60):
        assert run("tail_to_delta", *arguments) == 0
        found = spark.table("tailed_sessions")
        assert found.columns == ["stream", "offset", "kind", "content_type", "value"]
        assert found.count() == found.select("value").distinct().count() == expected
        append(f"{bucket}/session-new", 50, 10)
    spark.sql("DROP TABLE tailed_sessions")


def test_a_bad_schema_is_one_clear_line(
    embedded: Server,
    tmp_path: Path,
    run: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = embedded.stream("bad")
    append(url, 0, 1)
    arguments = ["--url", url, "--table", str(tmp_path / "t"), "--checkpoint", str(tmp_path / "c")]
    assert run("tail_to_delta", *arguments, "--schema", "id LONGISH") == 1
    assert "LONGISH" in capfd.readouterr().err.splitlines()[-1].upper()
