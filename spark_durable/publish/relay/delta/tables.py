"""Delta tables by path or by name, and the schemas of those the relay owns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

ATTEMPTS_DDL = (
    "event_id string, attempt int, status string, code string, last_error string, "
    "available_at timestamp, relay_id string, batch_id bigint, started_at timestamp, "
    "finished_at timestamp, receipt string, fingerprint string"
)

EVENT_DDL = (
    "event_id string, event_type string, payload binary, headers map<string,string>, "
    "partition_key string, ordering_key string, destination string, created_at timestamp, "
    "intake bigint, sequence string, created_rank double, size bigint, fingerprint string"
)

STATE_DDL = (
    "attempts int, available_at double, address string, producer_id string, epoch bigint, "
    "seq bigint, position int, cut int, ambiguous boolean, problem string, status string, "
    "code string, last_error string, started_at double, finished_at double, receipt string, "
    "settled_run bigint"
)

OPEN_DDL = f"{EVENT_DDL}, {STATE_DDL}, chunk bigint"

STATE_COLUMNS = tuple(part.split()[0] for part in STATE_DDL.split(", "))


def relay_session(spark: SparkSession) -> SparkSession:
    """A session on the same context, set for many small jobs.

    Delta rebuilds a table's state in 50 tasks by default, and adaptive execution turns each shuffle
    into jobs of its own; the relay's tables have few files and few rows.
    """
    own = spark.newSession()
    own.conf.set("spark.databricks.delta.snapshotPartitions", "2")
    own.conf.set("spark.sql.adaptive.enabled", "false")
    own.conf.set("spark.sql.shuffle.partitions", str(2 * spark.sparkContext.defaultParallelism))
    own.conf.set("spark.sql.session.timeZone", "UTC")
    return own


@dataclass(frozen=True, slots=True)
class TableRef:
    """A Delta table named by a path (anything with a slash) or by its catalog name."""

    name: str

    @property
    def is_path(self) -> bool:
        return "/" in self.name

    @property
    def sql(self) -> str:
        return f"delta.`{self.name}`" if self.is_path else self.name

    def exists(self, spark: SparkSession) -> bool:
        if self.is_path:
            return bool(DeltaTable.isDeltaTable(spark, self.name))
        return spark.catalog.tableExists(self.name)

    def create(
        self, spark: SparkSession, ddl: str, *, partition_by: str = "", metadata: str | None = None
    ) -> None:
        """Creates an empty table; ``metadata`` is kept with the commit."""
        empty = spark.createDataFrame([], ddl)
        writer = empty.write.mode("append")
        if partition_by:
            writer = writer.partitionBy(partition_by)
        if metadata is not None:
            writer = writer.option("userMetadata", metadata)
        self.save(writer)

    def save(self, writer: DataFrameWriter) -> None:
        if self.is_path:
            writer.format("delta").save(self.name)
        else:
            writer.format("delta").saveAsTable(self.name)

    def read(self, spark: SparkSession, **options: Any) -> DataFrame:
        reader = spark.read.format("delta")
        for key, value in options.items():
            reader = reader.option(key, value)
        return reader.load(self.name) if self.is_path else reader.table(self.name)

    def table(self, spark: SparkSession) -> DeltaTable:
        if self.is_path:
            return DeltaTable.forPath(spark, self.name)
        return DeltaTable.forName(spark, self.name)

    def version(self, spark: SparkSession) -> int:
        return int(self.table(spark).history(1).select("version").collect()[0][0])

    def table_id(self, spark: SparkSession) -> str:
        return str(self.table(spark).detail().select("id").collect()[0][0])


@dataclass(frozen=True, slots=True)
class Progress:
    """What each commit of the working set carries beside its rows.

    ``run`` is the last run begun; ``position`` the version up to which events were taken in;
    ``waiting`` the first chunk that is not part of the working set, ``chunks`` the next free one.
    """

    relay_id: str
    events_id: str
    run: int
    position: int
    waiting: int
    chunks: int

    def text(self) -> str:
        return json.dumps({"spark_durable_relay": 1, **self._fields()}, sort_keys=True)

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def parse(cls, text: str | None) -> Progress | None:
        """None for a commit that is not the relay's, such as one of OPTIMIZE."""
        try:
            document = json.loads(text or "null")
        except ValueError:
            return None
        if not isinstance(document, Mapping) or document.get("spark_durable_relay") != 1:
            return None
        return cls(**{name: document[name] for name in cls.__slots__})
