"""Reading pieces: what follows an anchor, counted in messages, in bytes, or by the length that the
body had when it was planned. A response may reach past a piece and is cut exactly; one that ends
before is continued by the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from spark_durable.protocol.errors import CheckpointError, MalformedResponseError
from spark_durable.protocol.offsets import precedes
from spark_durable.source import loss, spans
from spark_durable.source.follow import Bytes, Messages, PlannedBody, ResponseEnd, follow
from spark_durable.source.position import Piece, Unit
from spark_durable.source.spans import Span
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

# Messages are handed on in spans of about this size, whatever the size of a response.
_SPAN_BYTES: Final = 1 << 21


def fetch_messages(
    wire: Wire, target: Target, pieces: tuple[Piece, ...], end: str
) -> Iterator[Span]:
    """Exactly the messages of pieces of one response of a JSON stream, in one pass. ``end`` is the
    anchor of what follows them."""
    first = pieces[0]
    if first.unit is Unit.BODY:
        return _gathered(_whole_bodies(wire, target, first, end))
    return _gathered(_counted(wire, target, _joined(pieces)))


def fetch_bytes(wire: Wire, target: Target, pieces: tuple[Piece, ...]) -> Iterator[bytes]:
    """Exactly the bytes of each piece of one response of a stream without message boundaries."""
    piece = _joined(pieces)
    takes = iter([each.take for each in pieces])
    skip, room, gathered = piece.skip, next(takes), bytearray()
    for event in follow(wire, target, piece.anchor, Bytes()):
        if isinstance(event, ResponseEnd):
            continue
        chunk = memoryview(b"".join(event.messages))
        skip, chunk = max(0, skip - len(chunk)), chunk[skip:]
        while len(chunk):
            content = chunk[: room - len(gathered)]
            chunk = chunk[len(content) :]
            gathered += content
            if len(gathered) < room:
                break
            yield bytes(gathered)
            following = next(takes, None)
            if following is None:
                return
            room, gathered = following, bytearray()
    raise loss.shorter(target.name, f"{piece.anchor} plus {piece.skip + piece.take} bytes")


def _joined(pieces: tuple[Piece, ...]) -> Piece:
    first, last = pieces[0], pieces[-1]
    take = last.skip + last.take - first.skip
    if sum(piece.take for piece in pieces) != take:
        raise CheckpointError(
            f"The checkpoint has pieces after offset {first.anchor} that do not follow each other. "
            "Restore the checkpoint directory, or start with a new one."
        )
    return replace(first, take=take)


def _counted(wire: Wire, target: Target, piece: Piece) -> Iterator[tuple[str, list[bytes]]]:
    skip, left = piece.skip, piece.take
    for event in follow(wire, target, piece.anchor, Messages()):
        if isinstance(event, ResponseEnd):
            continue
        messages = event.messages[skip : skip + left]
        skip = max(0, skip - len(event.messages))
        left -= len(messages)
        if messages:
            yield event.anchor, messages
        if left == 0:
            return
    raise loss.shorter(target.name, f"{piece.anchor} plus {piece.skip + piece.take} messages")


def _whole_bodies(
    wire: Wire, target: Target, piece: Piece, end: str
) -> Iterator[tuple[str, list[bytes]]]:
    for event in follow(wire, target, piece.anchor, Messages(PlannedBody(piece.take, end))):
        if not isinstance(event, ResponseEnd):
            yield event.anchor, event.messages
            continue
        if event.following == end or (
            event.anchor == piece.anchor and precedes(end, event.following)
        ):
            return  # as planned, or longer and cut to the planned length
        if precedes(end, event.following):
            raise MalformedResponseError(
                f"Stream {target.name}: responses from {event.anchor} on now end at "
                f"{event.following}, past the planned {end}, and nothing tells how much of them "
                "lies before it. The server cuts its responses differently than when the batch was "
                "planned; restore its limits, or start with a new checkpoint."
            )
    raise loss.shorter(target.name, end)


def _gathered(runs: Iterator[tuple[str, list[bytes]]]) -> Iterator[Span]:
    """Runs of messages under one anchor as spans worth an Arrow batch."""
    anchor, gathered, size = "", list[bytes](), 0
    for run_anchor, messages in runs:
        if gathered and (run_anchor != anchor or size >= _SPAN_BYTES):
            yield spans.listed(gathered, anchor)
            gathered, size = [], 0
        anchor = run_anchor
        gathered += messages
        size += sum(map(len, messages))
    if gathered:
        yield spans.listed(gathered, anchor)
