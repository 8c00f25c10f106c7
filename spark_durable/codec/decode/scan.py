"""Which messages the vectorised parser may be given, found without parsing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, binary_view, mask_of, pc
from spark_durable.codec.decode.tokens import (
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    MAX_NUMBER_LENGTH,
    MAX_STRING_LENGTH,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUOTE, _OPEN_OBJECT, _CLOSE_OBJECT = b'"{}'
_NOT_ASCII = 0x80
_SAMPLES_PER_NUMBER = 10
_STRIDE = MAX_NUMBER_LENGTH // _SAMPLES_PER_NUMBER
_IN_NUMBERS = np.isin(np.arange(256), list(b"0123456789+-.eE"))
_BEFORE_VALUES = np.isin(np.arange(256), list(b":[,- \t\r\n"))
_LONG_EXPONENT = r"[eE][+-]?[0-9]{3}|\\u00(?:[23][0-9A-Fa-f]|[46]5)"
_NOWHERE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages with their bytes in view: message i is ``data[offsets[i]:offsets[i + 1]]``."""

    array: Array
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, array: Array) -> Messages:
        large = array.cast(pa.large_binary())
        return cls(large, *binary_view(large))

    def __len__(self) -> int:
        return len(self.array)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.int64]) -> Messages:
        return self if len(rows) == len(self) else Messages.of(self.array.take(pa.array(rows)))

    def message(self, row: int) -> bytes:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()


def fit_for_blocks(messages: Messages) -> NDArray[np.bool_]:
    """True where a message may go into a block.

    It looks like one object and holds nothing that the vectorised parser takes and Spark's does
    not, as far as bytes alone can tell: it is UTF-8 and within the limits of Spark's parser.
    """
    fit = _is_braced(messages)
    fit[_not_utf8(messages)] = False
    if int(messages.lengths.max(initial=0)) > MAX_NUMBER_LENGTH:
        fit[_rows_at(messages, _long_numbers(messages.data))] = False
    for row in np.flatnonzero(messages.lengths > 2 * MAX_DEPTH).tolist():
        if _may_pass_limits(messages.message(row)):
            fit[row] = False
    return fit


def with_non_numbers(messages: Messages) -> NDArray[np.int64]:
    """Rows in which NaN or Inf may stand as a value.

    The vectorised parser takes ``Inf`` and ``-NaN``, which Spark's does not, and drops them without
    a trace where the field is not asked for.
    """
    data = messages.data
    found = [_NOWHERE]
    for first, second, third in (b"Inf", b"NaN"):
        at = np.flatnonzero(data[1:-2] == first) + 1
        at = at[(data[at + 1] == second) & (data[at + 2] == third)]
        found.append(at[_BEFORE_VALUES[data[at - 1]]])
    return _rows_at(messages, np.concatenate(found))


def with_long_exponents(messages: Messages) -> NDArray[np.int64]:
    """Rows in which a number's exponent may have three digits or more.

    As decimals such numbers can crash the vectorised parser, ``1e-99999999`` for one. In a string
    that holds a decimal, each of the characters may be escaped.
    """
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(messages)]), messages.array)
    joined = pc.binary_join(whole, pa.scalar(b" ", pa.large_binary()))
    if not pc.match_substring_regex(joined, _LONG_EXPONENT)[0].as_py():
        return _NOWHERE
    return np.flatnonzero(mask_of(pc.match_substring_regex(messages.array, _LONG_EXPONENT)))


def _is_braced(messages: Messages) -> NDArray[np.bool_]:
    starts, ends = messages.offsets[:-1], messages.offsets[1:]
    braced: NDArray[np.bool_] = ends - starts >= 2
    if messages.array.null_count:
        braced &= mask_of(messages.array.is_valid())
    if len(messages.data):
        last = len(messages.data) - 1
        braced &= messages.data[np.minimum(starts, last)] == _OPEN_OBJECT
        braced &= messages.data[np.maximum(ends - 1, 0)] == _CLOSE_OBJECT
    return braced


def _not_utf8(messages: Messages) -> list[int]:
    if messages.data.max(initial=0) < _NOT_ASCII:
        return []
    try:
        messages.array.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        return [row for row in range(len(messages)) if not _is_utf8(messages.message(row))]
    return []


def _is_utf8(message: bytes) -> bool:
    try:
        message.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _long_numbers(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Positions in what may be numbers past the limit: such a one covers at least ten samples."""
    samples = _IN_NUMBERS[data[::_STRIDE]]
    bounds = np.concatenate(([-1], np.flatnonzero(~samples), [len(samples)]))
    runs = np.flatnonzero(np.diff(bounds) > _SAMPLES_PER_NUMBER)
    found = [np.arange(bounds[run] + 1, bounds[run + 1]) for run in runs]
    return np.concatenate([_NOWHERE, *found]) * _STRIDE


def _may_pass_limits(message: bytes) -> bool:
    if message.count(b"[") + message.count(b"{") > MAX_DEPTH:
        return True
    if len(message) <= MAX_NAME_LENGTH:
        return False
    quotes = np.flatnonzero(np.frombuffer(message, np.uint8) == _QUOTE)
    has_long_string = int(np.diff(quotes).max(initial=0)) > MAX_NAME_LENGTH
    return has_long_string or rb"\"" in message or len(message) > MAX_STRING_LENGTH


def _rows_at(messages: Messages, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    rows = np.unique(np.searchsorted(messages.offsets, positions, side="right") - 1)
    return rows[(rows >= 0) & (rows < len(messages))]
