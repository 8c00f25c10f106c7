"""Writers of map keys: the text between the quotes.

``to_json`` prints a key by Spark's internal value, not by the formats of values: a date is its days
since 1970, a timestamp its microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spark_durable.codec.buffers import Array, pc
from spark_durable.codec.encode.numbers import float_text
from spark_durable.codec.encode.strings import escaped_strings
from spark_durable.codec.encode.text import Text


@dataclass(frozen=True, slots=True)
class StringKeyWriter:
    def write(self, values: Array) -> Text:
        return Text((escaped_strings(values),))


@dataclass(frozen=True, slots=True)
class FloatKeyWriter:
    def write(self, values: Array) -> Text:
        return float_text(values, quote="")


@dataclass(frozen=True, slots=True)
class IntegerKeyWriter:
    """Keys that Spark holds as integers of ``bits`` bits."""

    bits: int

    def write(self, values: Array) -> Text:
        integers = values.view(pa.int32() if self.bits == 32 else pa.int64())
        return Text((pc.cast(integers, pa.string()),))
