"""Subscriptions over real HTTP: wakes, leases, fencing, webhooks, and what survives a restart."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from spark_durable.server import EmbeddedServer

JSON = {"Content-Type": "application/json"}


class Api:
    """A server's streams and subscriptions, by their relative names."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.root = f"{base}/v1/stream"
        self.http = requests.Session()

    def append(self, path: str, body: bytes = b"1", **headers: str) -> requests.Response:
        return self.http.post(f"{self.root}/{path}", headers={**JSON, **headers}, data=body)

    def create(self, path: str, body: bytes = b"[]", **headers: str) -> requests.Response:
        return self.http.put(f"{self.root}/{path}", headers={**JSON, **headers}, data=body)

    def tail(self, path: str) -> str:
        return self.http.head(f"{self.root}/{path}").headers["Stream-Next-Offset"]

    def read(self, path: str) -> Any:
        return self.http.get(f"{self.root}/{path}").json()

    def call(
        self, method: str, path: str, body: Any = None, token: str | None = None
    ) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.root}/__ds/subscriptions/{path}"
        return self.http.request(method, url, json=body, headers=headers)

    def wakes(self, wake_stream: str, subscription: str) -> list[int]:
        return [
            event["generation"]
            for event in self.read(wake_stream)
            if event["subscription_id"] == subscription
        ]


def eventually(check: Callable[[], Any], seconds: float = 10) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found or time.monotonic() > deadline:
            assert found
            return found
        time.sleep(0.02)


@pytest.fixture
def api(base: str) -> Api:
    return Api(base)


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:10]


@pytest.fixture
def pulled(api: Api, name: str) -> str:
    """A pull-wake subscription `name` over `{name}/*`, waking through `wake-{name}`."""
    api.create(f"wake-{name}")
    response = api.call("PUT", name, pull(name))
    assert response.status_code == 201
    return name


def pull(name: str, **more: Any) -> dict[str, Any]:
    wanted = {"type": "pull-wake", "pattern": f"{name}/*", "wake_stream": f"wake-{name}"}
    return {**wanted, "lease_ttl_ms": 1000, **more}


# -- definition


def test_put_201_then_200_then_409_for_another_definition(api: Api, pulled: str) -> None:
    assert api.call("PUT", pulled, pull(pulled)).status_code == 200
    response = api.call("PUT", pulled, pull(pulled, description="other"))
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "SUBSCRIPTION_ALREADY_EXISTS"


def test_the_order_and_repetition_of_streams_do_not_matter(api: Api, name: str) -> None:
    first = pull(name, pattern=None, streams=["a", "b", "a"])
    assert api.call("PUT", name, first).status_code == 201
    assert api.call("PUT", name, pull(name, pattern=None, streams=["b", "a"])).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "other", "pattern": "x", "wake_stream": "w"},
        {"type": "pull-wake", "wake_stream": "w"},
        {"type": "pull-wake", "pattern": "x"},
        {"type": "pull-wake", "pattern": 7, "wake_stream": "w"},
        {"type": "pull-wake", "streams": "x", "wake_stream": "w"},
        {"type": "pull-wake", "streams": [1], "wake_stream": "w"},
        {"type": "pull-wake", "streams": [""], "wake_stream": "w"},
        {"type": "pull-wake", "pattern": "x", "wake_stream": "w", "lease_ttl_ms": 999},
        {"type": "pull-wake", "pattern": "x", "wake_stream": "w", "lease_ttl_ms": 600_001},
        {"type": "pull-wake", "pattern": "x", "wake_stream": "w", "lease_ttl_ms": True},
        {"type": "pull-wake", "pattern": "x" * 2000, "wake_stream": "w"},
        [],
        "text",
    ],
)
def test_put_400_for_an_invalid_definition(api: Api, name: str, body: Any) -> None:
    response = api.call("PUT", name, body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "INVALID_REQUEST"
    assert api.call("GET", name).status_code == 404


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000])
def test_put_400_for_what_is_no_json(api: Api, name: str, body: bytes) -> None:
    url = f"{api.root}/__ds/subscriptions/{name}"
    assert api.http.put(url, data=body).status_code == 400


