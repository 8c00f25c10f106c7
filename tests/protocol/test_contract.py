"""One contract for every server: each operation, each status, each rule for producers.

What a server does not have, it must refuse in the way the client documents. Statuses that no server
gives on demand (405, 413, 429, 501, …) are in test_refusals.py, under the same kind of name.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

import pytest

from spark_durable.protocol import (
    AppendOutcome,
    BadRequestError,
    ClientSettings,
    ConfigurationMismatchError,
    ConflictError,
    ContentTypeMismatchError,
    ControlEvent,
    DataEvent,
    DurableClient,
    DurableError,
    Framing,
    NotFoundError,
    NotSupportedError,
    OffsetGoneError,
    ProbeState,
    Producer,
    ProducerTriple,
    SequenceGapError,
    SequenceRegressionError,
    StaleEpochError,
    StreamClosedError,
    split_array,
)
from spark_durable.protocol.headers import MAX_SAFE_INTEGER

TEXT = "text/plain"
BINARY = "application/octet-stream"


@dataclass(frozen=True)
class Peer:
    """A server's surface: where its streams are, and whether it has buckets and snapshots."""

    name: str
    url: str
    base: str
    extended: bool
    unique: str

    def stream(self, name: str = "s") -> str:
        return f"{self.base}/{name}-{self.unique}"

    @property
    def bucket(self) -> str:
        return f"{self.url}/ds/b{self.unique}" if self.extended else f"{self.base}/b{self.unique}"


@pytest.fixture(params=["node", "embedded", "embedded-buckets"])
def peer(request: pytest.FixtureRequest) -> Peer:
    name = request.param
    url = request.getfixturevalue("node_server" if name == "node" else "embedded_server")
    extended = name == "embedded-buckets"
    base = request.getfixturevalue("bucket") if extended else f"{url}/v1/stream"
    return Peer(name, url, base, extended, unique=uuid.uuid4().hex[:12])


@pytest.fixture(scope="session")
def bucket(embedded_server: str) -> str:
    url = f"{embedded_server}/ds/contract"
    with DurableClient() as client:
        client.create_bucket(url)
    return url


@pytest.fixture
def client() -> Iterator[DurableClient]:
    with DurableClient(ClientSettings(read_timeout=20)) as patient:
        yield patient


@pytest.fixture
def url(client: DurableClient, peer: Peer) -> str:
    """A JSON stream that is there and empty."""
    url = peer.stream()
    client.create(url)
    return url


@pytest.fixture
def text_url(client: DurableClient, peer: Peer) -> str:
    url = peer.stream("text")
    client.create(url, content_type=TEXT)
    return url


def messages(client: DurableClient, url: str, offset: str = "-1") -> list[bytes]:
    """All messages after an offset, however many responses the server makes of them."""
    found: list[bytes] = []
    carry, up_to_date = b"", False
    while not up_to_date:
        with client.read(url, offset) as response:
            found += response.messages(carry)
            assert response.next_offset is not None
            offset, carry, up_to_date = (
                response.next_offset,
                response.remainder,
                response.up_to_date,
            )
    return found


def values(client: DurableClient, url: str, offset: str = "-1") -> list[object]:
    return [json.loads(message) for message in messages(client, url, offset)]


def body(client: DurableClient, url: str, offset: str = "-1") -> bytes:
    with client.read(url, offset) as response:
        return response.read()


# --- CREATE (PUT) -------------------------------------------------------------------------------


def test_create_201_stream_created(client: DurableClient, peer: Peer) -> None:
    result = client.create(peer.stream(), content_type=TEXT)
    assert result.created
    assert result.info.content_type is not None
    assert result.info.content_type.startswith(TEXT)
    assert result.info.tail
    assert not result.info.closed


def test_create_200_exists_with_matching_configuration(client: DurableClient, url: str) -> None:
    again = client.create(url)
    assert not again.created
    assert again.info.tail == client.head(url).tail


def test_create_409_exists_with_another_content_type(client: DurableClient, url: str) -> None:
    with pytest.raises(ConfigurationMismatchError):
        client.create(url, content_type=TEXT)


def test_create_409_exists_with_another_lifetime(client: DurableClient, url: str) -> None:
    with pytest.raises(ConfigurationMismatchError):
        client.create(url, ttl_s=60)


def test_create_409_exists_with_another_closure(client: DurableClient, url: str) -> None:
    with pytest.raises(ConfigurationMismatchError):
        client.create(url, closed=True)
    client.close_stream(url)
    with pytest.raises(ConfigurationMismatchError):
        client.create(url)
    assert not client.create(url, closed=True).created


