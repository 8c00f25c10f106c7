"""What a partition is about to send, in twenty bits.

Equal content always has equal fingerprints. Different content shares one by a chance of one in a
million, and only then does the guard miss a replay that differs. CRC-32 is enough for that and
runs at memory speed (3.6 GB/s measured, against 0.8 for BLAKE2 and 1.6 for SHA-1).
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_durable.sink.identity import MAX_FINGERPRINT

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Each kind of fingerprint has its own name, so that equal sums of two kinds do not meet.
_SET, _SEQUENCE, _CUT, _WRITE, _AGAIN = "set", "sequence", "cut", "write", "again"
_ALTERNATIVES = 64


class SequenceFingerprint:
    """Of several appends: their exact bytes and where they were cut.

    Fed piecewise, so that no append has to be in memory as a whole.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._sizes = 0

    def add(self, piece: bytes | bytearray | memoryview) -> None:
        """Further bytes, of the same append or of the next."""
        self._bytes = zlib.crc32(piece, self._bytes)

    def cut(self, sizes: NDArray[np.int64]) -> None:
        """The sizes of further appends that are complete."""
        self._sizes = zlib.crc32(sizes.data, self._sizes)

    def value(self) -> int:
        return _fold(_SEQUENCE, self._bytes, self._sizes)


def of_set(texts: bytes | bytearray | memoryview, ends: NDArray[np.int64]) -> int:
    """Of one append, whatever the order of its messages: an append is stored whole or not at all.

    ``texts`` are the messages without a gap, ``ends`` where each of them ends.
    """
    offsets = np.concatenate((np.zeros(1, np.int64), ends))
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(texts)]
    messages = pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)
    ordered = messages.take(pc.array_sort_indices(messages))
    _, sorted_offsets, sorted_texts = ordered.buffers()
    assert sorted_offsets is not None
    total = zlib.crc32(memoryview(sorted_texts)[: len(texts)]) if sorted_texts else 0
    lengths = memoryview(sorted_offsets)[: 8 * (len(ends) + 1)]
    return _fold(_SET, total, zlib.crc32(lengths))


def alternatives(fingerprint: int) -> list[int]:
    """A fingerprint and further ones derived from it, for a batch that is sent anew.

    The new epoch must lie above the one found; with 64 to choose from one does, unless the one
    found is at the very top.
    """
    return [fingerprint, *(_fold(_AGAIN, fingerprint, n) for n in range(_ALTERNATIVES - 1))]


def of_cut(limit: int) -> int:
    """Of a partition whose content is taken on trust: only how it is cut."""
    return _fold(_CUT, limit)


def of_write(fingerprints: list[int]) -> int:
    """Of a whole write, from its partitions' fingerprints in their order."""
    return _fold(_WRITE, *fingerprints)


def _fold(kind: str, *parts: int) -> int:
    text = f"{kind}:{','.join(map(str, parts))}".encode()
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest, "big") % MAX_FINGERPRINT + 1
