"""One tree; every leaf pickles with its diagnostics."""

from __future__ import annotations

import pickle

import pytest

from spark_durable import protocol
from spark_durable.protocol import errors
from spark_durable.protocol.errors import DurableError

ALL = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_is_of_the_tree_exported_and_documented(kind: type[Exception]) -> None:
    assert issubclass(kind, DurableError)
    assert getattr(protocol, kind.__name__) is kind
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


@pytest.mark.parametrize("kind", ALL)
def test_every_error_survives_pickling(kind: type[DurableError]) -> None:
    facts = {"status": 409, "current_epoch": 3, "expected_seq": 4, "retry_after": 1.5, "tail": "7"}
    error = kind("what happened and what to do", **facts)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error) == "what happened and what to do"
    assert again.facts == facts


def test_diagnostics_that_are_missing_are_none() -> None:
    assert errors.StaleEpochError("x").current_epoch is None
    assert errors.SequenceGapError("x").expected_seq is None
    assert errors.SequenceGapError("x").received_seq is None
    assert errors.StreamClosedError("x").final_offset is None
    assert errors.StreamClosedError("x").producer_epoch is None
    assert errors.StreamClosedError("x").producer_seq is None
    assert errors.OffsetGoneError("x").retained_offset is None
    assert errors.OffsetBeyondTailError("x").tail is None
    assert errors.OverloadedError("x").retry_after is None
    assert errors.RefusedError("x").status == 0
