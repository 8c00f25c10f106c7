"""Each publisher with a target of its own, and a way to read back what arrived there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from spark_durable.publish import (
    DurableStreamsPublisher,
    Event,
    FilePublisher,
    Publisher,
    TopicsPublisher,
)
from spark_durable.publish.payloads import extracted
from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request, Script


@dataclass(frozen=True, slots=True)
class Arrived:
    """One event as found at the target."""

    payload: bytes
    headers: dict[str, str] = field(default_factory=dict)
    partition_key: str | None = None


class Counting:
    """Counts requests as they come in, then lets ``script`` decide."""

    def __init__(self) -> None:
        self.script: Script = lambda request: PASS
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Fault:
        self.requests.append(request)
        return self.script(request)


@dataclass(slots=True)
class Target:
    """A publisher, by way of a counting proxy where it speaks HTTP."""

    publisher: Publisher
    arrived: Callable[[], list[Arrived]]
    counting: Counting | None
    break_it: Callable[[], None]

    def posts(self) -> int:
        assert self.counting is not None
        return sum(request.method == "POST" for request in self.counting.requests)

    def script(self, script: Script) -> None:
        assert self.counting is not None
        self.counting.script = script


def read_messages(url: str) -> list[bytes]:
    """All messages of a JSON stream, as the bytes that are stored."""
    found: list[bytes] = []
    offset = "-1"
    while True:
        answer = requests.get(url, params={"offset": offset}, timeout=30)
        answer.raise_for_status()
        found += [bytes(raw) for raw in msgspec.json.decode(answer.content, type=list[msgspec.Raw])]
        offset = answer.headers["Stream-Next-Offset"]
        if answer.headers.get("Stream-Up-To-Date") == "true":
            return found


def read_records(url: str) -> list[dict[str, Any]]:
    """All records of a topic; ``data`` is the text that is stored."""
    found: list[dict[str, Any]] = []
    from_seq = 0
    while True:
        answer = requests.get(f"{url}/records", params={"from_seq": from_seq}, timeout=30)
        answer.raise_for_status()
        page = msgspec.json.decode(answer.content, type=dict[str, msgspec.Raw])
        for raw in msgspec.json.decode(page["records"], type=list[dict[str, msgspec.Raw]]):
            record = {name: json.loads(bytes(value)) for name, value in raw.items()}
            record["data"] = bytes(raw["data"])
            found.append(record)
        from_seq = json.loads(bytes(page["next_from_seq"]))
        if json.loads(bytes(page["caught_up"])):
            return found


@pytest.fixture
def proxy(embedded: Server) -> Iterator[FaultProxy]:
    with FaultProxy(embedded.url) as proxy:
        yield proxy


@pytest.fixture
def counting(proxy: FaultProxy) -> Counting:
    proxy.script = counting = Counting()
    return counting


def on_posts(fault: Fault) -> Script:
    return lambda request: fault if request.method == "POST" else PASS


def _refusing(counting: Counting) -> Callable[[], None]:
    def break_it() -> None:
        counting.script = on_posts(Fault(Kind.REFUSE, status=500))

    return break_it


@pytest.fixture
def durable(embedded: Server, proxy: FaultProxy, counting: Counting) -> Target:
    url = embedded.stream("out")
    publisher = DurableStreamsPublisher(proxy.through(url))
    return Target(
        publisher,
        lambda: [Arrived(payload) for payload in read_messages(url)],
        counting,
        _refusing(counting),
    )


@pytest.fixture
def durable_envelope(embedded: Server, proxy: FaultProxy, counting: Counting) -> Target:
    url = embedded.stream("out")

    def arrived() -> list[Arrived]:
        found = []
        for message in read_messages(url):
            fields = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
            encoding = fields.get("payload_encoding")
            found.append(
                Arrived(
                    extracted(bytes(fields["payload"]), encoding and json.loads(bytes(encoding))),
                    json.loads(bytes(fields.get("headers", b"{}"))),
                    json.loads(bytes(fields.get("partition_key", b"null"))),
                )
            )
        return found

    publisher = DurableStreamsPublisher(proxy.through(url), envelope=True)
    return Target(publisher, arrived, counting, _refusing(counting))


@pytest.fixture
def topics(embedded: Server, proxy: FaultProxy, counting: Counting) -> Target:
    url = f"{embedded.url}/v0/topics/t-{uuid.uuid4().hex[:10]}"

    def arrived() -> list[Arrived]:
        return [
            Arrived(
                extracted(record["data"], record["meta"].get("payload_encoding")),
                record["meta"].get("headers", {}),
                record.get("$tag"),
            )
            for record in read_records(url)
        ]

    publisher = TopicsPublisher(proxy.through(url), create={})
    return Target(publisher, arrived, counting, _refusing(counting))


@pytest.fixture
def file(tmp_path: Path) -> Target:
    path = tmp_path / "events.jsonl"

    def arrived() -> list[Arrived]:
        found = []
        for line in path.read_bytes().splitlines() if path.exists() else []:
            fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            encoding = fields.get("payload_encoding")
            found.append(
                Arrived(
                    extracted(bytes(fields["payload"]), encoding and json.loads(bytes(encoding))),
                    json.loads(bytes(fields.get("headers", b"{}"))),
                )
            )
        return found

    def break_it() -> None:
        path.unlink(missing_ok=True)
        path.mkdir()

    return Target(FilePublisher(str(path)), arrived, None, break_it)


@pytest.fixture(params=["durable", "durable_envelope", "topics", "file"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Target)
    found.publisher.open()
    yield found
    found.publisher.close()


def an_event(number: int = 1, payload: bytes | None = None, **fields: Any) -> Event:
    return Event(
        event_id=fields.pop("event_id", f"e-{number}-{uuid.uuid4().hex[:8]}"),
        event_type=fields.pop("event_type", "OrderPlaced"),
        payload=payload if payload is not None else b'{"n":%d}' % number,
        **fields,
    )
