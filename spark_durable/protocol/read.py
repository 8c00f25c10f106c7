"""Catch-up reads, and the response that long-poll shares with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from types import TracebackType

from spark_durable.protocol import headers as h
from spark_durable.protocol import offsets
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.framing import ArraySplitter, NdjsonSplitter
from spark_durable.protocol.refusals import Operation, flag, refusal
from spark_durable.protocol.results import Framing
from spark_durable.protocol.transport import CHUNK, Answer, Transport
from spark_durable.protocol.types import is_json, is_ndjson


class ReadResponse:
    """What follows an offset, up to where this server ends one response.

    The headers are known, the body is still on the wire and is read once, as a stream. A body that
    ends early raises; what was handed out before is a true prefix, and the same request repeats it.
    """

    def __init__(self, operation: Operation, answer: Answer | None) -> None:
        headers: Mapping[str, str] = {} if answer is None else answer.headers
        self._operation = operation
        self._answer = answer
        self._empty = answer is None or answer.status in (204, 304)
        self._delimited = answer is None or answer.delimited
        self._pieces: Iterator[bytes] | None = None
        self.offset = operation.offset or h.OFFSET_BEGINNING
        self.aligned = h.STREAM_START_OFFSET in headers  # the server knows ``align_next``
        self.start_offset = headers.get(h.STREAM_START_OFFSET) or self.offset
        self.next_offset = headers.get(h.STREAM_NEXT_OFFSET) or None
        self.up_to_date = flag(headers, h.STREAM_UP_TO_DATE)
        self.closed = flag(headers, h.STREAM_CLOSED)
        self.cursor = headers.get(h.STREAM_CURSOR)
        self.etag = headers.get("ETag")
        self.incarnation = headers.get(h.STREAM_INCARNATION)
        self.content_type = headers.get("Content-Type")
        self.not_modified = answer is not None and answer.status == 304
        self.content_length = 0 if answer is None or self._empty else answer.content_length
        self.remainder = b""
        if answer is None and self.offset != h.OFFSET_NOW:
            self.next_offset = self.offset

    @property
    def framing(self) -> Framing:
        """How the body holds messages. JSON that does not open with a bracket is taken by line."""
        if is_ndjson(self.content_type):
            return Framing.NDJSON
        if not is_json(self.content_type):
            return Framing.BYTES
        seen: list[bytes] = []
        pieces = self._open()
        for piece in pieces:
            seen.append(piece)
            if piece.strip():
                break
        self._pieces = chain(seen, pieces)
        return Framing.ARRAY if not seen or _opens_array(seen[-1]) else Framing.NDJSON

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """The rest of the body in pieces of up to ``size`` bytes."""
        pieces = self._open(size)
        self._pieces = iter(())
        yield from pieces

    def read(self) -> bytes:
        """The rest of the body at once, for bodies known to be small."""
        return b"".join(self.chunks(1 << 20))

    def messages(self, carry: bytes = b"") -> Iterator[bytes]:
        """The messages of a JSON stream, one at a time, each as the text that was sent.

        ``carry`` is the ``remainder`` of the response before. A message that this body cuts off is
        not yielded: it is in ``remainder`` when the iteration has ended, for the next response.
        """
        if self._empty:
            self.remainder = carry
            return
        framing = self.framing
        if framing is Framing.BYTES:
            raise MalformedResponseError(
                f"{self._operation} gave {self.content_type}, which has no message boundaries",
                **self._operation.facts(),
            )
        splitter = NdjsonSplitter(carry) if framing is Framing.NDJSON else ArraySplitter()
        received = False
        for piece in self.chunks():
            received = True
            yield from splitter.feed(piece)
        # At the tail some servers send no body at all where the protocol has an empty array.
        rest = splitter.finish() if received or not self._delimited else b""
        if rest and self.up_to_date:
            yield rest.strip()  # the stream ends here, so this line is whole
            rest = b""
        self.remainder = rest

    def discard(self) -> None:
        """Finish without reading the body."""
        self._pieces = iter(())
        if self._answer is not None:
            self._answer.drain()

    def _open(self, size: int = CHUNK) -> Iterator[bytes]:
        if self._pieces is None:
            self._pieces = self._verified(size)
        return self._pieces

    def _verified(self, size: int) -> Iterator[bytes]:
        if self._answer is None or self._empty:
            return
        received, shows_its_end = 0, False
        for piece in self._answer.chunks(size):
            if not received:  # an array ends with a bracket; to miss it is its reader's error
                shows_its_end = is_json(self.content_type) and _opens_array(piece)
            received += len(piece)
            yield piece
        if self._delimited or shows_its_end:
            return
        if offsets.distance(self.start_offset, self.next_offset) != received:
            raise MalformedResponseError(
                f"{self._operation}: the body has neither a length nor chunks, so nobody can tell "
                f"whether its {received} bytes are all. Check the proxies in front of the server.",
                **self._operation.facts(),
            )

    def __enter__(self) -> ReadResponse:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._answer is not None:
            self._answer.close()


def _opens_array(piece: bytes) -> bool:
    start = piece.lstrip()
    return not start or start[:1] == b"["


def read(
    transport: Transport,
    url: str,
    offset: str,
    *,
    etag: str | None,
    max_bytes: int | None,
    align_next: bool,
) -> ReadResponse:
    operation = Operation("read", url, offset=offset)
    params = {
        h.PARAM_OFFSET: offset,
        h.PARAM_MAX_BYTES: max_bytes,
        h.PARAM_ALIGN: "next" if align_next else None,
    }
    headers = {"If-None-Match": etag} if etag is not None else {}
    answer = transport.send(operation, "GET", url, params=params, headers=headers)
    if answer.status not in (200, 204, 304):
        raise refusal(operation, answer, transport.settings)
    return ReadResponse(operation, answer)
