"""Buckets, rule by rule: creation, metadata, listing, deletion and names."""

from __future__ import annotations

import uuid
from urllib.parse import quote

import pytest
import requests

JSON = {"Content-Type": "application/json"}
INVALID_IDS = ["abc", "a" * 65, "Upper", "has.dot", "has space", "ümlaut", "semi;colon"]


def fresh(base: str) -> str:
    return f"{base}/ds/b-{uuid.uuid4().hex[:12]}"


def test_create_bucket_201(base: str, http: requests.Session) -> None:
    assert http.put(fresh(base)).status_code == 201


@pytest.mark.parametrize("bucket_id", INVALID_IDS)
def test_create_bucket_400_for_an_invalid_id(
    base: str, http: requests.Session, bucket_id: str
) -> None:
    response = http.put(f"{base}/ds/{quote(bucket_id)}")
    assert response.status_code == 400
    assert "bucket id" in response.text


@pytest.mark.parametrize("bucket_id", ["abcd", "a" * 64, "a-b_c", "0123", "----"])
def test_create_bucket_accepts_every_valid_shape(
    base: str, http: requests.Session, bucket_id: str
) -> None:
    assert http.put(f"{base}/ds/{bucket_id}").status_code in (201, 409)
    assert http.get(f"{base}/ds/{bucket_id}").status_code == 200


def test_create_bucket_409_when_it_exists(bucket: str, http: requests.Session) -> None:
    assert http.put(bucket).status_code == 409


def test_put_stream_must_not_create_its_bucket(base: str, http: requests.Session) -> None:
    bucket = fresh(base)
    assert http.put(f"{bucket}/stream", headers=JSON).status_code == 404
    assert http.get(bucket).status_code == 404


def test_get_bucket_200_with_id_and_number_of_streams(bucket: str, http: requests.Session) -> None:
    for name in ("one", "two"):
        http.put(f"{bucket}/{name}", headers=JSON)
    response = http.get(bucket)
    assert response.status_code == 200
    assert response.json() == {"bucket_id": bucket.rsplit("/", 1)[1], "streams": 2}


@pytest.mark.parametrize("bucket_id", INVALID_IDS)
def test_get_bucket_400_for_an_invalid_id(
    base: str, http: requests.Session, bucket_id: str
) -> None:
    assert http.get(f"{base}/ds/{quote(bucket_id)}").status_code == 400


def test_get_bucket_404_when_missing(base: str, http: requests.Session) -> None:
    assert http.get(fresh(base)).status_code == 404


def test_delete_bucket_204_when_empty(bucket: str, http: requests.Session) -> None:
    assert http.delete(bucket).status_code == 204
    assert http.get(bucket).status_code == 404


def test_delete_bucket_400_for_an_invalid_id(base: str, http: requests.Session) -> None:
    assert http.delete(f"{base}/ds/no").status_code == 400


def test_delete_bucket_404_when_missing(base: str, http: requests.Session) -> None:
    assert http.delete(fresh(base)).status_code == 404


def test_delete_bucket_409_while_it_has_streams(bucket: str, http: requests.Session) -> None:
    http.put(f"{bucket}/stream", headers=JSON)
    assert http.delete(bucket).status_code == 409
    assert http.delete(f"{bucket}/stream").status_code == 204
    assert http.delete(bucket).status_code == 204


def test_a_deleted_bucket_can_be_created_again(bucket: str, http: requests.Session) -> None:
    assert http.delete(bucket).status_code == 204
    assert http.put(bucket).status_code == 201
    assert http.get(bucket).json()["streams"] == 0


def test_bucket_405_names_what_is_allowed(bucket: str, http: requests.Session) -> None:
    response = http.post(bucket, data=b"x")
    assert response.status_code == 405
    assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD", "PUT", "DELETE"}


# -- listing


def names(response: requests.Response) -> list[str]:
    return [stream["stream_id"] for stream in response.json()["streams"]]


def test_list_streams_200_with_every_documented_field(bucket: str, http: requests.Session) -> None:
    http.put(f"{bucket}/user-1", headers={"Content-Type": "text/plain"}, data=b"hello")
    http.put(f"{bucket}/user-2", headers={**JSON, "Stream-Closed": "true"})
    http.put(f"{bucket}/other", headers=JSON)
    listing = http.get(f"{bucket}/streams", params={"prefix": "user-"})
    assert listing.status_code == 200
    page = listing.json()
    assert page["bucket_id"] == bucket.rsplit("/", 1)[1]
    assert page["prefix"] == "user-"
    assert page["stream_count"] == 2
    assert page["has_more"] is False
    assert page["next_cursor"] is None
    first, second = page["streams"]
    assert first["stream_id"] == "user-1"
    assert first["status"] == "Open"
    assert first["content_type"] == "text/plain"
    assert first["tail_offset"] == 5
    assert 0 < first["created_at_ms"] <= first["last_write_at_ms"]
    assert second["status"] == "Closed"


def test_list_streams_carries_what_head_tells(bucket: str, http: requests.Session) -> None:
    url = f"{bucket}/doc"
    http.put(url, headers=JSON, data=b"[1,2]")
    tail = http.head(url).headers["Stream-Next-Offset"]
    http.put(f"{url}/snapshot/{tail}", data=b"state")
    http.post(url, headers=JSON, data=b"3")
    head = http.head(url).headers
    (entry,) = http.get(f"{bucket}/streams").json()["streams"]
    assert entry["next_offset"] == head["Stream-Next-Offset"]
    assert entry["tail_offset"] == int(head["Stream-Next-Offset"])
    assert entry["retained_offset"] == head["Stream-Retained-Offset"]
    assert entry["snapshot_offset"] == head["Stream-Snapshot-Offset"]
    assert entry["incarnation"] == head["Stream-Incarnation"]


