"""Create, append, close, delete and HEAD: every documented status and header."""

from __future__ import annotations

import time
import uuid
from datetime import datetime, timedelta, timezone

import pytest
import requests

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}
CLOSE = {"Stream-Closed": "true"}


def fresh(base: str) -> str:
    return f"{base}/v1/stream/t/{uuid.uuid4().hex}"


# -- create


def test_create_201_with_location_type_and_offset(base: str, http: requests.Session) -> None:
    url = fresh(base)
    response = http.put(url, headers=TEXT, data=b"hello")
    assert response.status_code == 201
    assert response.headers["Location"] == url
    assert response.headers["Content-Type"] == "text/plain"
    assert response.headers["Stream-Next-Offset"] == "00000000000000000005"
    assert "Stream-Closed" not in response.headers


def test_create_200_when_it_exists_as_asked(base: str, http: requests.Session) -> None:
    url = fresh(base)
    wanted = {**TEXT, "Stream-TTL": "3600"}
    assert http.put(url, headers=wanted).status_code == 201
    assert http.put(url, headers={**wanted, "Content-Type": "TEXT/Plain"}).status_code == 200


@pytest.mark.parametrize(
    "other",
    [
        {"Content-Type": "application/json", "Stream-TTL": "3600"},
        {"Content-Type": "text/plain", "Stream-TTL": "3601"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "text/plain", "Stream-TTL": "3600", "Stream-Closed": "true"},
    ],
)
def test_create_409_when_it_exists_otherwise(
    base: str, http: requests.Session, other: dict[str, str]
) -> None:
    url = fresh(base)
    http.put(url, headers={**TEXT, "Stream-TTL": "3600"})
    assert http.put(url, headers=other).status_code == 409


def test_create_409_for_an_open_request_on_a_closed_stream(
    base: str, http: requests.Session
) -> None:
    url = fresh(base)
    assert http.put(url, headers={**TEXT, **CLOSE}).headers["Stream-Closed"] == "true"
    assert http.put(url, headers=TEXT).status_code == 409
    assert http.put(url, headers={**TEXT, **CLOSE}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Stream-TTL": "10", "Stream-Expires-At": "2099-01-01T00:00:00Z"},
        {"Stream-TTL": "-1"},
        {"Stream-TTL": "01"},
        {"Stream-TTL": "+1"},
        {"Stream-TTL": "1.0"},
        {"Stream-TTL": "1e3"},
        {"Stream-TTL": ""},
        {"Stream-TTL": "9" * 30},
        {"Stream-Expires-At": "tomorrow"},
        {"Stream-Expires-At": "2099-01-01"},
        {"Stream-Expires-At": "2099-01-01T00:00:00"},
        {"Stream-Expires-At": "2099-13-01T00:00:00Z"},
        {"Content-Type": "nonsense"},
        {"Content-Type": "a/b c"},
        {"Stream-Fork-Offset": "0"},
        {"Stream-Fork-Sub-Offset": "0"},
        {"Stream-Forked-From": "not a path"},
        {"Stream-Forked-From": "/v1/stream/../x"},
    ],
)
def test_create_400_for_invalid_headers(
    base: str, http: requests.Session, headers: dict[str, str]
) -> None:
    url = fresh(base)
    response = http.put(url, headers={**TEXT, **headers})
    assert response.status_code == 400
    assert response.text.strip()
    assert http.head(url).status_code == 404


@pytest.mark.parametrize(
    "moment",
    ["2099-01-01T00:00:00Z", "2099-01-01t00:00:00.123456789z", "2099-01-01T00:00:00+05:30"],
)
def test_create_takes_rfc3339_and_head_returns_it_as_sent(
    base: str, http: requests.Session, moment: str
) -> None:
    url = fresh(base)
    assert http.put(url, headers={**TEXT, "Stream-Expires-At": moment}).status_code == 201
    assert http.head(url).headers["Stream-Expires-At"] == moment


def test_a_stream_is_gone_after_its_expiry(base: str, http: requests.Session) -> None:
    url = fresh(base)
    soon = datetime.now(timezone.utc) + timedelta(seconds=0.3)
    http.put(url, headers={**TEXT, "Stream-Expires-At": soon.isoformat()})
    assert http.head(url).status_code == 200
    time.sleep(0.4)
    assert http.head(url).status_code == 404
    assert http.put(url, headers=TEXT).status_code == 201


