"""The explorer's own API: what it tells, how it is paged, and that it is guarded."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.store import inspection
from spark_durable.server.tokens import Token

JSON = {"Content-Type": "application/json"}


def ask(http: requests.Session, base: str, name: str, **params: Any) -> Any:
    response = http.get(f"{base}/explorer/api/{name}", params=params)
    assert response.status_code == 200, response.text
    assert response.headers["Cache-Control"] == "no-store"
    return response.json()


def test_buckets_are_listed_page_by_page(base: str, http: requests.Session) -> None:
    tag = f"0-{uuid.uuid4().hex[:8]}"
    names = [f"{tag}-{number}" for number in range(5)]
    for name in names:
        assert http.put(f"{base}/ds/{name}").ok
    assert http.put(f"{base}/ds/{names[3]}/s", headers=JSON).ok

    seen: list[dict[str, Any]] = []
    cursor: str | None = tag
    while cursor is not None and len(seen) < 5:
        page = ask(http, base, "buckets", after=cursor, limit=2)
        assert len(page["buckets"]) <= 2
        seen += page["buckets"]
        cursor = page["next_cursor"]
    assert [each["bucket_id"] for each in seen[:5]] == names
    assert [each["streams"] for each in seen[:5]] == [0, 0, 0, 1, 0]


def test_streams_outside_of_buckets_are_listed_and_counted(
    base: str, http: requests.Session
) -> None:
    before = ask(http, base, "buckets")["unbucketed_streams"]
    tag = uuid.uuid4().hex
    for name in ("a", "a/b", "c"):
        http.put(f"{base}/v1/stream/{tag}/{name}", headers=JSON, data=b"[1]")
    assert ask(http, base, "buckets")["unbucketed_streams"] == before + 3
    page = ask(http, base, "streams", contains=tag)
    assert [each["stream_id"] for each in page["streams"]] == [
        f"{tag}/a",
        f"{tag}/a/b",
        f"{tag}/c",
    ]
    assert page["streams"][0]["tail_offset"] == len(b"1,\n")

    http.delete(f"{base}/v1/stream/{tag}/a/b")
    page = ask(http, base, "streams", contains=tag)
    assert [each["stream_id"] for each in page["streams"]] == [f"{tag}/a", f"{tag}/c"]
    assert ask(http, base, "buckets")["unbucketed_streams"] == before + 2


def test_what_is_listed_survives_a_restart(http: requests.Session, tmp_path: Path) -> None:
    triple = {"Producer-Id": "p", "Producer-Epoch": "3", "Producer-Seq": "0"}
    with EmbeddedServer(tmp_path) as server:
        assert http.put(f"{server.url}/ds/shop").ok
        for path in ("ds/shop/s", "v1/stream/b", "v1/stream/a"):
            assert http.put(f"{server.url}/{path}", headers=JSON).ok
            assert http.post(f"{server.url}/{path}", headers=JSON | triple, data=b"[1]").ok
        assert http.delete(f"{server.url}/v1/stream/b").ok
    with EmbeddedServer(tmp_path) as server:
        assert ask(http, server.url, "buckets") == {
            "buckets": [{"bucket_id": "shop", "streams": 1}],
            "next_cursor": None,
            "unbucketed_streams": 1,
        }
        page = ask(http, server.url, "streams")
        assert [each["stream_id"] for each in page["streams"]] == ["a"]
        detail = ask(http, server.url, "stream", path="/v1/stream/a")
        assert [(each["id"], each["epoch"]) for each in detail["producers"]] == [("p", 3)]


def test_streams_are_found_by_a_part_of_their_name(
    bucket: str, base: str, http: requests.Session
) -> None:
    for number in range(30):
        assert http.put(f"{bucket}/session-{number:02}", headers=JSON).ok
    name = bucket.rpartition("/")[2]
    found: list[str] = []
    cursor: str | None = None
    while True:
        after = {} if cursor is None else {"after": cursor}
        page = ask(http, base, "streams", bucket=name, contains="2", limit=4, **after)
        found += [each["stream_id"] for each in page["streams"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    expected = [number for number in range(30) if "2" in f"{number:02}"]
    assert found == [f"session-{number:02}" for number in expected]


def test_a_search_compares_a_bounded_number_of_names(
    bucket: str, base: str, http: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "SCAN_NAMES", 10)
    for number in range(25):
        assert http.put(f"{bucket}/s-{number:02}", headers=JSON).ok
    name = bucket.rpartition("/")[2]
    first = ask(http, base, "streams", bucket=name, contains="24")
    assert first == {"streams": [], "next_cursor": "s-09"}
    second = ask(http, base, "streams", bucket=name, contains="24", after="s-09")
    assert second == {"streams": [], "next_cursor": "s-19"}
    third = ask(http, base, "streams", bucket=name, contains="24", after="s-19")
    assert [each["stream_id"] for each in third["streams"]] == ["s-24"]
    assert third["next_cursor"] is None


@pytest.mark.parametrize("root", ["ds", "v1"])
def test_a_stream_with_its_producers(base: str, http: requests.Session, create, root: str) -> None:
    url = create("application/json", b"[1]", root=root)
    for producer, epoch, count in (("etl/0", 5, 3), ("etl/1", 7 << 20, 1)):
        for seq in range(count):
            triple = {
                "Producer-Id": producer,
                "Producer-Epoch": str(epoch),
                "Producer-Seq": str(seq),
            }
            assert http.post(url, data=b"[1]", headers=JSON | triple).status_code == 200
    path = url.removeprefix(base)
    detail = ask(http, base, "stream", path=path)
    assert detail["path"] == path
    assert detail["appends"] == 5
    assert detail["closed"] is False
    assert detail["next_offset"] == http.head(url).headers["Stream-Next-Offset"]
    assert detail["incarnation"] == http.head(url).headers["Stream-Incarnation"]
    assert detail["producer_count"] == 2
    seen = [(each["id"], each["epoch"], each["seq"]) for each in detail["producers"]]
    assert seen == [("etl/1", 7 << 20, 0), ("etl/0", 5, 2)]

    page = ask(http, base, "stream", path=path, skip=1, limit=1)
    assert page["producer_count"] == 2
    assert [each["id"] for each in page["producers"]] == ["etl/0"]


def test_a_stream_with_its_snapshots(base: str, http: requests.Session, create) -> None:
    url = create("application/json", b"[1]", b"[2]")
    offsets = [f"{3:020}", f"{6:020}"]
    for offset, body in zip(offsets, (b"first", b"second!"), strict=True):
        sent = http.put(f"{url}/snapshot/{offset}", data=body, headers={"Content-Type": "text/x"})
        assert sent.status_code == 204
    detail = ask(http, base, "stream", path=url.removeprefix(base))
    latest, old = detail["snapshots"]
    assert latest == {
        "offset": offsets[1],
        "content_type": "text/x",
        "size": 7,
        "superseded_at_ms": None,
    }
    assert (old["offset"], old["size"]) == (offsets[0], 5)
    assert old["superseded_at_ms"] > 0
    assert detail["retained_offset"] == offsets[1]


def test_looking_does_not_extend_a_sliding_expiry() -> None:
    import asyncio

    from spark_durable.server.store import CreateSpec, Store, StoreConfig
    from spark_durable.server.store.errors import NotFound

    async def scenario() -> None:
        clock = [1000.0]
        store = Store.open(StoreConfig(clock=lambda: clock[0]))
        await store.create("/v1/stream/s", CreateSpec(ttl_s=10))
        for clock[0] in (1004.0, 1008.0):
            store.inspection.stream("/v1/stream/s", skip_producers=0, max_producers=1)
            page = store.inspection.search(None, contains="", after=None, limit=1)
            assert len(page.streams) == 1
        clock[0] = 1011.0
        page = store.inspection.search(None, contains="", after=None, limit=1)
        assert page.streams == ()
        with pytest.raises(NotFound):
            store.inspection.stream("/v1/stream/s", skip_producers=0, max_producers=1)
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "params", "status"),
    [
        ("stream", {}, 400),
        ("stream", {"path": "/ds/nope-nope"}, 400),
        ("stream", {"path": "/ds/../x"}, 400),
        ("stream", {"path": "/v1/stream/\u20ac"}, 400),
        ("stream", {"path": "/v1/stream/missing"}, 404),
        ("stream", {"path": "/v1/stream/x", "skip": "-1"}, 400),
        ("streams", {"bucket": "nope-nope"}, 404),
        ("streams", {"bucket": "UPPER"}, 400),
        ("streams", {"limit": "0"}, 400),
        ("buckets", {"limit": "100000"}, 400),
        ("nothing", {}, 404),
    ],
)
def test_refusals(
    base: str, http: requests.Session, name: str, params: dict[str, str], status: int
) -> None:
    assert http.get(f"{base}/explorer/api/{name}", params=params).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/explorer/app.js", "/explorer/api/buckets"])
def test_it_only_reads(base: str, http: requests.Session, method: str, path: str) -> None:
    response = http.request(method, f"{base}{path}")
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("name", ["buckets", "streams", "stream?path=/v1/stream/s", "nothing"])
@pytest.mark.parametrize("token", [None, "wrong"])
def test_with_a_token_the_api_is_for_its_holder(
    http: requests.Session, name: str, token: str | None
) -> None:
    with EmbeddedServer(token="s3cret") as server:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        url = f"{server.url}/explorer/api/{name}"
        assert http.get(url, headers=headers).status_code == 401
        good = http.get(url, headers={"Authorization": "Bearer s3cret"})
        assert good.status_code in (200, 404)


@pytest.fixture
def limited(http: requests.Session) -> Iterator[str]:
    """A server with two buckets, whose token `reader` may read one of them."""
    tokens = (Token("reader", write=False, buckets=("mine",)),)
    with EmbeddedServer(token="owner", tokens=tokens) as server:
        http.headers["Authorization"] = "Bearer owner"
        for bucket in ("mine", "theirs"):
            assert http.put(f"{server.url}/ds/{bucket}").ok
            for path in (f"ds/{bucket}/s", f"v1/stream/{bucket}/s"):
                assert http.put(f"{server.url}/{path}", headers=JSON, data=b"[1]").ok
        assert http.put(f"{server.url}/v1/stream/alone", headers=JSON).ok
        http.headers["Authorization"] = "Bearer reader"
        yield server.url


def test_a_token_for_one_bucket_sees_no_other(http: requests.Session, limited: str) -> None:
    page = ask(http, limited, "buckets")
    assert page == {
        "buckets": [{"bucket_id": "mine", "streams": 1}],
        "next_cursor": None,
        "unbucketed_streams": None,
    }
    streams = ask(http, limited, "streams")["streams"]
    assert [each["stream_id"] for each in streams] == ["mine/s"]
    assert len(ask(http, limited, "streams", bucket="mine")["streams"]) == 1
    for path in ("/ds/mine/s", "/v1/stream/mine/s"):
        assert ask(http, limited, "stream", path=path)["path"] == path


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("streams", {"bucket": "theirs"}),
        ("streams", {"bucket": "no-such-bucket"}),
        ("stream", {"path": "/ds/theirs/s"}),
        ("stream", {"path": "/ds/theirs/missing"}),
        ("stream", {"path": "/v1/stream/theirs/s"}),
        ("stream", {"path": "/v1/stream/alone"}),
    ],
)
def test_a_token_for_one_bucket_is_refused_the_others(
    http: requests.Session, limited: str, name: str, params: dict[str, str]
) -> None:
    assert http.get(f"{limited}/explorer/api/{name}", params=params).status_code == 403
