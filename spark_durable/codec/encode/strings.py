"""Writers of strings and binary values, with the escapes that Spark's JSON generator writes."""

from __future__ import annotations

import binascii
import codecs
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, pc
from spark_durable.codec.encode.arrays import offsets_and_bytes, string_array
from spark_durable.codec.encode.text import Text, quoted

_QUOTE, _BACKSLASH, _SPACE = b'"\\ '
_NOT_ASCII = 128
_SHORT_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_ESCAPES = _SHORT_ESCAPES | {
    code: f"\\u{code:04X}" for code in range(32) if code not in _SHORT_ESCAPES
}
_ADDED = np.array([len(_ESCAPES.get(code, "x")) - 1 for code in range(256)])
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_JAVA_REPLACEMENT = "spark_durable.java_replacement"


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD for what cannot be decoded: as Python does it, but a surrogate counts once."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, end = error.object, error.end
    if surrogate := _SURROGATE.match(data, error.start):
        end = surrogate.end()
    return "\ufffd", end


codecs.register_error(_JAVA_REPLACEMENT, _replace_as_java)


@dataclass(frozen=True, slots=True)
class StringWriter:
    """Strings. Bytes that are not UTF-8 become U+FFFD, as they do on the JVM."""

    def write(self, values: Array) -> Text:
        return quoted(escaped_strings(values))


@dataclass(frozen=True, slots=True)
class BinaryWriter:
    """Binary values in base64, padded, on one line."""

    def write(self, values: Array) -> Text:
        return quoted(_base64(_as_narrow(values, pa.binary())))


def _as_narrow(values: Array, narrow: pa.DataType) -> Array:
    """The values with 32-bit offsets; raises if they do not fit (the batch is then halved).

    Not a cast: that refuses what is not UTF-8, and a part of an array that is too large as a whole.
    """
    if values.type == narrow:
        return values
    return string_array(*offsets_and_bytes(values), nulls_of=values).view(narrow)


def escape_text(text: str) -> str:
    """The text between the quotes of a JSON string."""
    return "".join(_ESCAPES.get(ord(char), char) for char in text)


def escaped_strings(values: Array) -> Array:
    """Strings as they stand between quotes: ``"``, backslash and control characters escaped."""
    values = _as_narrow(values, pa.string())
    offsets, data = offsets_and_bytes(values)
    if len(data) and data.max() >= _NOT_ASCII:
        values = _repaired(values)
        offsets, data = offsets_and_bytes(values)
    special = (data < _SPACE) | (data == _QUOTE) | (data == _BACKSLASH)
    if not special.any():
        return values
    places = np.flatnonzero(special)
    codes = data[places]
    text = data.tobytes()
    # The backslash first, since every escape brings one; the order of the others does not matter.
    for code in np.flatnonzero(np.bincount(codes))[::-1].tolist():
        text = text.replace(bytes((code,)), _ESCAPES[code].encode())
    growth = np.concatenate(([0], np.cumsum(_ADDED[codes])))
    offsets = offsets + growth[np.searchsorted(places, offsets)]
    return string_array(offsets, np.frombuffer(text, np.uint8), nulls_of=values)


def _repaired(values: Array) -> Array:
    """The same strings with what is not UTF-8 replaced."""
    rows = _malformed_rows(values, 0)
    if not rows:
        return values
    # Seldom: only these rows are decoded, one by one.
    raw = values.view(pa.binary())
    texts = [raw[row].as_py().decode("utf-8", _JAVA_REPLACEMENT).encode() for row in rows]
    mask = np.zeros(len(values), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(raw, mask, pa.array(texts, pa.binary())).view(pa.string())


def _malformed_rows(values: Array, first: int) -> list[int]:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [first]
        half = len(values) // 2
        return _malformed_rows(values[:half], first) + _malformed_rows(values[half:], first + half)
    return []


def _base64(values: Array) -> Array:
    """Base64 of each value, in one call over the values padded to multiples of three bytes."""
    filled = pc.fill_null(values, b"")
    missing = -np.diff(offsets_and_bytes(filled)[0]) % 3
    padding = pa.array([b"", b"\0", b"\0\0"]).take(pa.array(missing))
    padded = pc.binary_join_element_wise(filled, padding, b"")
    offsets, data = offsets_and_bytes(padded)
    text = np.frombuffer(bytearray(binascii.b2a_base64(data.data, newline=False)), np.uint8)
    ends = offsets[1:].astype(np.int64) // 3 * 4
    text[ends[missing >= 1] - 1] = ord("=")
    text[ends[missing == 2] - 2] = ord("=")
    return string_array(np.concatenate(([0], ends)), text, nulls_of=values)
