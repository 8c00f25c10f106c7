"""Snapshots, rule by rule: publishing, its retention effect, reading, HEAD and deletion."""

from __future__ import annotations

import threading

import pytest
import requests

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}


def tail(http: requests.Session, url: str) -> str:
    return http.head(url).headers["Stream-Next-Offset"]


def publish(http: requests.Session, url: str, offset: str, body: bytes = b"state") -> int:
    return http.put(f"{url}/snapshot/{offset}", data=body).status_code


# -- publish


def test_publish_204(create, http: requests.Session) -> None:
    url = create("application/json", b"[1,2,3]")
    assert publish(http, url, tail(http, url)) == 204


def test_publish_stores_the_content_type_and_defaults_to_octet_stream(
    create, http: requests.Session
) -> None:
    url = create("application/json", b"1")
    first = tail(http, url)
    http.put(f"{url}/snapshot/{first}", data=b"x")
    assert http.get(f"{url}/snapshot/{first}").headers["Content-Type"] == "application/octet-stream"
    http.post(url, headers=JSON, data=b"2")
    second = tail(http, url)
    http.put(f"{url}/snapshot/{second}", data=b"{}", headers={"Content-Type": "application/x+y"})
    assert http.get(f"{url}/snapshot/{second}").headers["Content-Type"] == "application/x+y"


@pytest.mark.parametrize("offset", ["-1", "now", "abc", "1e3", "+5", "1,2", "%00", "9" * 40, "1_"])
def test_publish_400_for_an_invalid_offset(create, http: requests.Session, offset: str) -> None:
    assert publish(http, create("application/json", b"1"), offset) == 400


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_publish_400_inside_a_message(create, http: requests.Session, content_type: str) -> None:
    url = create(content_type, b'"a message"', b'"another"')
    assert publish(http, url, f"{int(tail(http, url)) - 3:020d}") == 400


def test_publish_404_when_the_stream_is_missing(bucket: str, http: requests.Session) -> None:
    assert publish(http, f"{bucket}/missing", "0" * 20) == 404


