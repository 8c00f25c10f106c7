"""SSE framing: any text comes back through a standard parser, and none can forge an event."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from spark_durable.server.http.sse import DataEncoding, control_event, data_event


def parse(raw: bytes) -> list[tuple[str, str]]:
    """The EventSource algorithm: CR, LF and CRLF end lines, an empty line ends an event."""
    text = raw.decode().replace("\r\n", "\n").replace("\r", "\n")
    found, kind, lines = [], "message", []
    for line in text.split("\n"):
        if not line:
            if lines:
                found.append((kind, "\n".join(lines)))
            kind, lines = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            kind = value
        elif field == "data":
            lines.append(value)
    return found


@given(st.text(alphabet=st.sampled_from(" \r\n:aä{}dtevn")))
def test_text_survives_up_to_the_kind_of_line_end(text: str) -> None:
    expected = text.replace("\r\n", "\n").replace("\r", "\n")
    assert parse(data_event(text.encode(), DataEncoding.TEXT)) == [("data", expected)]


@given(st.binary())
def test_bytes_survive_as_base64(body: bytes) -> None:
    ((kind, data),) = parse(data_event(body, DataEncoding.BASE64))
    assert (kind, base64.b64decode(data, validate=True)) == ("data", body)
    assert len(data) % 4 == 0


def test_control_events_tell_cursor_or_end() -> None:
    opened = control_event("7", cursor="1", up_to_date=True, closed=False)
    assert opened == (
        b'event: control\ndata:{"streamNextOffset":"7","streamCursor":"1","upToDate":true}\n\n'
    )
    ended = control_event("7", cursor="1", up_to_date=True, closed=True)
    assert b"streamCursor" not in ended
    assert b'"streamClosed":true' in ended


def test_text_and_json_go_as_text_the_rest_as_base64() -> None:
    assert DataEncoding.of("Text/Plain; charset=utf-8") is DataEncoding.TEXT
    assert DataEncoding.of("application/json; charset=utf-8") is DataEncoding.TEXT
    assert DataEncoding.of("application/jsonp") is DataEncoding.BASE64
    assert DataEncoding.of("application/x-ndjson") is DataEncoding.BASE64
