"""Results are values: frozen, and what crosses between processes pickles."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from spark_durable.protocol import (
    AppendOutcome,
    AppendResult,
    BucketInfo,
    ControlEvent,
    CreateResult,
    DataEvent,
    Framing,
    ListedStream,
    ProbeResult,
    ProbeState,
    ProducerTriple,
    StreamInfo,
    StreamListing,
)

INFO = StreamInfo("http://h/s", "application/json", "7", closed=True, max_append_bytes=5)


@pytest.mark.parametrize(
    "value",
    [
        ProducerTriple("p", 1, 2),
        INFO,
        CreateResult(True, INFO),
        AppendResult(AppendOutcome.DUPLICATE, None, False, 1, 2),
        ProbeResult(ProbeState.NEWER_EPOCH, current_epoch=4),
        BucketInfo("b", 3),
        StreamListing((ListedStream("s", False, None, 5),), "s", True),
        DataEvent(b"x"),
        ControlEvent("5", None, True, False),
        Framing.NDJSON,
    ],
)
def test_it_pickles_and_cannot_be_changed(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    if dataclasses.is_dataclass(value):
        with pytest.raises(AttributeError):
            setattr(value, dataclasses.fields(value)[0].name, None)
        assert not hasattr(value, "__dict__")
