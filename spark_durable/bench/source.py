"""The source beside what bounds it: a reader whose batches are ready, and a loop of bare HEADs."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_durable.bench.harness import Report, rate, ratio, take_turns
from spark_durable.bench.rows import RowShape
from spark_durable.options import SourceOptions, read_options
from spark_durable.protocol import DurableClient
from spark_durable.source.discover import place
from spark_durable.source.driver import Driver
from spark_durable.source.offset_json import initial_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from spark_durable.bench.parties import Parties

_AS_JSON = "to_json(struct(*)) AS value"
_THREADS = 16
_MALFORMED_SHARE = 100  # one in so many
_READY_ROWS = 10_000  # of a batch that is yielded again and again


class ReadyReader(DataSourceReader):
    """Yields one batch again and again: what Spark takes from Python at most."""

    def __init__(self, file: str, rows: int) -> None:
        self._file = file
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // 2), InputPartition(self._rows - self._rows // 2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.memory_map(self._file) as file:
            whole = pa.ipc.open_file(file).get_batch(0)
            left = int(partition.value)
            while left > 0:
                yield whole.slice(0, min(left, whole.num_rows))
                left -= whole.num_rows


class ReadySource(DataSource):
    """``format("ready")``: a ceiling, not a source."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(self.options["file"], int(self.options["rows"]))


def measure_ceiling(
    parties: Parties, shape: RowShape, rows: int, rounds: int, report: Report
) -> None:
    """Rows per second typed, raw and with one message in a hundred malformed, as shares of what a
    Python reader reaches whose batches, with the same columns, are ready."""
    spark = parties.spark
    spark.dataSource.register(ReadySource)
    stream, broken = parties.fresh_stream(), parties.fresh_stream()
    frame = shape.frame(spark, rows, 2)
    frame.write.format("durablestream").mode("append").save(stream)
    _with_malformed(frame).write.format("durablestream").mode("append").save(broken)

    def ours(url: str, schema: str | None) -> DataFrame:
        reader = spark.read.format("durablestream")
        return (reader if schema is None else reader.schema(schema)).load(url)

    def into_nothing(read: DataFrame) -> Callable[[], float]:
        write = read.write.format("noop").mode("overwrite")
        return lambda: rate(write.save, rows)

    corrupt = f"{shape.schema}, _corrupt_record STRING"
    reads = {
        "typed": ours(stream, shape.schema),
        "raw": ours(stream, None),
        "malformed": ours(broken, corrupt),
    }
    with tempfile.TemporaryDirectory() as directory:
        cases = {}
        for name, read in reads.items():
            cases[f"source_{name}_alone"] = into_nothing(read)
            cases[f"source_{name}_ready"] = into_nothing(_ready(read, directory, name, rows))
        rates = take_turns(cases, rounds)
    report.rates.update(rates)
    for name in reads:
        ceiling = rates[f"source_{name}_ready"]
        detail = f"ready batches {ceiling.median / 1000:,.0f} k rows/s"
        figure = f"source_{name}_vs_ceiling"
        report.add(ratio(figure, rates[f"source_{name}_alone"], ceiling, detail=detail))


def _ready(read: DataFrame, directory: str, name: str, rows: int) -> DataFrame:
    """As many rows as ``read`` has, of the same columns, from a reader that does nothing."""
    import pyarrow as pa

    batch = read.limit(_READY_ROWS).toArrow().combine_chunks().to_batches()[0]
    path = f"{directory}/{name}.arrow"
    with pa.ipc.new_file(path, batch.schema) as file:
        file.write_batch(batch)
    ready = read.sparkSession.read.format("ready").schema(read.schema)
    return ready.option("file", path).option("rows", rows).load()


def _with_malformed(frame: DataFrame) -> DataFrame:
    """The same rows as messages, every hundredth with a text where the schema has a number."""
    broken = """concat('{"id":"x",', substr(value, instr(value, ',') + 1))"""
    return frame.selectExpr("id", _AS_JSON).selectExpr(
        f"CASE WHEN id % {_MALFORMED_SHARE} = 0 THEN {broken} ELSE value END AS value"
    )


# -- many streams --------------------------------------------------------------------------------


def measure_streams(parties: Parties, streams: int, rounds: int, report: Report) -> None:
    """One trigger over idle streams, with a listing and without, beside a bare loop of HEADs."""
    bucket = f"{parties.server_url}/ds/streams-{streams}"
    with DurableClient() as client:
        client.create_bucket(bucket)
    unlisted = f"{parties.server_url}/v1/stream/streams-{streams}"
    urls, names = fill(bucket, streams), stream_names(streams)
    fill(unlisted, streams)
    listing = IdleQuery(bucket, streamPattern=".*")
    heads = IdleQuery(unlisted, streams=json.dumps(names))
    rates = take_turns(
        {
            "streams_head_loop_seconds": lambda: _seconds(lambda: head_loop(urls)),
            "streams_listing_seconds": lambda: _seconds(listing.trigger),
            "streams_heads_seconds": lambda: _seconds(heads.trigger),
        },
        rounds,
    )
    report.rates.update(rates)
    loop = rates["streams_head_loop_seconds"]
    detail = f"{streams:,} streams, bare HEADs {loop.median:.2f} s"
    for name, case in (
        ("streams10k_plan_vs_head_loop", "streams_listing_seconds"),
        ("streams10k_heads_vs_head_loop", "streams_heads_seconds"),
    ):
        report.add(ratio(name, rates[case], loop, detail=detail))


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def stream_names(streams: int) -> list[str]:
    return [f"session-{n:05d}" for n in range(streams)]


def fill(base: str, streams: int, messages: int = 10) -> list[str]:
    """Small streams under a URL. Returns theirs."""
    urls = [f"{base}/{name}" for name in stream_names(streams)]
    local = threading.local()
    body = b"[" + b",".join(b'{"n":%d}' % n for n in range(messages)) + b"]"

    def create(url: str) -> None:
        if not hasattr(local, "client"):
            local.client = DurableClient()
        local.client.create(url, body=body)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(create, urls))
    return urls


class IdleQuery:
    """A streaming query's planning process at the tail of all its streams."""

    def __init__(self, url: str, **options: str) -> None:
        raw = {"url": url, "pollTimeout": "1ms", **options}
        self._options = read_options(SourceOptions, raw)
        self._driver = Driver(self._options, place(self._options))
        self._at = self._driver.latest(initial_json(), None)

    def trigger(self) -> None:
        """What Spark asks in a trigger without news."""
        if self._driver.latest(self._at, None) != self._at:
            raise RuntimeError("there was something new where nobody writes")
        self._driver.report()


def head_loop(urls: Sequence[str]) -> None:
    """HEAD of every URL as one would write it by hand: requests, kept connections, threads."""
    import requests

    def ask(share: Sequence[str]) -> None:
        with requests.Session() as session:
            for url in share:
                session.head(url, timeout=60).raise_for_status()

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(ask, [urls[n::_THREADS] for n in range(_THREADS)]))
