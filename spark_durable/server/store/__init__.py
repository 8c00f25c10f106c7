"""Storage of the embedded server: `Store` and the values that go in and out of it."""

from .errors import StoreError
from .model import (
    Appended,
    AppendSpec,
    Bootstrap,
    BucketStat,
    Buffer,
    Created,
    CreateSpec,
    ForkSpec,
    ListedStream,
    ProducerTriple,
    ReadSlice,
    Snapshot,
    StoreConfig,
    StreamPage,
    StreamStat,
)
from .store import Store

__all__ = [
    "AppendSpec",
    "Appended",
    "Bootstrap",
    "BucketStat",
    "Buffer",
    "CreateSpec",
    "Created",
    "ForkSpec",
    "ListedStream",
    "ProducerTriple",
    "ReadSlice",
    "Snapshot",
    "Store",
    "StoreConfig",
    "StoreError",
    "StreamPage",
    "StreamStat",
]
