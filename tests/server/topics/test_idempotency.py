"""The idempotency rules of topics, one by one, against the running server."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from spark_durable.server import EmbeddedServer


def write(topic: str, *data: Any, key: str | None = None, **fields: Any) -> requests.Response:
    body: dict[str, Any] = {"records": [{"data": value} for value in data], **fields}
    if key is not None:
        body["idempotency_key"] = key
    return requests.post(topic, json=body, timeout=10)


def data_of(topic: str) -> list[Any]:
    answer = requests.get(f"{topic}/records", timeout=10)
    answer.raise_for_status()
    return [record["data"] for record in answer.json()["records"]]


# -- control plane ------------------------------------------------------------------------------


def test_a_put_that_brings_the_topic_into_existence_is_201_created(topic: str) -> None:
    answer = requests.put(topic, json={"durable": True, "cap_records": 1000}, timeout=10)
    assert answer.status_code == 201
    found = answer.json()
    assert found["created"] is True
    assert found["topic"] == topic.rpartition("/")[2]
    assert found["config"]["cap_records"] == 1000
    assert found["config"]["durable"] is True
    assert found["performance"]["server_total_ms"] >= 0


def test_an_identical_put_is_a_no_op_200(topic: str) -> None:
    first = requests.put(topic, json={"ttl_ms": 5000}, timeout=10).json()
    again = requests.put(topic, json={"ttl_ms": 5000}, timeout=10)
    assert again.status_code == 200
    assert again.json()["created"] is False
    assert again.json()["config"] == first["config"]


def test_a_changed_put_applies_the_difference_and_is_200(topic: str) -> None:
    requests.put(topic, json={"ttl_ms": 5000}, timeout=10)
    changed = requests.put(topic, json={"cap_records": 7}, timeout=10)
    assert changed.status_code == 200
    assert changed.json()["created"] is False
    assert changed.json()["config"]["cap_records"] == 7
    assert changed.json()["config"]["ttl_ms"] == 5000


def test_the_defaults_of_a_topic(topic: str) -> None:
    config = requests.put(topic, json={}, timeout=10).json()["config"]
    expected = {
        "type": "log",
        "ttl_ms": 0,
        "cap_records": 0,
        "cap_bytes": 0,
        "discard": "old",
        "durable": False,
        "auto_create": True,
        "idempotency_window_ms": 120000,
    }
    assert expected.items() <= config.items()


def test_the_type_is_immutable_409(topic: str) -> None:
    requests.put(topic, json={"type": "log"}, timeout=10)
    refused = requests.put(topic, json={"type": "queue"}, timeout=10)
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "topic_exists_incompatible"
    assert requests.get(topic, timeout=10).json()["type"] == "log"


def test_every_other_field_is_mutable(topic: str) -> None:
    requests.put(topic, json={}, timeout=10)
    changes = {
        "ttl_ms": 1_000_000,
        "cap_records": 2,
        "cap_bytes": 10_000,
        "discard": "reject",
        "durable": True,
        "auto_create": False,
        "idempotency_window_ms": 5,
    }
    assert requests.put(topic, json=changes, timeout=10).status_code == 200
    config = requests.get(topic, timeout=10).json()["config"]
    assert changes.items() <= config.items()


def test_delete_of_an_absent_topic_is_200_deleted_false(topic: str) -> None:
    answer = requests.delete(topic, timeout=10)
    assert answer.status_code == 200
    assert answer.json()["deleted"] is False


def test_delete_removes_and_a_retried_delete_never_errors(topic: str) -> None:
    write(topic, 1, key="k")
    assert requests.delete(topic, timeout=10).json()["deleted"] is True
    assert requests.delete(topic, timeout=10).json()["deleted"] is False
    assert requests.get(topic, timeout=10).status_code == 404
    # A new topic of that name has no memory of the old one's keys.
    assert write(topic, 2, key="k").json()["deduped"] is False
    assert data_of(topic) == [2]


# -- writes -------------------------------------------------------------------------------------


def test_the_first_call_appends_and_returns_the_seqs(topic: str) -> None:
    requests.put(topic, json={}, timeout=10)
    answer = write(topic, {"sku": "A"}, {"sku": "B"}, key="k")
    assert answer.status_code == 200
    found = answer.json()
    assert found["first_seq"] == 1
    assert found["last_seq"] == 2
    assert found["seqs"] == [1, 2]
    assert found["head_seq"] == 2
    assert found["count"] == 2
    assert found["created"] is False
    assert found["deduped"] is False


def test_a_retry_in_the_window_returns_the_original_seqs_and_appends_nothing(topic: str) -> None:
    first = write(topic, "a", "b", key="k").json()
    write(topic, "c")
    again = write(topic, "a", "b", key="k")
    assert again.status_code == 200
    found = again.json()
    assert found["deduped"] is True
    for field in ("first_seq", "last_seq", "seqs", "head_seq", "count", "topic"):
        assert found[field] == first[field], field
    assert data_of(topic) == ["a", "b", "c"]


def test_without_a_key_every_write_appends(topic: str) -> None:
    write(topic, 1)
    assert write(topic, 1).json()["deduped"] is False
    assert data_of(topic) == [1, 1]


def test_a_write_creates_the_topic_with_201_once(topic: str) -> None:
    first = write(topic, 1, key="k")
    assert first.status_code == 201
    assert first.json()["created"] is True
    again = write(topic, 1, key="k")
    assert again.status_code == 200
    assert again.json()["created"] is False
    assert again.json()["deduped"] is True


def test_the_key_is_scoped_to_the_topic(topic: str) -> None:
    write(topic, 1, key="k")
    other = write(f"{topic}-other", 1, key="k").json()
    assert other["deduped"] is False


def test_the_key_may_come_as_a_header(topic: str) -> None:
    headers = {"Idempotency-Key": "k"}
    body = {"records": [{"data": 1}]}
    assert requests.post(topic, json=body, headers=headers, timeout=10).json()["deduped"] is False
    assert requests.post(topic, json=body, headers=headers, timeout=10).json()["deduped"] is True
    assert write(topic, 1, key="k").json()["deduped"] is True


def test_the_body_field_wins_over_the_header(topic: str) -> None:
    write(topic, 1, key="from-header")
    answer = requests.post(
        topic,
        json={"records": [{"data": 2}], "idempotency_key": "from-body"},
        headers={"Idempotency-Key": "from-header"},
        timeout=10,
    )
    assert answer.json()["deduped"] is False
    assert write(topic, 2, key="from-body").json()["deduped"] is True


def test_a_key_has_at_most_256_characters(topic: str) -> None:
    assert write(topic, 1, key="ü" * 256).status_code == 201
    refused = write(topic, 1, key="k" * 257)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_request"
    header = requests.post(
        topic,
        json={"records": [{"data": 1}]},
        headers={"Idempotency-Key": "k" * 257},
        timeout=10,
    )
    assert header.status_code == 400
    assert data_of(topic) == [1]


def test_a_reused_key_with_other_records_returns_the_old_seqs(topic: str) -> None:
    write(topic, "first", key="k")
    again = write(topic, "other", "records", key="k").json()
    assert again["deduped"] is True
    assert again["seqs"] == [1]
    assert data_of(topic) == ["first"]


def test_strict_mode_answers_409_to_a_reused_key_with_other_records(topic: str) -> None:
    requests.put(topic, json={"idempotency_strict": True}, timeout=10)
    write(topic, {"a": 1, "b": 2}, key="k")
    refused = write(topic, {"a": 1, "b": 3}, key="k")
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "idempotency_key_reused"
    spelled = requests.post(
        topic,
        data=b'{"idempotency_key": "k", "records": [ {"data": {"b": 2,  "a": 1}} ]}',
        headers={"Content-Type": "application/json"},
        timeout=10,
    )
    assert spelled.json()["deduped"] is True
    assert data_of(topic) == [{"a": 1, "b": 2}]


def test_a_retry_on_a_full_topic_still_dedups(topic: str) -> None:
    requests.put(topic, json={"cap_records": 1, "discard": "reject"}, timeout=10)
    write(topic, 1, key="k")
    assert write(topic, 2, key="other").status_code == 422
    assert write(topic, 1, key="k").json()["deduped"] is True


def test_concurrent_writes_of_one_key_append_once(topic: str) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: write(topic, "x", key="k").json(), range(64)))
    assert {tuple(answer["seqs"]) for answer in answers} == {(1,)}
    assert sum(not answer["deduped"] for answer in answers) == 1
    assert data_of(topic) == ["x"]


def test_concurrent_writes_get_contiguous_seqs_of_their_own(topic: str) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: write(topic, n, n).json(), range(100)))
    seqs = sorted(seq for answer in answers for seq in answer["seqs"])
    assert seqs == list(range(1, 201))
    assert all(answer["last_seq"] == answer["first_seq"] + 1 for answer in answers)


# -- restart ------------------------------------------------------------------------------------


def test_seqs_records_configuration_and_keys_survive_a_restart(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        topic = f"{server.url}/v0/topics/orders"
        requests.put(topic, json={"cap_records": 3}, timeout=10)
        first = write(topic, 1, 2, key="k").json()
        write(topic, 3, 4)
    with EmbeddedServer(tmp_path) as server:
        topic = f"{server.url}/v0/topics/orders"
        state = requests.get(topic, timeout=10).json()
        assert state["config"]["cap_records"] == 3
        assert (state["earliest_seq"], state["head_seq"], state["count"]) == (2, 4, 3)
        again = write(topic, 1, 2, key="k").json()
        assert again["deduped"] is True
        assert again["seqs"] == first["seqs"]
        assert again["head_seq"] == first["head_seq"]
        assert data_of(topic) == [2, 3, 4]
        assert write(topic, 5).json()["seqs"] == [5]


def test_an_acknowledged_key_survives_sigkill(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_durable", "serve", "--port", "0", "--data-dir"]

    def start() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen([*command, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if "http://" in line:
                url = line[line.index("http://") :].split()[0].rstrip("/.,")
                return process, f"{url}/v0/topics/orders"
        pytest.fail("the server did not say where it listens")

    process, topic = start()
    try:
        written = [write(topic, n, key=f"k{n}").json()["seqs"] for n in range(25)]
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process, topic = start()
        again = [write(topic, n, key=f"k{n}").json() for n in range(25)]
        assert [answer["seqs"] for answer in again] == written
        assert all(answer["deduped"] for answer in again)
        assert data_of(topic) == list(range(25))
    finally:
        process.kill()
        process.wait(10)
