"""The explorer in a real browser: creating, appending, watching, finding, looking closer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.tokens import Token
from tests.server.explorer.browsing import Page, pipeline

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}

Make = Callable[..., str]


@pytest.fixture
def make(explored: str, http: requests.Session) -> Make:
    """Creates a stream in a bucket of its own and returns its path."""

    def stream(body: bytes = b"", content_type: str = "application/json", name: str = "s") -> str:
        path = f"/ds/b-{uuid.uuid4().hex[:10]}"
        assert http.put(f"{explored}{path}").ok
        sent = http.put(f"{explored}{path}/{name}", headers={"Content-Type": content_type})
        assert sent.status_code == 201
        if body:
            headers = {"Content-Type": content_type}
            assert http.post(f"{explored}{path}/{name}", headers=headers, data=body).ok
        return f"{path}/{name}"

    return stream


def test_create_append_and_watch_it_arrive(page: Page, http: requests.Session) -> None:
    with EmbeddedServer() as server:
        page.open(server.url)
        page.wait(lambda: page.shown("#new-first"), "the invitation of an empty server")
        page.click("#new-first")
        page.fill("#create-bucket", "shop")
        page.fill("#create-name", "orders")
        page.click("#create .primary")
        page.wait_live()
        assert page.text("#name") == "/ds/shop/orders"
        assert page.text("#status") == "open"
        assert page.names == ["orders"]
        url = f"{server.url}/ds/shop/orders"
        assert http.head(url).headers["Content-Type"] == "application/json"

        # What is typed is appended, and comes back over the live tail, digit by digit.
        page.fill("#body", '{"id": 12345678901234567890, "price": 1.50, "who": "Zoë"}')
        page.click("#composer .primary")
        mine = '{"id": 12345678901234567890, "price": 1.50, "who": "Zoë"}'
        page.wait_messages([mine])
        assert http.get(url).content.decode() == f"[{mine}]"

        # So is what others append, while the page just stays open.
        for number in range(3):
            http.post(url, headers=JSON, data=f'[{{"n":{number}}}]'.encode())
        page.wait_messages([mine, '{"n": 0}', '{"n": 1}', '{"n": 2}'])
        offsets = page.texts("#messages .offset")
        assert offsets == ["0", *(f"{len(mine.encode()) + 2 + 9 * n}" for n in range(3))]

        http.post(url, headers={"Stream-Closed": "true"})
        page.wait(lambda: page.text("#status") == "closed", "the end to show")
        page.wait(lambda: page.text("#live") == "Closed")
        assert not page.shown("#composer")


def test_a_refused_append_says_why(page: Page, explored: str, make: Make) -> None:
    page.open(explored, make())
    page.wait_live()
    page.fill("#body", "{not json")
    page.click("#composer .primary")
    page.wait(lambda: "JSON" in page.text("#sent"), "the server's reason")
    assert page.find("#body").get_attribute("value") == "{not json"
    assert page.messages == []


def test_a_refused_creation_says_why(page: Page, explored: str, make: Make) -> None:
    path = make(name="taken")
    page.open(explored, path.rpartition("/")[0])
    page.click("#new")
    page.fill("#create-name", "taken")
    page.click("#create .primary")
    page.wait(lambda: "already" in page.text("#create-error"), "the reason")
    page.fill("#create-name", "..")
    page.click("#create .primary")
    page.wait(lambda: "already" not in page.text("#create-error") and page.text("#create-error"))
    assert page.shown("#create")


def test_the_tail_reads_on_where_a_connection_ended(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make(b"[0]")
    page.open(explored, path)
    page.wait_live()
    count = "return performance.getEntriesByType('resource')"
    count += ".filter((each) => each.name.includes('live=sse')).length"
    number = 0
    # A request shows here when its connection has ended: the server ends each after a second.
    while page.run(count) < 3:
        number += 1
        assert number < 1000
        http.post(f"{explored}{path}", headers=JSON, data=f"[{number}]".encode())
        page.wait(lambda: str(number) in page.messages)  # noqa: B023 - called at once
    page.wait_messages([str(each) for each in range(number + 1)])


def test_a_tab_in_the_background_lets_go_and_catches_up(page: Page, http: requests.Session) -> None:
    # Connections of this server do not end by themselves while the test runs.
    with EmbeddedServer(sse_duration=600.0) as server:
        url = f"{server.url}/v1/stream/s"
        assert http.put(url, headers=JSON, data=b"[0]").ok

        def readers() -> int:
            asked = {"path": "/v1/stream/s"}
            found = http.get(f"{server.url}/explorer/api/stream", params=asked).json()
            return int(found["readers"])

        page.open(server.url, "/v1/stream/s")
        page.wait_live()
        page.wait(lambda: readers() == 1, "the tail's connection")
        first = page.driver.current_window_handle
        page.driver.switch_to.new_window("tab")
        page.wait(lambda: readers() == 0, "the connection to be given up")
        http.post(url, headers=JSON, data=b"[1,2]")
        page.driver.close()
        page.driver.switch_to.window(first)
        page.wait_messages(["0", "1", "2"])
        page.wait_live()


def test_what_has_not_changed_stays_as_it_is(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make(b"[0]")
    page.open(explored, path)
    page.wait_live()
    page.run("document.querySelector('#list a').focus()")
    page.run("window.kept = document.querySelector('#list a')")
    http.post(f"{explored}{path}", headers=JSON, data=b"[1]")
    page.wait(lambda: page.texts("#list .size") == ["6 B"], "the list to be fresh")
    assert page.run("return document.activeElement === window.kept")
    assert page.run("return document.querySelector('#list a') === window.kept")


def test_a_stream_that_goes_away_is_told(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make(b"[1]")
    page.open(explored, path)
    page.wait_messages(["1"])
    http.delete(f"{explored}{path}")
    page.wait(lambda: page.text("#live") == "Gone", "the loss to show")
    assert page.shown("#detail-error")
    assert not page.shown("#composer")


def test_a_server_that_goes_away_is_told_and_found_again(
    page: Page, http: requests.Session, tmp_path
) -> None:
    with EmbeddedServer(tmp_path, sse_duration=1.0) as server:
        port = server.config.port or int(server.url.rpartition(":")[2])
        url = f"{server.url}/v1/stream/s"
        assert http.put(url, headers=JSON, data=b"[1]").ok
        page.open(server.url, "/v1/stream/s")
        page.wait_messages(["1"])
    page.wait(lambda: page.text("#trouble") == "The server does not answer")
    with EmbeddedServer(tmp_path, port=port):
        assert http.post(url, headers=JSON, data=b"[2]").ok
        page.wait_messages(["1", "2"])
        page.wait(lambda: not page.shown("#trouble"), "the trouble to be over")
    assert all("ERR_CONNECTION" in each or "ERR_" in each for each in page.complaints())


def test_messages_on_the_page_are_bounded(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make(json.dumps(list(range(1000))).encode())
    page.open(explored, path)
    page.wait_live()
    page.wait_messages([str(each) for each in range(600, 1000)])
    page.click("#compact")
    assert len(page.messages) == 400

    http.post(f"{explored}{path}", headers=JSON, data=json.dumps(list(range(1000, 1800))).encode())
    page.wait_messages([str(each) for each in range(1400, 1800)])

    # Reading back takes the newest ones off, and pauses the tail.
    page.run("document.getElementById('log').scrollTop = 0")
    page.click("#older")
    page.wait_messages([str(each) for each in range(1000, 1400)])
    assert page.text("#live") == "Paused"
    while page.shown("#older"):
        before = page.messages[0]
        page.run("document.getElementById('log').scrollTop = 0")
        page.click("#older")
        page.wait(lambda: page.messages[0] != before)  # noqa: B023 - called at once
    assert page.messages[0] == "0"
    page.click("#live")
    page.wait_messages([str(each) for each in range(1400, 1800)])


def test_a_page_that_falls_behind_goes_on_at_the_end(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make(b'["begin"]')
    page.driver.execute_cdp_cmd("Network.enable", {})
    slow = {"offline": False, "latency": 0, "downloadThroughput": 300_000, "uploadThroughput": -1}
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow)
    try:
        page.open(explored, path)
        page.wait_messages(['"begin"'])
        # To read all this takes longer than a test waits.
        for _ in range(6):
            http.post(f"{explored}{path}", headers=JSON, data=json.dumps(["x" * 2000] * 1000))
        http.post(f"{explored}{path}", headers=JSON, data=b'["end"]')
        page.wait(lambda: page.messages[-1:] == ['"end"'], "the end")
    finally:
        page.driver.execute_cdp_cmd("Network.disable", {})
    assert 10 < len(page.messages) <= 400
    assert page.shown("#older")


def test_a_huge_message_is_cut(page: Page, explored: str, make: Make) -> None:
    body = json.dumps([{"first": 1, "filler": ["x" * 10] * 200_000, "last": 2}]).encode()
    path = make(body)
    page.open(explored, path)
    page.wait(lambda: len(page.messages) == 1, "the message")
    (text,) = page.messages
    assert text.startswith('{\n  "first": 1,\n  "filler": [\n    "xxxxxxxxxx",\n')
    assert len(text) < 5_000
    assert "of 2.8 MB" in page.text("#messages .rest")
    page.click("#messages .rest button")
    page.wait(lambda: len(page.messages[0]) > 5_000, "more of it")
    assert len(page.messages[0]) < 200_000


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-ndjson"])
def test_text_is_shown_line_by_line(
    page: Page, explored: str, make: Make, http: requests.Session, content_type: str
) -> None:
    path = make('{"a":1}\nzwei ü\n'.encode(), content_type)
    page.open(explored, path)
    first = '{"a": 1}' if "json" in content_type else '{"a":1}'
    page.wait_messages([first, "zwei ü"])
    headers = {"Content-Type": content_type}
    http.post(f"{explored}{path}", headers=headers, data=b" three\n four")
    page.wait_messages([first, "zwei ü", " three", " four"])
    assert page.texts("#messages .offset") == ["0", "8", "16", "23"]


def test_bytes_are_shown_as_bytes(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make(b"\x00\xff<b>\x80", "application/octet-stream")
    page.open(explored, path)
    page.wait(lambda: len(page.messages) == 1)
    assert page.messages[0].startswith("000000  00 ff 3c 62 3e 80 ")
    assert page.messages[0].endswith("··<b>·")
    headers = {"Content-Type": "application/octet-stream"}
    http.post(f"{explored}{path}", headers=headers, data=b"\xfe")
    page.wait(lambda: len(page.messages) == 2, "more bytes")


def test_producers_with_their_epochs(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make()
    epoch = (12 << 20) + 4711

    def append(number: int, seq: int) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        triple = f"Producer-Id: etl/{number}\r\nProducer-Epoch: {epoch}\r\nProducer-Seq: {seq}\r\n"
        return f"{head}{triple}Content-Length: 3\r\n\r\n[1]".encode()

    pipeline(explored, (append(number, seq) for number in range(130) for seq in range(2)))
    page.open(explored, path)
    page.wait_live()
    page.click("#tab-producers")
    page.wait(lambda: page.text("#tab-producers") == "Producers 130")
    assert len(page.texts("#producers tr")) == 100
    assert page.texts("#producers tr:first-child td")[:3] == ["etl/129", str(epoch), "1"]
    title = page.find("#producers tr:first-child td:nth-child(2)").get_attribute("title")
    assert title == "from Spark: micro-batch 12"
    page.run("document.getElementById('producers-more').click()")
    page.wait(lambda: len(page.texts("#producers tr")) == 130, "the second page")
    assert page.texts("#producers tr:last-child td")[0] == "etl/0"
    assert not page.shown("#producers-more")

    # A new epoch shows by itself.
    headers = {"Producer-Id": "etl/129", "Producer-Epoch": str(epoch + 1), "Producer-Seq": "0"}
    http.post(f"{explored}{path}", headers=JSON | headers, data=b"[1]")
    page.wait(lambda: page.texts("#producers tr:first-child td")[1] == str(epoch + 1))


def test_snapshots_with_their_content(
    page: Page, explored: str, make: Make, http: requests.Session
) -> None:
    path = make(b'["old","new"]')
    page.open(explored, path)
    page.wait_messages(['"old"', '"new"'])
    page.click("#tab-snapshots")
    assert page.shown("#snapshots-empty")
    snapshot = f"{explored}{path}/snapshot/{7:020}"
    http.put(snapshot, headers=JSON, data=b'{"sum":1,"html":"<b>x</b>"}')
    page.wait(lambda: page.text("#tab-snapshots") == "Snapshots 1", "it to show by itself")
    row = page.texts("#snapshots td")
    assert row == ["7", "application/json", "27 B", "latest"]
    page.click("#snapshots button")
    page.wait(lambda: page.text("#snapshot") == '{"sum": 1, "html": "<b>x</b>"}', "its content")
    facts = dict(zip(page.texts("#facts dt"), page.texts("#facts dd"), strict=True))
    assert (facts["Earliest"], facts["Tail"]) == ("7", "14")


def test_many_streams_are_paged_and_found(page: Page, explored: str, http) -> None:
    bucket = f"/ds/many-{uuid.uuid4().hex[:8]}"
    assert http.put(f"{explored}{bucket}").ok
    head = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 0\r\n"
    pipeline(
        explored,
        (f"PUT {bucket}/session-{number:05} {head}\r\n".encode() for number in range(10_000)),
    )
    page.open(explored, bucket)
    page.wait(lambda: len(page.names) == 200, "the first page")
    assert page.text("#count") == "200+ streams"
    page.run("document.getElementById('list-more').click()")
    page.wait(lambda: len(page.names) == 400, "the second page")
    assert page.names == [f"session-{number:05}" for number in range(400)]

    page.fill("#search", "0777")
    expected = [f"session-{number:05}" for number in range(10_000) if "0777" in f"{number:05}"]
    page.wait(lambda: page.names == expected, "what is found by a part of the name")
    assert page.text("#count") == "11 found"
    page.fill("#search", "session-09999")
    page.wait(lambda: page.names == ["session-09999"])
    page.click("#list a")
    page.wait(lambda: page.text("#name") == f"{bucket}/session-09999")
    page.fill("#search", "no such")
    page.wait(lambda: page.shown("#list-empty"))
    page.fill("#search", "")
    page.wait(lambda: len(page.names) == 200)


def test_streams_outside_of_buckets(page: Page, http: requests.Session) -> None:
    with EmbeddedServer() as server:
        for name in ("docs/guide/intro", "docs/readme", "events"):
            assert http.put(f"{server.url}/v1/stream/{name}", headers=JSON, data=b'["x"]').ok
        page.open(server.url)
        page.wait(lambda: page.names == ["docs/guide/intro", "docs/readme", "events"])
        assert page.texts("#roots .size") == ["3", ""]
        page.click("#list a")
        page.wait_messages(['"x"'])
        assert page.text("#name") == "/v1/stream/docs/guide/intro"


def test_topics(page: Page, explored: str, http: requests.Session) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    url = f"{explored}/v0/topics/{name}"
    records = {"create": True, "records": [{"data": {"n": 1}}, {"data": "</pre><b>"}]}
    assert http.post(url, json=records).ok
    page.open(explored, f"/v0/topics/{name}")
    page.wait(lambda: len(page.messages) == 2, "its records")
    assert '"data": {"n": 1}' in page.messages[0]
    assert '"data": "</pre><b>"' in page.messages[1]
    page.fill("#body", '{"mine": 12345678901234567890}')
    page.click("#composer .primary")
    page.wait(lambda: len(page.messages) == 3, "what was written")
    assert '"data": {"mine": 12345678901234567890}' in page.messages[2]
    assert name in page.names
    assert not page.shown("#tab-producers")


def test_a_server_with_a_token(page: Page, http: requests.Session) -> None:
    tokens = (Token("look-only", write=False, buckets=("shop",)),)
    with EmbeddedServer(token="s3cret", tokens=tokens) as server:
        http.headers["Authorization"] = "Bearer s3cret"
        for bucket in ("shop", "safe"):
            assert http.put(f"{server.url}/ds/{bucket}").ok
        url = f"{server.url}/ds/shop/orders"
        assert http.put(url, headers=JSON, data=b'["alpha"]').ok

        page.open(server.url, "/ds/shop/orders")
        page.wait(lambda: page.shown("#gate"), "the question for the token")
        assert not page.shown("#app")
        assert "alpha" not in page.driver.page_source
        assert page.names == page.texts("#buckets bdi") == []
        assert not page.shown("#gate-error")

        page.find("#token").send_keys("wrong\n")
        page.wait(lambda: page.shown("#gate-error"), "the refusal")
        assert page.run("return sessionStorage.length") == 0

        page.find("#token").send_keys("s3cret\n")
        page.wait_messages(['"alpha"'])
        assert not page.shown("#gate")
        http.post(url, headers=JSON, data=b'["beta"]')
        page.wait_messages(['"alpha"', '"beta"'])

        # The token is in this tab's session storage and nowhere else.
        kept = page.run("return [Object.values(sessionStorage), localStorage.length]")
        assert kept == [["s3cret"], 0]
        assert page.run("return document.cookie") == ""
        requested = page.run("return performance.getEntries().map((each) => each.name).join()")
        assert "live=sse" in requested or "api/stream" in requested
        assert "s3cret" not in requested + page.driver.current_url

        page.driver.refresh()
        page.wait_messages(['"alpha"', '"beta"'])
        first = page.driver.current_window_handle
        page.driver.switch_to.new_window("tab")
        page.driver.get(server.url)
        page.wait(lambda: page.shown("#gate"), "another tab to be asked again")

        # A token with fewer rights shows what it may see, and refusals as they are.
        page.find("#token").send_keys("look-only\n")
        page.wait(lambda: page.names == ["orders"])
        assert page.texts("#buckets bdi") == ["shop"]
        page.click("#list a")
        page.wait_messages(['"alpha"', '"beta"'])
        page.fill("#body", '"third"')
        page.click("#composer .primary")
        page.wait(lambda: "read only" in page.text("#sent"), "the refusal to write")
        page.driver.close()
        page.driver.switch_to.window(first)

        page.click("#forget")
        assert page.shown("#gate")
        assert page.run("return sessionStorage.length") == 0
        assert "alpha" not in page.driver.page_source
        assert page.names == page.texts("#buckets bdi") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_colour_scheme(page: Page, explored: str, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    page.open(explored)
    page.wait(lambda: page.shown("#app"))
    colour = page.run("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in colour.strip("rgb()").split(",")) / 3
    assert (brightness > 200) if scheme == "light" else (brightness < 50)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
