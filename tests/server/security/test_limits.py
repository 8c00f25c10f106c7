"""What one client, or all together, may cost: each limit has an answer and leaves others alone."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.http.request import client_of
from tests.server.conftest import Connection

TEXT = {"Content-Type": "text/plain"}
GET = b"GET /v1/stream/none HTTP/1.1\r\nHost: localhost\r\n\r\n"


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@contextlib.contextmanager
def serving(**limits: object) -> Iterator[str]:
    with EmbeddedServer(**limits) as server:
        requests.put(f"{server.url}/v1/stream/s", headers=TEXT, timeout=10)
        yield server.url


# -- bodies, heads, streams


def test_limit_on_the_body(http: requests.Session) -> None:
    with serving(max_append_bytes=10, max_snapshot_bytes=20) as base:
        url = f"{base}/v1/stream/s"
        assert http.post(url, headers=TEXT, data=b"x" * 10).status_code == 204
        assert http.post(url, headers=TEXT, data=b"x" * 11).status_code == 413
        # Without a length it is told when it is passed.
        assert http.post(url, headers=TEXT, data=iter([b"x" * 6] * 2)).status_code == 413
        assert http.put(f"{url}2", headers=TEXT, data=b"x" * 11).status_code == 413
        http.put(f"{base}/ds/bucket")
        http.put(f"{base}/ds/bucket/s", headers=TEXT)
        snapshot = f"{base}/ds/bucket/s/snapshot/0"
        assert http.put(snapshot, data=b"x" * 21).status_code == 413
        assert http.put(snapshot, data=b"x" * 20).status_code == 204
        assert http.get(url).content == b"x" * 10


def test_limit_on_the_header(dial) -> None:
    with serving(max_header_bytes=1000) as base, dial(base) as connection:
        connection.sendall(GET[:-2] + b"X: " + b"a" * 1000 + b"\r\n\r\n")
        assert status(connection.read_all()) == 431


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_limit_on_the_number_of_streams(
    http: requests.Session, storage: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("data") if storage == "disk" else None
    with serving(max_streams=3, data_dir=directory) as base:
        for name in ("a", "b"):
            assert http.put(f"{base}/v1/stream/{name}", headers=TEXT).status_code == 201
        refused = http.put(f"{base}/v1/stream/c", headers=TEXT)
        assert refused.status_code == 429
        assert "3 streams" in refused.text
        topic = http.put(f"{base}/v0/topics/t", json={})
        assert topic.status_code == 429
        # Those that exist are found, written and make room when they go.
        assert http.put(f"{base}/v1/stream/a", headers=TEXT).status_code == 200
        assert http.post(f"{base}/v1/stream/a", headers=TEXT, data=b"x").status_code == 204
        assert http.delete(f"{base}/v1/stream/b").status_code == 204
        assert http.put(f"{base}/v1/stream/c", headers=TEXT).status_code == 201
        buckets = [http.put(f"{base}/ds/bucket{n}").status_code for n in range(4)]
        assert buckets == [201, 201, 201, 429]


def test_limit_on_what_memory_holds(http: requests.Session) -> None:
    with serving(max_memory_bytes=100_000) as base:
        url = f"{base}/v1/stream/s"
        statuses = [http.post(url, headers=TEXT, data=b"x" * 9000).status_code for _ in range(20)]
        assert statuses[:10] == [204] * 10
        assert set(statuses[12:]) == {503}
        refused = http.post(url, headers=TEXT, data=b"x" * 9000)
        assert int(refused.headers["Retry-After"]) > 0
        http.put(f"{base}/ds/bucket")
        http.put(f"{base}/ds/bucket/s", headers=TEXT)
        snapshot = http.put(f"{base}/ds/bucket/s/snapshot/0", data=b"x" * 9000)
        assert snapshot.status_code == 503
        # What is there is served, can be closed and can be deleted; then there is room again.
        assert len(http.get(url).content) == 9000 * statuses.count(204)
        assert http.post(url, headers={"Stream-Closed": "true"}).status_code == 204
        assert http.delete(url).status_code == 204
        assert http.put(url, headers=TEXT, data=b"x" * 9000).status_code == 201


# -- connections


def test_limit_on_open_connections(dial) -> None:
    with EmbeddedServer(max_connections=5, keep_alive_timeout=60) as server:
        with contextlib.ExitStack() as stack:
            kept = [stack.enter_context(dial(server.url)) for _ in range(5)]
            for connection in kept:
                connection.sendall(GET)
                assert status(connection.recv(65536)) == 404
            with dial(server.url) as extra:
                extra.sendall(GET)
                answer = extra.read_all()
                assert status(answer) == 503
                assert b"\r\nretry-after: 1\r\n" in answer.lower()
            # Those that were there first are served on.
            kept[0].sendall(GET)
            assert status(kept[0].recv(65536)) == 404
        assert eventually_served(dial, server.url)


def test_limit_on_open_connections_per_client() -> None:
    """Two clients of this machine: 127.0.0.1 and 127.0.0.2."""
    with EmbeddedServer(max_connections_per_client=3, keep_alive_timeout=60) as server:
        port = int(server.url.rsplit(":", 1)[1])

        def dial_from(source: str) -> socket.socket:
            return socket.create_connection(("127.0.0.1", port), 10, source_address=(source, 0))

        def ask(connection: socket.socket) -> int:
            connection.sendall(GET)
            return status(connection.recv(65536))

        with contextlib.ExitStack() as stack:
            greedy = [stack.enter_context(dial_from("127.0.0.2")) for _ in range(3)]
            assert [ask(connection) for connection in greedy] == [404, 404, 404]
            assert ask(stack.enter_context(dial_from("127.0.0.2"))) == 503
            assert ask(stack.enter_context(dial_from("127.0.0.1"))) == 404


def test_connections_never_use_up_the_files_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import resource

    from spark_durable.server.config import ServerConfig
    from spark_durable.server.http.connections import Connections

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert Connections(ServerConfig(max_connections=8192)).total == 640
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100_000, 100_000))
    assert Connections(ServerConfig(max_connections=8192)).total == 8192


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("not an address", "not an address"),
    ],
)
def test_a_client_is_an_address_or_a_network_of_ipv6(address: str, client: str) -> None:
    assert client_of(address) == client


def eventually_served(dial, base: str) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with dial(base) as connection:
            connection.sendall(GET)
            if status(connection.recv(65536)) == 404:
                return True
    return False


# -- live readers


def test_limit_on_long_polls_per_client(dial, http: requests.Session) -> None:
    poll = "?offset=now&live=long-poll&timeout_ms=60000"
    with serving(max_long_polls_per_client=2) as base, contextlib.ExitStack() as stack:
        url = f"{base}/v1/stream/s"
        waiting = [stack.enter_context(dial(base)) for _ in range(2)]
        for connection in waiting:
            connection.sendall(
                f"GET /v1/stream/s{poll} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            )
        refused = refusal_of(http, url + poll.replace("60000", "1"))
        assert int(refused.headers["Retry-After"]) > 0
        # What need not wait is answered, an SSE reader has its own count, and places come back.
        assert http.get(f"{url}?offset=now").status_code == 200
        http.get(f"{url}?offset=now&live=sse", stream=True).close()
        assert http.post(url, headers=TEXT, data=b"x").status_code == 204
        for connection in waiting:
            assert status(connection.recv(65536)) == 200
        assert http.get(url + poll.replace("60000", "1")).status_code == 204


def test_limit_on_sse_per_client(http: requests.Session) -> None:
    with serving(max_sse_per_client=2) as base:
        url = f"{base}/v1/stream/s?offset=now&live=sse"
        readers = [requests.get(url, stream=True, timeout=10) for _ in range(2)]
        assert [reader.status_code for reader in readers] == [200, 200]
        refused = http.get(url, stream=True)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) > 0
        # A place is not lost to a request that fails.
        for _ in range(3):
            assert http.get(url.replace("now", "999")).status_code in (400, 429)
        readers.pop().close()
        for _ in range(200):
            with requests.get(url, stream=True, timeout=10) as again:
                if again.status_code == 200:
                    break
        else:
            pytest.fail("the place of a reader that left was not given back")
        readers.pop().close()


def refusal_of(http: requests.Session, url: str) -> requests.Response:
    """The answer once those before it have been counted."""
    for _ in range(200):
        response = http.get(url)
        if response.status_code == 429:
            return response
    pytest.fail("never refused")


# -- slow clients


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"", None),
        (b"GET /v1/stream/s HT", 408),
        (b"POST /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nab", 408),
    ],
)
def test_slow_clients_are_cut(dial, said: bytes, answer: int | None) -> None:
    with (
        serving(header_timeout=0.3, stall_timeout=0.3) as base,
        dial(base) as connection,
    ):
        connection.sendall(said)
        received = connection.read_all()
        assert (status(received) if received else None) == answer


@pytest.mark.parametrize("mebibytes", [1, 4, 24])
@pytest.mark.parametrize("keep", [b"keep-alive", b"close"])
def test_readers_that_take_nothing_are_cut(dial, mebibytes: int, keep: bytes) -> None:
    """The server has room for one connection, the reader's: another one is served when that one is
    cut. Of 4 MiB the system's buffers may take all but the end."""
    limits = {"stall_timeout": 0.3, "max_connections": 1, "max_read_bytes": 32 << 20}
    request = b"GET /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n" % keep
    with EmbeddedServer(**limits, keep_alive_timeout=1) as server:
        with requests.Session() as session:
            url = f"{server.url}/v1/stream/s"
            session.put(url, headers=TEXT)
            for _ in range(mebibytes):
                assert session.post(url, headers=TEXT, data=b"x" * (1 << 20)).status_code == 204
        assert eventually_served(dial, server.url)
        with served(dial, server.url, request) as reader:
            assert eventually_served(dial, server.url)
            assert len(reader.read_all()) < 24 << 20


