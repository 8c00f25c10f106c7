"""The explorer's files: served to everyone, with a policy that lets nothing else in."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.explorer import pages

FILES = sorted(pages.load())


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    with EmbeddedServer(token="s3cret") as server:
        yield server.url


@pytest.mark.parametrize("path", ["/", *(f"/explorer/{name}" for name in FILES)])
def test_pages_need_no_token_and_have_a_strict_policy(
    secured: str, http: requests.Session, path: str
) -> None:
    response = http.get(f"{secured}{path}")
    assert response.status_code == 200
    policy = dict(
        part.strip().partition(" ")[::2]
        for part in response.headers["Content-Security-Policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    # No other origin reads the page, and none of our other headers leaks in.
    assert "Access-Control-Allow-Origin" not in response.headers


def test_streams_keep_their_sandbox(secured: str, http: requests.Session) -> None:
    owner = {"Authorization": "Bearer s3cret", "Content-Type": "text/javascript"}
    url = f"{secured}/v1/stream/app.js"
    assert http.put(url, headers=owner, data=b"alert(1)").ok
    answer = http.get(url, headers=owner)
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_the_page_loads_only_what_is_here() -> None:
    loaded = pages.load()
    page = loaded["index.html"].body.decode()
    for address in re.findall(r"""(?:src|href)=["']([^"']*)""", page):
        assert address.removeprefix("explorer/") in loaded
    for name in FILES:
        body = loaded[name].body.decode()
        assert not re.search(r"https?://|//[a-z0-9.]+\.[a-z]{2,}/|@import|url\(", body), name
        for module in re.findall(r'^import .* from "([^"]*)";$', body, re.MULTILINE):
            assert module.removeprefix("./") in loaded
    # Neither inline code nor inline style: the policy would refuse them.
    assert not re.search(r"""<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=""", page)


def test_an_unchanged_file_is_not_sent_again(secured: str, http: requests.Session) -> None:
    first = http.get(f"{secured}/explorer/app.js")
    again = http.get(f"{secured}/explorer/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]


def test_head(secured: str, http: requests.Session) -> None:
    response = http.head(f"{secured}/")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        "/explorer",
        "/explorer/",
        "/explorer/nothing.js",
        "/explorer/static/app.js",
        "/explorer/../app.js",
        "/explorer/%2e%2e/routes.py",
        "/explorer/routes.py",
    ],
)
def test_nothing_else_is_served(secured: str, http: requests.Session, path: str) -> None:
    request = requests.Request("GET", f"{secured}/").prepare()
    request.url = f"{secured}{path}"
    assert http.send(request).status_code == 401
    request.headers["Authorization"] = "Bearer s3cret"
    assert http.send(request).status_code == 404
