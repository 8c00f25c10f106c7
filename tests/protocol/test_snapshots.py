"""Snapshots and bootstrap where servers differ, and where an answer breaks off."""

from __future__ import annotations

import pytest

from spark_durable.protocol import (
    DurableClient,
    MalformedResponseError,
    NotFoundError,
    NotSupportedError,
    OutcomeUnknownError,
)
from tests.protocol.conftest import Scripted
from tests.protocol.scripted import Step, Wire, chunked, head, respond, say

SNAPSHOT = {"Content-Type": "text/x", "Stream-Snapshot-Offset": "7", "Stream-Next-Offset": "7"}
HEAD = {"Stream-Next-Offset": "9", "Content-Type": "application/json"}


def test_the_latest_by_redirect(client: DurableClient, scripted: Scripted) -> None:
    redirect = respond(307, {"Location": "/s/snapshot/7"})
    server = scripted(redirect, respond(200, SNAPSHOT, b"state"))
    with client.snapshot(f"{server.url}/s") as snapshot:
        assert (snapshot.offset, snapshot.next_offset) == ("7", "7")
        assert b"".join(snapshot.chunks(2)) == b"state"
        assert snapshot.content_length == 5
    assert [request.path for request in server.requests] == ["/s/snapshot", "/s/snapshot/7"]


def test_the_latest_by_head_where_there_is_no_redirect(
    client: DurableClient, scripted: Scripted
) -> None:
    described = respond(200, {**HEAD, "Stream-Snapshot-Offset": "7", "Content-Length": "0"})
    server = scripted(respond(405), described, respond(200, SNAPSHOT, b"state"))
    with client.snapshot(f"{server.url}/s") as snapshot:
        assert snapshot.read() == b"state"
    assert [(r.method, r.path) for r in server.requests] == [
        ("GET", "/s/snapshot"),
        ("HEAD", "/s"),
        ("GET", "/s/snapshot/7"),
    ]


@pytest.mark.parametrize("offset", ["-1", None])
def test_no_latest_by_head(client: DurableClient, scripted: Scripted, offset: str | None) -> None:
    extra = {} if offset is None else {"Stream-Snapshot-Offset": offset}
    server = scripted(respond(405), respond(200, {**HEAD, **extra}))
    with pytest.raises(NotFoundError, match="beginning"):
        client.snapshot(f"{server.url}/s")


def test_a_snapshot_by_offset_that_is_refused_with_405_is_not_supported(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(405))
    with pytest.raises(NotSupportedError):
        client.snapshot(f"{server.url}/s", "7")
    assert len(server.requests) == 1


def test_an_offset_is_encoded_into_the_path(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(respond(204))
    client.publish_snapshot(f"{server.url}/s", "a/b c?", b"x", content_type="text/x")
    (request,) = server.requests
    assert request.target == "/s/snapshot/a%2Fb%20c%3F"
    assert (request.body, request.headers["content-type"]) == (b"x", "text/x")


def test_a_snapshot_cut_short_is_an_error(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(say(head(200, {**SNAPSHOT, "Content-Length": "10"}), b"12345"))
    with client.snapshot(f"{server.url}/s") as snapshot, pytest.raises(OutcomeUnknownError):
        snapshot.read()


# --- bootstrap ----------------------------------------------------------------------------------

BOOTSTRAP = {
    "Content-Type": 'multipart/mixed; boundary="b 1"',
    "Stream-Snapshot-Offset": "7",
    "Stream-Next-Offset": "9",
    "Stream-Up-To-Date": "true",
}
ENTITY = (
    b"--b 1\r\nContent-Type: text/x\r\n\r\nstate\r\n"
    b"--b 1\r\ncontent-type: application/json\r\n\r\n1\n\r\n"
    b"--b 1\r\n\r\n2\r\n--b 1--\r\n"
)


def test_parts_in_order_and_where_to_go_on(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(respond(200, BOOTSTRAP, ENTITY))
    with client.bootstrap(f"{server.url}/s?a=1") as bootstrap:
        assert (bootstrap.snapshot_offset, bootstrap.next_offset) == ("7", "9")
        assert bootstrap.up_to_date
        assert [(part.content_type, part.read()) for part in bootstrap.parts] == [
            ("text/x", b"state"),
            ("application/json", b"1\n"),
            ("application/octet-stream", b"2"),
        ]
    assert server.requests[0].target == "/s/bootstrap?a=1"


def test_parts_left_unread_are_passed_over(client: DurableClient, scripted: Scripted) -> None:
    pieces = chunked(ENTITY[i : i + 3] for i in range(0, len(ENTITY), 3))
    server = scripted(say(head(200, {**BOOTSTRAP, "Transfer-Encoding": "chunked"}), *pieces))
    with client.bootstrap(f"{server.url}/s") as bootstrap:
        parts = bootstrap.parts
        next(parts)
        second = next(parts)
        assert next(second.chunks()) in b"1\n"
        assert next(parts).read() == b"2"
        assert second.read() == b"", "a part is read before the next is asked for"
        assert list(parts) == []


def test_no_snapshot_is_none(client: DurableClient, scripted: Scripted) -> None:
    headers = {**BOOTSTRAP, "Stream-Snapshot-Offset": "-1", "Stream-Up-To-Date": "false"}
    server = scripted(respond(200, headers, ENTITY))
    with client.bootstrap(f"{server.url}/s") as bootstrap:
        assert bootstrap.snapshot_offset is None
        assert not bootstrap.up_to_date


@pytest.mark.parametrize(
    "step",
    [
        say(head(200, {**BOOTSTRAP, "Content-Length": str(len(ENTITY))}), ENTITY[:-20]),
        say(head(200, {**BOOTSTRAP, "Transfer-Encoding": "chunked"}), *chunked([ENTITY[:-20]])),
        say(head(200, BOOTSTRAP), ENTITY[:-20]),
        say(head(200, {**BOOTSTRAP, "Content-Length": "500"}), ENTITY[:40], then=Wire.reset),
    ],
    ids=["short", "whole chunks, half the parts", "no length", "reset"],
)
def test_a_bootstrap_cut_short_is_an_error(
    client: DurableClient, scripted: Scripted, step: Step
) -> None:
    server = scripted(step)
    read: list[bytes] = []
    error = pytest.raises((OutcomeUnknownError, MalformedResponseError))
    with client.bootstrap(f"{server.url}/s") as bootstrap, error:
        read.extend(part.read() for part in bootstrap.parts)
    assert read == [b"state", b"1\n"][: len(read)]


def test_an_answer_that_is_not_multipart_is_an_error(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(200, {"Content-Type": "application/json"}, b"[]"))
    with pytest.raises(MalformedResponseError, match="multipart"):
        client.bootstrap(f"{server.url}/s")