def test_create_400_both_ttl_and_expiry(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(BadRequestError, match="exclude each other"):
        client.create(peer.stream(), ttl_s=60, expires_at="2100-01-01T00:00:00Z")


def test_create_with_initial_content(client: DurableClient, peer: Peer) -> None:
    url = peer.stream()
    created = client.create(url, body=b'[{"a":1},2]')
    assert values(client, url) == [{"a": 1}, 2]
    assert created.info.tail == client.head(url).tail


def test_create_closed_with_content_is_complete(client: DurableClient, peer: Peer) -> None:
    url = peer.stream()
    assert client.create(url, closed=True, body=b"[1]").info.closed
    assert values(client, url) == [1]
    with pytest.raises(StreamClosedError):
        client.append(url, b"2")


def test_create_with_ttl_and_with_expiry_shows_on_head(client: DurableClient, peer: Peer) -> None:
    client.create(peer.stream("ttl"), ttl_s=3600)
    assert client.head(peer.stream("ttl")).ttl_s == 3600
    client.create(peer.stream("exp"), expires_at="2100-01-01T00:00:00Z")
    expires_at = client.head(peer.stream("exp")).expires_at
    assert expires_at is not None
    assert expires_at.startswith("2100-01-01T00:00:00")


def test_create_a_fork(client: DurableClient, peer: Peer, url: str) -> None:
    first = client.append(url, b"[1,2]")
    client.append(url, b"[3]")
    fork, path = peer.stream("fork"), urlsplit(url).path
    client.create(fork, content_type=None, forked_from=path, fork_offset=first.next_offset)
    client.append(fork, b"[4]")
    assert values(client, fork) == [1, 2, 4]
    assert values(client, url) == [1, 2, 3]
    inner = peer.stream("inner")
    client.create(
        inner,
        content_type=None,
        forked_from=path,
        fork_offset=first.next_offset,
        fork_sub_offset=1,
    )
    assert values(client, inner) == [1, 2, 3]


def test_create_404_source_of_a_fork_is_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError, match="fork"):
        client.create(peer.stream(), forked_from=urlsplit(peer.stream("none")).path)


# --- APPEND (POST) ------------------------------------------------------------------------------


def test_append_204_without_producer(client: DurableClient, url: str) -> None:
    result = client.append(url, b'{"a":1}')
    assert result.outcome is AppendOutcome.APPENDED
    assert result.next_offset == client.head(url).tail
    assert result.producer_seq is None


def test_append_200_with_producer(client: DurableClient, url: str) -> None:
    result = client.append(url, b"[1]", producer=ProducerTriple("p", 0, 0))
    assert result.outcome is AppendOutcome.APPENDED
    assert (result.producer_epoch, result.producer_seq) == (0, 0)
    assert result.next_offset == client.head(url).tail


def test_append_204_duplicate_stores_nothing(client: DurableClient, url: str) -> None:
    triple = ProducerTriple("p", 0, 0)
    client.append(url, b"[1]", producer=triple)
    tail = client.head(url).tail
    again = client.append(url, b"[1]", producer=triple)
    assert again.outcome is AppendOutcome.DUPLICATE
    assert again.next_offset in (None, tail)
    assert client.head(url).tail == tail
    assert values(client, url) == [1]


@pytest.mark.parametrize("bad", [b"", b"[]", b"{", b"[1,]", b"nope", b"\xff"])
def test_append_400_malformed_body(client: DurableClient, url: str, bad: bytes) -> None:
    with pytest.raises(BadRequestError, match="valid JSON"):
        client.append(url, bad)
    assert values(client, url) == []


def test_append_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError, match="create it first"):
        client.append(peer.stream(), b"1")


def test_append_409_content_type_mismatch(client: DurableClient, url: str) -> None:
    with pytest.raises(ContentTypeMismatchError, match=TEXT):
        client.append(url, b"1", content_type=TEXT)


def test_append_409_sequence_regression(client: DurableClient, url: str) -> None:
    client.append(url, b"1", stream_seq="b")
    for seq in ("b", "a"):
        with pytest.raises(SequenceRegressionError) as caught:
            client.append(url, b"2", stream_seq=seq)
        assert caught.value.facts["stream_seq"] == seq
    client.append(url, b"3", stream_seq="c")
    assert values(client, url) == [1, 3]


def test_append_409_stream_closed_names_the_final_offset(client: DurableClient, url: str) -> None:
    final = client.append(url, b"1", close=True).next_offset
    with pytest.raises(StreamClosedError) as caught:
        client.append(url, b"2")
    assert caught.value.final_offset == final


