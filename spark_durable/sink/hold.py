"""Holding back in a replay: partitions not begun before wait until all tasks have checked in.

The guard of one task knows its own producer only. If a replayed batch is partitioned anew, a task
whose producer has sent nothing yet sees no harm, though its rows may be in the stream from another
partition. So in a replay such a task hands its appends to the driver, which sends them in
``commit``, when every other task has found what it sent before unchanged.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_durable.sink.spool import Bytes

# What one task may put into its commit message, compressed. Spark collects all of them on the
# driver and fails the job past spark.driver.maxResultSize, 1 GiB by default.
MESSAGE_BYTES = 512 << 10
# Not worth compressing beyond: it will not fit.
_MOST_RAW = 16 << 20


@dataclass(frozen=True, slots=True)
class HeldLane:
    """The appends of one producer on one stream: ``sizes`` of each, in the packet's order."""

    url: str
    fingerprint: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What a task hands over, inside its commit message or in a file on the driver's machine."""

    lanes: tuple[HeldLane, ...]
    packed: bytes | None = None
    path: str | None = None

    def bodies(self) -> Iterator[tuple[HeldLane, list[memoryview]]]:
        """The appends of each lane. A file's are mapped, not read."""
        raw = self._raw()
        start = 0
        for lane in self.lanes:
            found = []
            for size in lane.sizes:
                found.append(raw[start : start + size])
                start += size
            yield lane, found

    def _raw(self) -> memoryview:
        if self.packed is not None:
            total = sum(sum(lane.sizes) for lane in self.lanes)
            return memoryview(pa.decompress(self.packed, total, codec="zstd"))
        assert self.path is not None
        return memoryview(pa.memory_map(self.path).read_buffer())


def hold(lanes: list[HeldLane], bodies: Iterator[Bytes], handover: str | None) -> Held | None:
    """Packs the appends for the driver; None if there is no way to hand over that many bytes."""
    total = sum(sum(lane.sizes) for lane in lanes)
    if handover is not None and os.path.isdir(handover):
        path = os.path.join(handover, uuid.uuid4().hex)
        with open(path, "wb") as file:
            for body in bodies:
                file.write(body)
        return Held(tuple(lanes), path=path)
    if total > _MOST_RAW:
        return None
    packed = pa.compress(b"".join(bodies), codec="zstd", asbytes=True)
    return Held(tuple(lanes), packed=packed) if len(packed) <= MESSAGE_BYTES else None
