"""Producer headers: exactly-once appends, fencing, gaps, and their answers."""

from __future__ import annotations

import pytest
import requests

MAX = 2**53 - 1
TEXT = {"Content-Type": "text/plain"}


def triple(epoch: object, seq: object, producer: str = "p") -> dict[str, str]:
    return {"Producer-Id": producer, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}


def send(
    http: requests.Session, url: str, epoch: object, seq: object, body: bytes = b"x", **more: str
) -> requests.Response:
    return http.post(url, headers={**TEXT, **triple(epoch, seq), **more}, data=body)


def test_new_data_200_duplicates_204_stored_once(create, http: requests.Session) -> None:
    url = create("text/plain")
    first = send(http, url, 0, 0, b"one")
    again = send(http, url, 0, 0, b"one")
    second = send(http, url, 0, 1, b"two")
    assert [first.status_code, again.status_code, second.status_code] == [200, 204, 200]
    assert http.get(url).content == b"onetwo"
    for response in (first, again, second):
        assert response.headers["Producer-Epoch"] == "0"
        assert "Stream-Next-Offset" in response.headers
    assert [r.headers["Producer-Seq"] for r in (first, again, second)] == ["0", "0", "1"]


def test_a_duplicate_tells_the_highest_accepted_seq(create, http: requests.Session) -> None:
    url = create("text/plain")
    for seq in range(3):
        send(http, url, 0, seq)
    assert send(http, url, 0, 0).headers["Producer-Seq"] == "2"


def test_a_newer_epoch_fences_the_older_403(create, http: requests.Session) -> None:
    url = create("text/plain")
    send(http, url, 3, 0)
    fenced = send(http, url, 2, 0)
    assert fenced.status_code == 403
    assert fenced.headers["Producer-Epoch"] == "3"
    assert http.get(url).content == b"x"


def test_a_gap_409_tells_expected_and_received(create, http: requests.Session) -> None:
    url = create("text/plain")
    send(http, url, 0, 0)
    gap = send(http, url, 0, 5)
    assert gap.status_code == 409
    assert gap.headers["Producer-Expected-Seq"] == "1"
    assert gap.headers["Producer-Received-Seq"] == "5"
    assert "Stream-Closed" not in gap.headers


def test_a_new_epoch_must_start_at_0_400(create, http: requests.Session) -> None:
    url = create("text/plain")
    send(http, url, 0, 0)
    assert send(http, url, 1, 1).status_code == 400
    assert send(http, url, 1, 0).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Producer-Id": "p"},
        {"Producer-Epoch": "0"},
        {"Producer-Seq": "0"},
        {"Producer-Id": "p", "Producer-Epoch": "0"},
        {"Producer-Id": "p", "Producer-Seq": "0"},
        {"Producer-Epoch": "0", "Producer-Seq": "0"},
        triple(0, 0, ""),
        triple("x", 0),
        triple(0, "1.0"),
        triple(-1, 0),
        triple("+1", 0),
        triple("1e3", 0),
        triple("0x1", 0),
        triple("", 0),
        triple(MAX + 1, 0),
        triple(0, MAX + 1),
        triple("9" * 5000, 0),
        triple(0, "0, 0"),
        triple("²", 0),
        triple(0, 0, "p" * 2000),
    ],
)
def test_400_for_partial_or_broken_headers(
    create, http: requests.Session, headers: dict[str, str]
) -> None:
    url = create("text/plain")
    sent = {name: value.encode("latin-1") for name, value in {**TEXT, **headers}.items()}
    response = http.post(url, headers=sent, data=b"x")
    assert response.status_code == 400
    assert "Producer-" in response.text
    assert http.get(url).content == b""


def test_numbers_up_to_2_53_minus_1_are_taken(create, http: requests.Session) -> None:
    url = create("text/plain")
    assert send(http, url, MAX, 0).status_code == 200
    assert send(http, url, MAX - 1, 0).status_code == 403


def test_repeated_producer_headers_400(create, raw) -> None:
    url = create("text/plain")
    path = url[url.index("/ds/") :]
    request = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nProducer-Id: p\r\n"
        "Producer-Epoch: 0\r\nProducer-Seq: 0\r\nProducer-Seq: 0\r\nContent-Length: 1\r\n"
        "Connection: close\r\n\r\nx"
    )
    assert raw(request.encode()).startswith(b"HTTP/1.1 400 ")


def test_producers_are_independent(create, http: requests.Session) -> None:
    url = create("text/plain")
    for producer in ("a", "b"):
        headers = {**TEXT, **triple(0, 0, producer)}
        assert http.post(url, headers=headers, data=producer.encode()).status_code == 200
    assert http.get(url).content == b"ab"


def test_closing_append_200_and_its_retry_204(create, http: requests.Session) -> None:
    url = create("text/plain")
    first = send(http, url, 0, 0, b"last", **{"Stream-Closed": "true"})
    retry = send(http, url, 0, 0, b"last", **{"Stream-Closed": "true"})
    assert [first.status_code, retry.status_code] == [200, 204]
    assert first.headers["Stream-Closed"] == retry.headers["Stream-Closed"] == "true"
    assert http.get(url).content == b"last"


def test_an_older_append_on_a_closed_stream_409_tells_what_was_applied(
    create, http: requests.Session
) -> None:
    url = create("text/plain")
    send(http, url, 7, 0)
    send(http, url, 7, 1)
    http.post(url, headers={"Stream-Closed": "true"})
    response = send(http, url, 7, 0)
    assert response.status_code == 409
    assert response.headers["Stream-Closed"] == "true"
    assert (response.headers["Producer-Epoch"], response.headers["Producer-Seq"]) == ("7", "1")


def test_a_probe_with_the_highest_seq_never_writes(create, http: requests.Session) -> None:
    url = create("text/plain")
    unknown = send(http, url, 5, MAX)
    assert (unknown.status_code, unknown.headers["Producer-Expected-Seq"]) == (409, "0")
    send(http, url, 5, 0)
    applied = send(http, url, 5, MAX)
    assert (applied.status_code, applied.headers["Producer-Expected-Seq"]) == (409, "1")
    assert send(http, url, 6, MAX).status_code == 400
    assert send(http, url, 4, MAX).headers["Producer-Epoch"] == "5"
    assert http.get(url).content == b"x"


def test_a_refused_append_leaves_the_producer_as_it_was(create, http: requests.Session) -> None:
    url = create("application/json")
    kind = {"Content-Type": "application/json"}
    bad = http.post(url, headers={**kind, **triple(0, 0)}, data=b"{broken")
    assert bad.status_code == 400
    good = http.post(url, headers={**kind, **triple(0, 0)}, data=b"1")
    assert good.status_code == 200