def test_append_409_closed_comes_before_content_type(client: DurableClient, url: str) -> None:
    client.close_stream(url)
    with pytest.raises(StreamClosedError):
        client.append(url, b"1", content_type=TEXT, stream_seq="a")


def test_append_410_stream_soft_deleted(client: DurableClient, peer: Peer, url: str) -> None:
    client.create(peer.stream("fork"), forked_from=urlsplit(url).path)
    client.delete(url)
    with pytest.raises(OffsetGoneError, match="deleted"):
        client.append(url, b"1")
    with pytest.raises(OffsetGoneError, match="deleted"):
        client.head(url)
    with pytest.raises(OffsetGoneError, match="deleted"):
        client.read(url)


def test_append_flattens_one_level_and_keeps_the_order(client: DurableClient, url: str) -> None:
    client.append(url, b"[[1,2],[3]]")
    client.append(url, b"[[[4]]]")
    client.append(url, b'{"a":[5]}')
    assert values(client, url) == [[1, 2], [3], [[4]], {"a": [5]}]


def test_append_of_other_content_types_is_byte_by_byte(
    client: DurableClient, text_url: str
) -> None:
    client.append(text_url, b"hello ", content_type=TEXT)
    client.append(text_url, memoryview(b"world\x00\xff"), content_type=TEXT)
    assert body(client, text_url) == b"hello world\x00\xff"


# --- CLOSE (POST with Stream-Closed) ------------------------------------------------------------


def test_close_204_and_again_204(client: DurableClient, url: str) -> None:
    tail = client.append(url, b"1").next_offset
    for _ in range(2):
        result = client.close_stream(url)
        assert result.closed
        assert result.next_offset == tail
    assert client.head(url).closed
    assert values(client, url) == [1]


def test_close_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.close_stream(peer.stream())


def test_close_by_a_producer_takes_a_seq(client: DurableClient, url: str) -> None:
    client.append(url, b"1", producer=ProducerTriple("p", 0, 0))
    for _ in range(2):
        assert client.close_stream(url, producer=ProducerTriple("p", 0, 1)).closed


# --- DELETE -------------------------------------------------------------------------------------


def test_delete_204_deleted(client: DurableClient, url: str) -> None:
    client.delete(url)
    with pytest.raises(NotFoundError):
        client.head(url)


def test_delete_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.delete(peer.stream())


# --- HEAD ---------------------------------------------------------------------------------------


def test_head_200_describes_the_stream(client: DurableClient, url: str) -> None:
    before = client.head(url)
    tail = client.append(url, b"[1]").next_offset
    after = client.head(url)
    assert after.tail == tail != before.tail
    assert after.content_type == "application/json"
    assert not after.closed
    assert after.snapshot_offset is None
    assert after.url == url


def test_head_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.head(peer.stream())


# --- READ (GET, catch-up) -----------------------------------------------------------------------


def test_read_200_data_from_the_beginning_and_from_an_offset(
    client: DurableClient, url: str
) -> None:
    middle = client.append(url, b"[1,2]").next_offset
    tail = client.append(url, b"[3]").next_offset
    assert middle is not None
    with client.read(url) as response:
        assert response.framing is Framing.ARRAY
        assert [json.loads(m) for m in response.messages()] == [1, 2, 3]
        assert response.next_offset == tail
        assert response.up_to_date
        assert not response.closed
    assert values(client, url, middle) == [3]


def test_read_200_empty_at_the_tail(client: DurableClient, url: str, text_url: str) -> None:
    tail = client.append(url, b"[1]").next_offset
    assert tail is not None
    with client.read(url, tail) as response:
        assert list(response.messages()) == []
        assert response.next_offset == tail
        assert response.up_to_date
    assert body(client, text_url) == b""


def test_read_200_closed_at_the_end(client: DurableClient, url: str) -> None:
    tail = client.append(url, b"[1]", close=True).next_offset
    assert tail is not None
    for offset in ("-1", tail):
        with client.read(url, offset) as response:
            assert response.closed


def test_read_200_now_skips_what_is_there(client: DurableClient, url: str) -> None:
    tail = client.append(url, b"[1]").next_offset
    with client.read(url, "now") as response:
        assert list(response.messages()) == []
        assert response.next_offset == tail
        assert response.up_to_date


