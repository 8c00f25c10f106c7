"""Answers that break off after some of their messages have been handed on."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_durable.options import SourceOptions
from spark_durable.protocol import DurableClient
from spark_durable.source.follow import Bytes, Messages, ResponseEnd, Run, follow
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire
from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request
from tests.source.harness import append, create

WIRE = Wire(SourceOptions(url="http://h/s", retry_timeout=20))


class CutTwice:
    """The first two answers to each GET end in the middle."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def __call__(self, request: Request) -> Fault:
        self._tries[request.path] += 1
        cut = request.method == "GET" and self._tries[request.path] <= 2
        return Fault(Kind.CUT_ANSWER) if cut else PASS


@pytest.fixture
def numbers(node: Server) -> str:
    """An answer of several megabytes."""
    url = create(node.stream("follow"))
    for low in range(0, 40_000, 10_000):
        append(url, *({"n": n, "pad": "x" * 100} for n in range(low, low + 10_000)))
    return url


def test_messages_are_not_repeated(numbers: str) -> None:
    with FaultProxy(numbers, CutTwice()) as proxy:
        events = list(follow(WIRE, Target("s", proxy.url), "-1", Messages()))
        assert proxy.seen(Kind.CUT_ANSWER) == 2
    runs = [event for event in events if isinstance(event, Run)]
    assert len(runs) > 2  # something was handed on before it broke off
    found = [message for run in runs for message in run.messages]
    assert [message.split(b",")[0] for message in found] == [b'{"n":%d' % n for n in range(40_000)]
    end = events[-1]
    assert isinstance(end, ResponseEnd)
    with DurableClient() as client:
        assert (end.following, end.to_tail) == (client.head(numbers).tail, True)


def test_bytes_are_not_repeated(node: Server) -> None:
    url = create(node.stream("follow"), "text/plain")
    content = b"".join(b"%07d\n" % n for n in range(500_000))
    with DurableClient() as client:
        client.append(url, content, content_type="text/plain")
    with FaultProxy(url, CutTwice()) as proxy:
        events = list(follow(WIRE, Target("s", proxy.url), "-1", Bytes()))
        assert proxy.seen(Kind.CUT_ANSWER) == 2
    runs = [event for event in events if isinstance(event, Run)]
    assert len(runs) > 2
    assert b"".join(chunk for run in runs for chunk in run.messages) == content


def test_what_comes_in_between_is_read_too(numbers: str) -> None:
    """Asked for again, the answer reaches further than at first."""
    with FaultProxy(numbers, CutTwice()) as proxy:
        events = follow(WIRE, Target("s", proxy.url), "-1", Messages())
        first = next(events)
        assert isinstance(first, Run)
        append(numbers, {"n": 40_000})
        rest = list(events)
    found = len(first.messages) + sum(len(e.messages) for e in rest if isinstance(e, Run))
    end = rest[-1]
    assert isinstance(end, ResponseEnd)
    with DurableClient() as client:
        assert end.following == client.head(numbers).tail
    assert found == 40_001
