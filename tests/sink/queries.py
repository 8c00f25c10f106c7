"""Streaming queries into a stream, run to their end or to their failure."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.faults import Fault, FaultProxy, Kind, Request

SCHEMA = "id long, k long, text string"
FORMAT = "durablestream"


def write_files(
    spark: SparkSession, directory: Path, rows: int, files: int, start: int = 0
) -> None:
    """Parquet files for a file source; each is one split."""
    df = spark.range(start, start + rows, 1, files)
    df = df.selectExpr("id", "id % 100 as k", "repeat(cast(id as string), 5) as text")
    df.write.mode("append").parquet(str(directory))


@dataclass
class Query:
    """A query over files, restarted as often as a test likes."""

    spark: SparkSession
    source: Path
    checkpoint: Path
    url: str
    shape: Callable[[DataFrame], DataFrame] = lambda df: df
    options: dict[str, str] = field(default_factory=dict)
    format: str = FORMAT
    files_per_trigger: int | None = None

    def run(self, **options: object) -> str | None:
        """Everything available now. Returns the text of the failure, None if there was none."""
        stream = self.spark.readStream.schema(SCHEMA)
        if self.files_per_trigger is not None:
            stream = stream.option("maxFilesPerTrigger", self.files_per_trigger)
        writer = self.shape(stream.parquet(str(self.source))).writeStream.format(self.format)
        given = {**self.options, **{name: str(value) for name, value in options.items()}}
        query = (
            writer.options(**given)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start(self.url)
        )
        try:
            query.awaitTermination()
        except Exception as failure:
            return str(failure)
        return None

    def forget_last_commit(self) -> int:
        """Makes Spark believe that the last batch did not finish. Returns its id."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in (commits / str(last), commits / f".{last}.crc"):
            path.unlink(missing_ok=True)
        return last

    def copy(self, **changes: object) -> Query:
        """The same query, its checkpoint included, as it stands now."""
        other = Query(**{**vars(self), **changes})  # type: ignore[arg-type]
        if other.checkpoint != self.checkpoint:
            shutil.copytree(self.checkpoint, other.checkpoint)
        return other


@contextmanager
def session_conf(spark: SparkSession, **conf: object) -> Iterator[None]:
    """Settings of the session, for as long as the block runs; ``__`` stands for a dot."""
    names = {name.replace("__", "."): str(value) for name, value in conf.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def fail_partition(proxy: FaultProxy, partition: int, *, after: int, seq: int = 0) -> None:
    """The first append ``seq`` of a partition fails for good, once another one has sent something.

    So the batch is left half written, whatever order the tasks ran in.
    """
    failed = threading.Event()

    def acknowledged() -> bool:
        ending = f"/{after}"
        return any(
            exchange.request.is_append
            and exchange.request.headers.get("producer-id", "").endswith(ending)
            and exchange.status in (200, 204)
            for exchange in proxy.exchanges
        )

    def script(request: Request) -> Fault:
        producer = request.headers.get("producer-id", "")
        wanted = request.is_append and request.headers.get("producer-seq") == str(seq)
        if failed.is_set() or not wanted or not producer.endswith(f"/{partition}"):
            return Fault()
        deadline = 60.0
        while not acknowledged() and deadline > 0:
            failed.wait(0.05)
            deadline -= 0.05
        failed.set()
        return Fault(Kind.REFUSE, status=400, text="refused by the test")

    proxy.script = script