def test_read_304_not_modified(client: DurableClient, url: str) -> None:
    client.append(url, b"[1]")
    with client.read(url) as response:
        list(response.messages())
        assert response.etag is not None
    with client.read(url, etag=response.etag) as again:
        assert again.not_modified
        assert list(again.messages()) == []
    client.append(url, b"[2]")
    with client.read(url, etag=response.etag) as changed:
        assert not changed.not_modified


def test_read_304_never_hides_a_closure(client: DurableClient, url: str) -> None:
    client.append(url, b"[1]")
    with client.read(url) as response:
        list(response.messages())
    client.close_stream(url)
    with client.read(url, etag=response.etag) as again:
        assert not again.not_modified
        assert again.closed


@pytest.mark.parametrize("offset", ["not an offset", "0,1", "a/b", "1&2"])
def test_read_400_malformed_offset(client: DurableClient, url: str, offset: str) -> None:
    client.append(url, b"[1]")
    with pytest.raises(BadRequestError, match="offset must be one that this server gave"):
        client.read(url, offset)


def test_read_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.read(peer.stream())


def test_read_410_offset_before_the_earliest_retained(
    client: DurableClient, peer: Peer, url: str
) -> None:
    """Only a snapshot moves retention; where there is none, a deleted source gives the 410."""
    first = client.append(url, b"[1]").next_offset
    kept = client.append(url, b"[2]").next_offset
    client.append(url, b"[3]")
    assert first is not None
    assert kept is not None
    if peer.extended:
        client.publish_snapshot(url, kept, b"folded")
        assert values(client, url, kept) == [3]
    else:
        client.create(peer.stream("fork"), forked_from=urlsplit(url).path)
        client.delete(url)
    for offset in ("-1", first):
        with pytest.raises(OffsetGoneError, match="bootstrap") as caught:
            client.read(url, offset)
        assert caught.value.retained_offset == (kept if peer.extended else None)
        with pytest.raises(OffsetGoneError):
            client.long_poll(url, offset)
        with pytest.raises(OffsetGoneError):
            client.sse(url, offset)


def test_read_many_messages_of_any_text(client: DurableClient, url: str) -> None:
    sent: list[object] = [
        {"n": n, "text": 'é€𝄞\n"\\' * (n % 7), "deep": [[n], {}]} for n in range(3000)
    ]
    for start in range(0, len(sent), 500):
        client.append(url, json.dumps(sent[start : start + 500], ensure_ascii=False).encode())
    assert values(client, url) == sent


# --- READ (GET, long-poll) ----------------------------------------------------------------------


def test_long_poll_200_data_is_there(client: DurableClient, url: str) -> None:
    client.append(url, b"[1]")
    with client.long_poll(url, "-1") as response:
        assert list(response.messages()) == [b"1"]
        assert response.cursor is not None


def test_long_poll_200_data_arrives(client: DurableClient, url: str) -> None:
    tail = client.append(url, b"[1]").next_offset
    assert tail is not None

    def write_later() -> None:
        with DurableClient() as writer:
            writer.append(url, b"[2]")

    timer = threading.Timer(0.2, write_later)
    timer.start()
    with client.long_poll(url, tail, timeout_s=15) as response:
        assert list(response.messages()) == [b"2"]
    timer.join()


def test_long_poll_204_no_data_in_time(client: DurableClient, url: str) -> None:
    tail = client.append(url, b"[1]").next_offset
    assert tail is not None
    with client.long_poll(url, tail, timeout_s=0.3) as response:
        assert list(response.messages()) == []
        assert response.next_offset == tail
        assert not response.closed


def test_long_poll_204_closed_does_not_wait(client: DurableClient, url: str) -> None:
    tail = client.append(url, b"[1]", close=True).next_offset
    assert tail is not None
    with client.long_poll(url, tail) as response:
        assert response.closed
        assert response.up_to_date
        assert response.next_offset == tail
        assert response.read() == b""


def test_long_poll_400_malformed_offset(client: DurableClient, url: str) -> None:
    with pytest.raises(BadRequestError):
        client.long_poll(url, "not an offset")


def test_long_poll_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.long_poll(peer.stream(), "-1")


# --- READ (GET, SSE) ----------------------------------------------------------------------------


def tailed(client: DurableClient, url: str, offset: str = "-1") -> tuple[bytes, ControlEvent]:
    """The data of a closed stream by SSE, and the control event that ends it."""
    with client.sse(url, offset) as response:
        events = list(response)
    last = events.pop()
    assert isinstance(last, ControlEvent)
    return b"".join(event.data for event in events if isinstance(event, DataEvent)), last


