"""Every status becomes a named error with its diagnostics: the ones no server gives on demand."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from spark_durable.protocol import (
    BadRequestError,
    ClientSettings,
    ConfigurationMismatchError,
    ConflictError,
    ContentTypeMismatchError,
    DurableClient,
    DurableError,
    MalformedResponseError,
    NotFoundError,
    NotSupportedError,
    OffsetGoneError,
    OutcomeUnknownError,
    OverloadedError,
    PayloadTooLargeError,
    ProbeState,
    ProducerLimitError,
    ProducerTriple,
    RefusedError,
    SequenceGapError,
    SequenceRegressionError,
    StaleEpochError,
    StreamClosedError,
    UnauthorizedError,
)
from tests.protocol.conftest import Scripted
from tests.protocol.scripted import respond

TRIPLE = ProducerTriple("query/3", 12, 4)
Call = Callable[[DurableClient, str], object]

CALLS: dict[str, Call] = {
    "create": lambda client, url: client.create(url),
    "append": lambda client, url: client.append(url, b"[1]"),
    "append by a producer": lambda client, url: client.append(url, b"[1]", producer=TRIPLE),
    "append in sequence": lambda client, url: client.append(url, b"[1]", stream_seq="7"),
    "close": lambda client, url: client.close_stream(url),
    "delete": lambda client, url: client.delete(url),
    "head": lambda client, url: client.head(url),
    "read": lambda client, url: client.read(url, "3"),
    "long-poll": lambda client, url: client.long_poll(url, "3"),
    "sse": lambda client, url: client.sse(url, "3"),
    "probe": lambda client, url: client.probe(url, "query/3", 12),
    "create bucket": lambda client, url: client.create_bucket(url),
    "get bucket": lambda client, url: client.get_bucket(url),
    "list streams": lambda client, url: client.list_streams(url),
    "delete bucket": lambda client, url: client.delete_bucket(url),
    "publish snapshot": lambda client, url: client.publish_snapshot(url, "3", b"x"),
    "read snapshot": lambda client, url: client.snapshot(url, "3"),
    "delete snapshot": lambda client, url: client.delete_snapshot(url, "3"),
    "bootstrap": lambda client, url: client.bootstrap(url),
}


class Refuse:
    """Runs a call against a server that answers it with one status, and returns the error."""

    def __init__(self, scripted: Scripted, settings: ClientSettings | None = None) -> None:
        self._scripted = scripted
        self._settings = settings or ClientSettings(read_timeout=2)

    def __call__(
        self, call: str, status: int, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> DurableError:
        server = self._scripted(respond(status, headers, b"" if call == "head" else body))
        url = f"{server.url}/a%20b/s?key=hunter2"
        with DurableClient(self._settings) as client, pytest.raises(DurableError) as caught:
            CALLS[call](client, url)
        error = caught.value
        assert "hunter2" not in str(error)
        assert f"{server.url}/a%20b/s" in str(error), "the stream is named"
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.facts == error.facts
        return error


@pytest.fixture
def refuse(scripted: Scripted) -> Refuse:
    return Refuse(scripted)


# --- rows of the tables that servers do not give on demand --------------------------------------


@pytest.mark.parametrize("call", ["create", "append", "head", "read", "long-poll", "sse", "close"])
@pytest.mark.parametrize(("header", "seconds"), [({}, None), ({"retry-after": "3"}, 3.0)])
def test_429_rate_limit_exceeded(
    refuse: Refuse, call: str, header: dict[str, str], seconds: float | None
) -> None:
    error = refuse(call, 429, header, b"slow down")
    assert isinstance(error, OverloadedError)
    assert error.retry_after == seconds
    assert error.status == 429


@pytest.mark.parametrize("call", ["append", "append by a producer", "close", "delete"])
@pytest.mark.parametrize("status", [405, 501])
def test_405_and_501_not_supported_for_this_stream(refuse: Refuse, call: str, status: int) -> None:
    error = refuse(call, status)
    assert isinstance(error, NotSupportedError)
    assert error.status == status


@pytest.mark.parametrize("call", ["append", "publish snapshot"])
def test_413_body_exceeds_the_limit(refuse: Refuse, call: str) -> None:
    error = refuse(call, 413, {"Ursula-Max-Request-Bytes": "33554432"})
    assert isinstance(error, PayloadTooLargeError)
    assert error.facts["limit"] == 33554432
    assert error.facts["body_bytes"] == (3 if call == "append" else 1)
    assert "maxAppendBytes" in str(error)


def test_503_with_retry_after_as_seconds_and_as_date(refuse: Refuse) -> None:
    error = refuse("append", 503, {"Retry-After": "1"}, b'{"error":{"code":"COLD_BACKPRESSURE"}}')
    assert isinstance(error, OverloadedError)
    assert error.retry_after == 1
    assert "COLD_BACKPRESSURE" in str(error)
    soon = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=100), usegmt=True)
    error = refuse("append", 503, {"Retry-After": soon})
    assert isinstance(error, OverloadedError)
    assert error.retry_after is not None
    assert 50 < error.retry_after <= 100
    for nonsense in ("soon", "-5", "1e9", ""):
        error = refuse("append", 503, {"Retry-After": nonsense})
        assert isinstance(error, OverloadedError)
        assert error.retry_after is None


# --- limits, credentials ------------------------------------------------------------------------

LIMIT = b'{"error":{"code":"PRODUCER_LIMIT","message":"stream holds 4096 producers"}}'


@pytest.mark.parametrize("call", ["append by a producer", "probe"])
def test_429_that_names_producers_and_no_pause_is_permanent(refuse: Refuse, call: str) -> None:
    error = refuse(call, 429, {}, LIMIT)
    assert isinstance(error, ProducerLimitError)
    assert not isinstance(error, OverloadedError)
    assert "txnAppId" in str(error)


def test_429_with_a_pause_or_without_a_producer_is_overload(refuse: Refuse) -> None:
    assert isinstance(
        refuse("append by a producer", 429, {"Retry-After": "1"}, LIMIT), OverloadedError
    )
    assert isinstance(refuse("append", 429, {}, LIMIT), OverloadedError)
    assert isinstance(refuse("append by a producer", 429, {}, b"too fast"), OverloadedError)


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("status", [401, 403, 407])
def test_401_and_403_without_an_epoch_are_about_credentials(
    refuse: Refuse, call: str, status: int
) -> None:
    error = refuse(call, status, {}, b"who are you?")
    assert isinstance(error, UnauthorizedError)
    assert "token" in str(error)


def test_403_tells_the_epoch_by_header_or_text(refuse: Refuse) -> None:
    error = refuse("append by a producer", 403, {"producer-epoch": "13"})
    assert isinstance(error, StaleEpochError)
    assert error.current_epoch == 13
    assert "producer query/3, epoch 12, seq 4" in str(error)
    error = refuse("append by a producer", 403, {"Producer-Epoch": "x"}, b"Stale producer epoch")
    assert isinstance(error, StaleEpochError)
    assert error.current_epoch is None


def test_a_secret_that_the_server_echoes_is_not_repeated(scripted: Scripted) -> None:
    settings = ClientSettings(token="tok-4711", headers={"X-Key": "key-0815"})
    error = Refuse(scripted, settings)("head", 401)
    error = Refuse(scripted, settings)("read", 401, {}, b"bad token tok-4711, bad key key-0815")
    assert "4711" not in str(error)
    assert "0815" not in str(error)
    assert "bad token" in str(error)


# --- conflicts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "headers", "body", "kind"),
    [
        ("create", {}, b"", ConfigurationMismatchError),
        # Closed is what a create conflicts with, not what stops it.
        ("create", {"Stream-Closed": "true"}, b"", ConfigurationMismatchError),
        ("append", {"STREAM-CLOSED": "True", "stream-next-offset": "9"}, b"", StreamClosedError),
        ("close", {"Stream-Closed": "true"}, b"", StreamClosedError),
        ("append by a producer", {"producer-expected-seq": "2"}, b"", SequenceGapError),
        ("append by a producer", {}, b"Producer sequence gap", SequenceGapError),
        ("append", {}, b"", ContentTypeMismatchError),
        ("append", {}, b"Content-type mismatch", ContentTypeMismatchError),
        ("append", {}, b'{"error":{"code":"CONTENT_TYPE_MISMATCH"}}', ContentTypeMismatchError),
        ("append", {}, b"it is text/plain, not application/json", ContentTypeMismatchError),
        ("append", {}, b"the moon is in the way", ConflictError),
        ("append in sequence", {}, b"Sequence conflict", SequenceRegressionError),
        ("append in sequence", {}, b"Content-type mismatch", ContentTypeMismatchError),
        ("append in sequence", {}, b"", ConflictError),
        ("create bucket", {}, b"", ConflictError),
        ("delete bucket", {}, b"", ConflictError),
        ("publish snapshot", {}, b"", ConflictError),
        ("delete snapshot", {}, b"", ConflictError),
    ],
)
def test_409_of_each_kind(
    refuse: Refuse, call: str, headers: dict[str, str], body: bytes, kind: type[DurableError]
) -> None:
    error = refuse(call, 409, headers, body)
    assert type(error) is kind


def test_409_closed_carries_what_the_server_has_of_the_producer(refuse: Refuse) -> None:
    headers = {
        "Stream-Closed": "true",
        "Stream-Next-Offset": "42",
        "Producer-Epoch": "12",
        "Producer-Seq": "3",
    }
    error = refuse("append by a producer", 409, headers)
    assert isinstance(error, StreamClosedError)
    assert (error.final_offset, error.producer_epoch, error.producer_seq) == ("42", 12, 3)


def test_409_gap_carries_both_seqs(refuse: Refuse) -> None:
    headers = {"Producer-Expected-Seq": "2", "Producer-Received-Seq": "4"}
    error = refuse("append by a producer", 409, headers)
    assert isinstance(error, SequenceGapError)
    assert (error.expected_seq, error.received_seq) == (2, 4)


def test_410_carries_the_retained_offset(refuse: Refuse) -> None:
    for call in ("read", "long-poll", "sse"):
        for name in ("Stream-Retained-Offset", "Stream-Snapshot-Offset"):
            error = refuse(call, 410, {name: "7"})
            assert isinstance(error, OffsetGoneError)
            assert error.retained_offset == "7"
            assert "bootstrap" in str(error)


# --- every other status -------------------------------------------------------------------------


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NotFoundError),
        (405, NotSupportedError),
        (409, ConflictError),
        (410, OffsetGoneError),
        (418, RefusedError),
        (429, OverloadedError),
        (500, OutcomeUnknownError),
        (501, NotSupportedError),
        (503, OverloadedError),
        (599, OutcomeUnknownError),
        (206, MalformedResponseError),
        (202, MalformedResponseError),
    ],
)
def test_no_status_passes_for_a_success_or_for_a_foreign_error(
    refuse: Refuse, call: str, status: int, kind: type[DurableError]
) -> None:
    assert isinstance(refuse(call, status), kind)


@pytest.mark.parametrize("call", [c for c in CALLS if c != "probe"])
@pytest.mark.parametrize("status", [400, 422])
def test_400_and_its_kin(refuse: Refuse, call: str, status: int) -> None:
    error = refuse(call, status)
    assert type(error) is (BadRequestError if status == 400 else RefusedError)


@pytest.mark.parametrize("call", list(CALLS))
def test_a_web_page_with_200_is_no_answer_of_the_protocol(scripted: Scripted, call: str) -> None:
    """What a login page or a plain web server says to everything must not count."""
    server = scripted(respond(200, {"Content-Type": "text/html"}, b"<html>welcome</html>"))
    with DurableClient(ClientSettings(read_timeout=2)) as client:
        if call in ("read", "long-poll"):
            response = client.read(f"{server.url}/s")
            assert response.next_offset is None
            with pytest.raises(MalformedResponseError):
                list(response.messages())
            return
        with pytest.raises(MalformedResponseError):
            CALLS[call](client, f"{server.url}/s")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"plain  text\n here", "plain text here"),
        (b'{"error":{"code":"C","message":"m"}}', "C: m"),
        (b'{"error":"just a text"}', "just a text"),
        (b'{"message":"m"}', "m"),
        (b'{"detail":"d"}', "d"),
        (b'["x"]', "x"),
        (b'{"error":{', '{"error":{'),
        ("über".encode(), "über"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_what_the_server_says_is_in_the_text(refuse: Refuse, body: bytes, said: str) -> None:
    assert said in str(refuse("append", 400, {}, body))


def test_an_endless_error_body_is_cut(refuse: Refuse) -> None:
    assert len(str(refuse("append", 400, {}, b"x" * 10_000_000))) < 1500
    assert len(str(refuse("append", 400, {}, json.dumps({"error": "y" * 100_000}).encode()))) < 5000


@pytest.mark.parametrize(
    ("status", "headers", "state", "current", "applied"),
    [
        (409, {"Producer-Expected-Seq": "0"}, ProbeState.UNKNOWN_PRODUCER, None, 0),
        (409, {"Producer-Expected-Seq": "4"}, ProbeState.EPOCH_CURRENT, 12, 4),
        (400, {}, ProbeState.EPOCH_NOT_BEGUN, None, 0),
        (403, {"Producer-Epoch": "13"}, ProbeState.NEWER_EPOCH, 13, None),
        (409, {"Stream-Closed": "true"}, ProbeState.CLOSED, None, None),
        (
            409,
            {"Stream-Closed": "true", "Producer-Epoch": "12", "Producer-Seq": "3"},
            ProbeState.CLOSED,
            12,
            4,
        ),
        (
            409,
            {"Stream-Closed": "true", "Producer-Epoch": "11", "Producer-Seq": "3"},
            ProbeState.CLOSED,
            11,
            None,
        ),
    ],
)
def test_probe_readings(
    scripted: Scripted,
    status: int,
    headers: dict[str, str],
    state: ProbeState,
    current: int | None,
    applied: int | None,
) -> None:
    server = scripted(respond(status, headers))
    with DurableClient() as client:
        result = client.probe(f"{server.url}/s", "query/3", 12)
    assert (result.state, result.current_epoch, result.applied) == (state, current, applied)
    assert server.requests[0].headers["producer-seq"] == str(2**53 - 1)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"[0]"),
        ("Application/JSON; charset=utf-8", b"[0]"),
        ("text/plain", b"0"),
        ("application/octet-stream", b"0"),
    ],
)
def test_a_probe_sends_a_body_that_nobody_could_refuse_for_itself(
    scripted: Scripted, content_type: str, body: bytes
) -> None:
    """Whoever looks at the body first must not say 400: that means an epoch not begun."""
    server = scripted(respond(400))
    with DurableClient() as client:
        client.probe(f"{server.url}/s", "p", 0, content_type)
    (request,) = server.requests
    assert (request.body, request.headers["content-type"]) == (body, content_type)


@pytest.mark.parametrize("status", [200, 204])
def test_a_probe_that_is_accepted_is_an_alarm(scripted: Scripted, status: int) -> None:
    server = scripted(respond(status, {"Stream-Next-Offset": "5"}))
    with DurableClient() as client, pytest.raises(MalformedResponseError, match="does not check"):
        client.probe(f"{server.url}/s", "p", 0)


def test_a_probe_that_names_no_expected_seq_decides_nothing(scripted: Scripted) -> None:
    server = scripted(respond(409, {}, b"Producer sequence gap"))
    with DurableClient() as client, pytest.raises(SequenceGapError):
        client.probe(f"{server.url}/s", "p", 0)
