"""Integers read eight digits at a time, against Python's own reading."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from spark_durable.codec.decode.digits import MOST_DIGITS, integers

PLAIN = re.compile(rf"-?(0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})")
NUMBERS = st.integers(-(10**17), 10**17).map(str) | st.integers(-200, 200).map(str)
# Neighbours of the digits in ASCII, and bytes that only differ from a digit in their first bits.
OTHERS = st.text("0123456789-+./:;e \x10\x19pqy\xb5\xba\xff", min_size=1, max_size=18)


@given(st.lists(NUMBERS | OTHERS, min_size=1, max_size=6))
@example(["12345678", "-1234567812345678", "0"])
@example(["00"])
@example(["-"])
@example(["1\xba2"])
@example(["12345678:2345678"])
def test_read_as_python_reads_them_or_not_at_all(texts: list[str]) -> None:
    data = np.frombuffer("\xb5".join([*texts, "9" * 16]).encode("latin-1"), np.uint8)
    words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
    lengths = np.array([len(text) for text in texts], np.int32)
    high = np.cumsum(lengths + 1, dtype=np.int32) - 1
    found = integers(words, high - lengths, high)
    if all(PLAIN.fullmatch(text) for text in texts):
        assert found is not None
        assert found.tolist() == [int(text) for text in texts]
    else:
        assert found is None