def test_a_stream_created_again_has_another_incarnation(base: str, http: requests.Session) -> None:
    url = fresh(base)
    first = http.put(url, headers=TEXT).headers["Stream-Incarnation"]
    assert http.head(url).headers["Stream-Incarnation"] == first
    http.delete(url)
    assert http.put(url, headers=TEXT).headers["Stream-Incarnation"] != first


# -- append


def test_append_204_with_the_new_offset(create, http: requests.Session) -> None:
    url = create("text/plain")
    response = http.post(url, headers=TEXT, data=b"hello")
    assert response.status_code == 204
    assert response.headers["Stream-Next-Offset"] == "00000000000000000005"


def test_append_400_for_an_empty_body(create, http: requests.Session) -> None:
    assert http.post(create("text/plain"), headers=TEXT).status_code == 400


def test_append_400_without_a_content_type(create, http: requests.Session) -> None:
    assert http.post(create("text/plain"), data=iter([b"x"])).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b"[1,",
        b"[1 2]",
        b"nul",
        b"'x'",
        b'{"a":1}{"b":2}',
        b'"\xff"',
        b"\xef\xbb\xbf1",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'"tab\tinside"',
        b"01",
        b"NaN",
        b" ",
    ],
)
def test_append_400_for_what_is_not_json(create, http: requests.Session, body: bytes) -> None:
    url = create()
    response = http.post(url, headers=JSON, data=body)
    assert response.status_code == 400
    assert response.text.strip()
    assert http.get(url).json() == []


def test_append_404_when_the_stream_is_missing(base: str, http: requests.Session) -> None:
    assert http.post(fresh(base), headers=TEXT, data=b"x").status_code == 404


def test_append_409_for_another_content_type(create, http: requests.Session) -> None:
    url = create("text/plain")
    assert http.post(url, headers=JSON, data=b"1").status_code == 409
    assert http.get(url).content == b""


def test_append_409_when_stream_seq_does_not_grow(create, http: requests.Session) -> None:
    url = create("text/plain")
    answers = [
        http.post(url, headers={**TEXT, "Stream-Seq": seq}, data=b"x").status_code
        for seq in ("b", "b", "a", "B", "c")
    ]
    assert answers == [204, 409, 409, 409, 204]


def test_append_409_on_a_closed_stream_with_its_end(create, http: requests.Session) -> None:
    url = create("text/plain", b"abc")
    http.post(url, headers=CLOSE)
    response = http.post(url, headers=TEXT, data=b"x")
    assert response.status_code == 409
    assert response.headers["Stream-Closed"] == "true"
    assert response.headers["Stream-Next-Offset"] == "00000000000000000003"


def test_closed_comes_before_a_type_mismatch(create, http: requests.Session) -> None:
    url = create("text/plain", b"abc")
    http.post(url, headers=CLOSE)
    response = http.post(url, headers=JSON, data=b"1")
    assert (response.status_code, response.headers["Stream-Closed"]) == (409, "true")


@pytest.mark.parametrize("chunked", [False, True])
def test_append_413_past_the_announced_limit(http: requests.Session, chunked: bool) -> None:
    from spark_durable.server import EmbeddedServer

    with EmbeddedServer(max_append_bytes=100_000) as server:
        url = f"{server.url}/v1/stream/limit"
        http.put(url, headers=TEXT)
        limit = int(http.head(url).headers["Stream-Max-Append-Bytes"])
        assert limit == 100_000
        too_much = b"x" * (limit + 1)
        body = iter([too_much[:50_000], too_much[50_000:]]) if chunked else too_much
        assert http.post(url, headers=TEXT, data=body).status_code == 413
        assert http.put(f"{url}2", headers=TEXT, data=too_much).status_code == 413
        assert http.get(url).content == b""
        assert http.post(url, headers=TEXT, data=too_much[1:]).status_code == 204


def test_chunked_bodies_are_whole(create, http: requests.Session) -> None:
    url = create("text/plain")
    pieces = [bytes([65 + n % 26]) * (n * 997) for n in range(1, 60)]
    assert http.post(url, headers=TEXT, data=iter(pieces)).status_code == 204
    assert http.get(url).content == b"".join(pieces)


def test_numbers_and_text_stay_as_sent(create, http: requests.Session) -> None:
    body = b'[12345678901234567890123, 1.0, 1e400, "\\u00e9\xc3\xa9", {"b":1, "a":2,"a":3}]'
    url = create("application/json", body)
    assert http.get(url).content.replace(b",\n", b", ") == body


