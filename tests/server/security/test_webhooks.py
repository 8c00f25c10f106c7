"""Webhooks make the server send requests: only when configured, only where they may go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from spark_durable.server import EmbeddedServer

JSON = {"Content-Type": "application/json"}


class Receiver(ThreadingHTTPServer):
    """Answers every request with a redirect to itself, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.twice = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.asked.append(f"{self.command} {self.path}")
                if len(receiver.asked) > 1:
                    receiver.twice.set()
                self.send_response(307)
                self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                return

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def subscribe(base: str, url: str) -> requests.Response:
    body = {"type": "webhook", "pattern": "e/*", "webhook": {"url": url}}
    return requests.put(f"{base}/v1/stream/__ds/subscriptions/s", json=body, timeout=10)


def test_webhooks_are_off_unless_configured(receiver: Receiver) -> None:
    with EmbeddedServer() as server:
        refused = subscribe(server.url, f"{receiver.url}/hook")
        assert refused.status_code == 400
        assert "without webhooks" in refused.json()["error"]["message"]
        assert requests.get(f"{server.url}/v1/stream/__ds/jwks.json", timeout=10).status_code == 404
        requests.put(f"{server.url}/v1/stream/e/a", headers=JSON, data=b"[1]", timeout=10)
    assert receiver.asked == []


def test_webhooks_follow_no_redirects(receiver: Receiver) -> None:
    with EmbeddedServer(webhooks=True) as server:
        assert subscribe(server.url, f"{receiver.url}/hook").status_code == 201
        requests.put(f"{server.url}/v1/stream/e/a", headers=JSON, data=b"[1]", timeout=10)
        # A redirect is a failed delivery: it is tried again, at the same place.
        assert receiver.twice.wait(20)
    assert set(receiver.asked) == {"POST /hook"}


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "https://192.168.1.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://user:secret@example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
    ],
)
def test_webhooks_go_to_no_local_network(url: str) -> None:
    with EmbeddedServer(webhooks=True) as server:
        refused = subscribe(server.url, url)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "WEBHOOK_URL_REJECTED"