def test_list_streams_is_sorted_and_pages_are_exclusive_of_after(
    bucket: str, http: requests.Session
) -> None:
    wanted = sorted(["b", "a", "ä", "Z", "a1", "10", "9", "\U0001f600", "~"])
    for name in reversed(wanted):
        assert http.put(f"{bucket}/{quote(name)}", headers=JSON).status_code == 201
    found: list[str] = []
    after = None
    while True:
        page = http.get(f"{bucket}/streams", params={"limit": 2, "after": after})
        found += names(page)
        assert page.json()["stream_count"] == len(names(page)) <= 2
        if not page.json()["has_more"]:
            break
        after = page.json()["next_cursor"]
    assert found == wanted


def test_list_streams_limit_defaults_to_1000(bucket: str, http: requests.Session) -> None:
    for number in range(1001):
        http.put(f"{bucket}/{number:04}", headers=JSON)
    page = http.get(f"{bucket}/streams").json()
    assert len(page["streams"]) == page["stream_count"] == 1000
    assert page["has_more"] is True
    assert page["next_cursor"] == "0999"
    assert http.get(bucket).json()["streams"] == 1001


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "ten", "", "1.5", "9" * 30])
def test_list_streams_400_for_an_invalid_limit(
    bucket: str, http: requests.Session, limit: str
) -> None:
    assert http.get(f"{bucket}/streams", params={"limit": limit}).status_code == 400


@pytest.mark.parametrize("limit", ["1", "1000"])
def test_list_streams_accepts_the_ends_of_the_range(
    bucket: str, http: requests.Session, limit: str
) -> None:
    assert http.get(f"{bucket}/streams", params={"limit": limit}).status_code == 200


def test_list_streams_400_for_an_invalid_bucket_id(base: str, http: requests.Session) -> None:
    assert http.get(f"{base}/ds/NO/streams").status_code == 400


def test_list_streams_400_for_a_repeated_parameter(bucket: str, http: requests.Session) -> None:
    assert http.get(f"{bucket}/streams?limit=1&limit=2").status_code == 400


def test_list_streams_404_when_the_bucket_is_missing(base: str, http: requests.Session) -> None:
    assert http.get(f"{fresh(base)}/streams").status_code == 404


def test_list_streams_leaves_out_deleted_and_expired_ones(
    bucket: str, http: requests.Session
) -> None:
    http.put(f"{bucket}/gone", headers=JSON)
    http.put(f"{bucket}/expired", headers={**JSON, "Stream-TTL": "0"})
    http.put(f"{bucket}/here", headers=JSON)
    http.delete(f"{bucket}/gone")
    assert names(http.get(f"{bucket}/streams")) == ["here"]


# -- names of streams


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_the_stream_id_streams_is_reserved(
    bucket: str, http: requests.Session, method: str
) -> None:
    response = http.request(method, f"{bucket}/streams", headers=JSON, data=b"1")
    assert response.status_code == 400
    assert "reserved" in response.text
    assert http.get(bucket).json()["streams"] == 0


@pytest.mark.parametrize("encoded", ["a%2Fb", "a%00b", "a..b", "..%2e", "", "%ff", "%zz", "%2"])
def test_stream_id_400_for_slash_nul_dots_and_broken_encodings(
    bucket: str, raw, encoded: str
) -> None:
    path = bucket[bucket.index("/ds/") :]
    request = f"PUT {path}/{encoded} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(request.encode()).startswith(b"HTTP/1.1 400 ")


def test_bucket_and_stream_id_have_122_bytes_together(bucket: str, http: requests.Session) -> None:
    room = 122 - len(bucket.rsplit("/", 1)[1]) - 1
    fits = "é" * (room // 2) + "x" * (room % 2)
    assert http.put(f"{bucket}/{quote(fits)}", headers=JSON).status_code == 201
    assert http.put(f"{bucket}/{quote(fits)}y", headers=JSON).status_code == 400


@pytest.mark.parametrize("method", ["HEAD", "GET", "POST", "DELETE", "PUT"])
def test_stream_operations_404_when_the_bucket_is_missing(
    base: str, http: requests.Session, method: str
) -> None:
    response = http.request(method, f"{fresh(base)}/stream", headers=JSON, data=b"1")
    assert response.status_code == 404


@pytest.mark.parametrize(
    "name", ["with space", "per%cent", "q?mark", "hash#", "日本", "a+b", "snapshot"]
)
def test_any_utf8_name_works(bucket: str, http: requests.Session, name: str) -> None:
    url = f"{bucket}/{quote(name, safe='')}"
    created = http.put(url, headers=JSON, data=b"1")
    assert created.status_code == 201
    assert http.get(created.headers["Location"]).json() == [1]
    assert names(http.get(f"{bucket}/streams")) == [name]


def test_the_same_name_in_two_buckets_is_two_streams(base: str, http: requests.Session) -> None:
    one, two = fresh(base), fresh(base)
    for bucket, body in ((one, b"1"), (two, b"2")):
        http.put(bucket)
        http.put(f"{bucket}/same", headers=JSON, data=body)
    assert http.get(f"{one}/same").json() == [1]
    assert http.get(f"{two}/same").json() == [2]
