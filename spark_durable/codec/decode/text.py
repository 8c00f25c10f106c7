"""Bytes to text as Java's UTF-8 decoder reads them."""

from __future__ import annotations

import re

# Java replaces an encoded surrogate as a whole, Python each of its bytes.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(message: bytes) -> str:
    """The text, with U+FFFD for what is not UTF-8: as many as Java would put there."""
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", message).decode("utf-8", "replace")
