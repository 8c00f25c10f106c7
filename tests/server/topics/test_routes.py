"""The surface of topics: shapes, limits and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from spark_durable.server import EmbeddedServer


def post(topic: str, body: Any, **kwargs: Any) -> requests.Response:
    return requests.post(topic, json=body, timeout=30, **kwargs)


def refused(answer: requests.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"]
    assert answer.headers["Content-Type"] == "application/json"
    assert isinstance(error, dict)
    return error


def test_a_topic_tells_its_state(topic: str) -> None:
    post(topic, {"records": [{"data": "ab"}, {"data": None}]})
    state = requests.get(topic, timeout=10).json()
    expected = {"head_seq": 2, "earliest_seq": 1, "next_seq": 3, "count": 2, "bytes": 8}
    assert expected.items() <= state.items()
    assert state["last_write_ts"] > 0


def test_records_come_back_as_they_were_written(topic: str) -> None:
    raw = b'{"records":[{"data":{"n": 1.50, "s":"\\u00e9"},"tag":"t","node":"a","meta":{"x": 1}},'
    raw += b'{"data":[1 ,2]}],"node":"b"}'
    sent = requests.post(topic, data=raw, headers={"Content-Type": "application/json"}, timeout=10)
    assert sent.status_code == 201
    answer = requests.get(f"{topic}/records", timeout=10)
    assert b'"data":{"n": 1.50, "s":"\\u00e9"}' in answer.content
    assert b'"data":[1 ,2]' in answer.content
    first, second = answer.json()["records"]
    assert (first["$seq"], first["$tag"], first["$node"], first["meta"]) == (1, "t", "a", {"x": 1})
    assert (second["$seq"], second["$node"]) == (2, "b")
    assert "meta" not in second


def test_records_are_read_in_pages(topic: str) -> None:
    post(topic, {"records": [{"data": n} for n in range(10)]})
    page = requests.get(f"{topic}/records", params={"from_seq": 3, "limit": 4}, timeout=10).json()
    assert [record["$seq"] for record in page["records"]] == [4, 5, 6, 7]
    assert (page["next_from_seq"], page["caught_up"]) == (7, False)
    rest = requests.get(f"{topic}/records", params={"from_seq": 7}, timeout=10).json()
    assert (rest["next_from_seq"], rest["caught_up"]) == (10, True)


def test_seqs_can_be_left_out(topic: str) -> None:
    body = {"records": [{"data": 1}, {"data": 2}]}
    answer = requests.post(f"{topic}?return_seqs=false", json=body, timeout=10).json()
    assert "seqs" not in answer
    assert (answer["first_seq"], answer["last_seq"]) == (1, 2)


def test_create_false_does_not_create(topic: str) -> None:
    refused(post(topic, {"records": [{"data": 1}], "create": False}), 404, "topic_not_found")
    refused(requests.get(topic, timeout=10), 404, "topic_not_found")
    inline = {"records": [{"data": 1}], "config": {"auto_create": False}}
    refused(post(topic, inline), 404, "topic_not_found")


def test_an_inline_configuration_applies_only_to_a_topic_it_creates(topic: str) -> None:
    body = {"records": [{"data": 1}], "config": {"cap_records": 5}}
    assert post(topic, body).status_code == 201
    assert requests.get(topic, timeout=10).json()["config"]["cap_records"] == 5
    post(topic, {"records": [{"data": 1}], "config": {"cap_records": 9}})
    assert requests.get(topic, timeout=10).json()["config"]["cap_records"] == 5


def test_topics_are_listed(base: str, topic: str) -> None:
    name = topic.rpartition("/")[2]
    for suffix in ("a", "b", "c"):
        requests.put(f"{topic}-{suffix}", json={}, timeout=10)
    found: list[str] = []
    params: dict[str, Any] = {"prefix": f"{name}-", "page_size": 2}
    while True:
        page = requests.get(f"{base}/v0/topics", params=params, timeout=10).json()
        found += [entry["topic"] for entry in page["topics"]]
        if "next_cursor" not in page:
            break
        params["cursor"] = page["next_cursor"]
    assert found == [f"{name}-a", f"{name}-b", f"{name}-c"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"records":[]}',
        b'{"records":[{}]}',
        b'{"records":[{"data":1,"meta":[1]}]}',
        b'{"records":[{"data":1,"tag":7}]}',
        b'{"records":[{"data":1}],"idempotency_key":7}',
        b'{"records":[{"data":"\xff"}]}',
        b'{"records":[{"data":' + b"[" * 5000 + b"]" * 5000 + b"}]}",
        b'{"records":[{"data":1}],"config":{"cap_recods":1}}',
        b'{"records":[{"data":1}],"config":{"ttl_ms":-1}}',
    ],
)
def test_a_body_that_does_not_fit_is_400(topic: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = requests.post(topic, data=body, headers=headers, timeout=10)
    refused(answer, 400, "invalid_request")
    refused(requests.get(topic, timeout=10), 404, "topic_not_found")


@pytest.mark.parametrize("name", [".a", "-a", "a b", "a" * 256, "ü", "a%2Fb"])
def test_a_bad_name_is_400(base: str, name: str) -> None:
    refused(requests.put(f"{base}/v0/topics/{name}", json={}, timeout=10), 400, "invalid_request")


@pytest.mark.parametrize("name", ["a", "A.b_c:d-e", "0" + "x" * 254])
def test_a_good_name_is_taken(base: str, name: str) -> None:
    assert requests.put(f"{base}/v0/topics/{name}", json={}, timeout=10).ok


def test_a_write_has_at_most_ten_thousand_records(topic: str) -> None:
    assert post(topic, {"records": [{"data": 1}] * 10_000}).status_code == 201
    refused(post(topic, {"records": [{"data": 1}] * 10_001}), 400, "batch_too_large")
    assert requests.get(topic, timeout=10).json()["head_seq"] == 10_000


def test_a_record_has_at_most_one_mebibyte(topic: str) -> None:
    fits = "x" * ((1 << 20) - 2)
    assert post(topic, {"records": [{"data": fits}]}).status_code == 201
    error = refused(post(topic, {"records": [{"data": fits + "y"}]}), 400, "record_too_large")
    assert error["detail"]["record"] == 0
    refused(post(topic, {"records": [{"data": 1, "tag": "t" * 257}]}), 400, "record_too_large")


def test_a_body_past_the_limit_is_413(topic: str) -> None:
    headers = {"Content-Type": "application/json"}
    body = b" " * ((64 << 20) + 1)
    answer = requests.post(topic, data=body, headers=headers, timeout=60)
    refused(answer, 413, "payload_too_large")


def test_another_content_type_is_415(topic: str) -> None:
    answer = requests.post(topic, data=b"records=1", headers={"Content-Type": "text/plain"})
    refused(answer, 415, "unsupported_media_type")


def test_a_method_nobody_offers_is_405(topic: str) -> None:
    answer = requests.patch(topic, timeout=10)
    refused(answer, 405, "method_not_allowed")
    assert "PUT" in answer.headers["Allow"]


def test_a_token_is_asked_for_in_the_shape_of_this_surface() -> None:
    with EmbeddedServer(token="s3cret") as server:
        topic = f"{server.url}/v0/topics/t"
        refused(requests.get(topic, timeout=10), 401, "unauthorized")
        headers = {"Authorization": "Bearer s3cret"}
        assert requests.put(topic, json={}, headers=headers, timeout=10).status_code == 201


def test_a_topic_is_out_of_reach_of_the_other_surfaces(base: str, topic: str) -> None:
    post(topic, {"records": [{"data": 1}]})
    name = topic.rpartition("/")[2]
    for path in (f"/v1/stream/../../v0/topics/{name}", f"/v1/stream/v0/topics/{name}"):
        request = requests.Request("GET", base).prepare()
        request.url = base + path
        with requests.Session() as session:
            assert session.send(request, timeout=10).status_code in (400, 404)


def test_every_answer_is_json(topic: str) -> None:
    answer = post(topic, {"records": [{"data": 1}]})
    assert json.loads(answer.content)["performance"]["server_total_ms"] >= 0
