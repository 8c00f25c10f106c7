"""Checks a column of ready messages before they go out byte for byte."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec
import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, pc
from spark_durable.codec.encode.arrays import has_wide_offsets, offsets_and_bytes
from spark_durable.protocol.errors import BadRowError

_SPLITTER = msgspec.json.Decoder(list[msgspec.Raw])
_WHITE_SPACE = " \t\n\r"
# Bounds the copy that is parsed at once.
_PIECE_BYTES = 32 * 2**20


def check_json_values(values: Array) -> None:
    """Makes sure that each value of a string or binary column is one JSON text in UTF-8.

    Raises :class:`BadRowError` whose text and ``row`` fact name the first row, counted from 0, that
    is null or no JSON. Accepts what RFC 8259 does: white space around the text, doubled names, lone
    surrogate escapes, numbers of any size. ``bigNumbers`` does not look into ready messages; they
    are sent as they are, long numbers included.
    """
    texts = values.view(pa.large_string() if has_wide_offsets(values) else pa.string())
    first_null = pc.index(texts.is_null(), True).as_py() if texts.null_count else None
    # The parser below lets invalid UTF-8 pass.
    first_malformed = _first_malformed(texts[:first_null])
    first_invalid = _first_invalid(texts[:first_null][:first_malformed])
    if first_invalid is not None:
        _raise(first_invalid, _reason(texts[first_invalid]))
    if first_malformed is not None:
        _raise(first_malformed, "it is not UTF-8")
    if first_null is not None:
        _raise(first_null, "it is null")


def _first_malformed(values: Array) -> int | None:
    if _is_utf8(values):
        return None
    first, last = 0, len(values)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if _is_utf8(values[first:middle]) else (first, middle)
    return first


def _is_utf8(values: Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _first_invalid(values: Array) -> int | None:
    """The first row that is no JSON, found by halving where the whole does not parse."""
    small = len(values) == 1 or values.nbytes <= _PIECE_BYTES
    if not len(values) or (small and _all_json(values)):
        return None
    if len(values) == 1:
        # The fast parser refuses lone surrogate escapes, which are JSON.
        return 0 if _reason(values[0]) else None
    half = len(values) // 2
    left = _first_invalid(values[:half])
    if left is not None:
        return left
    right = _first_invalid(values[half:])
    return None if right is None else half + right


def _all_json(values: Array) -> bool:
    """Whether the values parse as the elements of one array, each exactly one element."""
    lists = pa.ListArray.from_arrays([0, len(values)], values)
    joined = pc.binary_join(lists, pa.scalar(",", values.type))
    try:
        pieces = _SPLITTER.decode(b"".join((b"[", joined[0].as_buffer(), b"]")))
    except (msgspec.DecodeError, RecursionError):
        return False
    # The count alone would let "1,2" beside "[1" and "2]" pass. But where the elements side by side
    # are the values side by side, the same commas were left out of both: no element begins or ends
    # with a comma, so each of them is one value.
    if len(pieces) != len(values):
        return False
    if np.array_equal(np.frombuffer(b"".join(pieces), np.uint8), offsets_and_bytes(values)[1]):
        return True
    # An element has no white space around it.
    trimmed = pc.ascii_trim(values, _WHITE_SPACE)
    return not trimmed.equals(values) and _all_json(trimmed)


def _reason(value: pa.Scalar[Any]) -> str:
    """Why the value is no JSON; empty if it is."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    try:
        json.loads(value.as_py(), parse_constant=refuse, parse_int=str)
    except RecursionError:
        return "it is nested too deep to be checked"
    except ValueError as error:
        return f"it is not JSON ({error})"
    return ""


def _raise(row: int, reason: str) -> NoReturn:
    raise BadRowError(
        f"Row {row} of the batch cannot be sent to a JSON stream: {reason}. Filter such rows out,"
        " or write them to a stream of another content type.",
        row=row,
    )
