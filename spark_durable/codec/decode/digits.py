"""Integers read from their digits, eight at a time, for a whole column at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# More digits than two words hold are left to others.
MOST_DIGITS = 16
WORD = 8  # bytes looked at at once
_MINUS, _ZERO = (np.uint64(code) for code in b"-0")
_ZEROS = np.uint64(0x3030303030303030)
_PAST_NINE = np.uint64(0x7676767676767676)  # brings the first bit of a byte up from ten on
_FIRST_BITS = np.uint64(0x8080808080808080)
# Neighbours are put together: digits to pairs, pairs to fours, fours to eights.
_STEPS = [
    (np.uint64(mask), np.uint64(factor), np.uint64(shift))
    for mask, factor, shift in (
        (0x0F0F0F0F0F0F0F0F, 10 * 2**8 + 1, 8),
        (0x00FF00FF00FF00FF, 100 * 2**16 + 1, 16),
        (0x0000FFFF0000FFFF, 10_000 * 2**32 + 1, 32),
    )
]
_POWERS = np.array([10**digits for digits in range(WORD + 1)], np.uint64)


def integers(
    words: NDArray[np.uint64], low: NDArray[Any], high: NDArray[Any]
) -> NDArray[np.int64] | None:
    """The JSON numbers that lie from ``low`` to ``high``; None if one of them is no integer, or has
    too many digits for this.

    ``words[n]`` holds the eight bytes from ``n`` on, the first of them in its lowest bits.
    """
    word = words[low]
    negative = _first_byte(word) == _MINUS
    if not negative.any():
        return _unsigned(words, word, low, high)
    low = low + negative
    values = _unsigned(words, words[low], low, high)
    return None if values is None else np.where(negative, -values, values)


def _unsigned(
    words: NDArray[np.uint64], word: NDArray[np.uint64], low: NDArray[Any], high: NDArray[Any]
) -> NDArray[np.int64] | None:
    length = high - low
    longest = int(length.max())
    if longest > MOST_DIGITS or length.min() < 1:
        return None
    if ((_first_byte(word) == _ZERO) & (length > 1)).any():
        return None
    if longest <= WORD:
        value = _eight(word, length)
        return None if value is None else value.view(np.int64)
    value = _eight(word, np.minimum(length, WORD))
    rest = np.maximum(length - WORD, 0)
    # A short number has nothing there, wherever that is.
    lower = _eight(words[np.where(rest > 0, low + WORD, low)], rest)
    if value is None or lower is None:
        return None
    whole: NDArray[np.uint64] = value * _POWERS[rest] + lower
    return whole.view(np.int64)


def _first_byte(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return word & np.uint64(0xFF)


def _eight(word: NDArray[np.uint64], length: NDArray[Any]) -> NDArray[np.uint64] | None:
    """The number in the first ``length`` bytes of each word, 0 if that is none of them."""
    # Shifted up, so that the last digit is where eight of them have theirs. A shift by all bits,
    # where there are none, leaves 0.
    digits = (word ^ _ZEROS) << ((WORD - length) * 8).astype(np.uint64)
    if (((digits + _PAST_NINE) | digits) & _FIRST_BITS).any():
        return None
    for mask, factor, shift in _STEPS:
        digits = (digits & mask) * factor >> shift
    return digits
