"""Whatever messages, names, ids and content types hold, the page shows it and runs none of it."""

from __future__ import annotations

import json
import uuid
from urllib.parse import quote

import pytest
import requests

from tests.server.explorer.browsing import Page

JSON = {"Content-Type": "application/json"}

MARKUP = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "<svg onload=window.pwned=1>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<a href='javascript:window.pwned=1'>click</a>",
    "javascript:window.pwned=1",
    "'\"><script>window.pwned = 1</script>",
    "</pre></li></ol><script>window.pwned = 1</script>",
    "</script><script>window.pwned = 1</script>",
    "<style>* { display: none }</style>",
    "<base href='//evil.example/'>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "<form action=//evil.example/><button>Append</button></form>",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "__proto__",
]
# What it is, and what stands in its place where it would be invisible or reorder other text.
UNSEEN = {
    "\x00": "␀",
    "\x1b[31m": "␛[31m",
    "\x7f": "␡",
    "\x9f": "⟨U+009F⟩",
    "\u202egpj.exe\u202c": "⟨U+202E⟩gpj.exe⟨U+202C⟩",
    "\u2066a\u2069": "⟨U+2066⟩a⟨U+2069⟩",
    "a\u200bb\u2060c\ufeffd": "a⟨U+200B⟩b⟨U+2060⟩c⟨U+FEFF⟩d",
    "\u2028": "⟨U+2028⟩",
}
PLAIN = ["שלום", "مرحبا", "👩‍💻", "e\u0301", "日本語", "\U0001f600"]
TAGS = {"LI", "SPAN", "PRE", "BUTTON", "BDI", "A"}


def assert_inert(page: Page, *roots: str) -> None:
    """Nothing ran, nothing was loaded, and below the roots are only elements of the page's own."""
    assert page.run("return window.pwned") is None
    script = """
        const found = new Set();
        for (const element of document.querySelectorAll(arguments[0])) {
          found.add(element.tagName);
          for (const {name, value} of element.attributes) {
            const link = name === "href" && value.startsWith("#/");
            if (!["class", "title", "aria-current"].includes(name) && !link) {
              found.add(`${element.tagName} ${name}=${value}`);
            }
          }
        }
        return [...found]"""
    below = ", ".join(f"{root} *" for root in roots)
    assert set(page.run(script, below)) <= TAGS
    loaded = page.run("return performance.getEntriesByType('resource').map((each) => each.name)")
    origin = page.run("return location.origin")
    assert all(each.startswith(f"{origin}/") for each in loaded)
    assert not any("evil" in each or each.endswith("/x") for each in loaded)


@pytest.fixture
def bucket(explored: str, http: requests.Session) -> str:
    path = f"/ds/h-{uuid.uuid4().hex[:10]}"
    assert http.put(f"{explored}{path}").ok
    return path


def test_hostile_json_messages(
    page: Page, explored: str, http: requests.Session, bucket: str
) -> None:
    path = f"{bucket}/s"
    raw = {key: shown for key, shown in UNSEEN.items() if key.isprintable() or ord(key[0]) > 0x1F}
    texts = [*MARKUP, *PLAIN, *raw]
    shown = [*MARKUP, *PLAIN, *raw.values()]
    quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
    expected = [json.dumps(text, ensure_ascii=False) for text in shown]
    expected += [f"{{{each}: {each}}}" for each in expected]
    messages = quoted + [f"{{{each}: {each}}}" for each in quoted]
    half = len(messages) // 2

    def body(part: list[str]) -> bytes:
        return f"[{','.join(part)}]".encode()

    # One half is there when the page comes, the other arrives while it looks.
    assert http.put(f"{explored}{path}", headers=JSON, data=body(messages[:half])).ok
    page.open(explored, path)
    page.click("#compact")
    page.wait_messages(expected[:half])
    assert http.post(f"{explored}{path}", headers=JSON, data=body(messages[half:])).ok
    page.wait_messages(expected)
    assert_inert(page, "#messages")
    page.click("#compact")
    assert ["".join(each.split()) for each in page.messages] == [
        "".join(each.split()) for each in expected
    ]
    assert_inert(page, "#messages")


@pytest.mark.parametrize("content_type", ["text/plain", "text/html", "image/svg+xml"])
def test_hostile_text_messages(
    page: Page, explored: str, http: requests.Session, bucket: str, content_type: str
) -> None:
    path = f"{bucket}/s"
    lines = [*MARKUP, *PLAIN, *UNSEEN]
    expected = [*MARKUP, *PLAIN, *UNSEEN.values()]
    headers = {"Content-Type": content_type}
    body = "".join(f"{line}\n" for line in lines).encode()
    assert http.put(f"{explored}{path}", headers=headers, data=body).ok
    page.open(explored, path)
    page.wait_messages(expected)
    assert http.post(f"{explored}{path}", headers=headers, data=body).ok
    page.wait_messages(expected + expected)
    assert_inert(page, "#messages")


