"""The relay's state in Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_durable.protocol.errors import RelayError
from spark_durable.publish.contract import Publisher
from spark_durable.publish.relay.delta import intake
from spark_durable.publish.relay.delta.rows import STATE, pending_row, settled_row, sortable
from spark_durable.publish.relay.delta.tables import (
    ATTEMPTS_DDL,
    OPEN_DDL,
    STATE_COLUMNS,
    Progress,
    TableRef,
    relay_session,
)
from spark_durable.publish.relay.model import OpenEvent, Settled, Status
from spark_durable.publish.relay.store import Batch, open_event
from spark_durable.publish.relay.vocabulary import LOCKED, Vocabulary

# How many events a chunk of the backlog holds; the working set takes in whole chunks.
CHUNK_EVENTS = 20_000
# The working set takes no further chunk while it holds this many events.
MAX_WORKING_EVENTS = 60_000
# How long a handled event's id is remembered for recognising a duplicate row.
DUPLICATE_HORIZON_S = 86_400


class DeltaOutbox:
    """Events that producers append, attempts that the relay appends, and the open events between.

    One relay works on one working set: of two that try, one fails at its next commit and must stop.
    A crash between any two commits repeats at most what is repeatable: intake from the committed
    position, sending under committed triples, the attempts of a run under its number.
    """

    def __init__(
        self,
        spark: SparkSession,
        publisher: Publisher,
        *,
        relay_id: str,
        events: str,
        attempts: str,
        working: str,
        vocabulary: Vocabulary = LOCKED,
        rescan: bool = False,
        replan: bool = False,
    ) -> None:
        self._spark = relay_session(spark)
        self._publisher = publisher
        self._relay_id = relay_id
        self.events = TableRef(events)
        self.attempts = TableRef(attempts)
        self.working = TableRef(working)
        self._vocabulary = vocabulary
        self._rescan = rescan
        self._replan = replan
        self._progress: Progress | None = None

    # -- beginning a run ------------------------------------------------------------------------

    def begin(self) -> Batch:
        if self._progress is None:
            self._progress = self._recover()
        taken_in = self._take_in()
        events = self._load()
        return Batch(self._current.run + 1, events, taken_in)

    @property
    def _current(self) -> Progress:
        assert self._progress is not None
        return self._progress

    def _recover(self) -> Progress:
        """Finds where the last relay stopped and writes down the attempts it could not."""
        spark = self._spark
        if not self.events.exists(spark):
            raise RelayError(f"there is no events table at {self.events.name}")
        if not self.attempts.exists(spark):
            self.attempts.create(spark, ATTEMPTS_DDL)
        events_id = self.events.table_id(spark)
        if not self.working.exists(spark):
            fresh = Progress(self._relay_id, events_id, run=0, position=-1, waiting=1, chunks=1)
            self.working.create(spark, OPEN_DDL, partition_by="chunk", metadata=fresh.text())
            return fresh
        found = self._last_progress()
        if found.events_id != events_id:
            raise RelayError(
                f"the working set at {self.working.name} belongs to another events table than the "
                f"one at {self.events.name}; give each events table a working set of its own"
            )
        if found.relay_id != self._relay_id:
            raise RelayError(
                f"the working set at {self.working.name} belongs to relay {found.relay_id!r}, not "
                f"to {self._relay_id!r}: the relay's id is part of what makes a repetition "
                "recognisable. Run with the same --relay-id"
            )
        self._append_attempts(found.run)
        return replace(found, position=-1) if self._rescan else found

    def _last_progress(self) -> Progress:
        table = self.working.table(self._spark)
        for history in (table.history(20), table.history()):
            for row in history.select("userMetadata").collect():
                if (found := Progress.parse(row[0])) is not None:
                    return found
        raise RelayError(
            f"{self.working.name} has no commit of the relay: is it the right table? Remove it to "
            "begin anew; events without a final attempt are then planned again"
        )

    # -- intake ---------------------------------------------------------------------------------

    def _take_in(self) -> int:
        """Appends events committed since the last run. Cost follows what is new."""
        progress = self._current
        initial = progress.position < 0
        if initial:
            self._enable_change_feed()
        latest = self.events.version(self._spark)
        if latest <= progress.position:
            return 0
        if initial:
            raw = self.events.read(self._spark, versionAsOf=latest)
            version: Column = sf.lit(latest)
        else:
            raw = self._changes(progress.position + 1, latest)
            version = sf.col("_commit_version")
        found = intake.each_once(
            intake.normalised(raw, self._vocabulary, version), self._seen(everything=initial)
        )
        found = found.persist()
        try:
            count = found.count()
            moved = replace(progress, position=latest)
            if count:
                chunks = -(-count // CHUNK_EVENTS)
                moved = replace(moved, chunks=progress.chunks + chunks)
                self._append_open(found, progress.chunks, chunks, moved)
            self._progress = moved
            return int(count)
        finally:
            found.unpersist()

    def _changes(self, first: int, last: int) -> DataFrame:
        changes = self.events.read(
            self._spark, readChangeFeed="true", startingVersion=first, endingVersion=last
        )
        return changes.where("_change_type = 'insert'")

    def _append_open(self, found: DataFrame, first: int, chunks: int, moved: Progress) -> None:
        if chunks == 1:
            rows = intake.as_open(found.coalesce(1), sf.lit(first))
        else:
            ordered = found.repartitionByRange(chunks, *intake.ORDER)
            rows = intake.as_open(ordered, sf.spark_partition_id() + sf.lit(first))
        self._save(rows, "append", moved)

    def _seen(self, *, everything: bool) -> DataFrame | None:
        """Ids that must not be taken in again: open ones, and those with recent attempts.

        On the first intake, and after ``rescan``, the whole attempts table is compared.
        """
        spark = self._spark
        open_ids = self.working.read(spark).select("event_id", "fingerprint")
        attempts = self.attempts.read(spark)
        if not everything:
            horizon = sf.current_timestamp() - sf.expr(f"INTERVAL {DUPLICATE_HORIZON_S} SECONDS")
            attempts = attempts.where(sf.col("finished_at") >= horizon)
        return open_ids.unionByName(attempts.select("event_id", "fingerprint"))

    def _enable_change_feed(self) -> None:
        """New events are read from the table's change feed, so that cost follows what is new."""
        properties = self.events.table(self._spark).detail().select("properties").collect()[0][0]
        if properties.get("delta.enableChangeDataFeed") != "true":
            self._spark.sql(
                f"ALTER TABLE {self.events.sql} "
                "SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            )

    # -- the working set ------------------------------------------------------------------------

    def _working_set(self) -> DataFrame:
        return self.working.read(self._spark).where(sf.col("chunk") < self._current.waiting)

    def _load(self) -> tuple[OpenEvent, ...]:
        """The working set without payloads, having taken in further chunks while there is room."""
        progress = self._current
        room = max(0, MAX_WORKING_EVENTS // CHUNK_EVENTS)
        upto = min(progress.chunks, progress.waiting + room)
        rows = self._narrow(sf.col("chunk") < upto)
        working = [row for row in rows if row["chunk"] < progress.waiting]
        waiting = progress.waiting
        while waiting < upto and len(working) < MAX_WORKING_EVENTS:
            working += [row for row in rows if row["chunk"] == waiting]
            waiting += 1
        self._progress = replace(progress, waiting=waiting)
        working.sort(key=lambda row: tuple(sortable(row[name]) for name in intake.ORDER))
        return tuple(
            self._open_event(row) for row in working if row["status"] == Status.PENDING.value
        )

    def _narrow(self, condition: Column) -> list[dict[str, Any]]:
        columns = [
            *intake.ORDER,
            "event_type",
            "partition_key",
            "ordering_key",
            "destination",
            "size",
            *STATE_COLUMNS,
            "chunk",
        ]
        wanted = [name for name in dict.fromkeys(columns) if name not in _RESULT_COLUMNS]
        rows: list[dict[str, Any]] = (
            self.working.read(self._spark).where(condition).select(*wanted).toArrow().to_pylist()
        )
        return rows

    def _open_event(self, row: dict[str, Any]) -> OpenEvent:
        return open_event(row, self._publisher, row["problem"], replan=self._replan)

    def commit_plan(self, batch: Batch, assigned: Sequence[OpenEvent]) -> None:
        """Also drops the events that an earlier run brought to their end."""
        self._progress = replace(self._current, run=batch.run)
        self._replan = False
        self._overwrite([pending_row(event) for event in assigned])

    def planned(self, batch: Batch, events: Sequence[OpenEvent]) -> DataFrame:
        ids = pa.table({"event_id": pa.array([e.event_id for e in events], pa.string())})
        wanted = sf.broadcast(self._spark.createDataFrame(ids))
        return self._working_set().join(wanted, "event_id", "left_semi")

    def commit_results(
        self, batch: Batch, settled: Sequence[Settled], released: Sequence[OpenEvent]
    ) -> None:
        """First the working set, then the attempts: a crash in between is made good by `begin`."""
        self._progress = replace(self._current, run=batch.run)
        rows = [settled_row(item, batch.run) for item in settled]
        rows += [pending_row(event) for event in released]
        if rows:
            self._overwrite(rows)
        self._append_attempts(batch.run)

    def release(self, batch: Batch) -> None:
        """Nothing is claimed: one relay owns the working set."""

    def _overwrite(self, rows: list[dict[str, Any]]) -> None:
        """One commit: new states for ``rows``, others kept, ended ones gone, chunks taken in."""
        working = self._working_set()
        ended = (sf.col("status") != Status.PENDING.value) & (
            sf.col("settled_run") < self._current.run
        )
        kept = working.where(sf.coalesce(~ended, sf.lit(True)))
        updates = self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=STATE))
        renamed = updates.select(
            "event_id", *(sf.col(name).alias(f"_{name}") for name in STATE_COLUMNS)
        ).withColumn("_changed", sf.lit(True))
        joined = kept.join(sf.broadcast(renamed), "event_id", "left")
        state = [
            sf.when(sf.col("_changed"), sf.col(f"_{name}")).otherwise(sf.col(name)).alias(name)
            for name in STATE_COLUMNS
        ]
        merged = joined.select(
            *intake.EVENT_COLUMNS, *state, sf.lit(0).cast("bigint").alias("chunk")
        )
        self._save(merged.coalesce(2), "overwrite", self._current)

    def _save(self, rows: DataFrame, mode: str, progress: Progress) -> None:
        writer = rows.write.mode(mode).option("userMetadata", progress.text())
        if mode == "overwrite":
            writer = writer.option("replaceWhere", f"chunk < {progress.waiting}")
        else:
            writer = writer.partitionBy("chunk")
        _or_taken_over(lambda: self.working.save(writer), self.working.name)

    def _append_attempts(self, run: int) -> None:
        """Idempotent: Delta skips a (relay, run) that it has already recorded."""
        settled = self._working_set_of(run)
        word = reduce(
            lambda column, status: column.when(
                sf.col("status") == status.value, self._vocabulary.word(status)
            ),
            (Status.DELIVERED, Status.DEAD),
            sf.when(sf.col("status") == Status.PENDING.value, self._vocabulary.pending),
        )
        rows = settled.select(
            "event_id",
            sf.col("attempts").alias("attempt"),
            word.alias("status"),
            "code",
            "last_error",
            sf.timestamp_seconds("available_at").alias("available_at"),
            sf.lit(self._relay_id).alias("relay_id"),
            sf.lit(run).cast("bigint").alias("batch_id"),
            sf.timestamp_seconds("started_at").alias("started_at"),
            sf.timestamp_seconds("finished_at").alias("finished_at"),
            "receipt",
            "fingerprint",
        )
        writer = (
            rows.coalesce(1)
            .write.mode("append")
            .option("txnAppId", f"spark_durable/{self._relay_id}")
            .option("txnVersion", run)
        )
        self.attempts.save(writer)

    def _working_set_of(self, run: int) -> DataFrame:
        return self.working.read(self._spark).where(
            (sf.col("chunk") == 0)
            & (sf.col("settled_run") == run)
            & sf.col("started_at").isNotNull()
        )


_RESULT_COLUMNS = ("code", "last_error", "started_at", "finished_at", "receipt", "settled_run")


def _or_taken_over(commit: Callable[[], None], name: str) -> None:
    try:
        commit()
    except Exception as error:
        if "Concurrent" in type(error).__name__ or "DELTA_CONCURRENT" in str(error):
            raise RelayError(
                f"another relay has committed to {name} meanwhile. One relay works on one working "
                "set: stop one of them"
            ) from error
        raise