def test_publish_409_past_the_tail(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    assert publish(http, url, f"{int(tail(http, url)) + 1:020d}") == 409


def test_publish_410_before_the_retained_offset(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    early = tail(http, url)
    http.post(url, headers=JSON, data=b"2")
    assert publish(http, url, tail(http, url)) == 204
    response = http.put(f"{url}/snapshot/{early}", data=b"late")
    assert response.status_code == 410
    assert response.headers["Stream-Retained-Offset"] == tail(http, url)


def test_publish_413_past_the_limit(http: requests.Session) -> None:
    from spark_durable.server import EmbeddedServer

    with EmbeddedServer(max_snapshot_bytes=1000) as server:
        url = f"{server.url}/ds/snaps/s"
        http.put(f"{server.url}/ds/snaps")
        http.put(url, headers=JSON, data=b"1")
        offset = tail(http, url)
        assert publish(http, url, offset, b"x" * 1001) == 413
        assert http.get(f"{url}/snapshot").status_code == 404
        assert publish(http, url, offset, b"x" * 1000) == 204


def test_publish_again_with_the_same_body_is_204(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    assert [publish(http, url, offset), publish(http, url, offset)] == [204, 204]


def test_publish_409_at_the_same_offset_with_another_body(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    assert publish(http, url, offset, b"one") == 204
    assert publish(http, url, offset, b"two") == 409
    assert http.get(f"{url}/snapshot/{offset}").content == b"one"


def test_publish_accepts_an_empty_snapshot_of_an_empty_stream(
    create, http: requests.Session
) -> None:
    url = create()
    assert publish(http, url, "0" * 20, b"") == 204
    assert http.get(f"{url}/snapshot").content == b""


def test_publish_does_not_block_appends(create, http: requests.Session) -> None:
    url = create("application/json", b"[1,2]")
    offset = tail(http, url)
    results: list[int] = []

    def append() -> None:
        for number in range(20):
            answer = requests.post(url, headers=JSON, data=str(number).encode(), timeout=10)
            results.append(answer.status_code)

    writer = threading.Thread(target=append)
    writer.start()
    assert publish(http, url, offset, b"x" * 1_000_000) == 204
    writer.join()
    assert results == [204] * 20
    # Updates at or past the offset are not folded in: they are still there to read.
    assert http.get(url, params={"offset": offset}).json() == list(range(20))


def test_offsets_in_the_path_are_url_decoded(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    encoded = "".join(f"%{ord(digit):02x}" for digit in tail(http, url))
    assert publish(http, url, encoded) == 204


# -- the retention effect


@pytest.mark.parametrize("live", [None, "long-poll", "sse"])
def test_reads_before_the_snapshot_410_including_minus_1(
    create, http: requests.Session, live: str | None
) -> None:
    url = create("application/json", b"1")
    first = tail(http, url)
    http.post(url, headers=JSON, data=b"2")
    assert publish(http, url, tail(http, url)) == 204
    for offset in ("-1", "0" * 20, first):
        params = {"offset": offset} | ({"live": live} if live else {})
        response = http.get(url, params=params)
        assert response.status_code == 410
        assert response.headers["Stream-Retained-Offset"] == tail(http, url)
        assert "bootstrap" in response.text
    if live is None:
        assert http.get(url).status_code == 410


def test_reads_at_the_snapshot_offset_go_on(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    publish(http, url, offset)
    http.post(url, headers=JSON, data=b"2")
    assert http.get(url, params={"offset": offset}).json() == [2]


def test_a_snapshot_at_offset_0_trims_nothing(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    assert publish(http, url, "0" * 20) == 204
    assert http.get(url, params={"offset": "-1"}).json() == [1]


def test_reads_never_return_snapshot_bytes(create, http: requests.Session) -> None:
    url = create("text/plain", b"update")
    offset = tail(http, url)
    publish(http, url, offset, b"SNAPSHOT")
    assert http.get(url, params={"offset": offset}).content == b""


def test_a_new_snapshot_replaces_the_visible_one(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    publish(http, url, tail(http, url), b"old")
    http.post(url, headers=JSON, data=b"2")
    newer = tail(http, url)
    publish(http, url, newer, b"new")
    latest = http.get(f"{url}/snapshot")
    assert latest.content == b"new"
    assert latest.url.endswith(newer)
    assert http.head(url).headers["Stream-Snapshot-Offset"] == newer


# -- read the latest


def test_latest_snapshot_307_to_its_resource(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    publish(http, url, offset)
    response = http.get(f"{url}/snapshot", allow_redirects=False)
    assert response.status_code == 307
    assert response.headers["Location"] == f"{url}/snapshot/{offset}"


def test_latest_snapshot_404_without_one(create, http: requests.Session) -> None:
    assert http.get(f"{create()}/snapshot").status_code == 404


def test_latest_snapshot_404_when_the_stream_is_missing(
    bucket: str, http: requests.Session
) -> None:
    assert http.get(f"{bucket}/missing/snapshot").status_code == 404


# -- HEAD


def test_head_without_a_snapshot_has_no_snapshot_offset(create, http: requests.Session) -> None:
    assert "Stream-Snapshot-Offset" not in http.head(create()).headers


def test_head_names_the_snapshot_that_latest_resolves_to(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    publish(http, url, offset)
    http.post(url, headers=JSON, data=b"2")
    head = http.head(url).headers
    assert head["Stream-Snapshot-Offset"] == head["Stream-Retained-Offset"] == offset
    assert http.get(f"{url}/snapshot").url.endswith(offset)


# -- read one


def test_read_snapshot_200_with_its_headers(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    body = bytes(range(256)) * 10
    http.put(f"{url}/snapshot/{offset}", data=body, headers={"Content-Type": "image/png"})
    response = http.get(f"{url}/snapshot/{offset}")
    assert response.status_code == 200
    assert response.content == body
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["Stream-Snapshot-Offset"] == offset
    assert response.headers["Stream-Next-Offset"] == offset
    assert response.headers["Stream-Up-To-Date"] == "true"
    http.post(url, headers=JSON, data=b"2")
    assert http.get(f"{url}/snapshot/{offset}").headers["Stream-Up-To-Date"] == "false"


@pytest.mark.parametrize("offset", ["0" * 20, "99", "nonsense", "-1"])
def test_read_snapshot_404_when_there_is_none(create, http: requests.Session, offset: str) -> None:
    assert http.get(f"{create('application/json', b'1')}/snapshot/{offset}").status_code == 404


def test_snapshot_bodies_are_sandboxed(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    page = {"Content-Type": "text/html"}
    http.put(f"{url}/snapshot/{offset}", data=b"<script>alert(1)</script>", headers=page)
    response = http.get(f"{url}/snapshot/{offset}")
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"


# -- delete


def test_delete_snapshot_409_for_the_latest(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    publish(http, url, offset)
    assert http.delete(f"{url}/snapshot/{offset}").status_code == 409
    assert http.get(f"{url}/snapshot").status_code == 200


@pytest.mark.parametrize("offset", ["0" * 20, "99", "nonsense"])
def test_delete_snapshot_404_when_there_is_none(
    create, http: requests.Session, offset: str
) -> None:
    assert http.delete(f"{create('application/json', b'1')}/snapshot/{offset}").status_code == 404


def test_delete_snapshot_404_for_a_superseded_one(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    old = tail(http, url)
    publish(http, url, old)
    http.post(url, headers=JSON, data=b"2")
    publish(http, url, tail(http, url))
    assert http.delete(f"{url}/snapshot/{old}").status_code == 404


# -- where there are none


def test_the_base_protocol_has_no_snapshot_routes(
    base: str, create, http: requests.Session
) -> None:
    url = create("application/json", b"1", root="v1")
    created = http.put(f"{url}/snapshot", headers=JSON, data=b"2")
    assert created.status_code == 201
    assert http.get(f"{url}/snapshot").json() == [2]


def test_an_unknown_resource_below_a_stream_404(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    assert http.get(f"{url}/unknown").status_code == 404
    assert http.get(f"{url}/snapshot/{'0' * 20}/more").status_code == 404


def test_snapshot_405_for_post(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    assert http.post(f"{url}/snapshot/{tail(http, url)}", data=b"x").status_code == 405
    assert http.put(f"{url}/snapshot", data=b"x").status_code == 405
