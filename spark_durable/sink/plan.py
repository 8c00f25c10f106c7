"""What the driver decides once and every task of a write follows."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from spark_durable.options import SinkOptions
from spark_durable.sink.cut import Cut
from spark_durable.sink.identity import WriteIdentity

# A task's memory: spooled appends, rows being sorted, appends under construction of many streams.
SPOOL_BYTES = 64 << 20
SORT_BYTES = 48 << 20
OPEN_BYTES = 64 << 20
# Connections of one task whose rows go to many streams.
ROUTED_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class RunMark:
    """The last micro-batch that this driver saw committed: the next one cannot be a replay."""

    run: str
    batch: int


@dataclass(frozen=True, slots=True)
class Census:
    """Which partitions of a batch the stream already had producers of, before any task ran.

    Not empty: the batch is a replay. ``handover`` is a directory on the driver where its tasks may
    leave what they hold back, if they see the same file system.
    """

    identity: WriteIdentity
    begun: frozenset[int]
    handover: str | None = None


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """Pickled into every task.

    ``identity`` is None for a streaming query, whose ids only its tasks are told. ``created``: this
    write has created the stream, so nothing is there.
    """

    options: SinkOptions
    schema: StructType
    cut: Cut
    identity: WriteIdentity | None = None
    created: bool = False
    mark: RunMark | None = None
    census: Census | None = None
