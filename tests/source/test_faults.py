"""A server that fails now and then, and one that fails for good."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_durable.protocol import ClientSettings, DurableClient
from spark_durable.protocol.errors import (
    DurableError,
    RetriesExhaustedError,
    UnauthorizedError,
)
from spark_durable.server.embedded import EmbeddedServer
from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request, Script
from tests.source.harness import (
    START,
    MaxBytes,
    Query,
    append_numbers,
    batches,
    create,
    drain,
    numbers,
)
from tests.source.ursula_like import UrsulaLike

FAULTS = (
    Fault(Kind.CUT_ANSWER),
    Fault(Kind.REFUSE, status=503, retry_after="0"),
)


def each_fault_once() -> Script:
    """Every request fails in every way before it succeeds."""
    tries: Counter[tuple[str, str]] = Counter()

    def script(request: Request) -> Fault:
        key = (request.method, request.path)
        tries[key] += 1
        return FAULTS[tries[key] - 1] if tries[key] <= len(FAULTS) else PASS

    return script


@pytest.mark.parametrize("limit", [None, MaxBytes(9000)])
def test_transient_failures_change_nothing(server: Server, limit: object | None) -> None:
    url = create(server.stream("faulty"))
    append_numbers(url, 0, 800, padding=40)
    with FaultProxy(url, each_fault_once()) as proxy:
        planned = batches(Query(proxy.url), limit=limit)
        seen = []
        for start, end in planned:
            seen += numbers(Query(proxy.url, maxPartitionBytes="6k").rows(start, end))
        assert seen == list(range(800))
        assert proxy.seen(Kind.CUT_ANSWER) > 0
        assert proxy.seen(Kind.REFUSE) > 0


def test_transient_failures_of_lines(ursula: UrsulaLike) -> None:
    url = create(f"{ursula.url}/bucket/faulty")
    append_numbers(url, 0, 120, padding=40)
    with FaultProxy(url, each_fault_once()) as proxy:
        rows, _ = drain(Query(proxy.url, maxPartitionBytes="3k"))
        assert numbers(rows) == list(range(120))
        assert proxy.seen(Kind.CUT_ANSWER) > 0


def test_a_snapshot_through_failures(embedded: Server) -> None:
    url = create(embedded.stream("faulty"))
    middle = append_numbers(url, 0, 10)
    with DurableClient() as client:
        client.publish_snapshot(url, middle, b"x" * 100_000)
    append_numbers(url, 10, 20)
    with FaultProxy(url, each_fault_once()) as proxy:
        rows, _ = drain(Query(proxy.url))
    assert rows[0]["value"] == b"x" * 100_000
    assert numbers(rows[1:]) == list(range(10, 20))


def test_a_server_that_stays_away_is_given_up() -> None:
    with EmbeddedServer() as server:
        url = create(f"{server.url}/v1/stream/away")
        append_numbers(url, 0, 5)
        query = Query(url, retryTimeout="1s")
        end = query.latest()
        partitions = query.partitions(START, end)
    with pytest.raises(RetriesExhaustedError, match=r"retryTimeout.*Check that the server runs"):
        query.latest(end)
    with pytest.raises(RetriesExhaustedError, match="Check that the server runs"):
        query.read(partitions)


def test_a_server_that_comes_back_is_waited_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("back")
    with EmbeddedServer(data_dir=directory) as server:
        port = int(server.url.rpartition(":")[2])
        url = create(f"{server.url}/v1/stream/back")
        append_numbers(url, 0, 5)
        query = Query(url)
        end = query.latest()
    with EmbeddedServer(data_dir=directory, port=port):
        append_numbers(url, 5, 8)
        rows, _ = drain(query, end)
    assert numbers(rows) == [5, 6, 7]


def test_a_wrong_token_is_one_clear_error_without_it() -> None:
    with EmbeddedServer(token="right") as server:
        url = f"{server.url}/v1/stream/private"
        with DurableClient(ClientSettings(token="right")) as client:
            client.create(url)
            client.append(url, b'[{"n": 1}]')
        rows, _ = drain(Query(url, token="right"))
        assert numbers(rows) == [1]
        with pytest.raises(UnauthorizedError, match="token") as refused:
            Query(url, token="wr0ng-s3cret").latest()
        assert "wr0ng-s3cret" not in str(refused.value)
        with pytest.raises(UnauthorizedError):
            Query(url).latest()


def test_another_kind_of_server_is_a_clear_error() -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Web(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return None

    web = HTTPServer(("127.0.0.1", 0), Web)
    thread = Thread(target=web.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        with pytest.raises(DurableError, match="Durable Streams server"):
            Query(f"http://127.0.0.1:{web.server_port}/a/b").latest()
    finally:
        web.shutdown()
        web.server_close()


def test_what_a_batch_needs_is_asked_for_once(embedded: Server) -> None:
    """Planning is a HEAD and one look at the server; tasks fetch each byte once."""
    url = create(embedded.stream("counted"))
    append_numbers(url, 0, 2000, padding=40)
    with FaultProxy(url) as proxy:
        query = Query(proxy.url)
        end = query.latest()
        planning = [(e.request.method, e.request.path) for e in proxy.exchanges]
        assert [method for method, _ in planning] == ["HEAD", "GET"]
        assert "max_bytes" in planning[1][1]
        rows = query.rows(START, end)
        assert numbers(rows) == list(range(2000))
        fetched = len(proxy.exchanges) - len(planning)
        assert fetched == 1
