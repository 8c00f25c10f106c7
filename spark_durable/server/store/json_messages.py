"""JSON mode: a body becomes messages, messages become a body, and the text stays as sent.

A message is stored as its own text followed by `,` and a newline. So a stored range is the inside
of an array already, its length is the length of the array, and newlines are exactly the message
boundaries. The one change to the text: newlines between tokens become spaces.
"""

from __future__ import annotations

import msgspec

from .errors import BadJson
from .model import Buffer

SEPARATOR = b",\n"
_WHITESPACE = b" \t\r\n"
_messages = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


def encode(body: Buffer) -> tuple[bytes, int]:
    """The stored form of a body and its number of messages; an array is flattened one level.

    Valid means RFC 8259 in UTF-8 without unpaired surrogate escapes, which no reader could turn
    into text again. Numbers are text: their size and precision are the readers' affair.
    """
    if isinstance(body, memoryview):
        body = bytes(body)
    try:
        if not body.isascii():
            # msgspec skips over strings without looking at their encoding
            str(body, "utf-8")
        messages = _messages.decode(body) if _is_array(body) else [_value.decode(body)]
    except UnicodeDecodeError as error:
        raise BadJson(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise BadJson("nested too deeply") from None
    except msgspec.DecodeError as error:
        hint = "; surrogate escapes come in pairs" if b"\\ud" in bytes(body).lower() else ""
        raise BadJson(f"{error}{hint}") from None
    if not messages:
        return b"", 0
    messages.append(msgspec.Raw(b""))
    stored = SEPARATOR.join(messages)
    if b"\n" in body and stored.count(b"\n") >= len(messages):
        # only ever between tokens: inside a string it is not valid JSON
        stored = SEPARATOR.join([bytes(each).replace(b"\n", b" ") for each in messages])
    return stored, len(messages) - 1


def split(stored: Buffer) -> list[bytes]:
    """The messages of a stored range, each with the text it was sent with."""
    if not stored:
        return []
    return bytes(memoryview(stored)[: -len(SEPARATOR)]).split(SEPARATOR)


def _is_array(body: Buffer) -> bool:
    first = bytes(body[:1])
    return (bytes(body).lstrip(_WHITESPACE)[:1] if first in _WHITESPACE else first) == b"["
