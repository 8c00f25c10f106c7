"""Web pages: what a browser may be made to do with a server its user can reach."""

from __future__ import annotations

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.config import ServerConfig
from spark_durable.server.http.request import Request
from spark_durable.server.http.responses import HttpError
from spark_durable.server.http.security import Access

TEXT = {"Content-Type": "text/plain"}
SANDBOX = "default-src 'none'; sandbox"
FOREIGN = ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://", "http://["]
LOCAL = ["http://localhost:3000", "https://127.0.0.1:8443", "http://[::1]:5173"]


# -- the Host header (DNS rebinding)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_the_host_header_is_checked_on_loopback(base: str, raw, host: str) -> None:
    request = f"GET /v1/stream/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert raw(request.encode()).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:80"])
def test_loopback_names_are_accepted(base: str, raw, host: str) -> None:
    request = f"GET /v1/stream/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert raw(request.encode()).startswith(b"HTTP/1.1 404 ")


def test_configured_hosts_replace_the_default(http: requests.Session) -> None:
    with EmbeddedServer(allowed_hosts=("streams.example",)) as server:
        assert http.get(f"{server.url}/x").status_code == 421
        good = http.get(f"{server.url}/x", headers={"Host": "Streams.Example:8080"})
        assert good.status_code == 404


@pytest.mark.parametrize(
    ("host", "answers"),
    [("192.0.2.7:4437", True), ("[2001:db8::1]", True), ("evil.example", False)],
)
def test_the_host_header_is_checked_beyond_loopback_without_a_token(
    host: str, answers: bool
) -> None:
    """A rebinding page needs a name of its own: addresses pass, names have to be ours."""
    scope = {"method": "GET", "raw_path": b"/", "headers": [(b"host", host.encode())]}
    request = Request(scope, lambda: None)  # type: ignore[arg-type, return-value]
    anonymous = Access(ServerConfig(host="0.0.0.0", allow_anonymous=True))
    if answers:
        anonymous.check_host(request)
    else:
        with pytest.raises(HttpError, match="Host"):
            anonymous.check_host(request)
    # Whoever has to bring a token gains nothing from a name.
    Access(ServerConfig(host="0.0.0.0", token="s3cret")).check_host(request)


# -- the Origin header (pages that send requests on their own)


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_without_a_token_foreign_pages_neither_read_nor_write(
    create, http: requests.Session, origin: str, method: str
) -> None:
    url = create("text/plain", b"kept")
    response = http.request(method, url, headers={**TEXT, "Origin": origin}, data=b"more")
    assert response.status_code == 403
    assert "Access-Control-Allow-Origin" not in response.headers
    assert http.get(url).content == b"kept"


@pytest.mark.parametrize("origin", LOCAL)
def test_without_a_token_pages_of_this_machine_are_served(
    create, http: requests.Session, origin: str
) -> None:
    response = http.get(create("text/plain", b"x"), headers={"Origin": origin})
    assert response.status_code == 200
    assert response.headers["Access-Control-Allow-Origin"] == origin
    assert response.headers["Vary"] == "Origin"


def test_preflight_of_a_foreign_page_gives_no_leave(base: str, http: requests.Session) -> None:
    response = http.options(f"{base}/v1/stream/s", headers={"Origin": FOREIGN[0]})
    assert response.status_code == 204
    assert "Access-Control-Allow-Origin" not in response.headers


def test_with_a_token_any_page_may_try(http: requests.Session) -> None:
    with EmbeddedServer(token="s3cret") as server:
        url = f"{server.url}/v1/stream/s"
        preflight = http.options(url, headers={"Origin": FOREIGN[0]})
        assert preflight.status_code == 204
        allowed = preflight.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert {"authorization", "if-none-match", "producer-id", "stream-closed"} <= set(allowed)
        assert http.get(url, headers={"Origin": FOREIGN[0]}).status_code == 401
        token = {"Authorization": "Bearer s3cret", "Origin": FOREIGN[0]}
        created = http.put(url, headers={**TEXT, **token})
        assert created.status_code == 201
        assert created.headers["Access-Control-Allow-Origin"] == "*"


def test_configured_origins_replace_the_default(http: requests.Session) -> None:
    with EmbeddedServer(cors_origins=("https://app.example",)) as server:
        url = f"{server.url}/v1/stream/s"
        for origin, status in [("https://app.example", 404), (LOCAL[0], 403), (FOREIGN[0], 403)]:
            assert http.get(url, headers={"Origin": origin}).status_code == status
        # The server's own pages are not foreign ones.
        assert http.get(url, headers={"Origin": server.url}).status_code == 404
    with EmbeddedServer(cors_origins=("*",)) as server:
        response = http.get(f"{server.url}/v1/stream/s", headers={"Origin": FOREIGN[0]})
        assert response.status_code == 404
        assert response.headers["Access-Control-Allow-Origin"] == "*"


# -- what a body may do


@pytest.mark.parametrize("path", ["/v1/stream/missing", "/nowhere", "/ds/bucket"])
def test_every_answer_carries_the_security_headers(
    base: str, http: requests.Session, path: str
) -> None:
    response = http.get(f"{base}{path}")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert response.headers["Content-Security-Policy"] == SANDBOX


def test_stream_and_snapshot_bodies_are_served_under_a_sandboxing_content_policy(
    create, http: requests.Session
) -> None:
    script = b"<script>alert(1)</script>"
    url = create("text/html", script)
    tail = http.head(url).headers["Stream-Next-Offset"]
    html = {"Content-Type": "text/html"}
    assert http.put(f"{url}/snapshot/{tail}", headers=html, data=script).status_code == 204
    http.post(url, headers=html, data=script)
    for path in (f"?offset={tail}", f"/snapshot/{tail}", "/snapshot", "/bootstrap"):
        response = http.get(url + path)
        assert script in response.content
        assert response.headers["Content-Security-Policy"] == SANDBOX
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    live = http.get(f"{url}?offset={tail}&live=sse", stream=True)
    assert live.headers["Content-Security-Policy"] == SANDBOX
    live.close()