def test_get_describes_and_404_when_missing(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    found = api.call("GET", pulled).json()
    assert found["id"] == found["subscription_id"] == pulled
    assert found["type"] == "pull-wake"
    assert found["status"] == "active"
    assert found["webhook"] is None
    (link,) = found["streams"]
    assert link == {"path": f"{pulled}/a", "link_type": "glob", "acked_offset": "0" * 20}
    assert api.call("GET", "missing").status_code == 404


def test_delete_204_and_workers_are_refused_from_then_on(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    claim = api.call("POST", f"{pulled}/claim", {"worker": "w"}).json()
    assert api.call("DELETE", pulled).status_code == 204
    report = {"wake_id": claim["wake_id"], "generation": claim["generation"], "done": True}
    assert api.call("POST", f"{pulled}/ack", report, claim["token"]).status_code == 404
    assert api.call("DELETE", pulled).status_code == 204


def test_control_paths_are_no_streams(api: Api) -> None:
    assert api.http.put(f"{api.root}/__ds/x", headers=JSON).status_code == 404
    assert api.http.get(f"{api.root}/__ds").status_code == 404
    assert api.http.patch(f"{api.root}/__ds/subscriptions/x").status_code == 405
    assert api.http.get(f"{api.root}/__ds/subscriptions/x/claim").status_code == 405


# -- membership


def test_existing_streams_are_linked_at_their_ends(api: Api, name: str) -> None:
    api.create(f"wake-{name}")
    api.create(f"{name}/old", b"[1,2]")
    api.call("PUT", name, pull(name))
    (link,) = api.call("GET", name).json()["streams"]
    assert link["acked_offset"] == api.tail(f"{name}/old")
    no_work = api.call("POST", f"{name}/claim", {"worker": "w"})
    assert (no_work.status_code, no_work.json()["error"]["code"]) == (409, "NO_PENDING_WORK")


def test_explicit_links_come_and_go_and_the_glob_stays(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    api.create(f"other-{pulled}", b"[1]")
    add = {"streams": [f"{pulled}/a", f"other-{pulled}"]}
    for _ in range(2):
        assert api.call("POST", f"{pulled}/streams", add).status_code == 204
    links = {link["path"]: link for link in api.call("GET", pulled).json()["streams"]}
    assert links[f"{pulled}/a"]["link_type"] == "explicit"
    assert links[f"other-{pulled}"]["acked_offset"] == api.tail(f"other-{pulled}")
    for path in (f"{pulled}%2Fa", f"other-{pulled}", "absent"):
        assert api.call("DELETE", f"{pulled}/streams/{path}").status_code == 204
    (link,) = api.call("GET", pulled).json()["streams"]
    assert (link["path"], link["link_type"]) == (f"{pulled}/a", "glob")


def test_a_deleted_stream_leaves_its_glob(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    api.http.delete(f"{api.root}/{pulled}/a")
    assert api.call("GET", pulled).json()["streams"] == []


def test_a_stream_created_again_is_pending_from_its_start(api: Api, pulled: str) -> None:
    api.call("POST", f"{pulled}/streams", {"streams": [f"x-{pulled}"]})
    api.create(f"x-{pulled}", b"[1,2,3]")
    claim = api.call("POST", f"{pulled}/claim", {"worker": "w"}).json()
    ack(api, pulled, claim, {f"x-{pulled}": api.tail(f"x-{pulled}")})
    api.http.delete(f"{api.root}/x-{pulled}")
    api.create(f"x-{pulled}", b"1")
    again = api.call("POST", f"{pulled}/claim", {"worker": "w"}).json()
    assert again["streams"][0]["acked_offset"] == "0" * 20


def test_what_a_fork_inherits_is_no_work(api: Api, pulled: str) -> None:
    api.create(f"source-{pulled}", b"[1,2]")
    api.create(f"{pulled}/fork", b"", **{"Stream-Forked-From": f"/v1/stream/source-{pulled}"})
    assert api.call("POST", f"{pulled}/claim", {"worker": "w"}).status_code == 409
    api.append(f"{pulled}/fork")
    assert api.call("POST", f"{pulled}/claim", {"worker": "w"}).status_code == 200


# -- pull-wake


def ack(
    api: Api, name: str, claim: dict[str, Any], acks: dict[str, str], done: bool = True
) -> requests.Response:
    body = {
        "wake_id": claim["wake_id"],
        "generation": claim["generation"],
        "acks": [{"stream": stream, "offset": offset} for stream, offset in acks.items()],
        "done": done,
    }
    return api.call("POST", f"{name}/ack", body, claim["token"])


def test_an_append_wakes_once_until_it_is_done(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    eventually(lambda: api.wakes(f"wake-{pulled}", pulled) == [1])
    api.append(f"{pulled}/a")
    claim = api.call("POST", f"{pulled}/claim", {"worker": "w"}).json()
    assert claim["generation"] == 1
    (stream,) = claim["streams"]
    assert stream["has_pending"] is True
    assert stream["tail_offset"] == api.tail(f"{pulled}/a")
    assert api.wakes(f"wake-{pulled}", pulled) == [1]
    done = ack(api, pulled, claim, {f"{pulled}/a": stream["tail_offset"]})
    assert done.json() == {"ok": True, "next_wake": False}
    api.append(f"{pulled}/a")
    eventually(lambda: api.wakes(f"wake-{pulled}", pulled) == [1, 2])


def test_work_left_over_wakes_again_at_once(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    first = api.tail(f"{pulled}/a")
    api.append(f"{pulled}/a")
    claim = api.call("POST", f"{pulled}/claim", {"worker": "w"}).json()
    assert ack(api, pulled, claim, {f"{pulled}/a": first}).json()["next_wake"] is True
    eventually(lambda: api.wakes(f"wake-{pulled}", pulled) == [1, 2])


def test_a_second_worker_is_told_who_holds_it(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    api.call("POST", f"{pulled}/claim", {"worker": "one"})
    busy = api.call("POST", f"{pulled}/claim", {"worker": "two"})
    assert busy.status_code == 409
    error = busy.json()["error"]
    assert (error["code"], error["current_holder"]) == ("ALREADY_CLAIMED", "one")


def test_acks_keep_the_lease_and_its_end_calls_another(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    claim = api.call("POST", f"{pulled}/claim", {"worker": "one"}).json()
    for _ in range(4):
        time.sleep(0.4)
        assert ack(api, pulled, claim, {}, done=False).status_code == 200
    eventually(lambda: api.wakes(f"wake-{pulled}", pulled) == [1, 2])
    fenced = ack(api, pulled, claim, {f"{pulled}/a": api.tail(f"{pulled}/a")})
    assert (fenced.status_code, fenced.json()["error"]["code"]) == (409, "FENCED")
    (link,) = api.call("GET", pulled).json()["streams"]
    assert link["acked_offset"] == "0" * 20


def test_release_gives_the_work_to_another(api: Api, pulled: str) -> None:
    api.create(f"{pulled}/a", b"1")
    claim = api.call("POST", f"{pulled}/claim", {"worker": "one"}).json()
    report = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    assert api.call("POST", f"{pulled}/release", report, claim["token"]).status_code == 204
    stale = api.call("POST", f"{pulled}/release", report, claim["token"])
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "FENCED")
    second = api.call("POST", f"{pulled}/claim", {"worker": "two"})
    assert second.json()["generation"] == 2


@pytest.mark.parametrize("token", [None, "nonsense", "a.b"])
def test_401_without_the_wakes_token(api: Api, pulled: str, token: str | None) -> None:
    api.create(f"{pulled}/a", b"1")
    claim = api.call("POST", f"{pulled}/claim", {"worker": "one"}).json()
    report = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    for action in ("ack", "release"):
        response = api.call("POST", f"{pulled}/{action}", report, token)
        assert (response.status_code, response.json()["error"]["code"]) == (401, "TOKEN_INVALID")


@pytest.mark.parametrize("offset", ["past", "back", "nonsense", "-1"])
def test_acks_out_of_range_409_and_change_nothing(api: Api, pulled: str, offset: str) -> None:
    path = f"{pulled}/a"
    api.create(path, b"1")
    first = api.tail(path)
    api.append(path)
    claim = api.call("POST", f"{pulled}/claim", {"worker": "one"}).json()
    assert ack(api, pulled, claim, {path: first}, done=False).status_code == 200
    values = {"past": f"{int(api.tail(path)) + 1:020d}", "back": "0" * 20}
    response = ack(api, pulled, claim, {path: values.get(offset, offset)})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "INVALID_OFFSET")
    unknown = ack(api, pulled, claim, {"other": first})
    assert unknown.status_code == 409
    assert api.call("GET", pulled).json()["streams"][0]["acked_offset"] == first


def test_a_missing_wake_stream_does_not_lose_the_work(api: Api, name: str) -> None:
    api.call("PUT", name, pull(name))
    api.create(f"{name}/a", b"1")
    assert api.call("POST", f"{name}/claim", {"worker": "w"}).status_code == 200


# -- webhooks


class Receiver:
    """A webhook's other end. ``answers`` are given in turn, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = [(200, {})]
        self.received: queue.Queue[tuple[dict[str, Any], bytes, str]] = queue.Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = receiver.answers[0]
                if len(receiver.answers) > 1:
                    receiver.answers.pop(0)
                receiver.received.put((json.loads(body), body, self.headers["Webhook-Signature"]))
                data = json.dumps(answer).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def next(self) -> dict[str, Any]:
        return self.received.get(timeout=10)[0]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def hooked() -> Iterator[Api]:
    with EmbeddedServer(webhooks=True) as server:
        yield Api(server.url)


def webhook(receiver: Receiver, **more: Any) -> dict[str, Any]:
    wanted = {"type": "webhook", "pattern": "e/*", "webhook": {"url": receiver.url}}
    return {**wanted, "lease_ttl_ms": 1000, **more}


def test_done_acks_the_snapshot_and_later_appends_wake_again(
    hooked: Api, receiver: Receiver
) -> None:
    receiver.answers = [(200, {"done": True})]
    hooked.call("PUT", "s", webhook(receiver))
    hooked.create("e/a", b"1")
    first = receiver.next()
    assert first["generation"] == 1
    tail = hooked.tail("e/a")
    eventually(lambda: hooked.call("GET", "s").json()["streams"][0]["acked_offset"] == tail)
    hooked.append("e/a")
    second = receiver.next()
    assert second["generation"] == 2
    assert second["wake_id"] != first["wake_id"]


def test_a_callback_may_come_later_and_only_once(hooked: Api, receiver: Receiver) -> None:
    hooked.call("PUT", "s", webhook(receiver, lease_ttl_ms=60_000))
    hooked.create("e/a", b"1")
    wake = receiver.next()
    body = {
        "wake_id": wake["wake_id"],
        "generation": wake["generation"],
        "acks": [{"stream": "e/a", "offset": hooked.tail("e/a")}],
        "done": True,
    }
    bearer = {"Authorization": f"Bearer {wake['callback_token']}"}
    first = hooked.http.post(wake["callback_url"], json=body, headers=bearer)
    assert first.json() == {"ok": True, "next_wake": False}
    assert hooked.http.post(wake["callback_url"], json=body, headers=bearer).status_code == 409


def test_a_failed_delivery_is_retried_and_shows(hooked: Api, receiver: Receiver) -> None:
    receiver.answers = [(500, {}), (200, {"done": True})]
    hooked.call("PUT", "s", webhook(receiver, lease_ttl_ms=60_000))
    hooked.create("e/a", b"1")
    first = receiver.next()
    eventually(lambda: hooked.call("GET", "s").json()["status"] == "failed")
    again = receiver.next()
    # The same wake: whoever did hear of it the first time can still report.
    assert (again["wake_id"], again["generation"]) == (first["wake_id"], first["generation"])
    eventually(lambda: hooked.call("GET", "s").json()["status"] == "active")


def test_a_lease_that_runs_out_wakes_again(hooked: Api, receiver: Receiver) -> None:
    hooked.call("PUT", "s", webhook(receiver))
    hooked.create("e/a", b"1")
    assert receiver.next()["generation"] == 1
    assert receiver.next()["generation"] == 2


def test_a_token_of_the_server_is_not_needed_to_call_back(receiver: Receiver) -> None:
    with EmbeddedServer(webhooks=True, token="s3cret") as server:
        api = Api(server.url)
        api.http.headers["Authorization"] = "Bearer s3cret"
        api.call("PUT", "s", webhook(receiver, lease_ttl_ms=60_000))
        api.create("e/a", b"1")
        wake = receiver.next()
        assert "s3cret" not in json.dumps(wake)
        body = {"wake_id": wake["wake_id"], "generation": wake["generation"], "done": True}
        token = {"Authorization": f"Bearer {wake['callback_token']}"}
        answer = requests.post(wake["callback_url"], json=body, headers=token, timeout=10)
        assert answer.status_code == 200
        assert requests.get(f"{server.url}/v1/stream/__ds/jwks.json", timeout=10).ok


# -- restarts


def test_cursors_generations_and_keys_survive_a_restart(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path, webhooks=True) as server:
        api = Api(server.url)
        api.create("wake-s")
        api.call("PUT", "s", pull("s"))
        api.create("s/a", b"1")
        first = api.tail("s/a")
        claim = api.call("POST", "s/claim", {"worker": "w"}).json()
        api.append("s/a")
        assert ack(api, "s", claim, {"s/a": first}, done=False).status_code == 200
        before = api.call("GET", "s").json()
        keys = api.http.get(f"{api.root}/__ds/jwks.json").json()
    with EmbeddedServer(tmp_path, webhooks=True) as server:
        api = Api(server.url)
        assert api.call("GET", "s").json() == before
        assert api.call("PUT", "s", pull("s")).status_code == 200
        assert api.http.get(f"{api.root}/__ds/jwks.json").json() == keys
        # What is pending is called for again, and the worker of before is fenced.
        eventually(lambda: api.wakes("wake-s", "s") == [1, 2])
        late = ack(api, "s", claim, {"s/a": api.tail("s/a")})
        assert (late.status_code, late.json()["error"]["code"]) == (409, "FENCED")
        api.call("DELETE", "s")
    with EmbeddedServer(tmp_path) as server:
        assert Api(server.url).call("GET", "s").status_code == 404


def test_keys_on_disk_are_for_the_owner_only(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path):
        (database,) = (tmp_path / "subscriptions").glob("*.sqlite")
        assert database.stat().st_mode & 0o077 == 0
