"""What shapes the text of an encoded row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

BigNumbers: TypeAlias = Literal["send", "string", "error"]


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """The options of ``to_json`` that the sink offers, and ``bigNumbers``.

    ``time_zone`` None means the zone that the Arrow columns carry: Spark puts the session's zone
    there, which is the one ``to_json`` prints in. ``big_numbers`` decides about numbers that a
    reader holding them in a double would change: those past 2^53-1 in magnitude, and fractions of
    more than 15 significant digits. ``send`` leaves them as they are, ``string`` quotes them,
    ``error`` refuses the row. Values of float and double columns are never big.
    """

    ignore_null_fields: bool = True
    timestamp_format: str | None = None
    date_format: str | None = None
    timestamp_ntz_format: str | None = None
    time_zone: str | None = None
    big_numbers: BigNumbers = "send"
