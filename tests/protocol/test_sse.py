"""The event parser: the same events however the stream is cut, and what they mean."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_durable.protocol import ControlEvent, DataEvent
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.sse import SseEvent, SseParser, interpret

lines = st.text(alphabet=st.characters(exclude_characters="\r\n"), max_size=20).filter(
    lambda text: not text.encode("utf-8", "surrogatepass").startswith(b"\xed")
)
names = st.sampled_from(["data", "control", "other"])
events = st.lists(
    st.tuples(
        names, st.lists(lines.map(lambda t: t.encode("utf-8", "replace")), min_size=1, max_size=4)
    ),
    max_size=6,
)


def cut(data: st.DataObject, body: bytes) -> list[bytes]:
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def parsed(pieces: list[bytes]) -> tuple[list[SseEvent], bool]:
    parser = SseParser()
    found = [event for piece in pieces for event in parser.feed(piece)]
    return found, parser.incomplete


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_any_chunking_and_any_line_end_give_the_events_as_sent(data: st.DataObject) -> None:
    sent = data.draw(events)
    end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    space = data.draw(st.sampled_from([b"", b" "]))
    body = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    for name, texts in sent:
        body += b": a comment" + end + b"event:" + space + name.encode() + end
        # Without the optional space a value that begins with one would lose it.
        body += b"".join(b"data: " + text + end for text in texts) + b"id: 7" + end + end
    expected = [SseEvent(name, b"\n".join(texts)) for name, texts in sent]
    found, incomplete = parsed(cut(data, body))
    # A lone carriage return may yet be half of a line end, so the last event may wait for it.
    assert found == (expected[:-1] if end == b"\r" and incomplete else expected)
    assert parsed([body[i : i + 1] for i in range(len(body))])[0] == found


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_garbage_gives_the_same_events_however_it_is_cut(data: st.DataObject) -> None:
    pieces = st.sampled_from(
        [b"data", b":", b" ", b"\r", b"\n", b"event", b"x", b"\xff", b"\xef\xbb\xbf"]
    )
    body = b"".join(data.draw(st.lists(pieces, max_size=25)))
    assert parsed(cut(data, body)) == parsed([body])


@pytest.mark.parametrize("rest", [b"data: x", b"event: data\n", b"data: x\n", b"da"])
def test_an_event_without_its_blank_line_is_incomplete(rest: bytes) -> None:
    assert parsed([b"data: whole\n\n" + rest]) == ([SseEvent("message", b"whole")], True)


def test_a_field_without_a_colon_and_an_empty_payload_count() -> None:
    assert parsed([b"event: data\ndata\n\nevent: data\ndata:\n\nevent: data\n\n"])[0] == [
        SseEvent("data", b""),
        SseEvent("data", b""),
    ]


@given(st.binary(max_size=50), st.integers(1, 10))
def test_base64_may_be_spread_over_lines(payload: bytes, width: int) -> None:
    text = base64.b64encode(payload)
    spread = b"\n".join(text[i : i + width] for i in range(0, len(text), width))
    assert interpret(SseEvent("data", spread), encoded=True) == DataEvent(payload)


@pytest.mark.parametrize("data", [b"!!!!", b"abc", b"YWJj=", b"\xff"])
def test_base64_that_is_none_is_an_error(data: bytes) -> None:
    with pytest.raises(MalformedResponseError, match="base64"):
        interpret(SseEvent("data", data), encoded=True)


def test_control_events() -> None:
    def control(**fields: object) -> object:
        return interpret(SseEvent("control", json.dumps(fields).encode()), encoded=True)

    assert control(streamNextOffset="5", streamCursor="c") == ControlEvent("5", "c", False, False)
    assert control(streamNextOffset="5", upToDate=True) == ControlEvent("5", None, True, False)
    # Closed says up to date, and needs no cursor.
    assert control(streamNextOffset="5", streamClosed=True) == ControlEvent("5", None, True, True)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"{", b"\xff", b"[" * 5000])
def test_a_control_event_without_an_offset_is_an_error(data: bytes) -> None:
    with pytest.raises(MalformedResponseError, match="streamNextOffset"):
        interpret(SseEvent("control", data), encoded=False)


def test_other_events_mean_nothing() -> None:
    assert interpret(SseEvent("message", b"x"), encoded=False) is None
