"""Bootstrap: the latest snapshot and every update after it, in one answer read as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from spark_durable.protocol import headers as h
from spark_durable.protocol import urls
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.multipart import (
    Event,
    MultipartParser,
    PartBegin,
    PartData,
    PartEnd,
    boundary_of,
)
from spark_durable.protocol.refusals import Operation, flag, refusal
from spark_durable.protocol.transport import Answer, Transport


class BootstrapPart:
    """One message. Its body is read once, before the next part is asked for."""

    def __init__(self, content_type: str, events: Iterator[Event]) -> None:
        self.content_type = content_type
        self._events = events
        self._open = True

    def chunks(self) -> Iterator[bytes]:
        while self._open:
            event = next(self._events)
            if isinstance(event, PartEnd):
                self._open = False
            elif isinstance(event, PartData):
                yield event.data

    def read(self) -> bytes:
        return b"".join(self.chunks())


class Bootstrap:
    """A consistent start: the snapshot, the updates after it, and where to go on reading.

    ``snapshot_offset`` is None when there is no snapshot; the first part is then empty. Unless
    ``up_to_date``, the server left updates out: they follow at ``next_offset``. The answer counts
    only when ``parts`` has been iterated to its end: a cut before the closing boundary raises.
    """

    def __init__(self, operation: Operation, answer: Answer) -> None:
        snapshot = answer.headers.get(h.STREAM_SNAPSHOT_OFFSET)
        self._operation = operation
        self._answer = answer
        self._boundary = boundary_of(answer.headers.get("Content-Type"))
        self.snapshot_offset = None if snapshot == h.OFFSET_BEGINNING else snapshot
        self.next_offset = answer.headers.get(h.STREAM_NEXT_OFFSET) or None
        self.up_to_date = flag(answer.headers, h.STREAM_UP_TO_DATE)
        self.closed = flag(answer.headers, h.STREAM_CLOSED)
        self.incarnation = answer.headers.get(h.STREAM_INCARNATION)

    @property
    def parts(self) -> Iterator[BootstrapPart]:
        """The snapshot's part, then one part per update. Iterable once."""
        events = self._events()
        for event in events:
            if isinstance(event, PartBegin):
                content_type = event.headers.get("content-type", h.CONTENT_TYPE_BYTES)
                part = BootstrapPart(content_type, events)
                yield part
                for _ in part.chunks():
                    pass  # what the caller left unread

    def _events(self) -> Iterator[Event]:
        parser = MultipartParser(self._boundary)
        for piece in self._answer.chunks():
            yield from parser.feed(piece)
        parser.finish()

    def close(self) -> None:
        self._answer.close()

    def __enter__(self) -> Bootstrap:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def bootstrap(transport: Transport, url: str) -> Bootstrap:
    operation = Operation("bootstrap", url)
    answer = transport.send(operation, "GET", urls.extend(url, "bootstrap"))
    if answer.status != 200:
        raise refusal(operation, answer, transport.settings)
    try:
        return Bootstrap(operation, answer)
    except MalformedResponseError:
        answer.close()
        raise
