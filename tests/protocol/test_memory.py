"""Answers larger than memory are read in memory that does not grow with them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.protocol.conftest import Scripted
from tests.protocol.scripted import stream

# Runs apart, so that its memory is its own: first a small answer, to have everything loaded, then
# the large one. Prints what was read of each, and by how much the peak grew in between.
PROGRAM = """
import resource, sys
from spark_durable.protocol import ControlEvent, DataEvent, DurableClient

def total(client, kind, url):
    count = size = 0
    if kind == "messages":
        with client.read(url) as response:
            for message in response.messages():
                count, size = count + 1, size + len(message)
    elif kind == "chunks":
        with client.read(url) as response:
            for piece in response.chunks():
                count, size = 1, size + len(piece)
    elif kind == "parts":
        with client.bootstrap(url) as bootstrap:
            for part in bootstrap.parts:
                count += 1
                for piece in part.chunks():
                    size += len(piece)
    else:
        with client.sse(url, "-1") as events:
            for event in events:
                if isinstance(event, DataEvent):
                    count, size = count + 1, size + len(event.data)
    return count, size

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

kind, url = sys.argv[1:]
with DurableClient() as client:
    small = total(client, kind, url)
    before = peak()
    large = total(client, kind, url)
print(*small, *large, peak() - before)
"""

# Small against any of the answers, large against what buffers and the allocator do by chance.
GROWTH_MB = 24

SIZES = [
    pytest.param(96, id="96 MB"),
    pytest.param(1024, id="1 GB", marks=pytest.mark.long),
]
PARTS = [
    pytest.param(100_000, id="100,000 parts"),
    pytest.param(1_000_000, id="1,000,000 parts", marks=pytest.mark.long),
]


def run(scripted: Scripted, kind: str, headers: dict[str, str], *bodies: object) -> list[int]:
    server = scripted(*(stream({**headers, "Stream-Next-Offset": "1"}, body) for body in bodies))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, f"{server.url}/s"],
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


MESSAGE = b'{"id":123456,"name":"' + b"x" * 950 + b'","tags":["a","b"],"inner":{"n":[1,2]}}'
PER_MB = 1024 * 1024 // (len(MESSAGE) + 1)


def array(megabytes: int) -> Iterator[bytes]:
    block = b",".join([MESSAGE] * PER_MB)
    yield b"["
    for i in range(megabytes):
        yield (b"," if i else b"") + block
    yield b"]"


def lines(megabytes: int) -> Iterator[bytes]:
    for _ in range(megabytes):
        yield (MESSAGE + b"\n") * PER_MB


@pytest.mark.parametrize("megabytes", SIZES)
@pytest.mark.parametrize(
    ("content_type", "body"), [("application/json", array), ("application/x-ndjson", lines)]
)
def test_the_messages_of_a_catch_up_response(
    scripted: Scripted, megabytes: int, content_type: str, body: object
) -> None:
    assert callable(body)
    headers = {"Content-Type": content_type}
    *small, count, size, growth = run(
        scripted, "messages", headers, lambda: body(1), lambda: body(megabytes)
    )
    assert small == [PER_MB, PER_MB * len(MESSAGE)]
    assert (count, size) == (megabytes * PER_MB, megabytes * PER_MB * len(MESSAGE))
    assert growth < GROWTH_MB


@pytest.mark.parametrize("megabytes", SIZES)
def test_the_bytes_of_a_catch_up_response(scripted: Scripted, megabytes: int) -> None:
    block = bytes(1 << 20)
    *_, size, growth = run(
        scripted,
        "chunks",
        {"Content-Type": "text/plain"},
        lambda: [block],
        lambda: (block for _ in range(megabytes)),
    )
    assert size == megabytes << 20
    assert growth < GROWTH_MB


def entity(snapshot_megabytes: int, parts: int) -> Iterator[bytes]:
    yield b"--b\r\nContent-Type: text/x\r\n\r\n"
    for _ in range(snapshot_megabytes):
        yield bytes(1 << 20)
    part = b"\r\n--b\r\nContent-Type: application/json\r\n\r\n" + b'{"n":1234567890}'
    for _ in range(parts // 1000):
        yield part * 1000
    yield b"\r\n--b--\r\n"


@pytest.mark.parametrize("parts", PARTS)
def test_the_parts_of_a_bootstrap(scripted: Scripted, parts: int) -> None:
    count, size, growth = run(
        scripted,
        "parts",
        {"Content-Type": "multipart/mixed; boundary=b"},
        lambda: entity(1, 1000),
        lambda: entity(64, parts),
    )[2:]
    assert (count, size) == (parts + 1, (64 << 20) + parts * len(b'{"n":1234567890}'))
    assert growth < GROWTH_MB


def events(megabytes: int) -> Iterator[bytes]:
    event = b"event: data\ndata: [" + MESSAGE + b"]\n\n"
    control = b'event: control\ndata: {"streamNextOffset":"5"}\n\n'
    for _ in range(megabytes):
        yield (event + control) * PER_MB


@pytest.mark.parametrize("megabytes", SIZES)
def test_an_event_stream(scripted: Scripted, megabytes: int) -> None:
    count, size, growth = run(
        scripted,
        "events",
        {"Content-Type": "text/event-stream"},
        lambda: events(1),
        lambda: events(megabytes),
    )[2:]
    assert (count, size) == (megabytes * PER_MB, megabytes * PER_MB * (len(MESSAGE) + 2))
    assert growth < GROWTH_MB
