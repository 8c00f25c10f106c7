"""Looking at a Delta outbox, sending dead letters again, and letting go of what is done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark_durable.protocol.errors import RelayError
from spark_durable.publish.relay.delta import intake
from spark_durable.publish.relay.delta.tables import ATTEMPTS_DDL, TableRef
from spark_durable.publish.relay.vocabulary import LOCKED, Vocabulary

STATE_VIEW = "outbox_state"
_LAST = ("event_id", "batch_id", "relay_id", "attempt")


class DeltaMaintenance:
    """Works beside a running relay: each change is an append, or a delete of what is final."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        events: str,
        attempts: str,
        working: str,
        vocabulary: Vocabulary = LOCKED,
    ) -> None:
        self._spark = spark
        self._events = TableRef(events)
        self._attempts = TableRef(attempts)
        self._working = TableRef(working)
        self._vocabulary = vocabulary

    def init(self) -> list[str]:
        """Creates the attempts table; returns what was missing."""
        if self._attempts.exists(self._spark):
            return []
        self._attempts.create(self._spark, ATTEMPTS_DDL)
        return [self._attempts.name]

    def last_attempts(self) -> DataFrame:
        newest = Window.partitionBy("event_id").orderBy(
            sf.desc("batch_id"), sf.desc("finished_at"), sf.desc("attempt")
        )
        ranked = self._attempts.read(self._spark).withColumn("_rank", sf.row_number().over(newest))
        return ranked.where("_rank = 1").drop("_rank", "fingerprint")

    def state(self) -> DataFrame:
        """Every event with its latest attempt; without one it is pending.

        Also this session's view ``outbox_state``.
        """
        event_id = self._vocabulary.columns.event_id
        events = self._events.read(self._spark).select(
            sf.col(event_id).cast("string").alias("event_id")
        )
        state = (
            events.where("event_id is not null")
            .distinct()
            .join(self.last_attempts(), "event_id", "full_outer")
            .withColumn("status", sf.coalesce("status", sf.lit(self._vocabulary.pending)))
        )
        state.createOrReplaceTempView(STATE_VIEW)
        return state

    def counts(self) -> dict[str, int]:
        rows = self.state().groupBy("status").count().collect()
        return {row["status"]: row["count"] for row in rows}

    def dead_letters(self) -> DataFrame:
        return self.last_attempts().where(sf.col("status") == self._vocabulary.dead)

    def replay(self, event_ids: Sequence[str] | None) -> int:
        """Opens dead events again, after all others of their key; None means every dead one.

        A row that was refused as such (no id, a used id) has nothing to be sent again.
        """
        dead = self.dead_letters()
        if event_ids is not None:
            dead = dead.where(sf.col("event_id").isin(list(event_ids)))
        is_open = self._working.read(self._spark).where("status = 'PENDING'")
        # Collected, because both tables it was found in are about to change.
        found = dead.join(is_open, "event_id", "left_anti").select(*_LAST).toArrow()
        if found.num_rows == 0:
            return 0
        last = sf.broadcast(self._spark.createDataFrame(found))
        version = self._events.version(self._spark)
        raw = self._events.read(self._spark, versionAsOf=version)
        events = intake.normalised(raw, self._vocabulary, sf.lit(version))
        chosen = (
            events.join(last, "event_id", "left_semi")
            .dropDuplicates(["event_id"])
            .withColumn("available_at", sf.lit(0.0))
            .persist()
        )
        try:
            count = chosen.count()
            if count:
                # First the event, then the word about it: a crash in between loses neither.
                rows = intake.as_open(chosen, sf.lit(0))
                self._working.save(rows.write.mode("append").partitionBy("chunk"))
                self._record_replay(chosen, last)
        finally:
            chosen.unpersist()
        return int(count)

    def _record_replay(self, chosen: DataFrame, last: DataFrame) -> None:
        """Makes the event pending again, as of the run that gave it up: later runs count more."""
        now = sf.current_timestamp()
        rows = (
            chosen.select("event_id", "fingerprint")
            .join(last, "event_id")
            .select(
                "event_id",
                "attempt",
                sf.lit(self._vocabulary.pending).alias("status"),
                sf.lit("replayed").alias("code"),
                sf.lit(None).cast("string").alias("last_error"),
                now.alias("available_at"),
                "relay_id",
                "batch_id",
                now.alias("started_at"),
                now.alias("finished_at"),
                sf.lit(None).cast("string").alias("receipt"),
                "fingerprint",
            )
        )
        self._attempts.save(rows.write.mode("append"))

    def prune(
        self,
        *,
        before: datetime | None = None,
        dead: bool = False,
        event_ids: Sequence[str] | None = None,
        vacuum_hours: float | None = None,
    ) -> int:
        """Deletes final events and their attempts: those finished ``before``, or by id.

        Bytes leave the storage with VACUUM; ``vacuum_hours`` runs it with that retention.
        """
        if before is None and event_ids is None:
            raise RelayError("say what to prune: a time, or event ids")
        words = [self._vocabulary.delivered] + ([self._vocabulary.dead] if dead else [])
        done = self.last_attempts().where(sf.col("status").isin(words))
        if before is not None:
            done = done.where(sf.col("finished_at") < sf.lit(before))
        if event_ids is not None:
            done = done.where(sf.col("event_id").isin(list(event_ids)))
        gone = done.select("event_id").persist()
        try:
            count = gone.count()
            if count:
                # Events first: an event without attempts would look pending.
                self._delete(self._events, self._vocabulary.columns.event_id, gone)
                self._delete(self._attempts, "event_id", gone)
        finally:
            gone.unpersist()
        if vacuum_hours is not None:
            for table in (self._events, self._attempts):
                table.table(self._spark).vacuum(vacuum_hours)
        return int(count)

    def _delete(self, table: TableRef, column: str, gone: DataFrame) -> None:
        (
            table.table(self._spark)
            .alias("t")
            .merge(gone.alias("g"), f"cast(t.`{column}` as string) = g.event_id")
            .whenMatchedDelete()
            .execute()
        )
