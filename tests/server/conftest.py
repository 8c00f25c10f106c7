"""Real servers for the HTTP tests: the same application, in memory and on disk."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
import requests

from spark_durable.server import EmbeddedServer


@pytest.fixture(scope="session", params=["memory", "disk"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server with short waits; each test using it runs on both kinds of store."""
    directory = tmp_path_factory.mktemp("data") if request.param == "disk" else None
    with EmbeddedServer(directory, long_poll_timeout=0.4, sse_heartbeat=0.2) as server:
        yield server.url


@pytest.fixture
def http() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["Accept-Encoding"] = "identity"
        yield session


@pytest.fixture
def bucket(base: str, http: requests.Session) -> str:
    """URL of an empty bucket of its own."""
    url = f"{base}/ds/b-{uuid.uuid4().hex[:12]}"
    assert http.put(url).status_code == 201
    return url


Create = Callable[..., str]


@pytest.fixture
def create(base: str, bucket: str, http: requests.Session) -> Create:
    """Creates a stream and returns its URL: in a bucket, or under the base protocol's root."""

    def make(
        content_type: str = "application/json", *bodies: bytes, root: str = "ds", **headers: str
    ) -> str:
        parent = bucket if root == "ds" else f"{base}/v1/stream"
        url = f"{parent}/s-{uuid.uuid4().hex[:12]}"
        sent = {"Content-Type": content_type} | {k.replace("_", "-"): v for k, v in headers.items()}
        assert http.put(url, headers=sent).status_code == 201
        for body in bodies:
            assert http.post(url, data=body, headers={"Content-Type": content_type}).ok
        return url

    return make


class Connection(socket.socket):
    """A client's end that speaks bytes as they are."""

    def read_all(self) -> bytes:
        """Everything until the server hangs up; a reset after the answer is a way to do so."""
        received = b""
        while True:
            try:
                data = self.recv(65536)
            except ConnectionResetError:
                return received
            if not data:
                return received
            received += data

    def send_until_refused(self, data: bytes) -> None:
        """Sends; a server that answers early and hangs up ends it."""
        with suppress(ConnectionResetError, BrokenPipeError):
            self.sendall(data)


@pytest.fixture
def dial() -> Callable[[str], Connection]:
    """Opens a connection to the server at a URL."""

    def connect(url: str) -> Connection:
        parts = urlsplit(url)
        connection = Connection()
        connection.settimeout(10)
        connection.connect((parts.hostname, parts.port))
        return connection

    return connect


@pytest.fixture
def raw(base: str, dial: Callable[[str], Connection]) -> Callable[[bytes], bytes]:
    """Sends bytes as they are on a fresh connection and returns what comes back until it closes."""

    def exchange(request: bytes) -> bytes:
        with dial(base) as connection:
            connection.sendall(request)
            return connection.read_all()

    return exchange
