"""From the raw request path to what it names.

Paths are split before they are decoded, and decoded strictly: an encoded slash stays part of its
segment, a broken escape or bytes that are no UTF-8 are refused instead of being mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from .responses import HttpError

STREAM_ROOT: Final = "/v1/stream"
BUCKET_ROOT: Final = "/ds"
# Reserved for control resources; no stream's path may begin with it.
CONTROL_SEGMENT: Final = "__ds"

BUCKET_ID: Final = re.compile(r"[a-z0-9_-]{4,64}", re.ASCII)
MAX_STREAM_ID_BYTES: Final = 122
# Under /v1/stream the protocol sets no limit; this one keeps keys small in memory and on disk.
MAX_PATH_BYTES: Final = 1024

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})?")
_BROKEN_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """A stream, under either root. ``key`` is the store's name for it."""

    key: str
    path: str  # encoded, for Location


@dataclass(frozen=True, slots=True)
class ControlTarget:
    """Segments after ``/v1/stream/__ds``, decoded."""

    segments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BucketTarget:
    bucket: str


@dataclass(frozen=True, slots=True)
class ListingTarget:
    bucket: str


@dataclass(frozen=True, slots=True)
class LatestSnapshotTarget:
    stream: StreamTarget


@dataclass(frozen=True, slots=True)
class SnapshotTarget:
    stream: StreamTarget
    offset: str


@dataclass(frozen=True, slots=True)
class BootstrapTarget:
    stream: StreamTarget


Target = (
    StreamTarget
    | ControlTarget
    | BucketTarget
    | ListingTarget
    | LatestSnapshotTarget
    | SnapshotTarget
    | BootstrapTarget
)


def decode_segment(raw: bytes) -> str:
    if b"%" in raw:
        if _BROKEN_ESCAPE.search(raw):
            raise HttpError(400, "the path holds a broken percent escape")
        raw = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise HttpError(400, "the path is not UTF-8") from None


@lru_cache(1024)  # whoever appends or polls asks for the same few paths again and again
def resolve(raw_path: bytes) -> Target | None:
    """What a path names; None if it lies under neither root."""
    if raw_path.startswith(b"/v1/stream/"):
        return _under_streams(raw_path[len(b"/v1/stream/") :].split(b"/"))
    if raw_path.startswith(b"/ds/"):
        return _under_buckets([decode_segment(part) for part in raw_path[4:].split(b"/")])
    return None


def bucket_of(target: Target) -> str | None:
    """The bucket whose rights decide about a target; None for what lies in none."""
    match target:
        case BucketTarget() | ListingTarget():
            return target.bucket
        case StreamTarget():
            return bucket_of_key(target.key)
        case LatestSnapshotTarget() | SnapshotTarget() | BootstrapTarget():
            return bucket_of_key(target.stream.key)
        case ControlTarget():
            return None


def bucket_of_key(key: str) -> str | None:
    """The bucket a stream counts to: under the base protocol's root, which has no buckets, the
    first of several segments stands for one."""
    root = BUCKET_ROOT if key.startswith(f"{BUCKET_ROOT}/") else STREAM_ROOT
    bucket, slash, _ = key.removeprefix(f"{root}/").partition("/")
    return bucket if slash and key.startswith(f"{root}/") else None


def stream_target(path: str) -> StreamTarget | None:
    """The stream a path from a header names; None if it names none."""
    try:
        target = resolve(path.encode("latin-1"))
    except (HttpError, UnicodeEncodeError):
        return None
    return target if isinstance(target, StreamTarget) else None


def reserved_stream_id() -> HttpError:
    return HttpError(400, "the stream id 'streams' is reserved for the bucket's listing")


def stream_key(relative_path: str) -> str:
    """The key of a stream named relative to the stream root, as subscriptions do."""
    return f"{STREAM_ROOT}/{relative_path}"


def _under_streams(raw_segments: list[bytes]) -> StreamTarget | ControlTarget:
    segments = [decode_segment(raw) for raw in raw_segments]
    if segments[0] == CONTROL_SEGMENT:
        return ControlTarget(tuple(segments[1:]))
    path = "/".join(segments)
    if not path:
        raise HttpError(400, "the stream has no name")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise HttpError(400, f"a stream path has at most {MAX_PATH_BYTES} bytes")
    for segment in segments:
        if segment in (".", "..") or "/" in segment or "\0" in segment:
            raise HttpError(400, "a stream path holds no '.', '..', encoded slash or NUL segment")
    return StreamTarget(f"{STREAM_ROOT}/{path}", f"{STREAM_ROOT}/{quote(path, safe='/')}")


def _under_buckets(segments: list[str]) -> Target | None:
    bucket, *rest = segments
    if not BUCKET_ID.fullmatch(bucket):
        raise HttpError(400, "a bucket id has 4 to 64 of a-z, 0-9, _ and -")
    if not rest:
        return BucketTarget(bucket)
    stream_id, *sub = rest
    if stream_id == "streams" and not sub:
        return ListingTarget(bucket)
    stream = _bucket_stream(bucket, stream_id)
    match sub:
        case []:
            return stream
        case ["snapshot"]:
            return LatestSnapshotTarget(stream)
        case ["snapshot", offset]:
            return SnapshotTarget(stream, offset)
        case ["bootstrap"]:
            return BootstrapTarget(stream)
        case _:
            return None


def _bucket_stream(bucket: str, stream_id: str) -> StreamTarget:
    if not stream_id:
        raise HttpError(400, "the stream id is empty")
    if stream_id == "streams":
        raise reserved_stream_id()
    if "/" in stream_id or "\0" in stream_id or ".." in stream_id:
        raise HttpError(400, "a stream id holds no '/', NUL or '..'")
    if len(f"{bucket}/{stream_id}".encode()) > MAX_STREAM_ID_BYTES:
        raise HttpError(
            400, f"bucket id, slash and stream id have at most {MAX_STREAM_ID_BYTES} bytes together"
        )
    encoded = quote(stream_id, safe="")
    return StreamTarget(f"{BUCKET_ROOT}/{bucket}/{stream_id}", f"{BUCKET_ROOT}/{bucket}/{encoded}")