@contextlib.contextmanager
def served(dial, base: str, request: bytes) -> Iterator[Connection]:
    """A connection that was admitted, once those before it are gone."""
    while True:
        with dial(base) as connection:
            connection.sendall(request)
            if connection.recv(12) == b"HTTP/1.1 200":
                yield connection
                return


# -- all bodies together


def test_one_global_budget_for_bodies_in_flight(dial, http: requests.Session) -> None:
    """Ten clients announce 400 kB each; the server has a megabyte for all of them."""
    head = b"POST /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
    head += b"Expect: 100-continue\r\nContent-Length: 400000\r\n\r\n"
    with (
        serving(body_budget_bytes=1_000_000, budget_timeout=0.3) as base,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(dial(base)) for _ in range(10)]
        for client in clients:
            client.sendall(head)
        answers = [client.recv(65536) for client in clients]
        # Asked for their bodies: as many as fit. The others are told to come back.
        assert sorted(status(answer) for answer in answers) == [100] * 2 + [503] * 8
        refused = [answer for answer in answers if status(answer) == 503]
        assert all(b"\r\nretry-after: " in answer.lower() for answer in refused)
        for client, answer in zip(clients, answers, strict=True):
            if status(answer) == 100:
                client.sendall(b"x" * 400_000)
                assert status(client.recv(65536)) == 204
        assert len(http.get(f"{base}/v1/stream/s").content) == 800_000
