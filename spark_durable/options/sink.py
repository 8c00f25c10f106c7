"""Options of the sink."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from spark_durable.options.common import CommonOptions
from spark_durable.options.values import (
    option,
    parse_bool,
    parse_choice,
    parse_columns,
    parse_size,
    parse_text,
    parse_version,
)
from spark_durable.protocol.errors import OptionError


class WireProtocol(Enum):
    DURABLE = "durable"
    TOPICS = "topics"


class RowOrder(Enum):
    KEEP = "keep"
    SORT = "sort"
    TRUST = "trust"


class BigNumbers(Enum):
    SEND = "send"
    STRING = "string"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(CommonOptions):
    """What `df.write` and `writeStream` understand."""

    protocol: WireProtocol = option(
        "protocol",
        parse_choice(WireProtocol),
        default=WireProtocol.DURABLE,
        kind="durable, topics",
        why="topics writes to a server of the topics dialect; its dedup has a time window",
    )
    create_if_missing: bool = option(
        "createIfMissing",
        parse_bool,
        default=True,
        kind="boolean",
        why="create the stream (never its bucket) when it does not exist",
    )
    close_stream: bool = option(
        "closeStream",
        parse_bool,
        default=False,
        kind="boolean",
        why="close the stream when the whole write has succeeded",
    )
    stream_column: str | None = option(
        "streamColumn",
        parse_text,
        default=None,
        kind="column",
        why="sends each row to the stream this column names, under the base url",
    )
    max_append_bytes: int | None = option(
        "maxAppendBytes",
        parse_size,
        default=None,
        default_text="4 MiB, or less if the server says so",
        kind="size",
        why="cut size of one append; part of a batch's identity, so keep it while a batch is open",
    )
    row_order: RowOrder = option(
        "rowOrder",
        parse_choice(RowOrder),
        default=RowOrder.KEEP,
        kind="keep, sort, trust",
        why="keep: input order, guarded; sort: an order a retry repeats, for input after a "
        "shuffle; trust: you promise that every attempt sees the same order, nothing is spooled",
    )
    order_by: tuple[str, ...] | None = option(
        "orderBy",
        parse_columns,
        default=None,
        kind="columns",
        why="with rowOrder=sort: these columns first, then the message's text",
    )
    txn_app_id: str | None = option(
        "txnAppId",
        parse_text,
        default=None,
        kind="text",
        why="with txnVersion: identity of a batch write across reruns of the job, as in Delta",
    )
    txn_version: int | None = option(
        "txnVersion",
        parse_version,
        default=None,
        kind="number",
        why="grows with every write of the application; at most 2^33 - 1",
    )
    producer_prefix: str | None = option(
        "producerPrefix",
        parse_text,
        default=None,
        kind="text",
        why="put in front of the producer id, for whoever looks at a stream's producers",
    )
    accept_doubles_for_batch: int | None = option(
        "acceptDoublesForBatch",
        parse_version,
        default=None,
        kind="batch id",
        why="lets this one batch be sent anew although it was begun with other rows; "
        "the way out of the guard's error when doubles are the lesser evil",
    )
    big_numbers: BigNumbers = option(
        "bigNumbers",
        parse_choice(BigNumbers),
        default=BigNumbers.SEND,
        kind="send, string, error",
        why="integers past 2^53 and long decimals, which some servers silently round",
    )
    ignore_null_fields: bool = option(
        "ignoreNullFields",
        parse_bool,
        default=True,
        kind="boolean",
        why="as in to_json: null fields are left out",
    )
    timestamp_format: str | None = option(
        "timestampFormat",
        parse_text,
        default=None,
        default_text="as to_json",
        kind="pattern",
        why="as in to_json",
    )
    date_format: str | None = option(
        "dateFormat",
        parse_text,
        default=None,
        default_text="as to_json",
        kind="pattern",
        why="as in to_json",
    )
    timestamp_ntz_format: str | None = option(
        "timestampNTZFormat",
        parse_text,
        default=None,
        default_text="as to_json",
        kind="pattern",
        why="as in to_json",
    )
    concatenate: bool = option(
        "concatenate",
        parse_bool,
        default=False,
        kind="boolean",
        why="on streams that are not JSON: many rows in one append, their boundaries are lost",
    )

    def check(self) -> None:
        CommonOptions.check(self)
        if (self.txn_app_id is None) != (self.txn_version is None):
            raise OptionError("txnAppId and txnVersion go together: set both or neither.")
        if self.txn_version is not None and self.txn_version >= 2**33:
            raise OptionError(
                "txnVersion must stay below 2^33 (8589934592), since it becomes part of a producer "
                "epoch. Use a counter or seconds, not milliseconds."
            )
        if self.order_by is not None and self.row_order is not RowOrder.SORT:
            raise OptionError("orderBy needs rowOrder=sort.")
        if self.close_stream and self.stream_column is not None:
            raise OptionError("closeStream closes one stream; it does not go with streamColumn.")
        if self.concatenate and self.content_type.startswith("application/json"):
            raise OptionError(
                "concatenate is for streams that are not JSON; rows already share an append there."
            )
