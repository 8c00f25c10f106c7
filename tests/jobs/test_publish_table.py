"""Tables into streams: each row once, run after run, through kills and cut-off runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request
from tests.jobs.harness import KillAt, messages, submitted

Run = Callable[..., int]


def rows_of(url: str) -> list[dict[str, Any]]:
    return sorted((json.loads(message) for message in messages(url)), key=lambda row: row["id"])


def add_parquet(directory: Path, first: int, count: int) -> None:
    ids = range(first, first + count)
    table = pa.table({"id": list(ids), "text": [f"order {n} {'x' * 40}" for n in ids]})
    directory.mkdir(exist_ok=True)
    pq.write_table(table, directory / f"{first}.parquet")


def each_once(url: str, count: int) -> None:
    found = Counter(row["id"] for row in rows_of(url))
    assert found == Counter(range(count))


def test_killed_in_the_middle_then_followed_until_told_to_stop(
    embedded: Server, tmp_path: Path
) -> None:
    url = embedded.stream("published")
    for number in range(4):
        add_parquet(tmp_path / "table", number * 500, 500)
    killing = KillAt(lambda request: request.is_append, 4, Kind.LOSE_ANSWER)
    with FaultProxy(embedded.url, killing) as proxy:
        arguments = [
            *("--format", "parquet", "--path", str(tmp_path / "table")),
            *("--url", proxy.through(url), "--checkpoint", str(tmp_path / "checkpoint")),
            *("--read-option", "maxFilesPerTrigger=2", "--option", "maxAppendBytes=16k"),
        ]
        with submitted("publish_table", *arguments) as job:
            killing.job = job
            assert job.exit_code() != 0
        assert killing.happened.is_set()
        # Workers that outlive the driver may end their batch, but nobody notes it.
        assert 0 < len(messages(url)) <= 1000
        assert not (tmp_path / "checkpoint" / "commits" / "0").exists()
        # With another number of cores, which splits files otherwise.
        follow = [*arguments, "--follow", "--interval", "200ms"]
        with submitted("publish_table", *follow, submit=("--master", "local[1]")) as job:
            job.until(lambda: len(messages(url)) >= 2000)
            add_parquet(tmp_path / "table", 2000, 300)
            job.until(lambda: len(messages(url)) >= 2300)
            job.terminate()
            assert job.exit_code() == 0, job.err
    each_once(url, 2300)
    assert rows_of(url)[7] == {"id": 7, "text": f"order 7 {'x' * 40}"}


def test_csv_and_json_keep_the_schema_of_the_first_run(
    embedded: Server, tmp_path: Path, run: Run
) -> None:
    files = {
        "csv": ("id,amount\n0,5\n1,6\n", "id,amount\n2,7\n", "id,amount\n3,x\n"),
        "json": ('{"id":0,"amount":5}\n{"id":1,"amount":6}\n', '{"id":2,"amount":7}\n', None),
    }
    for kind, (first, second, odd) in files.items():
        table, url = tmp_path / kind, embedded.stream(kind)
        table.mkdir()
        (table / f"1.{kind}").write_text(first)
        arguments = [
            *("--format", kind, "--path", str(table), "--url", url),
            *("--checkpoint", str(tmp_path / f"{kind}-checkpoint")),
            *(
                ("--read-option", "header=true", "--read-option", "inferSchema=true")
                * (kind == "csv")
            ),
        ]
        assert run("publish_table", *arguments) == 0
        assert rows_of(url) == [{"id": 0, "amount": 5}, {"id": 1, "amount": 6}]
        (table / f"2.{kind}").write_text(second)
        assert run("publish_table", *arguments) == 0
        assert rows_of(url)[2:] == [{"id": 2, "amount": 7}]
        if odd is not None:  # text where there were numbers: the old messages' type stays
            (table / f"3.{kind}").write_text(odd)
            assert run("publish_table", *arguments) == 0
            assert rows_of(url)[3:] == [{"id": 3}]


def test_delta_versions_are_published_as_they_come(
    spark: SparkSession, embedded: Server, tmp_path: Path, run: Run
) -> None:
    table, url = str(tmp_path / "table"), embedded.stream("delta")
    arguments = ["--format", "delta", "--path", table, "--url", url]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint")]
    for first in (0, 100):
        spark.range(first, first + 100).write.format("delta").mode("append").save(table)
        assert run("publish_table", *arguments) == 0
        each_once(url, first + 100)
    assert run("publish_table", *arguments) == 0
    each_once(url, 200)


def derby(spark: SparkSession, path: Path, first: int, count: int) -> str:
    """An embedded SQL database that comes with Spark, with some more rows in its table."""
    url = f"jdbc:derby:{path};create=true"
    rows = spark.range(first, first + count).selectExpr("id", "concat('order ', id) AS text")
    rows.write.format("jdbc").option("url", url).option("dbtable", "orders").mode("append").save()
    return url


def test_a_jdbc_table_is_published_by_ranges_and_a_cut_off_range_is_repeated(
    spark: SparkSession,
    embedded: Server,
    tmp_path: Path,
    run: Run,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = embedded.stream("jdbc")
    database = derby(spark, tmp_path / "shop", 0, 1000)
    arguments = ["--format", "jdbc", "--path", "orders", "--jdbc-url", database]
    arguments += ["--growing-column", "id", "--checkpoint", str(tmp_path / "checkpoint")]
    arguments += ["--option", "maxAppendBytes=4k"]

    seen: list[Request] = []

    def outage(request: Request) -> Fault:
        seen.extend([request] if request.is_append else [])
        return Fault(Kind.REFUSE, status=400) if len(seen) > 3 and request.is_append else PASS

    with FaultProxy(embedded.url, outage) as proxy:
        assert run("publish_table", *arguments, "--url", proxy.through(url)) == 1
    assert "400" in capfd.readouterr().err.splitlines()[-1]
    assert 0 < len(messages(url)) < 1000
    derby(spark, tmp_path / "shop", 1000, 50)  # meanwhile: not part of the range that was begun
    assert run("publish_table", *arguments, "--url", url) == 0
    each_once(url, 1050)
    state = json.loads((tmp_path / "checkpoint" / "range.json").read_text())
    assert (state["version"], state["after"], state["up_to"], state["done"]) == (1, 999, 1049, True)
    assert run("publish_table", *arguments, "--url", url) == 0
    each_once(url, 1050)


def test_a_table_that_is_not_there_is_one_clear_line(
    embedded: Server, tmp_path: Path, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--format", "parquet", "--path", str(tmp_path / "nothing")]
    arguments += ["--url", embedded.stream(), "--checkpoint", str(tmp_path / "checkpoint")]
    assert run("publish_table", *arguments) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert "PATH_NOT_FOUND" in last
    assert str(tmp_path / "nothing") in last
