from __future__ import annotations

import pickle

import pytest

from spark_durable.protocol.headers import MAX_SAFE_INTEGER
from spark_durable.sink.identity import (
    MAX_BATCH,
    MAX_FINGERPRINT,
    WriteIdentity,
    batch_of,
    fingerprint_of,
)


def test_epoch_holds_batch_and_fingerprint() -> None:
    epoch = WriteIdentity("q", 41).epoch(7)
    assert epoch == 41 * 2**20 + 7
    assert (batch_of(epoch), fingerprint_of(epoch)) == (41, 7)


def test_the_greatest_epoch_is_still_a_safe_integer() -> None:
    assert WriteIdentity("q", MAX_BATCH).epoch(MAX_FINGERPRINT) == MAX_SAFE_INTEGER


def test_probe_lies_between_two_batches() -> None:
    before, this = WriteIdentity("q", 4), WriteIdentity("q", 5)
    assert before.epoch(MAX_FINGERPRINT) < this.probe_epoch < this.epoch(1)


@pytest.mark.parametrize("batch", [-1, MAX_BATCH + 1])
def test_batch_out_of_range_is_refused(batch: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        WriteIdentity("q", batch)


def test_ids_are_fit_for_a_header_and_do_not_meet() -> None:
    odd = WriteIdentity("jöb/1 \n", 0, prefix="a/b")
    assert odd.producer(3) == "a%2Fb/j%C3%B6b%2F1%20%0A/3"
    # The prefix cannot make one writer look like another.
    assert WriteIdentity("b", 0, prefix="a").name != WriteIdentity("a/b", 0).name
    assert WriteIdentity("a", 0).producer(1) != WriteIdentity("a", 0).producer(11)


def test_pickles() -> None:
    identity = WriteIdentity("q", 3, repeats=False, prefix="p")
    assert pickle.loads(pickle.dumps(identity)) == identity
