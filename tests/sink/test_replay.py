"""Micro-batches replayed: as they were, and partitioned or cut anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import spark_durable
from spark_durable.datasource import DurableStreamDataSource
from spark_durable.sink.lane import Lane
from spark_durable.sink.replay import CENSUS_WIDTH
from spark_durable.sink.spool import Spool
from spark_durable.sink.task import _PartitionWriter
from spark_durable.sink.writer import DurableStreamWriter
from tests.conftest import Server
from tests.faults import FaultProxy, Kind
from tests.sink.queries import Query, fail_partition, session_conf, write_files
from tests.sink.streams import assert_exactly_once, ids

ROWS, FILES = 4000, 8


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files") / "in"
    write_files(spark, directory, ROWS, FILES)
    return directory


@contextmanager
def splits(spark: SparkSession, count: int) -> Iterator[None]:
    """As many partitions of the files as that many cores would make."""
    with session_conf(spark, spark__sql__files__minPartitionNum=count):
        yield


def keyed(df: DataFrame) -> DataFrame:
    """Behind a shuffle whose partitions depend on the session's settings."""
    return df.repartition("k")


def stable(df: DataFrame) -> DataFrame:
    return spark_durable.repeatable(df, partitions=4)


def half_written(
    query: Query, proxy: FaultProxy, partition: int, after: int, seq: int = 0
) -> list[int]:
    """Runs the query's first batch until one partition fails. Returns what was sent."""
    fail_partition(proxy, partition, after=after, seq=seq)
    failure = query.run()
    assert failure is not None
    assert "refused by the test" in failure
    assert proxy.seen(Kind.REFUSE) == 1
    found = ids(query.url)
    assert 0 < len(found) < ROWS
    return found


@pytest.mark.parametrize("order", ["keep", "trust"])
def test_a_batch_whose_commit_is_lost_adds_nothing(
    spark: SparkSession, server: Server, tmp_path: Path, order: str
) -> None:
    write_files(spark, tmp_path / "in", 3000, 3)
    options = {"maxAppendBytes": "5k", "rowOrder": order}
    url = server.stream()
    query = Query(spark, tmp_path / "in", tmp_path / "checkpoint", url, options=options)
    query.files_per_trigger = 1
    assert query.run() is None
    assert_exactly_once(ids(url), range(3000))
    assert query.forget_last_commit() == 2
    write_files(spark, tmp_path / "in", 1000, 1, start=3000)
    assert query.run() is None
    assert_exactly_once(ids(url), range(4000))


def test_only_the_first_batch_of_a_run_is_treated_with_care(
    spark: SparkSession, embedded: Server, tmp_path: Path
) -> None:
    def probes() -> int:
        posts = [e.request for e in proxy.exchanges if e.request.method == "POST"]
        return sum(not request.is_append for request in posts)

    with FaultProxy(embedded.url) as proxy:
        url = proxy.through(embedded.stream())
        query = Query(spark, tmp_path / "in", tmp_path / "checkpoint", url)
        query.files_per_trigger = 1
        write_files(spark, tmp_path / "in", 300, 3)
        assert query.run() is None
        # The stream was created by this run: nobody else can have begun anything.
        assert probes() == 3
        write_files(spark, tmp_path / "in", 300, 3, start=300)
        assert query.run() is None
        # In the run's first batch its task asks, the driver asks about partitions that this run
        # does not have, and once more before it sends what the task held back.
        care = 1 + CENSUS_WIDTH + 1
        assert probes() == 3 + care + 2
        assert_exactly_once(ids(url), range(600))


@pytest.mark.parametrize(("cores", "failing", "after"), [(8, 1, 0), (2, 0, 1), (1, 0, 1)])
def test_another_split_of_the_files(
    spark: SparkSession,
    embedded: Server,
    files: Path,
    tmp_path: Path,
    cores: int,
    failing: int,
    after: int,
) -> None:
    with FaultProxy(embedded.url) as proxy:
        url = proxy.through(embedded.stream())
        query = Query(spark, files, tmp_path / "checkpoint", url)
        with splits(spark, 4):
            before = half_written(query, proxy, failing, after)
        with splits(spark, cores):
            failure = query.run()
        assert failure is not None
        assert "ReplayMismatchError" in failure
        assert "acceptDoublesForBatch=0" in failure
        # Nothing was sent, so the way back is open.
        assert sorted(ids(url)) == sorted(before)
        with splits(spark, 4):
            assert query.run() is None
        assert_exactly_once(ids(url), range(ROWS))


