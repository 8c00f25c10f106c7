"""Server-Sent Events: how bytes of a stream become events, and back without loss.

``data`` events carry text line by line, or base64 for content that is not text. After each comes a
``control`` event with the position a reader resumes from.
"""

from __future__ import annotations

import base64
import json
from enum import Enum
from typing import Final

HEARTBEAT: Final = b":\n\n"


class DataEncoding(Enum):
    TEXT = "text"
    BASE64 = "base64"

    @classmethod
    def of(cls, content_type: str) -> DataEncoding:
        """Text for ``text/*`` and JSON; anything else may hold bytes that are no UTF-8."""
        media_type = content_type.partition(";")[0].strip().lower()
        if media_type.startswith("text/") or media_type == "application/json":
            return cls.TEXT
        return cls.BASE64


def data_event(body: bytes, encoding: DataEncoding) -> bytes:
    """One ``data`` event. A line break of any kind in ``body`` can not end the event early."""
    if encoding is DataEncoding.BASE64:
        return b"event: data\ndata:" + base64.b64encode(body) + b"\n\n"
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # A parser drops one space after the colon, so a line that begins with one gets another.
    if body.startswith(b" "):
        body = b" " + body
    lines = body.replace(b"\n ", b"\n  ").replace(b"\n", b"\ndata:")
    return b"event: data\ndata:" + lines + b"\n\n"


def control_event(next_offset: str, *, cursor: str | None, up_to_date: bool, closed: bool) -> bytes:
    control: dict[str, str | bool] = {"streamNextOffset": next_offset}
    if closed:
        control["streamClosed"] = True
    elif cursor is not None:
        control["streamCursor"] = cursor
    if up_to_date:
        control["upToDate"] = True
    return b"event: control\ndata:" + json.dumps(control, separators=(",", ":")).encode() + b"\n\n"
