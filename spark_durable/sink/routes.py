"""Which stream a row goes to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    Array: TypeAlias = pa.Array[Any]


def by_stream(texts: Array, streams: Array) -> Iterator[tuple[str, Array]]:
    """The messages of each stream, in their order; streams in order of first appearance."""
    encoded = streams.dictionary_encode()
    names: list[Any] = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], texts
        return
    codes = encoded.indices
    # The sort is stable: within a stream the rows keep their order.
    grouped = texts.take(pc.array_sort_indices(codes))
    counts = np.bincount(np.asarray(codes), minlength=len(names))
    start = 0
    for name, count in zip(names, counts.tolist(), strict=True):
        yield name, grouped.slice(start, count)
        start += count
