"""Bodies in flight: bounded together, and no client is starved for good."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from spark_durable.server import EmbeddedServer

TEXT = {"Content-Type": "text/plain"}
BIG = 800_000


@pytest.fixture(scope="module")
def tight() -> Iterator[str]:
    """A server that holds one large body at a time."""
    with EmbeddedServer(
        body_budget_bytes=1_000_000, max_append_bytes=900_000, budget_timeout=0.3
    ) as server:
        yield server.url


def half_sent(dial, url: str, length: int):
    """A request that holds its share of the budget and has sent three bytes of its body."""
    connection = dial(url)
    path = url[url.index("/v1/") :].encode()
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
    # The server asks for the body when it has counted it, and not before.
    connection.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % length)
    assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
    connection.sendall(b"aaa")
    return connection


def test_503_with_retry_after_while_the_budget_is_out(
    tight: str, dial, http: requests.Session
) -> None:
    url = f"{tight}/v1/stream/budget"
    http.put(url, headers=TEXT)
    with half_sent(dial, url, BIG) as connection:
        refused = http.post(url, headers=TEXT, data=b"b" * BIG)
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        # Small bodies still fit beside the large one.
        assert http.post(url, headers=TEXT, data=b"c" * 1000).status_code == 204
        connection.sendall(b"a" * (BIG - 3))
        assert connection.recv(65536).startswith(b"HTTP/1.1 204 ")
    assert http.post(url, headers=TEXT, data=b"b" * BIG).status_code == 204
    assert len(http.get(url).content) == BIG + 1000 + BIG


def test_a_client_that_leaves_gives_its_share_back(
    tight: str, dial, http: requests.Session
) -> None:
    url = f"{tight}/v1/stream/left"
    http.put(url, headers=TEXT)
    for _ in range(5):
        half_sent(dial, url, BIG).close()
    for _ in range(20):
        if http.post(url, headers=TEXT, data=b"b" * BIG).status_code == 204:
            break
    assert http.get(url).content == b"b" * BIG


def test_bodies_without_a_length_count_as_they_grow(
    tight: str, dial, http: requests.Session
) -> None:
    url = f"{tight}/v1/stream/chunked"
    http.put(url, headers=TEXT)
    with half_sent(dial, url, BIG):
        chunked = http.post(url, headers=TEXT, data=iter([b"x" * 300_000]))
        assert chunked.status_code == 503
    for _ in range(20):
        if http.post(url, headers=TEXT, data=iter([b"x" * 300_000])).status_code == 204:
            break
    assert http.get(url).content == b"x" * 300_000
