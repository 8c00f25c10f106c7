"""The client: every operation of the protocol as one method, one call being one attempt."""

from __future__ import annotations

from types import TracebackType

from spark_durable.protocol import (
    append,
    bootstrap,
    buckets,
    create,
    live,
    metadata,
    probe,
    read,
    snapshots,
)
from spark_durable.protocol import headers as h
from spark_durable.protocol.bootstrap import Bootstrap
from spark_durable.protocol.live import SseResponse
from spark_durable.protocol.read import ReadResponse
from spark_durable.protocol.results import (
    AppendResult,
    BucketInfo,
    CreateResult,
    ProbeResult,
    ProducerTriple,
    StreamInfo,
    StreamListing,
)
from spark_durable.protocol.settings import ClientSettings
from spark_durable.protocol.snapshots import Snapshot
from spark_durable.protocol.transport import Body, Transport


class DurableClient:
    """Keeps connections and belongs to one thread; pickle its settings, not the client.

    Every method makes one attempt and raises an error of ``spark_durable.protocol.errors`` unless
    it has an acknowledgement. NotSentError: nothing happened. OutcomeUnknownError: it may have been
    applied. RefusedError: it was not. Retrying is ``RetryPolicy``'s business.
    """

    def __init__(self, settings: ClientSettings | None = None) -> None:
        self.settings = settings or ClientSettings()
        self._transport = Transport(self.settings)

    def __enter__(self) -> DurableClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections; responses still open break."""
        self._transport.close()

    def create(
        self,
        url: str,
        *,
        content_type: str | None = h.CONTENT_TYPE_JSON,
        ttl_s: int | None = None,
        expires_at: str | None = None,
        closed: bool = False,
        body: Body = b"",
        forked_from: str | None = None,
        fork_offset: str | None = None,
        fork_sub_offset: int | None = None,
    ) -> CreateResult:
        """Create a stream, or find it there with the same configuration (a repetition is safe).

        ``forked_from`` is the path of the source on the same server; a fork may leave
        ``content_type`` None to inherit it.
        """
        return create.create(
            self._transport,
            url,
            content_type=content_type,
            ttl_s=ttl_s,
            expires_at=expires_at,
            closed=closed,
            body=body,
            forked_from=forked_from,
            fork_offset=fork_offset,
            fork_sub_offset=fork_sub_offset,
        )

    def append(
        self,
        url: str,
        body: Body,
        *,
        content_type: str = h.CONTENT_TYPE_JSON,
        producer: ProducerTriple | None = None,
        stream_seq: str | None = None,
        close: bool = False,
    ) -> AppendResult:
        """Append; when it returns, the body is in the stream (atomically, and closed if asked).

        Under a ``producer`` the same triple is stored once however often it is sent. Without one a
        repetition after OutcomeUnknownError may store the body twice.
        """
        return append.append(
            self._transport,
            url,
            body,
            content_type=content_type,
            producer=producer,
            stream_seq=stream_seq,
            close=close,
        )

    def close_stream(self, url: str, *, producer: ProducerTriple | None = None) -> AppendResult:
        """Close a stream without appending. Closing a closed stream is a success."""
        return append.close_stream(self._transport, url, producer=producer)

    def delete(self, url: str) -> None:
        """Delete a stream and its data."""
        metadata.delete(self._transport, url)

    def head(self, url: str) -> StreamInfo:
        """Describe a stream: tail, closure, lifetime, snapshot. Does not renew its lifetime."""
        return metadata.head(self._transport, url)

    def read(
        self,
        url: str,
        offset: str = h.OFFSET_BEGINNING,
        *,
        etag: str | None = None,
        max_bytes: int | None = None,
        align_next: bool = False,
    ) -> ReadResponse:
        """What the stream has after ``offset`` now, or the part of it one response gives.

        ``max_bytes`` is a wish that servers may ignore. ``align_next`` asks a server that knows it
        to start at the next message boundary; ``start_offset`` tells where that was.
        """
        return read.read(
            self._transport,
            url,
            offset,
            etag=etag,
            max_bytes=max_bytes,
            align_next=align_next,
        )

    def long_poll(
        self,
        url: str,
        offset: str,
        *,
        cursor: str | None = None,
        timeout_s: float | None = None,
    ) -> ReadResponse:
        """Like ``read``, but at the tail wait for data, for ``timeout_s`` at most.

        No data in that time is an empty response, whether the server or the client ended the wait;
        only the server's own answer sets ``up_to_date``.
        """
        return live.long_poll(self._transport, url, offset, cursor=cursor, timeout_s=timeout_s)

    def sse(self, url: str, offset: str, *, cursor: str | None = None) -> SseResponse:
        """Tail by server-sent events from ``offset``."""
        return live.sse(self._transport, url, offset, cursor=cursor)

    def probe(
        self,
        url: str,
        producer_id: str,
        epoch: int,
        content_type: str = h.CONTENT_TYPE_JSON,
    ) -> ProbeResult:
        """What the stream has of a producer's epoch. Never writes, on any server."""
        return probe.probe(self._transport, url, producer_id, epoch, content_type=content_type)

    def create_bucket(self, bucket_url: str) -> None:
        """Create a bucket; ConflictError if it exists (some servers do not tell)."""
        buckets.create_bucket(self._transport, bucket_url)

    def get_bucket(self, bucket_url: str) -> BucketInfo:
        """A bucket's id and the number of its streams."""
        return buckets.get_bucket(self._transport, bucket_url)

    def list_streams(
        self,
        bucket_url: str,
        *,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> StreamListing:
        """A page of a bucket's streams in the order of their ids, after the id ``after``."""
        return buckets.list_streams(
            self._transport, bucket_url, prefix=prefix, after=after, limit=limit
        )

    def delete_bucket(self, bucket_url: str) -> None:
        """Delete an empty bucket."""
        buckets.delete_bucket(self._transport, bucket_url)

    def publish_snapshot(
        self,
        url: str,
        offset: str,
        body: Body,
        *,
        content_type: str = h.CONTENT_TYPE_BYTES,
    ) -> None:
        """Make ``body`` the snapshot of everything before ``offset``.

        On most servers older offsets are gone from then on. The same snapshot may be published
        again; another body at the same offset is a ConflictError.
        """
        snapshots.publish_snapshot(self._transport, url, offset, body, content_type=content_type)

    def snapshot(self, url: str, offset: str | None = None) -> Snapshot:
        """The latest snapshot, or the one at ``offset``; NotFoundError if there is none."""
        return snapshots.snapshot(self._transport, url, offset)

    def delete_snapshot(self, url: str, offset: str) -> None:
        """Delete a superseded snapshot; the latest is refused with ConflictError."""
        snapshots.delete_snapshot(self._transport, url, offset)

    def bootstrap(self, url: str) -> Bootstrap:
        """The latest snapshot and all updates after it, in one consistent answer."""
        return bootstrap.bootstrap(self._transport, url)