def test_another_number_of_shuffle_partitions_and_aqe(
    spark: SparkSession, server: Server, files: Path, tmp_path: Path
) -> None:
    with FaultProxy(server.url) as proxy:
        url = proxy.through(server.stream())
        query = Query(spark, files, tmp_path / "checkpoint", url, shape=keyed)
        plain = {"spark__sql__shuffle__partitions": 4, "spark__sql__adaptive__enabled": "false"}
        with session_conf(spark, **plain):
            before = half_written(query, proxy, 1, 0)
        for changed in (
            {"spark__sql__shuffle__partitions": 7, "spark__sql__adaptive__enabled": "false"},
            {"spark__sql__shuffle__partitions": 9, "spark__sql__adaptive__enabled": "true"},
        ):
            with session_conf(spark, **changed):
                failure = query.run()
            assert failure is not None
            assert "ReplayMismatchError" in failure
            assert sorted(ids(url)) == sorted(before)
        with session_conf(spark, **plain):
            assert query.run() is None
        assert_exactly_once(ids(url), range(ROWS))


def test_another_cut(spark: SparkSession, server: Server, files: Path, tmp_path: Path) -> None:
    with FaultProxy(server.url) as proxy, splits(spark, 2):
        url = proxy.through(server.stream())
        query = Query(spark, files, tmp_path / "checkpoint", url)
        query.options = {"maxAppendBytes": "20k"}
        before = half_written(query, proxy, 1, 0, seq=1)
        for cut in ("15k", "4m"):
            failure = query.run(maxAppendBytes=cut)
            assert failure is not None
            assert "ReplayMismatchError" in failure
            assert sorted(ids(url)) == sorted(before)
        assert query.run() is None
        assert_exactly_once(ids(url), range(ROWS))


@pytest.mark.parametrize("cut", [{}, {"maxAppendBytes": "20k", "rowOrder": "sort"}])
def test_repeatable_input_passes_whatever_changed(
    spark: SparkSession, server: Server, files: Path, tmp_path: Path, cut: dict[str, str]
) -> None:
    with FaultProxy(server.url) as proxy:
        url = proxy.through(server.stream())
        query = Query(spark, files, tmp_path / "checkpoint", url, shape=stable, options=cut)
        with splits(spark, 4):
            half_written(query, proxy, 1, 0)
        changed = {"spark__sql__shuffle__partitions": 11, "spark__sql__adaptive__enabled": "true"}
        with splits(spark, 7), session_conf(spark, **changed):
            assert query.run() is None
        assert_exactly_once(ids(url), range(ROWS))


def test_accepting_doubles_is_a_way_out(
    spark: SparkSession, embedded: Server, files: Path, tmp_path: Path
) -> None:
    with FaultProxy(embedded.url) as proxy:
        url = proxy.through(embedded.stream())
        query = Query(spark, files, tmp_path / "checkpoint", url)
        with splits(spark, 4):
            before = half_written(query, proxy, 1, 0)
        with splits(spark, 2):
            assert query.run(acceptDoublesForBatch=0) is None
        assert_exactly_once(ids(url), [*range(ROWS), *before])


class UnguardedDataSource(DurableStreamDataSource):
    """The sink without its guard: the epoch is the batch's, whatever a partition sends."""

    @classmethod
    def name(cls) -> str:
        return "unguarded"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = UnguardedWriter
        return writer


class UnguardedWriter(DurableStreamWriter):
    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        finish = Lane.finish

        def same_for_all(lane: Lane, spool: Spool) -> int:
            finish(lane, spool)
            return 1

        with (
            patch.object(Lane, "finish", same_for_all),
            patch.object(_PartitionWriter, "_careful", lambda self: False),
        ):
            return super().write_batches(batches)


@pytest.mark.parametrize("change", ["more partitions", "fewer partitions", "another cut"])
def test_without_the_guard_rows_are_lost_or_doubled(
    spark: SparkSession, embedded: Server, files: Path, tmp_path: Path, change: str
) -> None:
    """What the tests above would show if the guard did nothing."""
    spark.dataSource.register(UnguardedDataSource)
    with FaultProxy(embedded.url) as proxy:
        url = proxy.through(embedded.stream())
        query = Query(spark, files, tmp_path / "checkpoint", url, format="unguarded")
        query.options = {"maxAppendBytes": "20k"}
        with splits(spark, 4):
            half_written(query, proxy, 1, 0, seq=1)
        cores = {"more partitions": 8, "fewer partitions": 2}.get(change, 4)
        with splits(spark, cores):
            options = {"maxAppendBytes": "30k"} if change == "another cut" else {}
            assert query.run(**options) is None
        with pytest.raises(AssertionError, match=r"rows lost|rows too many"):
            assert_exactly_once(ids(url), range(ROWS))
