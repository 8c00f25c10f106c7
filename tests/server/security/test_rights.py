"""Forks and subscriptions read streams on somebody's behalf: with that one's rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.tokens import Token

JSON = {"Content-Type": "application/json"}
TOKENS = (
    Token("mine", buckets=("mine",)),
    Token("mine-read", buckets=("mine",), write=False),
    Token("both", buckets=("mine", "other")),
)


class Client:
    def __init__(self, base: str, token: str) -> None:
        self.base = base
        self._headers = {**JSON, "Authorization": f"Bearer {token}"}

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        return requests.request(
            method, self.base + path, headers={**self._headers, **named}, data=data, timeout=10
        ).status_code


@pytest.fixture
def base() -> Iterator[str]:
    with EmbeddedServer(token="all", tokens=TOKENS, webhooks=True) as server:
        everything = Client(server.url, "all")
        for bucket in ("mine", "other"):
            everything("PUT", f"/ds/{bucket}")
            for path in (f"/ds/{bucket}/s", f"/v1/stream/{bucket}/s", f"/v1/stream/{bucket}/wake"):
                assert everything("PUT", path, [1]) == 201
        assert everything("PUT", "/v1/stream/top", [1]) == 201
        yield server.url


@pytest.mark.parametrize("target", ["/ds/mine/fork", "/v1/stream/mine/fork"])
@pytest.mark.parametrize("source", ["/ds/other/s", "/v1/stream/other/s", "/v1/stream/top"])
def test_fork_rights_are_checked_on_the_source_bucket(base: str, target: str, source: str) -> None:
    assert Client(base, "mine")("PUT", target, Stream_Forked_From=source) == 403
    assert Client(base, "mine")("GET", target) == 404
    assert Client(base, "all")("PUT", target, Stream_Forked_From=source) == 201


def test_a_fork_within_ones_buckets_is_allowed(base: str) -> None:
    forked = {"Stream_Forked_From": "/ds/mine/s"}
    assert Client(base, "mine")("PUT", "/ds/mine/fork", **forked) == 201
    assert Client(base, "mine-read")("PUT", "/ds/mine/fork2", **forked) == 403
    across = {"Stream_Forked_From": "/ds/other/s"}
    assert Client(base, "both")("PUT", "/ds/mine/fork3", **across) == 201


def pull(**more: Any) -> dict[str, Any]:
    return {"type": "pull-wake", "wake_stream": "mine/wake", **more}


@pytest.mark.parametrize(
    "definition",
    [
        pull(streams=["other/s"]),
        pull(streams=["mine/s", "other/s"]),
        pull(streams=["top"]),
        pull(pattern="other/*"),
        pull(pattern="*/s"),
        pull(pattern="**"),
        pull(pattern="mine*/s"),
        pull(pattern="mine"),
        pull(streams=["mine/s"], wake_stream="other/wake"),
        {"type": "webhook", "pattern": "other/*", "webhook": {"url": "http://127.0.0.1:9/"}},
    ],
)
def test_subscription_rights_are_checked_on_the_source_bucket(
    base: str, definition: dict[str, Any]
) -> None:
    path = "/v1/stream/__ds/subscriptions/s"
    assert Client(base, "mine")("PUT", path, definition) == 403
    assert Client(base, "all")("GET", path) == 404
    assert Client(base, "all")("PUT", path, definition) == 201
    # Nor may what others set up be seen, taken over or ended.
    for method, more in (("GET", ""), ("DELETE", ""), ("POST", "/claim"), ("POST", "/streams")):
        body = {"worker": "w", "streams": ["mine/s"]}
        assert Client(base, "mine")(method, path + more, body) == 403
    assert Client(base, "all")("GET", path) == 200


def test_a_subscription_cannot_be_widened_beyond_ones_buckets(base: str) -> None:
    mine, path = Client(base, "mine"), "/v1/stream/__ds/subscriptions/s"
    assert mine("PUT", path, pull(pattern="mine/**")) == 201
    assert mine("POST", f"{path}/streams", {"streams": ["mine/s"]}) == 204
    assert mine("POST", f"{path}/streams", {"streams": ["other/s"]}) == 403
    assert mine("GET", path) == 200
    assert Client(base, "mine-read")("GET", path) == 200
    assert Client(base, "mine-read")("DELETE", path) == 403
    assert Client(base, "both")("POST", f"{path}/streams", {"streams": ["other/s"]}) == 204
    # Now that it tells about both buckets, it takes the rights to both.
    assert mine("GET", path) == 403
    assert Client(base, "both")("DELETE", path) == 204
