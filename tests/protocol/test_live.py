"""Tailing: the end of a wait, and events cut before they are confirmed."""

from __future__ import annotations

import time
from itertools import islice

import pytest

from spark_durable.protocol import (
    ClientSettings,
    ControlEvent,
    DataEvent,
    DurableClient,
    MalformedResponseError,
    NotFoundError,
    OutcomeUnknownError,
)
from tests.protocol.conftest import Scripted
from tests.protocol.scripted import ScriptedServer, Step, Wire, chunked, head, keep, respond, say

FAST = ClientSettings(read_timeout=0.5)
EVENTS = {"Content-Type": "text/event-stream"}
CHUNKED = {**EVENTS, "Transfer-Encoding": "chunked"}
DATA = b"event: data\ndata: [1]\n\n"
CONTROL = b'event: control\ndata: {"streamNextOffset":"5","streamCursor":"c"}\n\n'
CLOSED = b'event: control\ndata: {"streamNextOffset":"5","streamClosed":true}\n\n'
CONFIRMED = [DataEvent(b"[1]"), ControlEvent("5", "c", False, False)]


# --- long-poll ----------------------------------------------------------------------------------


def test_204_is_empty_and_up_to_date(client: DurableClient, scripted: Scripted) -> None:
    headers = {"Stream-Next-Offset": "9", "Stream-Up-To-Date": "true", "Stream-Cursor": "c"}
    server = scripted(respond(204, headers))
    with client.long_poll(f"{server.url}/s", "9") as response:
        assert (response.next_offset, response.cursor) == ("9", "c")
        assert response.up_to_date
        assert not response.closed
        assert response.read() == b""
    client.long_poll(f"{server.url}/s", "9")
    assert server.connections == 1


def test_a_server_that_waits_longer_than_asked_gives_an_empty_response(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(say(then=keep))
    with client.long_poll(f"{server.url}/s", "9", timeout_s=0.2) as response:
        assert response.next_offset == "9"
        assert not response.up_to_date, "nobody said so"
        assert list(response.messages()) == []
    with client.long_poll(f"{server.url}/s", "now", timeout_s=0.2) as response:
        assert response.next_offset is None, "'now' is no place to resume at"


def test_the_timeout_bounds_the_wait_and_not_the_body(
    client: DurableClient, scripted: Scripted
) -> None:
    def slow(wire: Wire) -> None:
        wire.send(head(200, {"Content-Type": "text/plain", "Content-Length": "4"}) + b"ab")
        time.sleep(0.2)
        wire.send(b"cd")

    server = scripted(slow)
    with client.long_poll(f"{server.url}/s", "9", timeout_s=0.1) as response:
        assert response.read() == b"abcd"


def test_without_a_timeout_of_its_own_silence_is_an_error(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(say(then=keep))
    with pytest.raises(OutcomeUnknownError, match="read timeout"):
        client.long_poll(f"{server.url}/s", "9")


def test_a_broken_connection_is_an_error_also_within_the_timeout(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(say(then=Wire.close))
    with pytest.raises(OutcomeUnknownError):
        client.long_poll(f"{server.url}/s", "9", timeout_s=5)


def test_an_error_the_caller_is_handling_is_not_taken_for_ours(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(say(then=Wire.close))
    try:
        raise TimeoutError("of something else")
    except TimeoutError:
        with pytest.raises(OutcomeUnknownError, match="RemoteDisconnected"):
            client.long_poll(f"{server.url}/s", "9", timeout_s=5)


@pytest.mark.parametrize(("timeout_s", "asked"), [(0.5, 400), (10, 9900), (600, 60000), (0.001, 1)])
def test_servers_that_know_the_parameter_are_asked_to_answer_in_time(
    timeout_s: float, asked: int, client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(204))
    client.long_poll(f"{server.url}/s", "9", timeout_s=timeout_s)
    server.wait_for_a_request()  # a client that waits a millisecond is gone before it is seen
    assert f"timeout_ms={asked}" in server.requests[0].target.split("&")


# --- SSE ----------------------------------------------------------------------------------------


def events_of(step: Step, settings: ClientSettings = FAST) -> list[DataEvent | ControlEvent]:
    with (
        ScriptedServer(step) as server,
        DurableClient(settings) as client,
        client.sse(f"{server.url}/s", "-1") as response,
    ):
        return list(response)


def test_events_until_the_server_ends_the_connection() -> None:
    assert events_of(say(head(200, EVENTS), DATA, CONTROL)) == CONFIRMED
    assert events_of(say(head(200, CHUNKED), *chunked([DATA + CONTROL]))) == CONFIRMED


def test_several_data_events_may_share_a_control_event() -> None:
    assert events_of(say(head(200, EVENTS), DATA, DATA, CONTROL)) == [CONFIRMED[0], *CONFIRMED]


def test_closed_ends_the_iteration_even_if_the_server_lingers() -> None:
    step = say(head(200, EVENTS), DATA, CLOSED, then=keep)
    assert events_of(step, ClientSettings())[-1] == ControlEvent("5", None, True, True)


def test_events_are_handed_on_as_they_arrive(client: DurableClient, scripted: Scripted) -> None:
    for headers, pieces in (
        (EVENTS, [DATA, CONTROL]),
        (CHUNKED, list(chunked([DATA, CONTROL]))[:2]),
    ):
        step = say(head(200, headers), *pieces, then=keep)
        server = scripted(step)
        with client.sse(f"{server.url}/s", "-1") as response:
            assert list(islice(response, 2)) == CONFIRMED


def test_silence_with_nothing_pending_ends_the_iteration() -> None:
    assert events_of(say(head(200, EVENTS), DATA, CONTROL, b": alive\n", then=keep)) == CONFIRMED


def reset_once_read(wire: Wire) -> None:
    """A reset takes back what was sent and not yet read: then nothing would be pending."""
    time.sleep(0.3)
    wire.reset()


@pytest.mark.parametrize("then", [Wire.close, reset_once_read, keep])
@pytest.mark.parametrize("pending", [DATA, DATA[:-1], b"event: da", CONTROL[:-1], CONTROL + DATA])
@pytest.mark.parametrize("headers", [EVENTS, CHUNKED])
def test_data_without_its_control_event_is_never_passed_over_in_silence(
    pending: bytes, headers: dict[str, str], then: Step, client: DurableClient, scripted: Scripted
) -> None:
    pieces = [DATA, CONTROL, pending]
    if headers is CHUNKED:
        pieces = list(chunked(pieces))[:-1]
    server = scripted(say(head(200, headers), *pieces, then=then))
    with client.sse(f"{server.url}/s", "-1") as response:
        found: list[DataEvent | ControlEvent] = []
        with pytest.raises(OutcomeUnknownError):
            found.extend(event for event in response)
        assert found[:2] == CONFIRMED[: len(found)]


def test_binary_data_is_decoded() -> None:
    headers = {**EVENTS, "stream-sse-data-encoding": "base64"}
    data = b"event: data\ndata: AAH\ndata: /\n\n"
    assert events_of(say(head(200, headers), data, CONTROL))[0] == DataEvent(b"\x00\x01\xff")


def test_an_answer_that_is_no_event_stream_is_an_error(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(respond(200, {"Content-Type": "application/json"}, b"[]"))
    with pytest.raises(MalformedResponseError, match="long-poll"):
        client.sse(f"{server.url}/s", "-1")


def test_refusals_come_before_any_event(client: DurableClient, scripted: Scripted) -> None:
    server = scripted(respond(404))
    with pytest.raises(NotFoundError):
        client.sse(f"{server.url}/s", "-1")