def test_sse_200_json_messages(client: DurableClient, url: str) -> None:
    client.append(url, '[{"a":"é€𝄞"},2]'.encode())
    tail = client.append(url, b"[3]", close=True).next_offset
    with client.sse(url, "-1") as response:
        events = list(response)
    found = [m for e in events if isinstance(e, DataEvent) for m in split_array(e.data)]
    assert [json.loads(message) for message in found] == [{"a": "é€𝄞"}, 2, 3]
    assert events[-1] == ControlEvent(str(tail), events[-1].cursor, True, True)  # type: ignore[union-attr]


def test_sse_200_text(client: DurableClient, text_url: str) -> None:
    client.append(text_url, "line one\nzwei: é\n\nend".encode(), content_type=TEXT, close=True)
    assert tailed(client, text_url)[0] == "line one\nzwei: é\n\nend".encode()


def test_sse_200_binary_as_base64(client: DurableClient, peer: Peer) -> None:
    url = peer.stream("binary")
    client.create(url, content_type=BINARY, body=bytes(range(256)), closed=True)
    assert tailed(client, url)[0] == bytes(range(256))


def test_sse_200_tails_and_resumes_where_it_stopped(client: DurableClient, url: str) -> None:
    client.append(url, b"[1]")
    with client.sse(url, "-1") as response:
        *_, control = islice(response, 2)
    assert isinstance(control, ControlEvent)
    assert control.up_to_date
    client.append(url, b"[2]", close=True)
    data, last = tailed(client, url, control.next_offset)
    assert split_array(data) == [b"2"]
    assert last.closed


def test_sse_400_malformed_offset(client: DurableClient, url: str) -> None:
    with pytest.raises(BadRequestError):
        client.sse(url, "not an offset")


def test_sse_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.sse(peer.stream(), "-1")


# --- producers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Producer-Id": "p"},
        {"Producer-Id": "p", "Producer-Epoch": "0"},
        {"Producer-Epoch": "0", "Producer-Seq": "0"},
        {"Producer-Id": "", "Producer-Epoch": "0", "Producer-Seq": "0"},
        {"Producer-Id": "p", "Producer-Epoch": "x", "Producer-Seq": "0"},
        {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "1.5"},
        {"Producer-Id": "p", "Producer-Epoch": "-1", "Producer-Seq": "0"},
        {"Producer-Id": "p", "Producer-Epoch": str(2**53), "Producer-Seq": "0"},
        {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(2**53)},
    ],
    ids=[
        "id alone",
        "no seq",
        "no id",
        "empty id",
        "epoch no integer",
        "seq no integer",
        "negative epoch",
        "epoch too large",
        "seq too large",
    ],
)
def test_producer_headers_come_all_together_and_well_formed(
    url: str, headers: dict[str, str]
) -> None:
    with DurableClient(ClientSettings(headers=headers)) as odd, pytest.raises(BadRequestError):
        odd.append(url, b"[1]")


def test_producer_first_append_then_each_next_seq_is_accepted(
    client: DurableClient, url: str
) -> None:
    for seq in range(4):
        result = client.append(url, b"[%d]" % seq, producer=ProducerTriple("p", 0, seq))
        assert result.outcome is AppendOutcome.APPENDED
        assert result.producer_seq == seq
    assert values(client, url) == [0, 1, 2, 3]


def test_producer_any_seq_up_to_the_last_is_a_duplicate(client: DurableClient, url: str) -> None:
    for seq in range(3):
        client.append(url, b"[%d]" % seq, producer=ProducerTriple("p", 0, seq))
    for seq in range(3):
        again = client.append(url, b"[%d]" % seq, producer=ProducerTriple("p", 0, seq))
        assert again.outcome is AppendOutcome.DUPLICATE
        assert again.producer_seq in (None, 2), "the highest the server has"
    assert values(client, url) == [0, 1, 2]


def test_producer_a_new_epoch_must_start_at_seq_0(client: DurableClient, url: str) -> None:
    client.append(url, b"[1]", producer=ProducerTriple("p", 0, 0))
    with pytest.raises(BadRequestError, match="seq 0"):
        client.append(url, b"[2]", producer=ProducerTriple("p", 1, 1))
    result = client.append(url, b"[2]", producer=ProducerTriple("p", 1, 0))
    assert (result.outcome, result.producer_epoch) == (AppendOutcome.APPENDED, 1)


