"""Long-poll and Server-Sent Events over real connections."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest
import requests

from spark_durable.server import EmbeddedServer

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}


def tail(http: requests.Session, url: str) -> str:
    return http.head(url).headers["Stream-Next-Offset"]


def append_when_waited_for(url: str, body: bytes, **headers: str) -> threading.Thread:
    """Appends from another thread, a moment after the caller began to wait."""

    def append() -> None:
        time.sleep(0.1)
        requests.post(url, headers={**TEXT, **headers}, data=body, timeout=10).raise_for_status()

    thread = threading.Thread(target=append)
    thread.start()
    return thread


# -- long-poll


def test_long_poll_200_at_once_when_there_is_data(create, http: requests.Session) -> None:
    url = create("text/plain", b"hello")
    response = http.get(url, params={"offset": "-1", "live": "long-poll"})
    assert (response.status_code, response.content) == (200, b"hello")
    assert response.headers["Stream-Cursor"].isdigit()
    assert response.headers["Stream-Up-To-Date"] == "true"
    assert response.headers["Content-Length"] == "5"


@pytest.mark.parametrize("offset", ["tail", "now"])
def test_long_poll_200_when_data_comes(create, http: requests.Session, offset: str) -> None:
    url = create("text/plain", b"old")
    start = tail(http, url) if offset == "tail" else "now"
    writer = append_when_waited_for(url, b"new")
    params = {"offset": start, "live": "long-poll", "timeout_ms": "10000"}
    response = http.get(url, params=params)
    writer.join()
    assert (response.status_code, response.content) == (200, b"new")


def test_long_poll_204_after_its_timeout(create, http: requests.Session) -> None:
    url = create("text/plain", b"old")
    response = http.get(url, params={"offset": tail(http, url), "live": "long-poll"})
    assert response.status_code == 204
    assert response.headers["Stream-Next-Offset"] == tail(http, url)
    assert response.headers["Stream-Up-To-Date"] == "true"
    assert response.headers["Stream-Cursor"].isdigit()
    assert response.headers["Cache-Control"] == "no-store"
    assert "Stream-Closed" not in response.headers


def test_long_poll_cursor_moves_past_the_clients(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    params = {"offset": "-1", "live": "long-poll"}
    first = http.get(url, params=params).headers["Stream-Cursor"]
    second = http.get(url, params={**params, "cursor": first}).headers["Stream-Cursor"]
    assert int(second) > int(first)


def test_long_poll_204_at_once_at_the_end_of_a_closed_stream(
    create, http: requests.Session
) -> None:
    url = create("text/plain", b"x")
    http.post(url, headers={"Stream-Closed": "true"})
    params = {"offset": "now", "live": "long-poll", "timeout_ms": "60000"}
    response = http.get(url, params=params)
    assert response.status_code == 204
    assert response.headers["Stream-Closed"] == "true"


def test_long_poll_ends_when_the_stream_is_closed_meanwhile(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    closer = append_when_waited_for(url, b"", **{"Stream-Closed": "true"})
    params = {"offset": "now", "live": "long-poll", "timeout_ms": "60000"}
    response = http.get(url, params=params)
    closer.join()
    assert (response.status_code, response.headers["Stream-Closed"]) == (204, "true")


def test_long_poll_404_when_the_stream_is_deleted_meanwhile(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    timer = threading.Timer(0.1, requests.delete, (url,), {"timeout": 10})
    timer.start()
    params = {"offset": "now", "live": "long-poll", "timeout_ms": "60000"}
    assert http.get(url, params=params).status_code == 404
    timer.join()


@pytest.mark.parametrize("timeout", ["0", "60001", "x", "-5"])
def test_long_poll_400_for_a_timeout_out_of_range(
    create, http: requests.Session, timeout: str
) -> None:
    params = {"offset": "-1", "live": "long-poll", "timeout_ms": timeout}
    assert http.get(create("text/plain", b"x"), params=params).status_code == 400


def test_a_waiting_reader_keeps_a_stream_from_expiring(create, http: requests.Session) -> None:
    url = create("text/plain", b"x", Stream_TTL="1")
    seen: list[int] = []

    def look() -> None:
        # HEAD does not count as a read; only the reader that waits keeps the stream.
        seen.append(requests.head(url, timeout=10).status_code)

    onlooker = threading.Timer(1.5, look)
    onlooker.start()
    params = {"offset": "now", "live": "long-poll", "timeout_ms": "1800"}
    assert http.get(url, params=params).status_code == 204
    onlooker.join()
    assert seen == [200]


# -- SSE


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: str


def events(response: requests.Response) -> Iterator[Event]:
    """The events as they come."""
    return parse(line.decode() for line in response.iter_lines(chunk_size=1))


def parse(stream: Iterable[str]) -> Iterator[Event]:
    """As a browser does: an empty line ends an event, one space after the colon is dropped."""
    kind, lines = "", []
    for line in stream:
        if not line:
            if lines:
                yield Event(kind, "\n".join(lines))
            kind, lines = "", []
        elif line.startswith("event:"):
            kind = line[6:].strip()
        elif line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))


def sse(http: requests.Session, url: str, offset: str = "-1") -> requests.Response:
    params = {"offset": offset, "live": "sse"}
    return http.get(url, params=params, stream=True, timeout=10)


def test_sse_200_and_its_headers(create, http: requests.Session) -> None:
    with sse(http, create("text/plain", b"x")) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert "no-cache" in response.headers["Cache-Control"]
        assert "Content-Length" not in response.headers
        assert "Stream-SSE-Data-Encoding" not in response.headers


def test_sse_data_then_control_then_what_comes(create, http: requests.Session) -> None:
    url = create("application/json", b"[1,2]")
    with sse(http, url) as response:
        stream = events(response)
        assert json.loads(next(stream).data) == [1, 2]
        control = json.loads(next(stream).data)
        assert control["streamNextOffset"] == tail(http, url)
        assert control["upToDate"] is True
        assert control["streamCursor"].isdigit()
        requests.post(url, headers=JSON, data=b"3", timeout=10)
        assert json.loads(next(stream).data) == [3]
        assert json.loads(next(stream).data)["streamNextOffset"] == tail(http, url)


def test_sse_from_now_starts_with_a_control_event(create, http: requests.Session) -> None:
    url = create("text/plain", b"old")
    with sse(http, url, "now") as response:
        first = next(events(response))
        assert first.kind == "control"
        assert json.loads(first.data)["upToDate"] is True


@pytest.mark.parametrize("kind", ["application/octet-stream", "image/png", "application/x-ndjson"])
def test_sse_base64_for_what_is_not_text(create, http: requests.Session, kind: str) -> None:
    body = bytes(range(256))
    with sse(http, create(kind, body)) as response:
        assert response.headers["Stream-SSE-Data-Encoding"] == "base64"
        assert base64.b64decode(next(events(response)).data) == body


@pytest.mark.parametrize(
    "text", [" leading", "a\n b\n  c", "trailing\n", "\n\n", "a\n\nevent: control\ndata: x", ":c"]
)
def test_sse_text_comes_back_as_sent(create, http: requests.Session, text: str) -> None:
    with sse(http, create("text/plain", text.encode())) as response:
        stream = events(response)
        assert next(stream) == Event("data", text)
        assert next(stream).kind == "control"


def test_sse_ends_with_the_stream(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    with sse(http, url) as response:
        stream = events(response)
        next(stream)
        next(stream)
        last = {**TEXT, "Stream-Closed": "true"}
        requests.post(url, headers=last, data=b"last", timeout=10)
        assert next(stream).data == "last"
        control = json.loads(next(stream).data)
        assert control["streamClosed"] is True
        assert "streamCursor" not in control
        assert list(stream) == []


def test_sse_of_a_closed_stream_is_one_event_and_over(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    http.post(url, headers={"Stream-Closed": "true"})
    with sse(http, url, "now") as response:
        (only,) = events(response)
        assert json.loads(only.data)["streamClosed"] is True


def test_sse_of_a_long_backlog_pairs_events_and_loses_nothing(
    create, http: requests.Session
) -> None:
    url = create("application/json", *(json.dumps([n, "x" * 40_000]).encode() for n in range(30)))
    http.post(url, headers={"Stream-Closed": "true"})
    found = list(parse(sse(http, url).content.decode().split("\n")))
    assert [event.kind for event in found] == ["data", "control"] * (len(found) // 2)
    offsets = [json.loads(event.data)["streamNextOffset"] for event in found[1::2]]
    assert offsets == sorted(set(offsets))
    flat = [value for event in found[::2] for value in json.loads(event.data)]
    assert flat[::2] == list(range(30))


def test_sse_404_and_400_before_it_begins(create, bucket: str, http: requests.Session) -> None:
    assert sse(http, f"{bucket}/missing").status_code == 404
    assert sse(http, create("text/plain", b"hello"), "2").status_code == 400


def test_sse_ends_when_the_stream_is_deleted(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    with sse(http, url) as response:
        stream = events(response)
        next(stream)
        next(stream)
        requests.delete(url, timeout=10)
        assert list(stream) == []


def test_sse_ends_after_its_time_so_that_readers_can_be_collapsed(
    http: requests.Session,
) -> None:
    with EmbeddedServer(sse_duration=0.3, sse_heartbeat=0.1) as server:
        url = f"{server.url}/v1/stream/s"
        http.put(url, headers=TEXT)
        with sse(http, url) as response:
            body = response.raw.read()
    assert body.count(b"event: control") == 1
    assert b":\n\n" in body


def test_a_fork_hears_its_own_appends_only(base: str, create, http: requests.Session) -> None:
    source = create("text/plain", b"one", root="v1")
    fork = create("text/plain", root="v1", Stream_Forked_From=source[len(base) :])
    params = {"offset": tail(http, fork), "live": "long-poll", "timeout_ms": "300"}
    writer = append_when_waited_for(source, b"not for the fork")
    assert http.get(fork, params=params).status_code == 204
    writer.join()
