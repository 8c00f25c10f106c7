"""The connection itself: heads too large or too late, bodies and readers that stall."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
import requests

from spark_durable.server import EmbeddedServer

TEXT = {"Content-Type": "text/plain"}
HEAD_LIMIT = 32 << 10
POST = b"POST /v1/stream/x HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    """A server whose patience can be waited out."""
    with EmbeddedServer(header_timeout=0.4, stall_timeout=0.4, min_rate=100_000) as server:
        yield server.url


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"x-content-type-options: nosniff" in head
    assert body.strip()
    return int(answer.split()[1])


def alive(base: str) -> bool:
    return requests.get(f"{base}/v1/stream/none", timeout=10).status_code == 404


# -- size of the head


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * (HEAD_LIMIT + 1),
        b"".join(b"X-%d: %s\r\n" % (n, b"a" * 90) for n in range(500)),
        b"X" * (HEAD_LIMIT + 1) + b": a",
        b"Cookie: " + b"a" * 10_000_000,
    ],
)
def test_431_for_a_head_past_its_limit(dial, base: str, head: bytes) -> None:
    with dial(base) as connection:
        connection.send_until_refused(
            b"GET /v1/stream/x HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n"
        )
        assert status(connection.read_all()) == 431
    assert alive(base)


def test_431_for_a_head_that_never_ends(dial, base: str) -> None:
    sent = 0
    with dial(base) as connection:
        connection.sendall(b"GET /v1/stream/x HTTP/1.1\r\nHost: localhost\r\nX: ")
        try:
            while sent < 50 << 20:
                connection.sendall(b"a" * 65536)
                sent += 65536
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert status(connection.read_all()) == 431
    assert sent < 50 << 20


def test_a_long_url_counts_as_head(base: str, raw) -> None:
    answer = raw(b"GET /v1/stream/x?a=" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status(answer) == 431


def test_a_head_below_the_limit_passes(base: str, raw) -> None:
    answer = raw(
        b"GET /v1/stream/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
        + b"a" * 30_000
        + b"\r\n\r\n"
    )
    assert status(answer) == 404


def test_large_bodies_are_not_taken_for_heads(dial, create, base: str) -> None:
    url = create("text/plain")
    path = url[len(base) :]
    body = b"x" * 300_000
    request = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    last = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
    with dial(base) as connection:
        # Three pipelined messages, the last one's head in two pieces.
        connection.sendall(request * 2 + last)
        time.sleep(0.2)
        connection.sendall(b"\r\n")
        answer = connection.read_all()
    assert answer.count(b"HTTP/1.1 204 ") == 2
    assert answer.endswith(body * 2)


# -- garbage


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/stream/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/stream/x HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET /v1/stream/x HTTP/1.1\r\nA: \x00\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_400_for_what_is_no_http(base: str, raw, garbage: bytes) -> None:
    assert status(raw(garbage)) == 400
    assert alive(base)


# -- time


def test_408_for_half_a_head(dial, impatient: str) -> None:
    with dial(impatient) as connection:
        connection.sendall(b"GET /v1/stream/x HTTP/1.1\r\nHost: loc")
        assert status(connection.read_all()) == 408
    assert alive(impatient)


def test_408_for_a_head_that_trickles(dial, impatient: str) -> None:
    with dial(impatient) as connection:
        connection.settimeout(0.05)
        received = b""
        for byte in b"GET /v1/stream/x HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1000:
            try:
                connection.sendall(bytes([byte]))
                received += connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            break
        assert status(received + connection.read_all()) == 408


@pytest.mark.parametrize("said", [b"", b"\r\n"])
def test_a_connection_that_says_nothing_is_closed(dial, impatient: str, said: bytes) -> None:
    with dial(impatient) as connection:
        connection.sendall(said)
        assert connection.read_all() == b""


def test_empty_lines_after_a_request_do_not_keep_a_connection(dial, impatient: str) -> None:
    with dial(impatient) as connection:
        connection.sendall(b"GET /v1/stream/none HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(connection.recv(65536)) == 404
        connection.sendall(b"\r\n")
        assert connection.read_all() == b""


def test_408_for_a_body_that_stops_and_nothing_stored(dial, impatient: str) -> None:
    url = f"{impatient}/v1/stream/half"
    requests.put(url, headers=TEXT, timeout=10)
    with dial(impatient) as connection:
        connection.sendall(
            b"POST /v1/stream/half HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
            b"Content-Length: 100\r\n\r\nabc"
        )
        assert status(connection.read_all()) == 408
    assert requests.get(url, timeout=10).content == b""


def test_a_body_cut_off_stores_nothing(dial, base: str, create) -> None:
    for framing, body in (
        (b"Content-Length: 10\r\n\r\n", b"abc"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhel"),
    ):
        url = create("text/plain")
        path = url[len(base) :].encode()
        with dial(base) as connection:
            connection.sendall(
                b"POST "
                + path
                + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
                + framing
                + body
            )
            time.sleep(0.05)
            connection.shutdown(socket.SHUT_WR)
            connection.read_all()
        assert requests.get(url, timeout=10).content == b""


def test_a_reader_that_takes_nothing_is_cut_off(dial, impatient: str) -> None:
    url = f"{impatient}/v1/stream/stalled"
    requests.put(url, headers=TEXT, timeout=10)
    for _ in range(8):
        requests.post(url, headers=TEXT, data=b"x" * (4 << 20), timeout=10)
    with dial(impatient) as connection:
        request = b"GET /v1/stream/stalled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(request * 8)
        time.sleep(2)
        received = connection.read_all()
    assert len(received) < 8 * (4 << 20)
    assert alive(impatient)


def test_an_early_answer_reaches_a_client_still_sending(base: str, create) -> None:
    url = create("text/plain")
    response = requests.post(url, headers=TEXT, data=b"x" * (40 << 20), timeout=30)
    assert response.status_code == 413


def test_expect_100_continue_is_refused_before_the_body_is_sent(dial, base: str, create) -> None:
    path = create("text/plain")[len(base) :].encode()
    with dial(base) as connection:
        connection.sendall(
            b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
            b"Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n"
        )
        assert status(connection.recv(65536)) == 413
