"""What every publisher promises, for every publisher, over HTTP where it speaks HTTP."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_durable.protocol.results import ProducerTriple
from spark_durable.publish import (
    DurableStreamsPublisher,
    Event,
    FilePublisher,
    OpenPublisher,
    Publisher,
    Scope,
    TopicsPublisher,
    Verdict,
)
from tests.faults import PASS, Fault, FaultProxy, Kind
from tests.publish.conftest import Target, an_event, on_posts

PAYLOADS = [
    b'{"a":1,"b":null,"c":[1.50,2e3,"\\u00e9"]}',
    b'{"spaced" :  [ 1 , 2 ] , "big": 12345678901234567890.123456789012345678}',
    '"Grüße, 世界"'.encode(),
    b"[1,[2],{}]",
    b"[]",
    b"null",
    b"0",
]
BYTES = [b"\x00\xff\xfe", b"not json", b"", b'{"a":\n1}\n', b"\xff{}"]


def test_a_publisher_states_what_its_acknowledgement_means(target: Target) -> None:
    assert target.publisher.capabilities.acknowledgement
    assert target.publisher.capabilities.idempotence


def test_success_is_reported_when_the_target_has_the_event(target: Target) -> None:
    result = target.publisher.publish(an_event(7))
    assert result.ok
    assert result.verdict is Verdict.DELIVERED
    assert result.error is None
    assert [found.payload for found in target.arrived()] == [b'{"n":7}']


def test_the_payload_arrives_byte_for_byte(target: Target) -> None:
    for payload in PAYLOADS:
        assert target.publisher.publish(an_event(payload=payload)).ok
    assert [found.payload for found in target.arrived()] == PAYLOADS


def test_payloads_that_are_not_json_arrive_or_are_refused_before_sending(target: Target) -> None:
    events = [an_event(payload=payload) for payload in BYTES]
    fit = [event for event in events if target.publisher.check(event) is None]
    for event in events:
        result = target.publisher.publish(event)
        assert result.ok == (event in fit)
        if event not in fit:
            assert result.verdict is Verdict.DEAD
            assert result.error
    # White space around and between a JSON value's parts is the target's to keep or not.
    assert [plain(found.payload) for found in target.arrived()] == [plain(e.payload) for e in fit]


def plain(payload: bytes) -> bytes:
    return payload.replace(b"\n", b" ").strip()


def test_headers_and_partition_key_arrive_where_supported(target: Target) -> None:
    headers = {"traceparent": "00-abc-def-01", "x-größe": "ü"}
    assert target.publisher.publish(an_event(headers=headers, partition_key="k/1")).ok
    (found,) = target.arrived()
    capabilities = target.publisher.capabilities
    assert found.headers == (headers if capabilities.headers else {})
    if capabilities.partitioning:
        assert found.partition_key == "k/1"


def test_publish_is_a_single_attempt(target: Target) -> None:
    """A failing target sees one POST, and no second one from inside the publisher."""
    target.break_it()
    result = target.publisher.publish(an_event())
    assert not result.ok
    if target.counting is not None:
        assert target.posts() == 1


def test_a_failure_is_reported_with_a_usable_text(target: Target) -> None:
    target.break_it()
    result = target.publisher.publish(an_event())
    assert result.verdict is Verdict.RETRY
    assert result.retryable
    assert result.scope is Scope.EVENT
    assert result.ambiguous
    assert result.error is not None
    assert "\n" not in result.error
    assert len(result.error) > 20


def test_a_batch_has_its_results_in_the_same_positions(target: Target) -> None:
    events = [an_event(number) for number in range(20)]
    results = target.publisher.publish_batch(events)
    assert len(results) == len(events)
    assert all(result.ok for result in results)
    assert [found.payload for found in target.arrived()] == [event.payload for event in events]


def test_sixty_four_threads_at_once(target: Target) -> None:
    events = [an_event(number) for number in range(256)]
    with ThreadPoolExecutor(64) as pool:
        results = list(pool.map(target.publisher.publish, events))
    assert all(result.ok for result in results)
    arrived = sorted(found.payload for found in target.arrived())
    assert arrived == sorted(event.payload for event in events)


def test_a_publisher_pickles_and_works_after_close_and_open(target: Target) -> None:
    again: Publisher = pickle.loads(pickle.dumps(target.publisher))
    with OpenPublisher(again) as opened:
        assert opened.publish(an_event(1)).ok
    with OpenPublisher(again) as opened:
        assert opened.publish(an_event(2)).ok
    assert len(target.arrived()) == 2


def test_ping_says_whether_the_target_answers_and_writes_nothing(target: Target) -> None:
    assert target.publisher.ping().ok
    assert target.arrived() == [] if target.counting is None else True
    if target.counting is not None:
        assert target.posts() == 0


# -- over HTTP ----------------------------------------------------------------------------------


@pytest.fixture(params=["durable", "topics"])
def over_http(request: pytest.FixtureRequest) -> Target:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Target)
    return found


def test_a_repeated_publish_is_stored_once(over_http: Target) -> None:
    """Stronger than the contract: the identity of an attempt is the event's id."""
    event = an_event()
    first = over_http.publisher.publish(event)
    again = over_http.publisher.publish(event)
    assert first.ok
    assert again.ok
    assert (first.duplicate, again.duplicate) == (False, True)
    assert len(over_http.arrived()) == 1


