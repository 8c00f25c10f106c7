"""Paths: strict decoding, no two spellings of one stream that differ, no escapes."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.server.http.responses import HttpError
from spark_durable.server.http.routing import (
    BootstrapTarget,
    BucketTarget,
    ControlTarget,
    LatestSnapshotTarget,
    ListingTarget,
    SnapshotTarget,
    StreamTarget,
    Target,
    resolve,
    stream_target,
)


def test_every_kind_of_target() -> None:
    stream = StreamTarget("/ds/buck/s", "/ds/buck/s")
    assert resolve(b"/v1/stream/a/b") == StreamTarget("/v1/stream/a/b", "/v1/stream/a/b")
    assert resolve(b"/v1/stream/__ds/jwks.json") == ControlTarget(("jwks.json",))
    assert resolve(b"/ds/buck") == BucketTarget("buck")
    assert resolve(b"/ds/buck/streams") == ListingTarget("buck")
    assert resolve(b"/ds/buck/s") == stream
    assert resolve(b"/ds/buck/s/snapshot") == LatestSnapshotTarget(stream)
    assert resolve(b"/ds/buck/s/snapshot/7") == SnapshotTarget(stream, "7")
    assert resolve(b"/ds/buck/s/bootstrap") == BootstrapTarget(stream)
    assert resolve(b"/ds/buck/s/other") is None
    assert resolve(b"/elsewhere") is None


def resolve_or_none(raw: bytes) -> Target | None:
    """The target, or None for a path that is refused; any other failure is a bug."""
    try:
        return resolve(raw)
    except HttpError:
        return None


@given(st.text(min_size=1, max_size=40))
def test_a_name_survives_its_encoding_or_is_refused(name: str) -> None:
    hostile = name in (".", "..") or "\0" in name or "/" in name
    try:
        raw = f"/v1/stream/{quote(name, safe='')}".encode()
    except UnicodeEncodeError:
        return
    target = resolve_or_none(raw)
    if hostile:
        assert target is None
    elif name != "__ds":
        assert isinstance(target, StreamTarget)
        assert target.key == f"/v1/stream/{name}"
        assert resolve(target.path.encode()) == target


@given(st.binary(max_size=60))
def test_any_bytes_resolve_or_are_refused(raw: bytes) -> None:
    for prefix in (b"/v1/stream/", b"/ds/", b"/ds/buck/", b""):
        target = resolve_or_none(prefix + raw)
        if isinstance(target, StreamTarget):
            assert "\0" not in target.key
            assert ".." not in target.key.split("/")


def test_an_encoded_slash_is_not_a_separator() -> None:
    with pytest.raises(HttpError):
        resolve(b"/v1/stream/a%2fb")
    assert resolve(b"/v1/stream/__ds/subscriptions/x/streams/a%2Fb") == ControlTarget(
        ("subscriptions", "x", "streams", "a/b")
    )


def test_only_streams_can_be_forked() -> None:
    assert stream_target("/v1/stream/a%20b") == StreamTarget("/v1/stream/a b", "/v1/stream/a%20b")
    for path in (
        "/ds/buck",
        "/ds/buck/s/snapshot",
        "/v1/stream/__ds/x",
        "x",
        "/v1/stream/..",
        "é€",
    ):
        assert stream_target(path) is None
