"""What shapes decoding, and what it gives back."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pyarrow as pa


class DecodeMode(enum.Enum):
    """What becomes of a malformed message, under Spark's names."""

    PERMISSIVE = "PERMISSIVE"
    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """``corrupt_column`` is filled if the schema has a column of that name.

    ``time_zone`` is the session's: strings without a zone are local to it.
    """

    mode: DecodeMode = DecodeMode.PERMISSIVE
    corrupt_column: str = "_corrupt_record"
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows, in the order of the messages. ``kept`` has the index of each row's message; None
    means that every message has its row."""

    batch: pa.RecordBatch
    kept: pa.Int64Array | None
