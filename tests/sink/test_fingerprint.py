from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_durable.sink.fingerprint import SequenceFingerprint, of_cut, of_set, of_write
from spark_durable.sink.identity import MAX_FINGERPRINT


def set_of(messages: list[bytes]) -> int:
    return of_set(b"".join(messages), np.cumsum([len(m) for m in messages], dtype=np.int64))


def sequence_of(bodies: list[bytes], pieces: int = 1) -> int:
    fingerprint = SequenceFingerprint()
    for body in bodies:
        size = max(1, -(-len(body) // pieces))
        for start in range(0, len(body), size):
            fingerprint.add(body[start : start + size])
    for part in np.array_split(np.array([len(body) for body in bodies], np.int64), pieces):
        fingerprint.cut(part)
    return fingerprint.value()


messages = st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=30)


@settings(deadline=None)  # the machine may be busy
@given(messages, st.randoms())
def test_set_does_not_see_order(found: list[bytes], rng: random.Random) -> None:
    shuffled = found.copy()
    rng.shuffle(shuffled)
    assert set_of(found) == set_of(shuffled)
    assert 1 <= set_of(found) <= MAX_FINGERPRINT


def test_set_sees_every_row_and_its_boundaries() -> None:
    base = [b"a", b"b", b"b"]
    others = [[b"a", b"b"], [b"a", b"a", b"b"], [b"ab", b"b"], [b"a", b"bb"], [b"a", b"b", b"c"]]
    assert len({set_of(rows) for rows in [base, *others]}) == 6


@settings(deadline=None)  # the machine may be busy
@given(messages, st.integers(1, 5))
def test_sequence_does_not_see_how_it_was_fed(bodies: list[bytes], pieces: int) -> None:
    assert sequence_of(bodies) == sequence_of(bodies, pieces)


def test_sequence_sees_order_bytes_and_cut() -> None:
    others = [[b"ab", b"cd"], [b"cd", b"ab"], [b"a", b"bcd"], [b"abcd"], [b"ab", b"ce"]]
    assert len({sequence_of(bodies) for bodies in others}) == 5


def test_kinds_do_not_meet_and_spread_evenly() -> None:
    assert of_cut(4 << 20) != of_cut(2 << 20)
    assert of_write([1, 2]) != of_write([2, 1])
    values = [of_cut(limit) for limit in range(20_000)]
    assert min(values) >= 1
    assert max(values) <= MAX_FINGERPRINT
    assert len(set(values)) > 19_700  # a birthday in 2^20 days leaves about 190 fewer
