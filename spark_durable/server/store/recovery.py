"""From what a crash has left to a state that is whole: the catalog, then the log.

Afterwards every acknowledged change is there and nothing else: appends that were cut short leave no
bytes, files nobody refers to are removed. Damage that would lose acknowledged changes is an error
that says where.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

import msgspec

from .blobs import Blobs
from .errors import CorruptLog, CorruptStore
from .files import Files
from .records import Appended, Record
from .segments import Segments, index_name, log_name
from .state import State
from .wal import Logged


def replay(state: State, segments: Segments, log: Iterable[Logged], applied: int) -> int:
    """Applies the log's records and puts their bytes in place; returns the last one's number."""
    decoder = msgspec.msgpack.Decoder(reduce(or_, state.kinds))
    for number, description, payload in log:
        try:
            record = decoder.decode(description)
        except msgspec.DecodeError as error:
            raise CorruptLog(f"record {number} is of no known kind: {error}") from None
        _check(state, number, record)
        effect = state.apply(record, payload)
        if effect.write is not None:
            segments.write([effect.write])
        effect.publish()
        applied = number
    return applied


def _check(state: State, number: int, record: Record) -> None:
    if isinstance(record, Appended):
        stream = state.by_id.get(record.stream)
        tail = stream.written.tail if stream is not None else None
        if tail != record.offset:
            raise CorruptLog(
                f"record {number} appends at offset {record.offset} of a stream that is at {tail}: "
                "log and catalog do not belong together"
            )


def tidy(files: Files, state: State, segments: Segments, now: float) -> None:
    """Makes the files agree with the state: no byte too many, none missing, no orphans."""
    for stream in state.by_id.values():
        # a restart only lengthens what expires by idleness
        stream.accessed_at = now
        state.trim(stream)
        if stream.segments:
            try:
                tail = stream.written.tail
                segments.fit(stream.id, stream.segments[-1], tail, stream.appends)
            except EOFError as error:
                raise CorruptStore(
                    f"stream {stream.key!r} is damaged: {error}. Restore the data directory from a "
                    "backup"
                ) from None
    for name in files.list("streams"):
        stream_id = int(name, 16)
        if stream_id not in state.by_id:
            segments.remove_stream(stream_id)
            continue
        bases = [segment.base for segment in state.by_id[stream_id].segments]
        known = {log_name(stream_id, base) for base in bases}
        known |= {index_name(stream_id, base) for base in bases}
        for file in files.list(f"streams/{name}"):
            if f"streams/{name}/{file}" not in known:
                files.remove(f"streams/{name}/{file}")
    blobs = Blobs(files)
    for name in blobs.names():
        if name not in state.blobs:
            blobs.remove(name)
