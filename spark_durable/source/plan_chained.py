"""Planning where offsets say nothing, but responses tell their length: follow the chain of
responses without reading their bodies, one piece per response."""

from __future__ import annotations

from dataclasses import dataclass

from spark_durable.protocol import DurableClient, Framing, ReadResponse
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.source import loss
from spark_durable.source.position import Piece, Unit
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire


@dataclass(frozen=True, slots=True)
class Link:
    """One response by its headers. ``piece`` is None where the body must be counted: it has no
    declared length, or may end inside a message."""

    piece: Piece | None
    size: int
    following: str
    to_tail: bool


def link(wire: Wire, target: Target, anchor: str, *, json: bool) -> Link:
    """What a GET at ``anchor`` gives now."""

    def ask(client: DurableClient) -> Link:
        with client.read(target.url, anchor) as response:
            target.check_life(response)
            return _link(target, anchor, response, json)

    with loss.reading(target.name, anchor):
        return wire.call(ask)


def _link(target: Target, anchor: str, response: ReadResponse, json: bool) -> Link:
    following, length = response.next_offset, response.content_length
    if following is None:
        raise MalformedResponseError(
            f"Stream {target.name}: an answer without Stream-Next-Offset. Is the URL that of a "
            "Durable Streams server?"
        )
    piece = None
    if length is not None and following != anchor:
        if not json:
            piece = Piece(anchor, 0, length, Unit.BYTES)
        elif response.framing is Framing.ARRAY:
            piece = Piece(anchor, 0, length, Unit.BODY)
    return Link(piece, length or 0, following, response.up_to_date)