def test_producer_an_older_epoch_is_fenced_with_403_and_told_the_current(
    client: DurableClient, url: str
) -> None:
    client.append(url, b"[1]", producer=ProducerTriple("p", 0, 0))
    client.append(url, b"[2]", producer=ProducerTriple("p", 5, 0))
    with pytest.raises(StaleEpochError, match="producer p, epoch 0, seq 1") as caught:
        client.append(url, b"[zombie]", producer=ProducerTriple("p", 0, 1))
    assert caught.value.current_epoch == 5
    assert values(client, url) == [1, 2]


def test_producer_a_gap_is_409_with_expected_and_received_seq(
    client: DurableClient, url: str
) -> None:
    client.append(url, b"[1]", producer=ProducerTriple("p", 0, 0))
    with pytest.raises(SequenceGapError, match="expects seq 1") as caught:
        client.append(url, b"[5]", producer=ProducerTriple("p", 0, 5))
    assert (caught.value.expected_seq, caught.value.received_seq) == (1, 5)
    assert values(client, url) == [1]


def test_producer_epochs_and_seqs_reach_to_the_largest_safe_integer(
    client: DurableClient, url: str
) -> None:
    client.append(url, b"[1]", producer=ProducerTriple("p", MAX_SAFE_INTEGER, 0))
    with pytest.raises(SequenceGapError) as caught:
        client.append(url, b"[2]", producer=ProducerTriple("p", MAX_SAFE_INTEGER, MAX_SAFE_INTEGER))
    assert caught.value.received_seq == MAX_SAFE_INTEGER


def test_producers_are_independent_of_each_other(client: DurableClient, url: str) -> None:
    client.append(url, b'["a"]', producer=ProducerTriple("alice", 3, 0))
    client.append(url, b'["b"]', producer=ProducerTriple("bob", 0, 0))
    client.append(url, b'["a2"]', producer=ProducerTriple("alice", 3, 1))
    assert values(client, url) == ["a", "b", "a2"]


def test_producers_are_independent_between_streams(
    client: DurableClient, peer: Peer, url: str
) -> None:
    other = peer.stream("other")
    client.create(other)
    client.append(url, b"[1]", producer=ProducerTriple("p", 9, 0))
    assert client.append(other, b"[1]", producer=ProducerTriple("p", 0, 0)).producer_epoch == 0


def test_producer_appends_and_closes_in_one_and_may_repeat_it(
    client: DurableClient, url: str
) -> None:
    triple = ProducerTriple("p", 0, 0)
    first = client.append(url, b"[1]", producer=triple, close=True)
    assert (first.outcome, first.closed) == (AppendOutcome.APPENDED, True)
    again = client.append(url, b"[1]", producer=triple, close=True)
    assert (again.outcome, again.closed) == (AppendOutcome.DUPLICATE, True)
    assert values(client, url) == [1]
    with pytest.raises(StreamClosedError):
        client.append(url, b"[2]", producer=ProducerTriple("p", 0, 1))


def test_producer_ids_of_odd_characters(client: DurableClient, url: str) -> None:
    for name in ("a/b c", "q;r=1", "ä", "x" * 200):
        client.append(url, b"[1]", producer=ProducerTriple(name, 0, 0))
        assert client.probe(url, name, 0).applied == 1


# --- the probe ----------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["application/json", TEXT, BINARY])
def test_probe_tells_each_state_and_never_writes(
    client: DurableClient, peer: Peer, content_type: str
) -> None:
    url = peer.stream("probed")
    client.create(url, content_type=content_type)

    def probe(producer: str, epoch: int) -> tuple[ProbeState, int | None, int | None]:
        before = client.head(url).tail
        result = client.probe(url, producer, epoch, content_type)
        assert client.head(url).tail == before
        return result.state, result.current_epoch, result.applied

    assert probe("p", 5) == (ProbeState.UNKNOWN_PRODUCER, None, 0)
    assert probe("p", 5) == (ProbeState.UNKNOWN_PRODUCER, None, 0), "a probe leaves no trace"
    for seq in range(3):
        client.append(url, b"1", content_type=content_type, producer=ProducerTriple("p", 5, seq))
    assert probe("p", 5) == (ProbeState.EPOCH_CURRENT, 5, 3)
    assert probe("p", 6) == (ProbeState.EPOCH_NOT_BEGUN, None, 0)
    assert probe("p", 4) == (ProbeState.NEWER_EPOCH, 5, None)
    assert probe("q", 0) == (ProbeState.UNKNOWN_PRODUCER, None, 0)
    # The probed epochs are still to be had.
    client.append(url, b"1", content_type=content_type, producer=ProducerTriple("p", 6, 0))
    assert probe("p", 6) == (ProbeState.EPOCH_CURRENT, 6, 1)