def test_a_lost_answer_is_ambiguous_and_its_repetition_stored_once(over_http: Target) -> None:
    event = an_event()
    assert over_http.publisher.publish(an_event(0)).ok
    over_http.script(on_posts(Fault(Kind.LOSE_ANSWER)))
    lost = over_http.publisher.publish(event)
    assert lost.verdict is Verdict.RETRY
    assert lost.ambiguous
    over_http.script(lambda request: PASS)
    again = over_http.publisher.publish(event)
    assert again.ok
    assert again.duplicate
    assert len(over_http.arrived()) == 2


def test_a_batch_repeated_identically_is_stored_once(over_http: Target) -> None:
    triple = ProducerTriple("relay/~1", 3, 0)
    events = [an_event(number, triple=triple) for number in range(5)]
    assert over_http.publisher.publish(an_event(99)).ok
    before = over_http.posts()
    assert all(result.ok for result in over_http.publisher.publish_batch(events))
    assert over_http.posts() == before + 1
    assert all(result.duplicate for result in over_http.publisher.publish_batch(events))
    assert len(over_http.arrived()) == 6


@pytest.mark.parametrize("event_id", ["Grüße 1", "a\nb", "x" * 250, "a/b?c#d"])
def test_any_text_is_an_identity(over_http: Target, event_id: str) -> None:
    event = an_event(event_id=event_id)
    assert over_http.publisher.publish(event).ok
    assert over_http.publisher.publish(event).duplicate
    assert over_http.publisher.publish(an_event(event_id=event_id + "y")).duplicate is False


@pytest.mark.parametrize("status", [429, 503])
def test_an_overloaded_target_is_a_pause_that_honours_retry_after(
    over_http: Target, status: int
) -> None:
    over_http.script(on_posts(Fault(Kind.REFUSE, status=status, retry_after="7")))
    result = over_http.publisher.publish(an_event())
    assert result.verdict is Verdict.PAUSE
    assert result.scope is Scope.TARGET
    assert result.retry_after == 7.0
    assert not result.ambiguous


@pytest.mark.parametrize("kind", [DurableStreamsPublisher, TopicsPublisher])
def test_an_unreachable_target_is_a_pause(kind: type) -> None:
    publisher = kind("http://127.0.0.1:9/v0/topics/x")
    with OpenPublisher(publisher) as opened:
        result = opened.publish(an_event())
        assert result.verdict is Verdict.PAUSE
        assert not result.ambiguous
        assert not opened.ping().ok


def test_refused_credentials_pause_and_do_not_show(proxy: FaultProxy) -> None:
    from spark_durable.protocol.settings import ClientSettings

    proxy.script = lambda request: Fault(Kind.REFUSE, status=401)
    settings = ClientSettings(token="s3cret-token", headers={"X-Key": "k3y-value"})
    for publisher in (
        DurableStreamsPublisher(f"{proxy.url}/v1/stream/a?key=q5", settings=settings),
        TopicsPublisher(f"{proxy.url}/v0/topics/a?key=q5", settings=settings, create={}),
    ):
        with OpenPublisher(publisher) as opened:
            result = opened.publish(an_event())
        assert result.verdict is Verdict.PAUSE
        for secret in ("s3cret-token", "k3y-value", "q5"):
            assert secret not in (result.error or "")


def test_a_body_refused_for_what_it_holds_is_split_and_an_event_alone_is_dead(
    over_http: Target,
) -> None:
    triple = ProducerTriple("relay/~2", 1, 0)
    over_http.publisher.publish(an_event(0))
    over_http.script(on_posts(Fault(Kind.REFUSE, status=400)))
    together = over_http.publisher.publish_batch([an_event(1, triple=triple)] * 2)
    assert [result.verdict for result in together] == [Verdict.SPLIT, Verdict.SPLIT]
    assert over_http.publisher.publish(an_event(1, triple=triple)).verdict is Verdict.DEAD


