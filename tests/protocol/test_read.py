"""Reading: framings, caps, cuts and what servers leave out."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlsplit

import pytest

from spark_durable.protocol import (
    DurableClient,
    Framing,
    MalformedResponseError,
    OffsetBeyondTailError,
    OutcomeUnknownError,
)
from tests.protocol.conftest import Scripted
from tests.protocol.scripted import Step, Wire, chunked, head, keep, respond, say

JSON = {"Content-Type": "application/json", "Stream-Next-Offset": "00000000000000000042"}
NDJSON = {**JSON, "Content-Type": "application/x-ndjson"}
TEXT = {**JSON, "Content-Type": "text/plain"}
CHUNKED = {"Transfer-Encoding": "chunked"}


@pytest.mark.parametrize(
    ("headers", "body", "framing", "messages"),
    [
        (JSON, b'[{"a":1},2]', Framing.ARRAY, [b'{"a":1}', b"2"]),
        (JSON, b"[]", Framing.ARRAY, []),
        (JSON, b"", Framing.ARRAY, []),
        (JSON, b" \n [1]", Framing.ARRAY, [b"1"]),
        (JSON, b'{"a":1}\n{"a":2}\n', Framing.NDJSON, [b'{"a":1}', b'{"a":2}']),
        (NDJSON, b"[1]\n[2]\n", Framing.NDJSON, [b"[1]", b"[2]"]),
        (NDJSON, b"", Framing.NDJSON, []),
        (
            {**JSON, "Content-Type": "Application/JSON; charset=utf-8"},
            b"[1]",
            Framing.ARRAY,
            [b"1"],
        ),
    ],
)
def test_messages_of_each_framing(
    headers: dict[str, str],
    body: bytes,
    framing: Framing,
    messages: list[bytes],
    client: DurableClient,
    scripted: Scripted,
) -> None:
    for step in (
        respond(200, headers, body),
        say(head(200, {**CHUNKED, **headers}), *chunked([body] if body else [])),
    ):
        server = scripted(step)
        with client.read(f"{server.url}/s") as response:
            assert response.framing is framing
            assert list(response.messages()) == messages
            assert response.remainder == b""


def test_looking_at_the_framing_loses_no_byte(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(respond(200, JSON, b"  [1]"))
    with client.read(f"{server.url}/s") as response:
        assert response.framing is response.framing is Framing.ARRAY
        assert response.read() == b"  [1]"
        assert response.read() == b""


def test_looking_past_leading_space_keeps_the_order(
    client: DurableClient, scripted: Scripted
) -> None:
    pieces = [b" ", b"\n", b"[1]", b" "]
    server = scripted(say(head(200, {**CHUNKED, **JSON}), *chunked(pieces)))
    with client.read(f"{server.url}/s") as response:
        assert response.framing is Framing.ARRAY
        assert response.read() == b" \n[1] "


def test_a_body_without_boundaries_has_no_messages(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(200, TEXT, b"hello"))
    with client.read(f"{server.url}/s") as response:
        assert response.framing is Framing.BYTES
        with pytest.raises(MalformedResponseError, match="text/plain"):
            list(response.messages())
        assert response.read() == b"hello"


def test_headers_are_read_in_any_case(client: DurableClient, scripted: Scripted) -> None:
    headers = {
        "content-TYPE": "text/plain",
        "STREAM-NEXT-OFFSET": "7",
        "stream-up-to-date": "TRUE",
        "sTREAM-cLOSED": "true",
        "stream-cursor": "c1",
        "etag": '"e"',
        "STREAM-START-offset": "3",
    }
    server = scripted(respond(200, headers, b"x"))
    with client.read(f"{server.url}/s", "2") as response:
        assert (response.offset, response.start_offset, response.next_offset) == ("2", "3", "7")
        assert response.up_to_date
        assert response.closed
        assert (response.cursor, response.etag) == ("c1", '"e"')
        assert response.content_length == 1


def test_what_the_server_does_not_tell_is_none(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(respond(200, {}, b"x"))
    with client.read(f"{server.url}/s", "2") as response:
        assert response.next_offset is response.cursor is response.etag is None
        assert response.start_offset == "2"
        assert not response.up_to_date
        assert not response.closed


@pytest.mark.parametrize("value", ["false", "yes", "1", ""])
def test_a_flag_is_set_by_true_alone(value: str, client: DurableClient, scripted: Scripted) -> None:
    headers = {"Stream-Closed": value, "Stream-Up-To-Date": value}
    server = scripted(respond(200, headers))
    with client.read(f"{server.url}/s") as response:
        assert not response.closed
        assert not response.up_to_date


def test_parameters_are_sent_in_one_order_and_encoded(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(200, {}))
    client.read(f"{server.url}/s", "a b&c", max_bytes=5, align_next=True).discard()
    client.read(f"{server.url}/s?tenant=x", "1").discard()
    client.long_poll(f"{server.url}/s", "1", cursor="7").discard()
    assert [request.target for request in server.requests] == [
        "/s?align=next&max_bytes=5&offset=a%20b%26c",
        "/s?tenant=x&offset=1",
        "/s?cursor=7&live=long-poll&offset=1",
    ]


# --- caps ---------------------------------------------------------------------------------------


def test_a_message_cut_by_a_cap_is_completed_by_the_next_request(
    client: DurableClient, scripted: Scripted
) -> None:
    values = [{"n": 1, "text": "é€𝄞"}, {"n": 2, "text": "ü" * 20}, {"n": 3}]
    stream = b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)

    def serve(wire: Wire) -> None:
        query = dict(parse_qsl(urlsplit(server.requests[-1].target).query))
        start = int(query["offset"])
        piece = stream[start : start + int(query["max_bytes"])]
        headers = {"Content-Type": "application/x-ndjson"}
        headers["Stream-Next-Offset"] = f"{start + len(piece):020d}"
        if start + len(piece) == len(stream):
            headers["Stream-Up-To-Date"] = "true"
        respond(200, headers, piece)(wire)

    server = scripted(serve)
    for cap in range(1, len(stream) + 1):
        messages: list[bytes] = []
        offset, carry, done = "0", b"", False
        while not done:
            with client.read(f"{server.url}/s", offset, max_bytes=cap) as response:
                messages += response.messages(carry)
                assert response.next_offset is not None
                offset, carry, done = (
                    response.next_offset,
                    response.remainder,
                    response.up_to_date,
                )
        assert [json.loads(message) for message in messages] == values
        assert carry == b""


def test_an_empty_response_keeps_the_cut_message_for_the_next(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(204, NDJSON))
    with client.long_poll(f"{server.url}/s", "1") as response:
        assert list(response.messages(b'{"half":')) == []
        assert response.remainder == b'{"half":'


def test_a_last_line_without_its_end_is_whole_at_the_tail(
    client: DurableClient, scripted: Scripted
) -> None:
    headers = {**NDJSON, "Stream-Up-To-Date": "true"}
    server = scripted(respond(200, headers, b"1\n22"))
    with client.read(f"{server.url}/s") as response:
        assert list(response.messages()) == [b"1", b"22"]
        assert response.remainder == b""


def test_416_names_the_tail(client: DurableClient, scripted: Scripted) -> None:
    step = respond(416, {"Stream-Next-Offset": "00000000000000000007"})
    server = scripted(step)
    with pytest.raises(OffsetBeyondTailError) as caught:
        client.read(f"{server.url}/s", "00000000000000000099")
    assert caught.value.tail == "00000000000000000007"


# --- cuts ---------------------------------------------------------------------------------------

CUTS: list[tuple[str, Step]] = [
    ("short of its length", say(head(200, {**TEXT, "Content-Length": "10"}), b"12345")),
    (
        "reset inside its length",
        say(head(200, {**TEXT, "Content-Length": "10"}), b"12", then=Wire.reset),
    ),
    (
        "silent inside its length",
        say(head(200, {**TEXT, "Content-Length": "10"}), b"12", then=keep),
    ),
    ("inside a chunk", say(head(200, {**TEXT, **CHUNKED}), b"a\r\n12345")),
    ("between chunks", say(head(200, {**TEXT, **CHUNKED}), b"5\r\n12345\r\n")),
    ("inside a chunk's length", say(head(200, {**TEXT, **CHUNKED}), b"5\r\n12345\r\n1")),
    ("before the first chunk", say(head(200, {**TEXT, **CHUNKED}))),
    ("garbage for a chunk", say(head(200, {**TEXT, **CHUNKED}), b"5\r\n12345\r\nzzz\r\n")),
]


@pytest.mark.parametrize("step", [step for _, step in CUTS], ids=[name for name, _ in CUTS])
def test_a_body_cut_short_is_an_error_after_its_true_prefix(
    step: Step, client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(step)
    received: list[bytes] = []
    with client.read(f"{server.url}/s") as response:
        with pytest.raises(OutcomeUnknownError, match="answer"):
            received.extend(piece for piece in response.chunks(1))
        assert b"1234567890".startswith(b"".join(received))


def test_a_body_that_only_the_connection_ends_is_checked_by_its_offsets(
    client: DurableClient, scripted: Scripted
) -> None:
    """No length and no chunks: a cut would go unnoticed."""
    undelimited = {"Content-Type": "text/plain", "Stream-Next-Offset": "00000000000000000005"}
    for body, whole in ((b"12345", True), (b"123", False)):
        server = scripted(say(head(200, undelimited), body))
        with client.read(f"{server.url}/s", "00000000000000000000") as response:
            if whole:
                assert response.read() == body
            else:
                with pytest.raises(MalformedResponseError, match="neither a length"):
                    response.read()


def test_a_body_that_nothing_vouches_for_is_refused(
    client: DurableClient, scripted: Scripted
) -> None:
    headers = {"Content-Type": "application/x-ndjson", "Stream-Next-Offset": "x_5"}
    url = scripted(say(head(200, headers), b"1\n2\n")).url + "/s"
    with client.read(url) as response, pytest.raises(MalformedResponseError, match="neither"):
        list(response.messages())


def test_lines_that_call_themselves_json_do_not_vouch_for_themselves(
    client: DurableClient, scripted: Scripted
) -> None:
    url = scripted(say(head(200, {**JSON, "Stream-Next-Offset": "x_5"}), b"1\n2\n")).url + "/s"
    with client.read(url) as response, pytest.raises(MalformedResponseError, match="neither"):
        list(response.messages())


def test_an_array_vouches_for_itself(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(say(head(200, JSON), b"[1,2]"), say(head(200, JSON), b"[1,2"))
    with client.read(f"{server.url}/s") as response:
        assert list(response.messages()) == [b"1", b"2"]
    url = f"{server.url}/s"
    with client.read(url) as response, pytest.raises(MalformedResponseError, match="before its"):
        list(response.messages())


def test_a_slow_body_is_read_to_its_end(client: DurableClient, scripted: Scripted) -> None:
    body = json.dumps(["é€𝄞" * 3, 1], ensure_ascii=False).encode()

    def trickle(wire: Wire) -> None:
        wire.send(head(200, {**JSON, "Content-Length": str(len(body))}))
        for i in range(len(body)):
            wire.send(body[i : i + 1])

    server = scripted(trickle)
    with client.read(f"{server.url}/s") as response:
        assert [json.loads(m) for m in response.messages()] == ["é€𝄞" * 3, 1]


# --- connections --------------------------------------------------------------------------------


def test_bodies_read_or_small_keep_the_connection_others_close_it(
    client: DurableClient, scripted: Scripted
) -> None:
    large = bytes(1 << 20)
    server = scripted(
        respond(200, JSON, b"[1]"),
        say(head(200, {**CHUNKED, **JSON}), *chunked([b"[", b"1]"]), then=keep),
        respond(200, TEXT, b"small"),
        respond(200, TEXT, large),
    )
    url = f"{server.url}/s"
    for _ in range(2):
        with client.read(url) as response:
            list(response.messages())
    client.read(url).discard()
    with client.read(url) as response:
        response.read()
    assert server.connections == 1
    client.read(url).discard()
    with client.read(url) as response:
        next(response.chunks())
    assert server.connections == 2


def test_304_is_a_response_without_a_body(client: DurableClient, scripted: Scripted) -> None:
    step = respond(304, {"ETag": '"e"'})
    server = scripted(step)
    with client.read(f"{server.url}/s", etag='"e"') as response:
        assert response.not_modified
        assert response.read() == b""
        assert list(response.messages()) == []
        assert response.content_length == 0
    assert server.requests[0].headers["if-none-match"] == '"e"'
