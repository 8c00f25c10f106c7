"""Bearer tokens: who is let in, to read or to write, and where."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.config import ServerConfig
from spark_durable.server.http.request import Request
from spark_durable.server.http.responses import HttpError
from spark_durable.server.http.security import Access
from spark_durable.server.tokens import Token

TEXT = {"Content-Type": "text/plain"}
RESOURCES = [
    ("PUT", "/v1/stream/s"),
    ("POST", "/v1/stream/s"),
    ("GET", "/v1/stream/s"),
    ("HEAD", "/v1/stream/s"),
    ("DELETE", "/v1/stream/s"),
    ("GET", "/v1/stream/s?offset=-1&live=sse"),
    ("GET", "/v1/stream/s?offset=-1&live=long-poll"),
    ("PUT", "/ds/bucket"),
    ("GET", "/ds/bucket"),
    ("GET", "/ds/bucket/streams"),
    ("PUT", "/ds/bucket/s"),
    ("GET", "/ds/bucket/s/snapshot"),
    ("PUT", "/ds/bucket/s/snapshot/0"),
    ("GET", "/ds/bucket/s/bootstrap"),
    ("PUT", "/v1/stream/__ds/subscriptions/x"),
    ("GET", "/v1/stream/__ds/subscriptions/x"),
    ("POST", "/v1/stream/__ds/subscriptions/x/claim"),
    ("POST", "/v1/stream/__ds/subscriptions/x/streams"),
    ("GET", "/v0/topics/t"),
    ("GET", "/nowhere"),
]


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    with EmbeddedServer(token="s3cret") as server:
        yield server.url


@pytest.mark.parametrize(("method", "path"), RESOURCES)
@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer", "Bearer ", "Bearer wrong", "Basic s3cret", "s3cret", "Bearer é"],
)
def test_401_without_the_token(
    secured: str, http: requests.Session, method: str, path: str, authorization: str | None
) -> None:
    headers = dict(TEXT)
    if authorization is not None:
        headers["Authorization"] = authorization.encode()  # type: ignore[assignment]
    response = http.request(method, f"{secured}{path}", headers=headers, data=b"x")
    assert response.status_code == 401
    assert "s3cret" not in response.text


def test_401_names_the_scheme(secured: str, http: requests.Session) -> None:
    assert http.get(f"{secured}/ds/bucket").headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("authorization", ["Bearer s3cret", "bearer  s3cret "])
def test_the_token_opens(secured: str, http: requests.Session, authorization: str) -> None:
    headers = {**TEXT, "Authorization": authorization.strip()}
    assert http.put(f"{secured}/v1/stream/ok", headers=headers).status_code in (200, 201)


def test_bearer_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token is looked at, whichever fits, and only ever by hmac.compare_digest on values of
    one length."""
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def spy(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return real(one, two)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    access = Access(ServerConfig(token="s3cret", tokens=(Token("other"), Token("x" * 99))))
    for presented in (b"s3cret", b"other", b"s", b"y" * 500):
        compared.clear()
        headers = [(b"authorization", b"Bearer " + presented)]
        scope = {"method": "GET", "raw_path": b"/", "headers": headers}
        with suppress(HttpError):
            access.check_token(Request(scope, lambda: None))  # type: ignore[arg-type, return-value]
        assert len(compared) == 3
        assert {len(value) for pair in compared for value in pair} == {32}


def test_with_a_token_shared_caches_keep_nothing(secured: str, http: requests.Session) -> None:
    http.headers["Authorization"] = "Bearer s3cret"
    http.put(f"{secured}/v1/stream/cached", headers=TEXT, data=b"x")
    assert http.get(f"{secured}/v1/stream/cached").headers["Cache-Control"].startswith("private")


def bearer(secret: str) -> dict[str, str]:
    return {**TEXT, "Authorization": f"Bearer {secret}"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A server with a bucket each for two parties, and streams in them."""
    tokens = (
        Token("read-all", write=False),
        Token("shop-writes", name="shop", buckets=("shop",)),
        Token("shop-reads", write=False, buckets=("shop",)),
        Token("both", buckets=("shop", "bank")),
    )
    with EmbeddedServer(token="all", tokens=tokens) as server:
        for bucket in ("shop", "bank"):
            url = f"{server.url}/ds/{bucket}"
            assert requests.put(url, headers=bearer("all"), timeout=10).status_code == 201
            for stream in (f"{url}/s", f"{server.url}/v1/stream/{bucket}/s"):
                created = requests.put(stream, headers=bearer("all"), data=b"x", timeout=10)
                assert created.status_code == 201
        requests.put(f"{server.url}/v1/stream/top", headers=bearer("all"), timeout=10)
        yield server.url


READS = [("GET", ""), ("HEAD", ""), ("GET", "?offset=now&live=long-poll&timeout_ms=1")]
WRITES = [("POST", ""), ("PUT", ""), ("DELETE", "")]


@pytest.mark.parametrize("place", ["/ds/shop/s", "/v1/stream/shop/s"])
def test_a_read_only_token_reads_and_does_not_write(guarded: str, place: str) -> None:
    for token in ("read-all", "shop-reads"):
        for method, query in READS:
            response = requests.request(
                method, f"{guarded}{place}{query}", headers=bearer(token), timeout=10
            )
            assert response.ok, response.text
        for method, query in WRITES:
            response = requests.request(
                method, f"{guarded}{place}{query}", headers=bearer(token), data=b"y", timeout=10
            )
            assert response.status_code == 403
            assert "read only" in response.text
    assert requests.get(f"{guarded}{place}", headers=bearer("all"), timeout=10).content == b"x"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/ds/shop/new"),
        ("DELETE", "/ds/shop/new"),
        ("PUT", "/ds/shop"),
        ("PUT", "/ds/shop/s/snapshot/0"),
        ("DELETE", "/ds/shop/s/snapshot/0"),
        ("PUT", "/v0/topics/t"),
        ("POST", "/v0/topics/t"),
        ("PUT", "/v1/stream/__ds/subscriptions/x"),
        ("DELETE", "/v1/stream/__ds/subscriptions/x"),
        ("POST", "/v1/stream/__ds/subscriptions/x/claim"),
        ("POST", "/v1/stream/__ds/subscriptions/x/streams"),
        ("DELETE", "/v1/stream/__ds/subscriptions/x/streams/s"),
    ],
)
def test_a_read_only_token_changes_nothing_anywhere(guarded: str, method: str, path: str) -> None:
    headers = {**bearer("read-all"), "Content-Type": "application/json"}
    response = requests.request(method, guarded + path, headers=headers, data=b"{}", timeout=10)
    assert response.status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/ds/bank",
        "/ds/bank/streams",
        "/ds/bank/s",
        "/ds/bank/s/snapshot",
        "/ds/bank/s/snapshot/0",
        "/ds/bank/s/bootstrap",
        "/ds/newbucket",
        "/v1/stream/bank/s",
        "/v1/stream/bank%2Fs",
        "/v1/stream/shop",
        "/v1/stream/top",
        "/v1/stream//s",
        "/v0/topics",
        "/v0/topics/t",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_a_token_limited_to_buckets_reaches_no_other(guarded: str, method: str, path: str) -> None:
    for token in ("shop-writes", "shop-reads"):
        response = requests.request(
            method, guarded + path, headers=bearer(token), data=b"y", timeout=10
        )
        # 400: a path that names nothing; 405: nothing there has that method.
        assert response.status_code in (403, 400), path


def test_a_token_limited_to_buckets_works_in_each_of_them(guarded: str) -> None:
    for bucket in ("shop", "bank"):
        for root in ("/ds", "/v1/stream"):
            url = f"{guarded}{root}/{bucket}/mine"
            for method in ("PUT", "POST", "GET", "HEAD", "DELETE"):
                response = requests.request(
                    method, url, headers=bearer("both"), data=b"y", timeout=10
                )
                assert response.ok, (method, url, response.text)
        listing = requests.get(f"{guarded}/ds/{bucket}/streams", headers=bearer("both"), timeout=10)
        assert [each["stream_id"] for each in listing.json()["streams"]] == ["s"]


def test_a_token_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from-a-file\n")
    with EmbeddedServer(tokens=(Token(secret_file=secret),)) as server:
        url = f"{server.url}/v1/stream/s"
        assert requests.put(url, headers=bearer("from-a-file"), timeout=10).status_code == 201
        assert requests.put(url, headers=bearer("else"), timeout=10).status_code == 401


@pytest.mark.parametrize(
    "token",
    [
        {},
        {"secret": ""},
        {"secret": "a b"},
        {"secret": "é"},
        {"secret": "s", "secret_file": Path("x")},
        {"secret": "s", "buckets": ()},
    ],
)
def test_tokens_that_cannot_work_are_refused(token: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="token"):
        Token(**token)  # type: ignore[arg-type]


def test_secrets_show_in_no_repr() -> None:
    config = ServerConfig(token="s3cret", tokens=(Token("hidden"),))
    assert "s3cret" not in repr(config) + repr(config.all_tokens)
    assert "hidden" not in repr(config) + repr(config.tokens)
