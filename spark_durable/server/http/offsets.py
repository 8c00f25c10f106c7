"""Offsets on the wire: zero-padded decimal byte positions, so that text order is number order."""

from __future__ import annotations

import re
from typing import Final

from spark_durable.protocol.headers import OFFSET_BEGINNING, OFFSET_NOW

from .responses import HttpError

# A position is below 2^63; more digits are no offset of ours and need not be parsed.
_DECIMAL: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
# Offsets of the reference server have two parts; the second one counts bytes.
_PAIR: Final = re.compile(r"[0-9]{1,20}_([0-9]{1,20})", re.ASCII)


def format_offset(position: int) -> str:
    return f"{position:020d}"


def format_incarnation(stream_id: int) -> str:
    """Names one life of a stream: one created again under the same name has another."""
    return f"{stream_id:016x}"


def parse_position(text: str) -> int | None:
    """The byte position an offset names, or None if it is no offset of this server."""
    if _DECIMAL.fullmatch(text):
        return int(text)
    pair = _PAIR.fullmatch(text)
    return int(pair.group(1)) if pair else None


def parse_read_offset(text: str | None) -> int | None:
    """The position a reader asks for; None stands for ``now``. Absent and ``-1`` are the start."""
    if text is None or text == OFFSET_BEGINNING:
        return 0
    if text == OFFSET_NOW:
        return None
    position = parse_position(text)
    if position is None:
        raise HttpError(
            400, "offset must be -1, now or a value this server sent in Stream-Next-Offset"
        )
    return position
