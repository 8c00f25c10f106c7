"""The producer under faults: the same triple and the same bytes again, or nothing."""

from __future__ import annotations

import json

import pytest

from spark_durable.protocol import (
    AppendOutcome,
    ClientSettings,
    DurableClient,
    OutcomeUnknownError,
    Producer,
    ProducerLimitError,
    RetriesExhaustedError,
    RetryPolicy,
    StaleEpochError,
    StreamClosedError,
)
from tests.conftest import Server
from tests.protocol.conftest import Scripted
from tests.protocol.scripted import Request, ScriptedServer, Wire, respond, say

QUICK = RetryPolicy(deadline_s=20, base_delay_s=0.001, max_delay_s=0.01)


def producer(client: DurableClient, server: ScriptedServer, retry: RetryPolicy = QUICK) -> Producer:
    return Producer(client, f"{server.url}/s", "p", 3, retry=retry)


def accepted(seq: int) -> dict[str, str]:
    return {"Stream-Next-Offset": "5", "Producer-Epoch": "3", "Producer-Seq": str(seq)}


def sent(requests: list[Request]) -> list[tuple[str, bytes]]:
    return [(request.headers["producer-seq"], request.body) for request in requests]


def test_a_retry_repeats_the_same_triple_and_bytes(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(
        respond(200, accepted(0)),
        say(then=Wire.reset),
        respond(503, {"Retry-After": "0"}),
        respond(502),
        respond(204, accepted(1)),
        respond(200, accepted(2)),
    )
    it = producer(client, server)
    outcomes = [it.send(body).outcome for body in (b"[0]", bytearray(b"[1]"), memoryview(b"[2]"))]
    assert outcomes == [AppendOutcome.APPENDED, AppendOutcome.DUPLICATE, AppendOutcome.APPENDED]
    assert (it.appended, it.duplicates, it.next_seq) == (2, 1, 3)
    assert sent(server.requests) == [
        ("0", b"[0]"),
        *[("1", b"[1]")] * 4,
        ("2", b"[2]"),
    ]
    assert {request.headers["producer-epoch"] for request in server.requests} == {"3"}


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind"),
    [
        (403, {"Producer-Epoch": "4"}, b"", StaleEpochError),
        (429, {}, b"too many producers", ProducerLimitError),
        (409, {"Stream-Closed": "true"}, b"", StreamClosedError),
    ],
)
def test_a_final_refusal_is_not_repeated_and_does_not_move_the_seq(
    client: DurableClient,
    scripted: Scripted,
    status: int,
    headers: dict[str, str],
    body: bytes,
    kind: type[Exception],
) -> None:
    server = scripted(respond(status, headers, body))
    it = producer(client, server)
    with pytest.raises(kind, match="producer p, epoch 3, seq 0"):
        it.send(b"[0]")
    assert len(server.requests) == 1
    assert (it.next_seq, it.appended, it.duplicates) == (0, 0, 0)


def test_giving_up_names_the_append_and_allows_it_again(
    client: DurableClient, scripted: Scripted
) -> None:
    server = scripted(say(then=Wire.close), respond(204, accepted(0)))
    it = producer(client, server, RetryPolicy(deadline_s=0))
    with pytest.raises(RetriesExhaustedError, match="producer p, epoch 3, seq 0") as caught:
        it.send(b"[0]")
    assert isinstance(caught.value.__cause__, OutcomeUnknownError)
    assert it.send(b"[0]").outcome is AppendOutcome.DUPLICATE
    assert sent(server.requests) == [("0", b"[0]")] * 2


@pytest.mark.parametrize(
    ("epoch", "seq", "delivered"), [("3", "1", True), ("3", "0", True), ("2", "9", False)]
)
def test_a_repetition_on_a_closed_stream_is_delivered_if_the_server_has_the_seq(
    client: DurableClient, scripted: Scripted, epoch: str, seq: str, delivered: bool
) -> None:
    headers = {"Stream-Closed": "true", "Producer-Epoch": epoch, "Producer-Seq": seq}
    server = scripted(respond(409, {**headers, "Stream-Next-Offset": "9"}))
    it = producer(client, server)
    if not delivered:
        with pytest.raises(StreamClosedError):
            it.send(b"[0]")
        return
    result = it.send(b"[0]")
    assert (result.outcome, result.closed) == (AppendOutcome.DUPLICATE, True)
    if seq == "0":
        with pytest.raises(StreamClosedError):
            it.send(b"[1]")


class LosingProxy(ScriptedServer):
    """Forwards each request to a real server, and loses what its plan says."""

    def __init__(self, target: str, plan: list[str]) -> None:
        self._target = target
        self._plan = iter(plan)
        super().__init__(self._forward)

    def _forward(self, wire: Wire) -> None:
        import requests

        request, fault = self.requests[-1], next(self._plan, "none")
        if fault == "lose the request":
            wire.reset()
            return
        headers = {k: v for k, v in request.headers.items() if k not in ("host", "connection")}
        reply = requests.request(
            request.method,
            self._target + request.target,
            headers=headers,
            data=request.body,
            timeout=10,
        )
        if fault == "lose the answer":
            wire.reset()
        elif fault == "cut the answer":
            wire.send(b"HTTP/1.1 200 OK\r\nStream-Next-Off")
            wire.close()
        else:
            kept = {
                k: v for k, v in reply.headers.items() if k.lower().startswith(("stream", "prod"))
            }
            respond(reply.status_code, kept, b"" if reply.status_code == 204 else reply.content)(
                wire
            )


@pytest.mark.parametrize("faults", [["lose the answer"], ["lose the request"], ["cut the answer"]])
def test_each_body_is_in_the_stream_once_whatever_is_lost_on_the_way(
    server: Server, faults: list[str]
) -> None:
    plan = [fault for _ in range(10) for fault in (*faults, "none")]
    url = server.stream("lossy")
    with DurableClient() as direct:
        direct.create(url)
        with (
            LosingProxy(server.url, plan) as proxy,
            DurableClient(ClientSettings(read_timeout=5)) as client,
        ):
            it = Producer(client, proxy.url + url.removeprefix(server.url), "p", 0, retry=QUICK)
            for n in range(10):
                it.send(b"[%d]" % n)
            lost_answers = faults != ["lose the request"]
            assert (it.appended, it.duplicates) == ((0, 10) if lost_answers else (10, 0))
        with direct.read(url) as response:
            assert [json.loads(m) for m in response.messages()] == list(range(10))
