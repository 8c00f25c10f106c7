"""The offset in a checkpoint: a file format, versioned, canonical, bound to its streams.

Spark compares offsets as JSON text, stores the end of every batch, and hands nothing else over
between two runs. So the end of a batch carries all that its plan depends on and that a replay could
not find out again: where each stream began (``from``), how the server cut its responses
(``pieces``), and which life of the stream it was (``life``). ``from`` and ``pieces`` belong to the
batch that ends at this offset; the next batch starts from ``at`` alone.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_durable.protocol.errors import CheckpointError
from spark_durable.protocol.headers import CONTENT_TYPE_JSON
from spark_durable.source.position import Piece, Position, Unit

VERSION: Final = 1

# Spark keeps about three copies of each offset in its log, progress and heap; above this size the
# streams are stored compressed (10,000 of them: 72 KB instead of 661 KB).
_PLAIN_LIMIT: Final = 4096


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a stream is read from in the batch that reads it first, or anew after data loss.

    ``snapshot`` is the offset of the snapshot whose rows come before.
    """

    position: Position
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class StreamMark:
    """How far one stream has been read. Everything before ``at`` belongs to this or earlier
    batches."""

    at: Position
    life: str | None = None
    content_type: str = CONTENT_TYPE_JSON
    ended: bool = False  # the stream is closed and read to its end
    begin: Begin | None = None
    pieces: tuple[Piece, ...] | None = None  # None: offsets are numbers, the range says it all

    def settled(self) -> StreamMark:
        """The same place without what only concerned the batch that led to it."""
        if self.begin is None and self.pieces is None:
            return self
        return replace(self, begin=None, pieces=None)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The positions of all streams of one source. ``base`` is the path they live under."""

    base: str
    marks: Mapping[str, StreamMark]


def initial_json() -> dict[str, Any]:
    """What ``initialOffset`` returns: the same text at every call, whatever the streams hold."""
    return {"start": "initial", "v": VERSION}


def is_initial(value: Mapping[str, Any]) -> bool:
    return value.get("start") == "initial"


def to_json(offset: SourceOffset) -> dict[str, Any]:
    """Canonical: equal offsets give equal text under ``json.dumps``."""
    streams = {name: _mark_json(offset.marks[name]) for name in sorted(offset.marks)}
    text = json.dumps(streams, separators=(",", ":"))
    if len(text) <= _PLAIN_LIMIT:
        return {"base": offset.base, "streams": streams, "v": VERSION}
    packed = base64.b64encode(zlib.compress(text.encode(), 6)).decode()
    return {"base": offset.base, "count": len(streams), "packed": packed, "v": VERSION}


def from_json(value: Mapping[str, Any], base: str) -> SourceOffset:
    """Reads what ``to_json`` wrote. ``base`` is where the query reads now.

    Raises CheckpointError for anything malformed, newer, or of another place.
    """
    try:
        _check_version(value)
        if is_initial(value):
            return SourceOffset(base, {})
        offset = SourceOffset(
            _text(value["base"]),
            {name: _mark(_dict(mark)) for name, mark in _streams(value).items()},
        )
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise CheckpointError(
            f"The checkpoint holds an offset that is damaged or not of this source "
            f"({type(error).__name__}: {error}). Restore the checkpoint directory, or start with a "
            "new one."
        ) from None
    if offset.base != base:
        raise CheckpointError(
            f"The checkpoint belongs to streams under {offset.base}, but the query reads under "
            f"{base}. Point the query at the streams it was started with, or give it a new "
            "checkpoint directory."
        )
    return offset


def _check_version(value: Mapping[str, Any]) -> None:
    version = value["v"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"version {version!r}")
    if version > VERSION:
        raise CheckpointError(
            f"The checkpoint was written by a newer release (offset format {version}, this one "
            f"reads up to {VERSION}). Upgrade the package, or start with a new checkpoint."
        )


def _streams(value: Mapping[str, Any]) -> dict[str, Any]:
    if "packed" in value:
        text = zlib.decompress(base64.b64decode(_text(value["packed"]), validate=True))
        return _dict(json.loads(text))
    return _dict(value["streams"])


def _mark_json(mark: StreamMark) -> dict[str, Any]:
    value: dict[str, Any] = {"at": mark.at.anchor}
    if mark.ended:
        value["ended"] = True
    if mark.begin is not None:
        begin = mark.begin
        value["from"] = {"at": begin.position.anchor}
        if begin.position.skip:
            value["from"]["skip"] = begin.position.skip
        if begin.snapshot is not None:
            value["from"]["snapshot"] = begin.snapshot
    if mark.life is not None:
        value["life"] = mark.life
    if mark.pieces is not None:
        value["pieces"] = [[p.anchor, p.skip, p.take, p.unit.value] for p in mark.pieces]
    if mark.at.skip:
        value["skip"] = mark.at.skip
    if mark.content_type != CONTENT_TYPE_JSON:
        value["type"] = mark.content_type
    return value


def _mark(value: dict[str, Any]) -> StreamMark:
    life = value.get("life")
    begin = value.get("from")
    pieces = value.get("pieces")
    return StreamMark(
        at=_position(value),
        life=None if life is None else _text(life),
        content_type=_text(value.get("type", CONTENT_TYPE_JSON)),
        ended=value.get("ended", False) is True,
        begin=None if begin is None else _begin(_dict(begin)),
        pieces=None if pieces is None else tuple(_piece(piece) for piece in pieces),
    )


def _begin(value: dict[str, Any]) -> Begin:
    snapshot = value.get("snapshot")
    return Begin(_position(value), None if snapshot is None else _text(snapshot))


def _position(value: dict[str, Any]) -> Position:
    return Position(_text(value["at"]), _count(value.get("skip", 0)))


def _piece(value: Any) -> Piece:
    anchor, skip, take, unit = value
    return Piece(_text(anchor), _count(skip), _count(take), Unit(unit))


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"expected a text, found {value!r}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"expected a count, found {value!r}")
    return value
