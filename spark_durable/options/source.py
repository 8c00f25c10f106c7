"""Options of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from spark_durable.options.common import CommonOptions
from spark_durable.options.values import (
    option,
    parse_bool,
    parse_choice,
    parse_duration,
    parse_ending,
    parse_names,
    parse_pattern,
    parse_positive,
    parse_size,
    parse_starting,
    parse_text,
)
from spark_durable.protocol.errors import OptionError


class ParseMode(Enum):
    PERMISSIVE = "PERMISSIVE"
    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(CommonOptions):
    """What `spark.read` and `readStream` understand."""

    streams: tuple[str, ...] | None = option(
        "streams",
        parse_names,
        default=None,
        kind="JSON list",
        why="several streams under the base url",
    )
    stream_pattern: str | None = option(
        "streamPattern",
        parse_pattern,
        default=None,
        kind="regular expression",
        why="streams of a bucket whose whole name matches; new ones are picked up as they appear",
    )
    starting_offsets: str | Mapping[str, str] = option(
        "startingOffsets",
        parse_starting,
        default="snapshot",
        kind="snapshot, earliest, latest, JSON object",
        why="snapshot: the newest snapshot, then what follows it; the beginning if there is none",
    )
    ending_offsets: str | Mapping[str, str] = option(
        "endingOffsets",
        parse_ending,
        default="latest",
        kind="latest, JSON object",
        why="batch reads only",
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger",
        parse_size,
        default=None,
        kind="size",
        why="soft limit of a micro-batch; at least one message always goes through",
    )
    max_records_per_trigger: int | None = option(
        "maxRecordsPerTrigger",
        parse_positive,
        default=None,
        kind="number",
        why="limit of a micro-batch in messages",
    )
    min_partitions: int | None = option(
        "minPartitions",
        parse_positive,
        default=None,
        kind="number",
        why="splits long streams until there are this many tasks, where offsets allow",
    )
    max_partition_bytes: int = option(
        "maxPartitionBytes",
        parse_size,
        default=32 << 20,
        default_text="32m",
        kind="size",
        why="how much of one stream a task reads, where offsets allow splitting",
    )
    split_streams: bool = option(
        "splitStreams",
        parse_bool,
        default=True,
        kind="boolean",
        why="false: one task reads what a batch has of a stream, so that a copy keeps its order",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        parse_bool,
        default=True,
        kind="boolean",
        why="false: when retention has passed the query, start again from the snapshot",
    )
    poll_timeout: float = option(
        "pollTimeout",
        parse_duration,
        default=0.4,
        default_text="400ms",
        kind="duration",
        why="how long the planner waits at the tail for new data; none under AvailableNow",
    )
    mode: ParseMode = option(
        "mode",
        parse_choice(ParseMode),
        default=ParseMode.PERMISSIVE,
        kind="PERMISSIVE, FAILFAST, DROPMALFORMED",
        why="malformed messages, as in Spark's JSON reader",
    )
    corrupt_column: str = option(
        "columnNameOfCorruptRecord",
        parse_text,
        default="_corrupt_record",
        kind="column",
        why="as in Spark's JSON reader",
    )
    line_sep: str | None = option(
        "lineSep",
        parse_text,
        default=None,
        kind="text",
        why="streams that are not JSON have no message boundaries on the wire: rows are lines",
    )

    def check(self) -> None:
        CommonOptions.check(self)
        if self.streams is not None and self.stream_pattern is not None:
            raise OptionError("streams and streamPattern exclude each other.")
        if self.min_partitions is not None and not self.split_streams:
            raise OptionError(
                "minPartitions splits streams; it does not go with splitStreams=false."
            )
        if self.max_bytes_per_trigger is not None and self.max_records_per_trigger is not None:
            raise OptionError(
                "maxBytesPerTrigger and maxRecordsPerTrigger exclude each other: "
                "Spark knows no combined limit."
            )