def test_probe_of_a_closed_stream(client: DurableClient, url: str) -> None:
    client.append(url, b"[1]", producer=ProducerTriple("p", 2, 0))
    final = client.close_stream(url).next_offset
    result = client.probe(url, "p", 2)
    assert (result.state, result.final_offset) == (ProbeState.CLOSED, final)
    assert result.applied in (None, 1)


def test_probe_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.probe(peer.stream(), "p", 0)


def test_a_rerun_of_a_producer_adds_nothing(client: DurableClient, url: str) -> None:
    for run in range(2):
        producer = Producer(client, url, "query/0", 7)
        for n in range(5):
            producer.send(b"[%d]" % n)
        assert (producer.appended, producer.duplicates) == ((5, 0) if run == 0 else (0, 5))
    assert values(client, url) == [0, 1, 2, 3, 4]


# --- buckets ------------------------------------------------------------------------------------


def refused(kind: type[DurableError], call: object, *args: object) -> None:
    with pytest.raises(kind):
        call(*args)  # type: ignore[operator]


def test_bucket_create_201_and_409(client: DurableClient, peer: Peer) -> None:
    if not peer.extended:
        refused(NotSupportedError, client.create_bucket, peer.bucket)
        return
    client.create_bucket(peer.bucket)
    with pytest.raises(ConflictError, match="exists"):
        client.create_bucket(peer.bucket)


def test_bucket_400_invalid_id(client: DurableClient, peer: Peer) -> None:
    if not peer.extended:
        refused(NotFoundError, client.get_bucket, peer.bucket)
        return
    for name in ("abc", "UPPER", "x" * 65, "sp%20ace"):
        with pytest.raises(BadRequestError):
            client.create_bucket(f"{peer.url}/ds/{name}")


def test_bucket_get_200_counts_its_streams_and_404(client: DurableClient, peer: Peer) -> None:
    refused(NotFoundError, client.get_bucket, peer.bucket)
    if not peer.extended:
        return
    client.create_bucket(peer.bucket)
    client.create(f"{peer.bucket}/one")
    info = client.get_bucket(peer.bucket)
    assert (info.bucket_id, info.streams) == (f"b{peer.unique}", 1)


def test_bucket_list_200_with_prefix_after_and_limit(client: DurableClient, peer: Peer) -> None:
    refused(NotFoundError, client.list_streams, peer.bucket)
    if not peer.extended:
        return
    client.create_bucket(peer.bucket)
    names = ["a-1", "a-2", "a-3", "b", "é"]
    for name in reversed(names):
        client.create(f"{peer.bucket}/{name}", content_type=TEXT)
    tail = client.append(f"{peer.bucket}/a-2", b"12345", content_type=TEXT, close=True).next_offset

    page = client.list_streams(peer.bucket)
    assert [stream.stream_id for stream in page.streams] == names
    assert not page.has_more
    second = page.streams[1]
    assert second.closed
    assert not page.streams[0].closed
    assert second.content_type == TEXT
    assert int(second.tail_offset or 0) == int(str(tail)) == 5
    assert second.created_at_ms is not None

    first = client.list_streams(peer.bucket, prefix="a-", limit=2)
    assert [stream.stream_id for stream in first.streams] == ["a-1", "a-2"]
    assert first.has_more
    assert first.next_cursor is not None
    rest = client.list_streams(peer.bucket, prefix="a-", after=first.next_cursor, limit=2)
    assert [stream.stream_id for stream in rest.streams] == ["a-3"]
    assert not rest.has_more
    refused(BadRequestError, lambda: client.list_streams(peer.bucket, limit=0))


def test_bucket_delete_204_409_not_empty_404(client: DurableClient, peer: Peer) -> None:
    refused(NotFoundError, client.delete_bucket, peer.bucket)
    if not peer.extended:
        return
    client.create_bucket(peer.bucket)
    client.create(f"{peer.bucket}/one")
    with pytest.raises(ConflictError, match="not empty"):
        client.delete_bucket(peer.bucket)
    client.delete(f"{peer.bucket}/one")
    client.delete_bucket(peer.bucket)
    refused(NotFoundError, client.get_bucket, peer.bucket)


def test_bucket_404_a_stream_does_not_create_its_bucket(client: DurableClient, peer: Peer) -> None:
    if not peer.extended:  # any path is a stream's
        assert client.create(f"{peer.bucket}/one").created
        return
    refused(NotFoundError, client.create, f"{peer.bucket}/one")