# -- close


def test_close_204_and_again(create, http: requests.Session) -> None:
    url = create("text/plain", b"abc")
    for _ in range(2):
        response = http.post(url, headers=CLOSE)
        assert response.status_code == 204
        assert response.headers["Stream-Closed"] == "true"
        assert response.headers["Stream-Next-Offset"] == "00000000000000000003"


def test_close_404_when_the_stream_is_missing(base: str, http: requests.Session) -> None:
    assert http.post(fresh(base), headers=CLOSE).status_code == 404


def test_append_and_close_is_one_step(create, http: requests.Session) -> None:
    url = create("text/plain")
    response = http.post(url, headers={**TEXT, **CLOSE}, data=b"last")
    assert (response.status_code, response.headers["Stream-Closed"]) == (204, "true")
    assert http.get(url).headers["Stream-Closed"] == "true"


@pytest.mark.parametrize("value", ["false", "yes", "1", ""])
def test_only_true_closes(create, http: requests.Session, value: str) -> None:
    url = create("text/plain")
    http.post(url, headers={**TEXT, "Stream-Closed": value}, data=b"x")
    assert "Stream-Closed" not in http.head(url).headers


def test_true_in_any_case_closes(create, http: requests.Session) -> None:
    url = create("text/plain")
    http.post(url, headers={"Stream-Closed": "TrUe"})
    assert http.head(url).headers["Stream-Closed"] == "true"


# -- delete


def test_delete_204_then_404(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    assert [http.delete(url).status_code, http.delete(url).status_code] == [204, 404]
    assert http.get(url).status_code == http.head(url).status_code == 404


def test_a_deleted_stream_with_forks_is_410_and_its_name_taken(
    base: str, http: requests.Session
) -> None:
    source, fork = fresh(base), fresh(base)
    http.put(source, headers=TEXT, data=b"abc")
    path = source[len(base) :]
    assert http.put(fork, headers={"Stream-Forked-From": path}).status_code == 201
    assert http.delete(source).status_code == 204
    for method in ("GET", "HEAD", "POST", "DELETE"):
        assert http.request(method, source, headers=TEXT, data=b"x").status_code == 410
    assert http.put(source, headers=TEXT).status_code == 409
    assert http.get(fork).content == b"abc"


# -- HEAD


def test_head_200_with_the_facts(create, http: requests.Session) -> None:
    url = create("text/plain", b"abc", Stream_TTL="60")
    response = http.head(url)
    assert response.status_code == 200
    assert response.content == b""
    expected = {
        "Content-Type": "text/plain",
        "Stream-Next-Offset": "00000000000000000003",
        "Stream-Retained-Offset": "00000000000000000000",
        "Stream-TTL": "60",
        "Cache-Control": "no-store",
    }
    assert expected == {name: response.headers[name] for name in expected}
    assert "Content-Length" not in response.headers
    assert int(response.headers["Stream-Max-Append-Bytes"]) > 0
    assert "Stream-Closed" not in response.headers


def test_head_404_when_missing(base: str, http: requests.Session) -> None:
    assert http.head(fresh(base)).status_code == 404


def test_405_names_what_is_allowed(base: str, http: requests.Session) -> None:
    response = http.request("PATCH", fresh(base))
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]


# -- paths


@pytest.mark.parametrize(
    "path", ["a%2Fb", "%2e%2e/x", "x/%2E%2e", "a%00", "%c0%af", "%", "%4", "", "x" * 1025]
)
def test_hostile_paths_400(raw, path: str) -> None:
    request = f"PUT /v1/stream/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(request.encode()).startswith(b"HTTP/1.1 400 ")


def test_deep_and_unicode_paths_work(base: str, http: requests.Session) -> None:
    url = f"{fresh(base)}/a b/ü/%25"
    created = http.put(url, headers=TEXT, data=b"x")
    assert created.status_code == 201
    assert http.get(created.headers["Location"]).content == b"x"


def test_nothing_elsewhere(base: str, http: requests.Session) -> None:
    for path in ("/v1", "/v1/stream", "/ds", "/v2/stream/x"):
        response = http.get(f"{base}{path}")
        assert response.status_code == 404
        assert response.headers["X-Content-Type-Options"] == "nosniff"
