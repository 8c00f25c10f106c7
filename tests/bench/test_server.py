"""The server benchmark measures what it says: real appends, whole reads, named figures."""

from __future__ import annotations

import json

import requests

from spark_durable.bench import server as bench
from spark_durable.bench.server import Peer, Sizes
from spark_durable.bench.wire import append_rate


def peer(kind: str, url: str) -> Peer:
    return Peer(kind, url, pid=0)


def test_fill_and_read_all_see_every_byte_on_both_servers(
    embedded_server: str, node_server: str
) -> None:
    body = bench.batch(100_000)
    rows = len(json.loads(body))
    for kind, url in (("embedded", embedded_server), ("node", node_server)):
        stream = bench.fill(peer(kind, url), body, 3)
        found = requests.get(stream, timeout=30)
        assert len(found.json()) == 3 * rows
        # Node's answer is chunked and without a length, ours has one: both are counted right.
        assert bench.read_all(stream) == len(found.content)


def test_the_generator_counts_what_was_stored(embedded_server: str) -> None:
    stream = bench.new_stream(peer("embedded", embedded_server))
    rate = append_rate(stream, b"1", connections=4, seconds=0.5)
    stored = len(requests.get(stream, timeout=30).json())
    # Each connection may have had one more append under way when the time was over.
    assert 0 < rate * 0.5 <= stored * 1.1


def test_measure_names_all_figures() -> None:
    tiny = Sizes(rounds=1, append_mib=1, read_mib=1, small_seconds=1, huge_mib=2, streams=10)
    report = bench.measure(tiny)
    assert {figure.name for figure in report.figures} == {
        "server_append_vs_node",
        "server_read_vs_node",
        "server_small_vs_node",
        "server_rss_huge_mb",
        "server_rss_streams_mb",
    }
    assert all(figure.value > 0 for figure in report.figures)