# --- snapshots ----------------------------------------------------------------------------------


def test_snapshot_publish_204_read_latest_and_by_offset(
    client: DurableClient, peer: Peer, url: str
) -> None:
    middle = str(client.append(url, b"[1,2]").next_offset)
    tail = str(client.append(url, b"[3]").next_offset)
    if not peer.extended:
        refused(NotSupportedError, client.publish_snapshot, url, middle, b"x")
        refused(NotFoundError, client.snapshot, url)
        return
    refused(NotFoundError, client.snapshot, url)
    client.publish_snapshot(url, middle, b"folded", content_type="application/x-state")
    for offset in (None, middle):
        with client.snapshot(url, offset) as snapshot:
            assert snapshot.offset == middle
            assert snapshot.content_type == "application/x-state"
            assert snapshot.read() == b"folded"
            assert not snapshot.up_to_date
    assert client.head(url).snapshot_offset == middle
    assert values(client, url, middle) == [3]
    client.publish_snapshot(url, tail, b"all")
    with client.snapshot(url) as snapshot:
        assert (snapshot.offset, snapshot.read()) == (tail, b"all")


def test_snapshot_publish_400_404_409_410(client: DurableClient, peer: Peer, url: str) -> None:
    first = str(client.append(url, b'["one"]').next_offset)
    second = str(client.append(url, b'["two"]').next_offset)
    if not peer.extended:
        refused(NotSupportedError, client.publish_snapshot, url, first, b"x")
        return
    refused(BadRequestError, client.publish_snapshot, url, "nonsense", b"x")
    inside = f"{int(first) - 1:0{len(first)}d}"
    refused(BadRequestError, client.publish_snapshot, url, inside, b"x")
    refused(NotFoundError, client.publish_snapshot, peer.stream("none"), first, b"x")
    beyond = f"{int(second) + 1000:0{len(second)}d}"
    refused(ConflictError, client.publish_snapshot, url, beyond, b"x")
    client.publish_snapshot(url, second, b"x")
    client.publish_snapshot(url, second, b"x")
    refused(ConflictError, client.publish_snapshot, url, second, b"y")
    refused(OffsetGoneError, client.publish_snapshot, url, first, b"x")


def test_snapshot_delete_404_and_409_for_the_latest(
    client: DurableClient, peer: Peer, url: str
) -> None:
    offset = str(client.append(url, b"[1]").next_offset)
    refused(NotFoundError, client.delete_snapshot, url, offset)
    if peer.extended:
        client.publish_snapshot(url, offset, b"x")
        with pytest.raises(ConflictError, match="latest"):
            client.delete_snapshot(url, offset)


# --- bootstrap ----------------------------------------------------------------------------------


def test_bootstrap_200_without_and_with_a_snapshot(
    client: DurableClient, peer: Peer, url: str
) -> None:
    first = str(client.append(url, b'[{"a":1}]').next_offset)
    tail = str(client.append(url, '[2,"é"]'.encode()).next_offset)
    if not peer.extended:
        refused(NotFoundError, client.bootstrap, url)
        return

    def parts() -> list[tuple[str, bytes]]:
        with client.bootstrap(url) as bootstrap:
            assert bootstrap.next_offset == tail
            assert bootstrap.up_to_date
            assert bootstrap.snapshot_offset == client.head(url).snapshot_offset
            return [(part.content_type, part.read()) for part in bootstrap.parts]

    updates = [("application/json", b"2"), ("application/json", '"é"'.encode())]
    assert parts() == [(BINARY, b""), ("application/json", b'{"a":1}'), *updates]
    client.publish_snapshot(url, first, b"state\r\n--", content_type="text/x")
    assert parts() == [("text/x", b"state\r\n--"), *updates]


def test_bootstrap_404_stream_missing(client: DurableClient, peer: Peer) -> None:
    with pytest.raises(NotFoundError):
        client.bootstrap(peer.stream())


def test_bootstrap_keeps_the_messages_of_binary_streams_apart(
    client: DurableClient, peer: Peer
) -> None:
    url = peer.stream("binary")
    client.create(url, content_type=BINARY)
    sent = [b"\r\n--", bytes(range(256)), b"\r\n", b"x" * 100_000]
    for message in sent:
        client.append(url, message, content_type=BINARY)
    if not peer.extended:
        refused(NotFoundError, client.bootstrap, url)
        return
    with client.bootstrap(url) as bootstrap:
        assert [part.read() for part in bootstrap.parts] == [b"", *sent]
        assert bootstrap.snapshot_offset is None
