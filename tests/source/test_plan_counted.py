from __future__ import annotations

from spark_durable.options import SourceOptions
from spark_durable.source.plan_counted import Counter, units_between
from spark_durable.source.position import Position
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire
from tests.conftest import Server
from tests.faults import FaultProxy
from tests.source.chained_like import ChainedLike, token
from tests.source.harness import MaxRows, Query, append, append_numbers, create, drain, numbers

WIRE = Wire(SourceOptions(url="http://h/s", retry_timeout=5))


def test_counting_across_answers(unmeasured: ChainedLike) -> None:
    url = create(f"{unmeasured.url}/b/s")
    append(url, *range(20))
    target = Target("s", url)
    counter = Counter(WIRE, target, Position("-1"), json=True)
    first = counter.count(max_units=5)
    assert (first.take, first.at, first.to_tail) == (5, Position("-1", 5), False)
    second = counter.count(max_units=5)
    assert (second.take, second.at) == (5, Position(token(7), 3))
    rest = counter.count()
    assert (rest.take, rest.at, rest.to_tail) == (10, Position(token(20)), True)
    again = Counter(WIRE, target, second.at, json=True).count()
    assert again.take == 10
    assert again.carried == rest.carried == [b"%d" % n for n in range(10, 20)]


def test_units_between_two_offsets() -> None:
    with ChainedLike(cap=3) as server:
        url = create(f"{server.url}/b/s")
        append(url, *range(10))
        target = Target("s", url)
        for low in range(10):
            for high in range(low + 1, 11):
                first = "-1" if low == 0 else token(low)
                between = units_between(WIRE, target, first, token(high), json=True)
                assert between == high - low


def test_units_between_while_the_stream_grows(node: Server) -> None:
    url = create(node.stream("grows"))
    first = append(url, *range(3))
    middle = append(url, *range(4))
    append(url, *range(50))
    written = 0

    class Growing(Wire):
        def call(self, attempt):  # type: ignore[no-untyped-def]
            nonlocal written
            if written < 3:  # something comes between the requests
                written += 1
                append(url, 1)
            return super().call(attempt)

    wire = Growing(SourceOptions(url=url, retry_timeout=5))
    assert units_between(wire, Target("s", url), first, middle, json=True) == 4
    assert units_between(wire, Target("s", url), "-1", middle, json=True) == 7


def test_a_backlog_under_a_limit_is_read_once(node: Server) -> None:
    """Node answers with the whole stream: not once per batch."""
    url = create(node.stream("backlog"))
    append_numbers(url, 0, 400)
    with FaultProxy(url) as proxy:
        rows, _ = drain(Query(proxy.url), limit=MaxRows(20))
        assert numbers(rows) == list(range(400))
        reads = [e for e in proxy.exchanges if e.request.method == "GET"]
        waits = [e for e in reads if "long-poll" in e.request.path]
        assert len(reads) - len(waits) <= 3