def test_a_bad_event_in_a_body_is_dead_and_nothing_is_sent() -> None:
    with FaultProxy("http://127.0.0.1:9") as proxy:
        publisher = DurableStreamsPublisher(f"{proxy.url}/v1/stream/x", create_if_missing=False)
        triple = ProducerTriple("relay/~3", 1, 0)
        events = [an_event(1, triple=triple), an_event(payload=b"{", triple=triple)]
        with OpenPublisher(publisher) as opened:
            good, bad = opened.publish_batch(events)
        assert good.verdict is Verdict.SPLIT
        assert bad.verdict is Verdict.DEAD
        assert bad.error is not None
        assert "not JSON" in bad.error
        assert proxy.exchanges == []


# -- Durable Streams alone ----------------------------------------------------------------------


def test_inquire_tells_whether_a_body_was_applied_without_writing(durable: Target) -> None:
    publisher = durable.publisher
    assert isinstance(publisher, DurableStreamsPublisher)
    applied = an_event(1, triple=ProducerTriple("relay/~4", 9, 0))
    missing = an_event(2, triple=ProducerTriple("relay/~4", 9, 1))
    assert publisher.publish(applied).ok
    assert publisher.inquire([applied]).verdict is Verdict.DELIVERED
    assert publisher.inquire([missing]).verdict is Verdict.DEAD
    assert len(durable.arrived()) == 1


def test_a_fenced_producer_is_a_pause_and_a_gap_stops(durable: Target) -> None:
    publisher = durable.publisher
    assert publisher.publish(an_event(1, triple=ProducerTriple("relay/~5", 5, 0))).ok
    fenced = publisher.publish(an_event(2, triple=ProducerTriple("relay/~5", 4, 0)))
    assert fenced.verdict is Verdict.PAUSE
    gap = publisher.publish(an_event(3, triple=ProducerTriple("relay/~5", 5, 7)))
    assert gap.verdict is Verdict.STOP


def test_a_closed_stream_is_dead_but_what_it_had_is_delivered(
    durable: Target, proxy: FaultProxy
) -> None:
    import requests

    first = an_event(1, triple=ProducerTriple("relay/~6", 1, 0))
    second = an_event(2, triple=ProducerTriple("relay/~6", 1, 1))
    assert durable.publisher.publish(first).ok
    url = durable.publisher.address(first)
    assert requests.post(url, headers={"Stream-Closed": "true"}, timeout=10).ok
    again = durable.publisher.publish(first)
    assert again.ok
    assert again.duplicate
    assert durable.publisher.publish(second).verdict is Verdict.DEAD


def test_the_address_takes_fields_of_the_event(proxy: FaultProxy) -> None:
    publisher = DurableStreamsPublisher(f"{proxy.url}/v1/stream/by/{{destination}}")
    with OpenPublisher(publisher) as opened:
        assert opened.publish(an_event(destination="ü b")).ok
        lacking = opened.publish(an_event())
        impossible = opened.publish(an_event(destination=".."))
    assert lacking.verdict is Verdict.DEAD
    assert "destination" in (lacking.error or "")
    assert impossible.verdict is Verdict.DEAD
    paths = {exchange.request.path for exchange in proxy.exchanges}
    assert "/v1/stream/by/%C3%BC%20b" in paths


def test_a_missing_stream_is_dead_unless_it_may_be_created(proxy: FaultProxy) -> None:
    url = f"{proxy.url}/v1/stream/missing-{an_event().event_id}"
    with OpenPublisher(DurableStreamsPublisher(url, create_if_missing=False)) as opened:
        assert opened.publish(an_event()).verdict is Verdict.DEAD
    with OpenPublisher(DurableStreamsPublisher(url)) as opened:
        assert opened.publish(an_event()).ok


def test_bytes_travel_alone_on_a_stream_without_boundaries(proxy: FaultProxy) -> None:
    url = f"{proxy.url}/v1/stream/raw-{an_event().event_id}"
    publisher = DurableStreamsPublisher(url, content_type="application/octet-stream")
    assert publisher.capabilities.max_batch_events == 1
    with OpenPublisher(publisher) as opened:
        results = opened.publish_batch([an_event(payload=b"\x00a"), an_event(payload=b"\xffb")])
    assert all(result.ok for result in results)
    posts = [e for e in proxy.exchanges if e.request.method == "POST"]
    assert len(posts) == 2


def test_the_file_publisher_writes_to_standard_output(capfdbinary: object) -> None:
    event: Event = an_event(3)
    assert FilePublisher().publish(event).ok
    captured = capfdbinary.readouterr()  # type: ignore[attr-defined]
    assert b'"payload":{"n":3}' in captured.out
