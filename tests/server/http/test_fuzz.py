"""Requests nobody would send on purpose: a documented status, a text, nothing stored, and alive."""

from __future__ import annotations

import http.client
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from spark_durable.server import EmbeddedServer

DOCUMENTED = {200, 201, 204, 304, 307, 400, 403, 404, 405, 408, 409, 410, 413, 421, 431}
FUZZ = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module", params=["memory", "disk"])
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    data_dir = tmp_path_factory.mktemp("fuzz") if request.param == "disk" else None
    with EmbeddedServer(
        data_dir,
        long_poll_timeout=0.01,
        sse_duration=0.05,
        max_append_bytes=20_000,
        header_timeout=2,
        stall_timeout=2,
    ) as server:
        yield server.url


@dataclass(frozen=True, slots=True)
class Shot:
    method: str
    path: str
    headers: list[tuple[str, bytes]]
    body: bytes


hostile_text = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "-1",
            "now",
            "00000000000000000002",
            "0_2",
            "9" * 25,
            "true",
            "1e9",
            "²",
            "%2e%2e",
        ]
    ),
    st.text(max_size=30),
)
encoded = hostile_text.map(lambda text: requests.utils.quote(text, safe="%/"))
paths = st.one_of(
    st.builds("/v1/stream/{}".format, encoded),
    st.builds("/v1/stream/fuzz-{}".format, st.integers(0, 3)),
    st.builds("/ds/{}".format, encoded),
    st.builds("/ds/fuzz/{}".format, encoded),
    st.builds("/ds/fuzz/s{}/{}".format, st.integers(0, 2), encoded),
    st.builds("/ds/fuzz/s{}/snapshot/{}".format, st.integers(0, 2), encoded),
    st.sampled_from(["/ds/fuzz/s0", "/ds/fuzz/s0/bootstrap", "/ds/fuzz/streams", "/", "/v1"]),
    st.builds("/v1/stream/__ds/{}".format, encoded),
    st.builds("/v1/stream/__ds/subscriptions/{}/{}".format, encoded, encoded),
)
queries = st.lists(
    st.tuples(
        st.sampled_from(
            ["offset", "live", "cursor", "align", "max_bytes", "timeout_ms", "prefix", "limit", "x"]
        ),
        st.one_of(encoded, st.sampled_from(["sse", "long-poll", "next", "100"])),
    ),
    max_size=4,
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))
header_values = st.one_of(
    hostile_text.map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(
        [b"application/json", b"text/plain", b"/v1/stream/fuzz-0", b"2099-01-01T00:00:00Z"]
    ),
).map(lambda value: bytes(byte for byte in value if byte >= 32 and byte != 127))
headers = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "Content-Type",
                "Stream-Seq",
                "Stream-TTL",
                "Stream-Expires-At",
                "Stream-Closed",
                "Stream-Forked-From",
                "Stream-Fork-Offset",
                "Stream-Fork-Sub-Offset",
                "Producer-Id",
                "Producer-Epoch",
                "Producer-Seq",
                "If-None-Match",
                "Authorization",
                "Range",
                "Expect",
            ]
        ),
        header_values,
    ),
    max_size=6,
)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
bodies = st.one_of(
    st.binary(max_size=200),
    json_value.map(lambda value: __import__("json").dumps(value).encode()),
    st.sampled_from([b"", b"[]", b"[" * 5000, b'"\xff"', b"x" * 20_001, b'{"type":"pull-wake"}']),
)
shots = st.builds(
    Shot,
    st.sampled_from(["GET", "PUT", "POST", "GET", "PUT", "POST", "HEAD", "DELETE", "PATCH"]),
    st.builds(lambda path, query: f"{path}?{query}" if query else path, paths, queries),
    headers,
    bodies,
)


def fire(base: str, shot: Shot) -> tuple[int, bytes]:
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.putrequest(shot.method, shot.path, skip_accept_encoding=True)
        for name, value in shot.headers:
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(shot.body)))
        connection.endheaders(shot.body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def everything(base: str) -> dict[str, object]:
    """All the server holds in the places the fuzzer aims at, as a reader sees it."""
    found: dict[str, object] = {}
    with requests.Session() as session:
        bucket = session.get(f"{base}/ds/fuzz/streams").json()
        found["bucket"] = bucket.get("streams")
        for number in range(4):
            head = session.head(f"{base}/v1/stream/fuzz-{number}")
            found[f"fuzz-{number}"] = (
                head.status_code,
                head.headers.get("Stream-Next-Offset"),
                head.headers.get("Stream-Closed"),
                head.headers.get("Stream-Incarnation"),
            )
    return found


@pytest.fixture
def streams(target: str) -> None:
    prepare(target)


def prepare(target: str) -> None:
    """Streams of each kind for shots to hit; those that are there stay as they are."""
    requests.put(f"{target}/ds/fuzz", timeout=10)
    for number, kind in enumerate(("application/json", "text/plain", "application/octet-stream")):
        for url in (f"{target}/v1/stream/fuzz-{number}", f"{target}/ds/fuzz/s{number}"):
            requests.put(url, headers={"Content-Type": kind}, data=b"12", timeout=10)


@pytest.mark.usefixtures("streams")
@FUZZ
@given(shots)
def test_any_request_gets_a_documented_answer_and_a_refusal_stores_nothing(
    target: str, shot: Shot
) -> None:
    before = everything(target)
    status, body = fire(target, shot)
    event(f"{status}")
    if (shot.method, status) == ("DELETE", 204):
        prepare(target)
    assert status in DOCUMENTED
    if status >= 400:
        assert body.strip() or shot.method == "HEAD"
        assert everything(target) == before


fragments = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"GET /v1/stream/fuzz-0 HTTP/1.1\r\n",
            b"POST /v1/stream/fuzz-1 HTTP/1.1\r\n",
            b"Host: localhost\r\n",
            b"Content-Type: text/plain\r\n",
            b"Content-Length: 5\r\n",
            b"Content-Length: 18446744073709551617\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: gzip, chunked\r\n",
            b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
            b"Connection: close\r\n",
            b"\r\n",
            b"5\r\nhello\r\n",
            b"ffffffffffffffff\r\n",
            b"0\r\n\r\n",
            b"hello",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ]
    ),
)


@pytest.mark.usefixtures("streams")
@FUZZ
@given(st.lists(fragments, max_size=12).map(b"".join))
def test_any_bytes_leave_the_server_alive(target: str, dial, data: bytes) -> None:
    with dial(target) as connection:
        connection.send_until_refused(data)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.read_all()
    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 500" not in answer
    name = uuid.uuid4().hex
    url = f"{target}/v1/stream/alive-{name}"
    assert requests.put(url, data=b"x", timeout=10).status_code == 201
    assert requests.get(url, timeout=10).content == b"x"
    requests.delete(url, timeout=10)