def test_deep_and_endless_json(
    page: Page, explored: str, http: requests.Session, bucket: str
) -> None:
    path = f"{bucket}/s"
    deep = "[" * 900 + "]" * 900
    wide = '{"a":"' + '\\"' * 100_000 + '","b":1e999,"b":-0.0}'
    slashes = json.dumps("\\" * 9)
    body = f"[{deep},{wide},{slashes}]".encode()
    assert http.put(f"{explored}{path}", headers=JSON, data=body).ok
    page.open(explored, path)
    page.wait(lambda: len(page.messages) == 3, "the messages")
    page.run("document.querySelector('#messages li:nth-child(2) button').click()")
    first, second, third = page.messages
    assert first.count("[") == first.count("]") == 900
    assert second.startswith('{\n  "a": "\\"\\"')
    assert third == slashes
    assert_inert(page, "#messages")


@pytest.mark.parametrize("root", ["bucket", "path"])
def test_hostile_stream_names(
    page: Page, explored: str, http: requests.Session, bucket: str, root: str
) -> None:
    tag = uuid.uuid4().hex[:6]
    names = [
        "<img src=x onerror=window.pwned=1>",
        '"><script>window.pwned=1<|script>',
        "javascript:window.pwned=1",
        "a?b#c&d=e%2F+%",
        "__proto__",
        "constructor",
        " spaces ",
        "שלום",
        "👩‍💻",
        "\u202egnp.exe",
        "\x1b[0m",
        "x" * 90,
    ]
    parent = bucket if root == "bucket" else f"/v1/stream/{tag}"
    for name in names:
        url = f"{explored}{parent}/{quote(name, safe='')}"
        assert http.put(url, headers=JSON, data=json.dumps([name])).status_code == 201
    prefix = "" if root == "bucket" else f"{tag}/"
    shown = {"\u202egnp.exe": "⟨U+202E⟩gnp.exe", "\x1b[0m": "␛[0m"}
    expected = [prefix + shown.get(name, name) for name in sorted(names)]
    page.open(explored, bucket if root == "bucket" else "/v1/stream")
    if root == "path":
        page.fill("#search", tag)
    page.wait(lambda: page.names == expected, "all names")
    assert_inert(page, "#list", "#places", "#buckets")

    for number, name in enumerate(sorted(names), 1):
        page.run(f"document.querySelector('#list li:nth-child({number}) a').click()")
        page.wait(
            lambda: page.text("#name").endswith(expected[number - 1]),  # noqa: B023 - called at once
            name,
        )
        page.wait_messages([json.dumps(name)])
    assert_inert(page, "#list", "#name", "#messages")


def test_hostile_producers_and_content_types(
    page: Page, explored: str, http: requests.Session, bucket: str
) -> None:
    path = f"{bucket}/s"
    kind = 'text/x;a="<img src=x onerror=window.pwned=1>"'
    headers = {"Content-Type": kind}
    assert http.put(f"{explored}{path}", headers=headers).ok
    producer = "<img src=x onerror=window.pwned=1>"
    triple = {"Producer-Id": producer, "Producer-Epoch": "1", "Producer-Seq": "0"}
    assert http.post(f"{explored}{path}", headers=headers | triple, data=b"x").ok
    snapshot = {"Content-Type": kind}
    body = b"<script>window.pwned=1</script>\x00"
    assert http.put(f"{explored}{path}/snapshot/{1:020}", headers=snapshot, data=body).ok
    page.open(explored, path)
    page.wait(lambda: page.texts("#producers td")[:1] == [producer], "the producer")
    page.click("#tab-snapshots")
    page.click("#snapshots button")
    page.wait(lambda: page.text("#snapshot") == "<script>window.pwned=1</script>␀")
    assert kind in page.texts("#facts dd")
    assert page.texts("#list .kind")[0].startswith(kind)
    assert page.run("return window.pwned") is None
    assert page.run("return document.querySelectorAll('img, script:not([src])').length") == 0


def test_a_hostile_address_does_nothing(page: Page, explored: str) -> None:
    for address in (
        "javascript:window.pwned=1",
        "/ds/<img src=x onerror=window.pwned=1>/x",
        "/ds/%/x",
        "/ds/../../x",
        "//evil.example/x",
        "/v1/stream/%E0%A4%A",
        "/v0/topics/%00",
        "https://evil.example/",
    ):
        page.open(explored, address)
        page.wait(lambda: page.shown("#app"), address)
        assert_inert(page, "#list", "#name", "#messages")


def test_the_browser_enforces_the_policy(page: Page, explored: str) -> None:
    """What the page does not do could not be done: its policy is in force, not only sent."""
    page.open(explored)
    page.wait(lambda: page.shown("#app"))
    with pytest.raises(Exception, match="TrustedHTML"):
        page.run("document.body.innerHTML = '<b>x</b>'")
    for script in (
        "document.createElement('script').textContent = 'window.pwned = 1'",
        "document.createElement('script').src = '/v1/stream/app.js'",
        "document.createElement('img').setAttribute('onerror', 'window.pwned = 1')",
    ):
        with pytest.raises(Exception, match="TrustedScript"):
            page.run(script)
    violated = page.driver.execute_async_script(
        """
        const done = arguments[0];
        document.addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
        const image = document.createElement("img");
        image.src = "/x";
        document.body.append(image);
        """
    )
    assert violated == "img-src"
    assert page.run("return window.pwned") is None
    assert page.complaints() != []
