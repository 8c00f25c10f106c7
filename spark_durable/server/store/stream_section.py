"""Streams, producers, snapshots and buckets in the catalog."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from .catalog import Captured, Rows, Statement
from .model import ProducerTriple
from .producers import ProducerState
from .segments import Segment
from .state import Bucket, State
from .streams import Fork, StoredSnapshot, Stream

_SOURCE = 9
_COLUMNS = 22


class StreamSection:
    schema = """
        CREATE TABLE IF NOT EXISTS streams (
            id INTEGER PRIMARY KEY, key TEXT, content_type TEXT, created_at_ms INTEGER,
            last_write_at_ms INTEGER, ttl_s INTEGER, expires_at REAL, expires_at_text TEXT,
            expiry_inherited INTEGER, source INTEGER, source_key TEXT, anchor INTEGER,
            sub_offset INTEGER, fork_at INTEGER, soft_deleted INTEGER, tail INTEGER, closed INTEGER,
            closed_by BLOB, stream_seq TEXT, retained INTEGER, appends INTEGER, segments BLOB);
        CREATE TABLE IF NOT EXISTS producers (
            stream INTEGER, id TEXT, epoch INTEGER, seq INTEGER, used_at REAL,
            PRIMARY KEY (stream, id)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS snapshots (
            stream INTEGER, offset INTEGER, content_type TEXT, blob TEXT, size INTEGER,
            checksum INTEGER, superseded_at REAL, PRIMARY KEY (stream, blob)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, created_at_ms INTEGER)
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def capture(self) -> Captured:
        state = self._state
        changed, state.changed_streams = state.changed_streams, set()
        buckets, state.changed_buckets = state.changed_buckets, set()
        producers: dict[int, set[str]] = {}
        streams: Rows = []
        sessions: Rows = []
        forgotten: Rows = []
        snapshots: Rows = []
        gone = [(each,) for each in changed if each not in state.by_id]
        kept = [state.by_id[each] for each in changed if each in state.by_id]
        for stream in kept:
            streams.append(_stream_row(stream))
            snapshots += _snapshot_rows(stream)
            names, stream.producers.changed = stream.producers.changed, set()
            producers[stream.id] = names
            for name in names:
                known = stream.producers.get(name)
                if known is None:
                    forgotten.append((stream.id, name))
                else:
                    sessions.append((stream.id, name, known.epoch, known.seq, known.used_at))

        def restore() -> None:
            state.changed_streams |= changed
            state.changed_buckets |= buckets
            for stream_id, names in producers.items():
                if stream_id in state.by_id:
                    state.by_id[stream_id].producers.changed |= names

        statements = [
            Statement("DELETE FROM streams WHERE id = ?", gone),
            Statement("DELETE FROM producers WHERE stream = ?", gone),
            Statement("DELETE FROM snapshots WHERE stream = ?", [(each,) for each in changed]),
            Statement("REPLACE INTO streams VALUES (" + "?, " * (_COLUMNS - 1) + "?)", streams),
            Statement("DELETE FROM producers WHERE stream = ? AND id = ?", forgotten),
            Statement("REPLACE INTO producers VALUES (?, ?, ?, ?, ?)", sessions),
            Statement("REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)", snapshots),
            Statement("DELETE FROM buckets WHERE name = ?", [(each,) for each in buckets]),
            Statement(
                "INSERT INTO buckets VALUES (?, ?)",
                [
                    (each, state.buckets[each].created_at_ms)
                    for each in buckets
                    if each in state.buckets
                ],
            ),
        ]
        return Captured(statements, restore)

    def load(self, database: sqlite3.Connection) -> None:
        state = self._state
        for name, created_at_ms in database.execute("SELECT name, created_at_ms FROM buckets"):
            bucket = state.buckets[name] = Bucket(name, created_at_ms)
            bucket.visible = True
        rows = {row[0]: row for row in database.execute("SELECT * FROM streams")}
        for row in rows.values():
            self._load_stream(row, rows)
        for stream_id, *values in database.execute("SELECT * FROM producers"):
            name, epoch, seq, used_at = values
            state.by_id[stream_id].producers.set(name, ProducerState(epoch, seq, used_at))
        for stream_id, *values in database.execute("SELECT * FROM snapshots"):
            *snapshot, superseded_at = values
            self._load_snapshot(state.by_id[stream_id], StoredSnapshot(*snapshot), superseded_at)
        for stream in state.by_id.values():
            stream.producers.changed.clear()
            stream.superseded.sort(key=lambda each: each[1])
        state.changed_streams.clear()
        state.changed_buckets.clear()

    def _load_stream(self, row: tuple[Any, ...], rows: dict[int, tuple[Any, ...]]) -> None:
        """Loads a stream after its source, however long the chain."""
        chain = []
        while row[0] not in self._state.by_id:
            chain.append(row)
            if row[_SOURCE] is None:
                break
            row = rows[row[_SOURCE]]
        for each in reversed(chain):
            self._state.add(self._stream(each))

    def _stream(self, row: tuple[Any, ...]) -> Stream:
        (
            stream_id, key, content_type, created_at_ms, last_write_at_ms, ttl_s, expires_at,
            expires_at_text, expiry_inherited, source, source_key, anchor, sub_offset, fork_at,
            soft_deleted, tail, closed, closed_by, stream_seq, retained, appends, segments,
        ) = row  # fmt: skip
        fork = None
        if source is not None:
            fork = Fork(self._state.by_id[source], source_key, anchor, sub_offset, fork_at)
        stream = Stream(
            stream_id,
            key,
            content_type,
            created_at_ms=created_at_ms,
            ttl_s=ttl_s,
            expires_at=expires_at,
            expires_at_text=expires_at_text,
            expiry_inherited=bool(expiry_inherited),
            fork=fork,
        )
        stream.last_write_at_ms = last_write_at_ms
        stream.soft_deleted = bool(soft_deleted)
        stream.visible = True
        for edge in (stream.written, stream.durable):
            edge.tail, edge.closed, edge.retained = tail, bool(closed), retained
        if closed_by is not None:
            stream.closed_by = ProducerTriple(*msgspec.msgpack.decode(closed_by))
        stream.stream_seq = stream_seq
        stream.appends = stream.durable_appends = appends
        stream.segments = [Segment(*each) for each in msgspec.msgpack.decode(segments)]
        return stream

    def _load_snapshot(
        self, stream: Stream, snapshot: StoredSnapshot, superseded_at: float | None
    ) -> None:
        self._state.hold_blob(snapshot)
        self._state.attended.add(stream)
        if superseded_at is None:
            stream.written.snapshot = stream.durable.snapshot = snapshot
        else:
            stream.superseded.append((snapshot, superseded_at))


def _stream_row(stream: Stream) -> tuple[Any, ...]:
    fork = stream.fork
    written = stream.written
    return (
        stream.id,
        stream.key,
        stream.content_type,
        stream.created_at_ms,
        stream.last_write_at_ms,
        stream.ttl_s,
        stream.expires_at,
        stream.expires_at_text,
        stream.expiry_inherited,
        fork.source.id if fork else None,
        fork.source_key if fork else None,
        fork.anchor if fork else None,
        fork.sub_offset if fork else None,
        fork.at if fork else None,
        stream.soft_deleted,
        written.tail,
        written.closed,
        msgspec.msgpack.encode(stream.closed_by) if stream.closed_by else None,
        stream.stream_seq,
        written.retained,
        stream.appends,
        msgspec.msgpack.encode(stream.segments),
    )


def _snapshot_rows(stream: Stream) -> Rows:
    rows: Rows = [(stream.id, *each, since) for each, since in stream.superseded]
    if stream.written.snapshot is not None:
        rows.append((stream.id, *stream.written.snapshot, None))
    return rows
