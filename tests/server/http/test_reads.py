"""Catch-up reads: whole messages, capped, cacheable, and offsets that can be subtracted."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import requests

from spark_durable.server.http.reads import matches

JSON = {"Content-Type": "application/json"}


def test_read_200_with_its_headers(create, http: requests.Session) -> None:
    url = create("text/plain", b"hello")
    response = http.get(url)
    assert response.status_code == 200
    assert response.content == b"hello"
    assert response.headers["Content-Length"] == "5"
    assert response.headers["Stream-Next-Offset"] == "00000000000000000005"
    assert response.headers["Stream-Up-To-Date"] == "true"
    assert response.headers["Stream-Incarnation"] == http.head(url).headers["Stream-Incarnation"]
    assert "Stream-Closed" not in response.headers
    assert "max-age=60" in response.headers["Cache-Control"]


def test_read_404_when_missing(bucket: str, http: requests.Session) -> None:
    assert http.get(f"{bucket}/missing").status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        "offset=",
        "offset=x",
        "offset=-2",
        "offset=1.5",
        "offset=0&offset=0",
        "offset=%00",
        "offset=%ff",
        "offset=now%20",
        "offset=1_",
        "offset=" + "9" * 30,
        "offset=%D9%A1",
        "live=x&offset=-1",
        "live=long-poll",
        "live=sse",
        "align=x",
        "max_bytes=0",
        "max_bytes=-1",
        "max_bytes=x",
    ],
)
def test_read_400_for_malformed_parameters(create, http: requests.Session, query: str) -> None:
    response = http.get(f"{create('text/plain', b'hello')}?{query}")
    assert response.status_code == 400
    assert response.text.strip()


def test_read_400_inside_a_message_and_past_the_tail(create, http: requests.Session) -> None:
    for url in (create("text/plain", b"hello"), create("application/json", b'"hello"')):
        assert http.get(url, params={"offset": "2"}).status_code == 400
        assert http.get(url, params={"offset": "999"}).status_code == 400


def test_unknown_parameters_are_ignored(create, http: requests.Session) -> None:
    assert http.get(f"{create('text/plain', b'x')}?foo=1&foo=2").content == b"x"


def test_at_the_tail_an_empty_body(create, http: requests.Session) -> None:
    for kind, body, empty in (("text/plain", b"x", b""), ("application/json", b"1", b"[]")):
        url = create(kind, body)
        tail = http.head(url).headers["Stream-Next-Offset"]
        response = http.get(url, params={"offset": tail})
        assert response.content == empty
        assert response.headers["Stream-Next-Offset"] == tail
        assert response.headers["Stream-Up-To-Date"] == "true"
        assert "no-cache" in response.headers["Cache-Control"]


def test_the_end_is_told_at_the_tail_only(create, http: requests.Session) -> None:
    url = create("text/plain", b"aaa", b"bbb")
    http.post(url, headers={"Stream-Closed": "true"})
    partial = http.get(url, params={"max_bytes": 3})
    assert partial.content == b"aaa"
    assert "Stream-Closed" not in partial.headers
    assert "Stream-Up-To-Date" not in partial.headers
    rest = http.get(url, params={"offset": partial.headers["Stream-Next-Offset"]})
    assert (rest.content, rest.headers["Stream-Closed"]) == (b"bbb", "true")


def test_offset_now_is_empty_uncached_and_at_the_tail(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    response = http.get(url, params={"offset": "now"})
    assert response.json() == []
    assert response.headers["Stream-Next-Offset"] == http.head(url).headers["Stream-Next-Offset"]
    assert response.headers["Stream-Up-To-Date"] == "true"
    assert response.headers["Cache-Control"] == "no-store"
    assert "ETag" not in response.headers


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
def test_responses_are_capped_on_a_message_boundary(
    create, http: requests.Session, kind: str
) -> None:
    bodies = [json.dumps("x" * (300_000 + 7 * n)).encode() for n in range(40)]
    url = create(kind, *bodies)
    tail = int(http.head(url).headers["Stream-Next-Offset"])
    offset, pieces = "-1", []
    while True:
        response = http.get(url, params={"offset": offset})
        start = max(0, int(offset))
        offset = response.headers["Stream-Next-Offset"]
        assert len(response.content) <= 4 << 20
        assert int(response.headers["Content-Length"]) == len(response.content)
        # Offsets may be subtracted: the difference is the length of the body.
        assert int(offset) - start == len(response.content)
        pieces.append(response.content)
        if "Stream-Up-To-Date" in response.headers:
            break
    assert int(offset) == tail
    assert len(pieces) > 2
    if kind == "application/json":
        found = [json.dumps(message).encode() for piece in pieces for message in json.loads(piece)]
        assert found == bodies
    else:
        assert b"".join(pieces) == b"".join(bodies)


def test_one_message_larger_than_the_cap_comes_whole(create, http: requests.Session) -> None:
    big = b"x" * (5 << 20)
    url = create("text/plain", b"small", big, b"after")
    first = http.get(url)
    assert first.content == b"small"
    second = http.get(url, params={"offset": first.headers["Stream-Next-Offset"]})
    assert second.content == big


def test_max_bytes_lowers_the_cap_to_one_message_at_least(create, http: requests.Session) -> None:
    url = create("application/json", b'["aaaa","bbbb","cccc"]')
    assert http.get(url, params={"max_bytes": 1}).json() == ["aaaa"]
    assert http.get(url, params={"max_bytes": 17}).json() == ["aaaa", "bbbb"]
    assert http.get(url, params={"max_bytes": 10**12}).json() == ["aaaa", "bbbb", "cccc"]


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_align_next_starts_at_the_boundary_that_follows(
    create, http: requests.Session, kind: str
) -> None:
    url = create(kind, b'"aaaa"', b'"bbbb"')
    second = (int(http.head(url).headers["Stream-Next-Offset"])) // 2
    for offset, start in ((0, 0), (1, second), (second - 1, second), (second, second)):
        response = http.get(url, params={"offset": offset, "align": "next"})
        assert response.headers["Stream-Start-Offset"] == f"{start:020d}"
        assert int(response.headers["Stream-Next-Offset"]) - start == len(response.content)
    inside_last = http.get(url, params={"offset": second + 1, "align": "next"})
    assert inside_last.headers["Stream-Start-Offset"] == f"{2 * second:020d}"


def test_align_next_lets_parallel_readers_split_a_stream(create, http: requests.Session) -> None:
    rows = [{"row": n, "pad": "x" * (n % 50)} for n in range(500)]
    url = create("application/json", json.dumps(rows).encode())
    tail = int(http.head(url).headers["Stream-Next-Offset"])
    cuts = [tail * n // 7 for n in range(8)]
    found = []
    for start, end in pairwise(cuts):
        piece = http.get(url, params={"offset": start, "align": "next"})
        position = int(piece.headers["Stream-Start-Offset"])
        for message in piece.content.strip(b"[]").split(b",\n"):
            if position >= end:
                break
            found.append(json.loads(message))
            position += len(message) + 2
    assert found == rows


# -- ETag


def test_if_none_match_304_without_a_body(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    etag = http.get(url).headers["ETag"]
    for candidate in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        response = http.get(url, headers={"If-None-Match": candidate})
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["ETag"] == etag
    assert http.get(url, headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_etag_changes_with_data_with_the_end_and_with_the_offset(
    create, http: requests.Session
) -> None:
    url = create("text/plain", b"x")
    tags = [http.get(url).headers["ETag"]]
    http.post(url, headers={"Content-Type": "text/plain"}, data=b"y")
    tags.append(http.get(url).headers["ETag"])
    http.post(url, headers={"Stream-Closed": "true"})
    tags.append(http.get(url).headers["ETag"])
    tags.append(http.get(url, params={"offset": "1"}).headers["ETag"])
    assert len(set(tags)) == 4


def test_a_stream_created_again_never_matches_304(create, http: requests.Session) -> None:
    url = create("text/plain", b"x")
    etag = http.get(url).headers["ETag"]
    http.delete(url)
    http.put(url, headers={"Content-Type": "text/plain"}, data=b"y")
    response = http.get(url, headers={"If-None-Match": etag})
    assert (response.status_code, response.content) == (200, b"y")


def test_matches_reads_lists_and_weak_tags() -> None:
    assert matches('"a"', '"a"')
    assert matches('W/"a" , "b"', '"b"')
    assert not matches('"a', '"a"')
    assert not matches(None, '"a"')


def test_streams_that_expire_are_not_kept_by_caches(create, http: requests.Session) -> None:
    url = create("text/plain", b"x", Stream_TTL="60")
    assert "max-age" not in http.get(url).headers["Cache-Control"]


def test_offsets_of_the_reference_server_are_understood(create, http: requests.Session) -> None:
    url = create("text/plain", b"aaa", b"bbb")
    assert http.get(url, params={"offset": "0000000000000000_0000000000000003"}).content == b"bbb"
