"""Streams folded into snapshots: at the right offset, while appends go on, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from pyspark.sql import SparkSession

from spark_durable.protocol import DurableClient
from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request
from tests.jobs.harness import KillAt, submitted

JSON = {"Content-Type": "application/json"}
SCHEMA = "k STRING, n LONG"
Run = Callable[..., int]


def append(url: str, *rows: Any) -> None:
    requests.put(url, headers=JSON, timeout=10).raise_for_status()
    body = json.dumps(rows).encode()
    requests.post(url, body, headers=JSON, timeout=10).raise_for_status()


def tail(url: str) -> str:
    return requests.head(url, timeout=10).headers["Stream-Next-Offset"]


def snapshot(url: str) -> tuple[str, list[dict[str, Any]]] | None:
    with DurableClient() as client:
        if client.head(url).snapshot_offset is None:
            return None
        with client.snapshot(url) as found:
            rows = json.loads(found.read())
            return found.offset, sorted(rows, key=lambda row: str(row))


def updates(url: str, offset: str) -> list[Any]:
    found: list[Any] = requests.get(url, params={"offset": offset}, timeout=10).json()
    return found


@pytest.mark.long  # three times spark-submit
def test_killed_at_publishing_stopped_at_reading_then_done_while_appends_go_on(
    embedded: Server,
) -> None:
    url = embedded.stream("compacted")
    for n in range(40):
        append(url, *({"k": f"key-{n * i % 7}", "n": n * 100 + i} for i in range(30)))
    latest = {f"key-{n * i % 7}": n * 100 + i for n in range(40) for i in range(30)}
    folded = [{"k": k, "n": latest[k]} for k in sorted(latest)]

    killing = KillAt(lambda request: request.method == "PUT", 1, Kind.LOSE_REQUEST)
    with FaultProxy(embedded.url, killing) as proxy:
        arguments = ["--url", proxy.through(url), "--schema", SCHEMA, "--key", "k"]
        with submitted("compact_stream", *arguments) as job:
            killing.job = job
            assert job.exit_code() != 0
        assert killing.happened.is_set()
        assert snapshot(url) is None

        reading, over = threading.Event(), threading.Event()

        def stuck(request: Request) -> Fault:
            if request.method == "GET":
                reading.set()
                over.wait(120)
            return PASS

        proxy.script = stuck
        with submitted("compact_stream", *arguments) as job:
            job.until(reading.is_set)
            job.terminate()
            assert job.exit_code() == 0, job.err
            over.set()
        assert "nothing was published" in job.out
        assert snapshot(url) is None

        before = tail(url)

        def busy(request: Request) -> Fault:
            if request.method in ("GET", "PUT"):
                append(url, {"k": "key-0", "n": -1})
            return PASS

        proxy.script = busy
        with submitted("compact_stream", *arguments) as job:
            assert job.exit_code() == 0, job.err
    assert snapshot(url) == (before, folded)
    later = updates(url, before)
    assert len(later) >= 2
    assert all(row == {"k": "key-0", "n": -1} for row in later)
    assert f"7 rows, {len(json.dumps(folded).replace(', ', ',').replace(': ', ':')) + 6}" in job.out


def test_a_second_fold_starts_from_the_first_and_drops_what_is_deleted(
    embedded: Server, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    url = embedded.stream("folds")
    arguments = ["--url", url, "--schema", SCHEMA, "--key", "k", "--deleted", "n IS NULL"]
    append(url, {"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "a", "n": 3}, {"k": "c", "n": 4})
    assert run("compact_stream", *arguments) == 0
    first = [{"k": "a", "n": 3}, {"k": "b", "n": 2}, {"k": "c", "n": 4}]
    assert snapshot(url) == (tail(url), first)
    append(
        url, {"k": "b", "n": None}, {"k": "c", "n": None}, {"k": "c", "n": 5}, {"k": "d", "n": 6}
    )
    assert run("compact_stream", *arguments) == 0
    second = [{"k": "a", "n": 3}, {"k": "c", "n": 5}, {"k": "d", "n": 6}]
    assert snapshot(url) == (tail(url), second)
    capfd.readouterr()
    assert run("compact_stream", *arguments) == 0
    assert "up to date" in capfd.readouterr().out


def test_a_users_query_gives_the_snapshot(embedded: Server, run: Run) -> None:
    url = embedded.stream("sums")
    sql = "SELECT k, sum(n) AS n FROM messages GROUP BY k"
    append(url, *({"k": f"k{i % 3}", "n": i} for i in range(9)))
    assert run("compact_stream", "--url", url, "--schema", SCHEMA, "--sql", sql) == 0
    append(url, {"k": "k1", "n": 1000})
    assert run("compact_stream", "--url", url, "--schema", SCHEMA, "--sql", sql) == 0
    assert snapshot(url) == (
        tail(url),
        [{"k": "k0", "n": 9}, {"k": "k1", "n": 1012}, {"k": "k2", "n": 15}],
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [({"n": 3}, "without k"), ({"k": "a", "n": "three"}, "FAILFAST"), ("text", "FAILFAST")],
)
def test_a_message_that_would_be_lost_is_an_error(
    embedded: Server, run: Run, capfd: pytest.CaptureFixture[str], message: Any, said: str
) -> None:
    url = embedded.stream("odd")
    append(url, {"k": "a", "n": 1}, message)
    assert run("compact_stream", "--url", url, "--schema", SCHEMA, "--key", "k") == 1
    assert said in capfd.readouterr().err.splitlines()[-1]
    assert snapshot(url) is None


def test_the_latest_of_messages_that_share_an_offset(spark: SparkSession, tmp_path: Path) -> None:
    from tests.jobs.harness import load

    rows = [("a", n, "s", "0001", "update") for n in range(50)]
    frame = spark.createDataFrame(
        rows, "k STRING, n LONG, _stream STRING, _offset STRING, _kind STRING"
    )
    found = load("compact_stream").latest(frame.coalesce(1), ["k"], None)
    assert [tuple(row) for row in found.collect()] == [("a", 49)]
