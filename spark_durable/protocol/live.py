"""Tailing a stream: long-poll and server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from spark_durable.protocol import headers as h
from spark_durable.protocol.errors import MalformedResponseError, OutcomeUnknownError
from spark_durable.protocol.read import ReadResponse
from spark_durable.protocol.refusals import Operation, refusal
from spark_durable.protocol.sse import ControlEvent, DataEvent, SseParser, interpret
from spark_durable.protocol.transport import Answer, Transport
from spark_durable.protocol.types import essence

_MAX_TIMEOUT_MS = 60_000


def long_poll(
    transport: Transport,
    url: str,
    offset: str,
    *,
    cursor: str | None,
    timeout_s: float | None,
) -> ReadResponse:
    operation = Operation("read", url, offset=offset)
    params: dict[str, str | int | None] = {
        h.PARAM_OFFSET: offset,
        h.PARAM_LIVE: h.LIVE_LONG_POLL,
        h.PARAM_CURSOR: cursor,
    }
    if timeout_s is not None:
        # Servers that know the parameter answer a little before we hang up, which keeps the
        # connection; the others are hung up on.
        server_share = int(1000 * (timeout_s - min(0.1, timeout_s / 5)))
        params[h.PARAM_TIMEOUT_MS] = min(max(1, server_share), _MAX_TIMEOUT_MS)
    try:
        answer = transport.send(operation, "GET", url, params=params, wait=timeout_s)
    except OutcomeUnknownError as error:
        if timeout_s is None or not error.facts.get("timed_out"):
            raise
        return ReadResponse(operation, None)
    if answer.status not in (200, 204):
        raise refusal(operation, answer, transport.settings)
    if answer.status == 204:
        answer.drain()
    return ReadResponse(operation, answer)


class SseResponse:
    """Data and control events of one connection, in order.

    Data counts once the control event after it has come: its ``next_offset`` is where to resume.
    The iteration ends when the server ends the connection or falls silent for the read timeout
    with nothing pending: reconnect at the last ``next_offset``, unless it was ``closed``. If the
    connection ends with data not yet confirmed by a control event it raises: drop that data.
    """

    def __init__(self, operation: Operation, answer: Answer) -> None:
        self._operation = operation
        self._answer = answer
        self._encoded = answer.headers.get(h.STREAM_SSE_DATA_ENCODING, "").lower() == "base64"

    def __iter__(self) -> Iterator[DataEvent | ControlEvent]:
        parser = SseParser()
        unconfirmed = False
        try:
            for piece in self._answer.arriving():
                for event in parser.feed(piece):
                    meaning = interpret(event, encoded=self._encoded)
                    if meaning is None:
                        continue
                    unconfirmed = isinstance(meaning, DataEvent)
                    yield meaning
                    if isinstance(meaning, ControlEvent) and meaning.closed:
                        return
        except OutcomeUnknownError:
            if unconfirmed or parser.incomplete:
                raise
            return
        finally:
            self._answer.close()
        if unconfirmed or parser.incomplete:
            raise OutcomeUnknownError(
                f"{self._operation}: the events ended after data that no control event confirmed. "
                "Drop that data and reconnect at the last control event's offset.",
                **self._operation.facts(),
            )

    def close(self) -> None:
        self._answer.close()

    def __enter__(self) -> SseResponse:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def sse(transport: Transport, url: str, offset: str, *, cursor: str | None) -> SseResponse:
    operation = Operation("read", url, offset=offset)
    params = {h.PARAM_OFFSET: offset, h.PARAM_LIVE: h.LIVE_SSE, h.PARAM_CURSOR: cursor}
    answer = transport.send(
        operation,
        "GET",
        url,
        params=params,
        headers={"Accept": "text/event-stream"},
    )
    if answer.status != 200:
        raise refusal(operation, answer, transport.settings)
    if essence(answer.headers.get("Content-Type")) != "text/event-stream":
        answer.close()
        raise MalformedResponseError(
            f"{operation} was not answered with events: this server has no SSE here; use long-poll",
            **operation.facts(),
        )
    return SseResponse(operation, answer)
