"""Bootstrap, rule by rule: headers, the parts and their types, and what it refuses."""

from __future__ import annotations

import threading
from email.parser import BytesParser
from email.policy import HTTP

import pytest
import requests

from spark_durable.server import EmbeddedServer

JSON = {"Content-Type": "application/json"}
EMPTY = ("application/octet-stream", b"")


def parts(response: requests.Response) -> list[tuple[str, bytes]]:
    """Content type and body of each part, by the standard library's parser and by the bytes."""
    kind = response.headers["Content-Type"]
    document = b"Content-Type: " + kind.encode() + b"\r\n\r\n" + response.content
    parsed = [
        part.get_content_type()
        for part in BytesParser(policy=HTTP).parsebytes(document).iter_parts()
    ]
    boundary = kind.partition("boundary=")[2].encode()
    assert response.content.startswith(b"--" + boundary + b"\r\n")
    assert response.content.endswith(b"\r\n--" + boundary + b"--\r\n")
    inner = response.content[: -len(b"\r\n--" + boundary + b"--\r\n")]
    found = []
    for piece in (b"\r\n" + inner).split(b"\r\n--" + boundary + b"\r\n")[1:]:
        head, _, body = piece.partition(b"\r\n\r\n")
        found.append((head.removeprefix(b"Content-Type: ").decode(), body))
    assert [kind.partition(";")[0] for kind, _ in found] == parsed
    return found


def tail(http: requests.Session, url: str) -> str:
    return http.head(url).headers["Stream-Next-Offset"]


def test_bootstrap_200_with_its_headers(create, http: requests.Session) -> None:
    url = create("application/json", b'[{"a":1}]')
    offset = tail(http, url)
    http.put(f"{url}/snapshot/{offset}", data=b"state")
    http.post(url, headers=JSON, data=b"[2,3]")
    response = http.get(f"{url}/bootstrap")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("multipart/mixed; boundary=")
    assert response.headers["Stream-Snapshot-Offset"] == offset
    assert response.headers["Stream-Next-Offset"] == tail(http, url)
    assert response.headers["Stream-Up-To-Date"] == "true"
    assert response.headers["Cache-Control"] == "no-store"


def test_the_snapshot_comes_first_with_its_stored_type(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    state = b"\r\n--not-a-boundary\r\n\x00\xff"
    kind = {"Content-Type": "application/x-state; v=1"}
    http.put(f"{url}/snapshot/{tail(http, url)}", data=state, headers=kind)
    http.post(url, headers=JSON, data=b"2")
    assert parts(http.get(f"{url}/bootstrap")) == [
        ("application/x-state; v=1", state),
        ("application/json", b"2"),
    ]


def test_one_part_per_json_message_as_it_was_sent(create, http: requests.Session) -> None:
    url = create("application/json", b'[{"n": 1.0}, 12345678901234567890]', b'"x"')
    assert parts(http.get(f"{url}/bootstrap")) == [
        EMPTY,
        ("application/json", b'{"n": 1.0}'),
        ("application/json", b"12345678901234567890"),
        ("application/json", b'"x"'),
    ]


def test_one_part_per_append_of_other_types(create, http: requests.Session) -> None:
    bodies = (b"\r\n", b"\x00\xff--", b"x" * 100_000)
    url = create("application/octet-stream", *bodies)
    found = parts(http.get(f"{url}/bootstrap"))
    assert found == [EMPTY, *(("application/octet-stream", body) for body in bodies)]


def test_without_a_snapshot_an_empty_first_part_and_minus_1(create, http: requests.Session) -> None:
    response = http.get(f"{create()}/bootstrap")
    assert response.headers["Stream-Snapshot-Offset"] == "-1"
    assert parts(response) == [EMPTY]


def test_an_empty_snapshot_is_a_snapshot(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    offset = tail(http, url)
    http.put(f"{url}/snapshot/{offset}", data=b"", headers={"Content-Type": "text/x"})
    response = http.get(f"{url}/bootstrap")
    assert response.headers["Stream-Snapshot-Offset"] == offset
    assert parts(response) == [("text/x", b"")]


def test_bootstrap_404_when_the_stream_is_missing(bucket: str, http: requests.Session) -> None:
    assert http.get(f"{bucket}/missing/bootstrap").status_code == 404


@pytest.mark.parametrize("live", ["sse", "long-poll", "", "x"])
def test_bootstrap_400_for_any_live_parameter(create, http: requests.Session, live: str) -> None:
    url = create("application/json", b"1")
    assert http.get(f"{url}/bootstrap", params={"live": live}).status_code == 400


def test_bootstrap_ignores_other_parameters(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    assert http.get(f"{url}/bootstrap", params={"offset": "zzz"}).status_code == 200


def test_live_reads_follow_from_its_next_offset(create, http: requests.Session) -> None:
    url = create("application/json", b"[1,2]")
    offset = http.get(f"{url}/bootstrap").headers["Stream-Next-Offset"]
    http.post(url, headers=JSON, data=b"3")
    follow = http.get(url, params={"offset": offset, "live": "long-poll"})
    assert follow.json() == [3]


def test_after_410_bootstrap_covers_the_retained_offset(create, http: requests.Session) -> None:
    url = create("application/json", b"[1,2]")
    http.put(f"{url}/snapshot/{tail(http, url)}", data=b"[1,2]")
    http.post(url, headers=JSON, data=b"3")
    assert http.get(url).status_code == 410
    assert [body for _, body in parts(http.get(f"{url}/bootstrap"))] == [b"[1,2]", b"3"]


def test_bootstrap_says_when_the_stream_has_ended(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    assert "Stream-Closed" not in http.get(f"{url}/bootstrap").headers
    http.post(url, headers={"Stream-Closed": "true"})
    assert http.get(f"{url}/bootstrap").headers["Stream-Closed"] == "true"


def test_a_long_bootstrap_equals_the_stream(create, http: requests.Session) -> None:
    row = b'{"value":"' + b"x" * 5000 + b'"}'
    batch = b"[" + b",".join([row] * 200) + b"]"
    url = create("application/json", batch, batch, batch, batch)
    found = parts(http.get(f"{url}/bootstrap"))
    assert len(found) == 1 + 800
    assert all(body == row for _, body in found[1:])


def test_bootstrap_405_for_writes(create, http: requests.Session) -> None:
    url = create("application/json", b"1")
    assert http.put(f"{url}/bootstrap", data=b"x").status_code == 405
    assert http.post(f"{url}/bootstrap", data=b"x").status_code == 405


def test_a_bootstrap_cut_by_a_shutdown_does_not_look_whole(dial, http: requests.Session) -> None:
    with EmbeddedServer() as server:
        url = f"{server.url}/ds/cuts/s"
        http.put(f"{server.url}/ds/cuts")
        http.put(url, headers=JSON)
        batch = b"[" + b",".join([b'"' + b"x" * 1000 + b'"'] * 4000) + b"]"
        for _ in range(10):
            http.post(url, headers=JSON, data=batch)
        with dial(server.url) as connection:
            connection.sendall(b"GET /ds/cuts/s/bootstrap HTTP/1.1\r\nHost: localhost\r\n\r\n")
            begun = connection.recv(65536)
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            rest = connection.read_all()
            stopping.join()
    assert begun.startswith(b"HTTP/1.1 200 ")
    assert not rest.endswith(b"\r\n0\r\n\r\n")
