"""Bugs planted on purpose are found: a run that could not find them would prove nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from spark_durable.protocol import DurableClient
from spark_durable.sink.plan import RunMark
from tests.chaos import checker
from tests.chaos.checker import Findings, Row, StreamLife
from tests.chaos.observe import read_messages
from tests.chaos.planted import PLANTS
from tests.chaos.run import run
from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request
from tests.sink.partitions import sink_plan, write
from tests.source.harness import START, Query, append_numbers, create

SECONDS = 12


@pytest.mark.parametrize("plant", ["producer-state-not-durable", "ack-before-fsync"])
def test_found_by_producers_and_a_killed_server(plant: str) -> None:
    """Whether a kill meets what the bug needs is a matter of milliseconds, so it may take two."""
    reports = (run(seed, SECONDS, spark=False, plant=plant) for seed in range(1, 5))
    assert any(not report.passed for report in reports)


def test_nothing_is_found_where_nothing_is_planted() -> None:
    report = run(1, SECONDS, spark=False)
    assert report.passed, report.text()
    assert report.acknowledged > 100
    assert report.faults["server killed"] > 0


@pytest.mark.parametrize("planted", [False, True])
def test_a_cut_by_position_after_a_shuffle(
    embedded: Server, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """An attempt dies after three appends; the next one sees its rows in another order."""
    if planted:
        PLANTS["cut-by-position"](monkeypatch.setattr)
    url = embedded.stream()
    rows = list(range(600))
    shuffled = random.Random(3).sample(rows, len(rows))

    def fail(request: Request) -> Fault:
        dies = request.is_append and request.headers.get("producer-seq") == "3"
        return Fault(Kind.REFUSE, status=400) if dies else PASS

    with FaultProxy(embedded.url, fail) as proxy:
        plan = sink_plan(proxy.through(url), maxAppendBytes="2k", rowOrder="sort")
        plan = replace(plan, mark=RunMark("run", 2))
        with pytest.raises(Exception, match="400"):
            write(plan, rows, batch=3)
        proxy.script = lambda request: PASS
        write(plan, shuffled, batch=3)
    findings = Findings()
    with DurableClient() as client:
        messages = read_messages(client, url, 0, int(client.head(url).tail))
    checker.check_sink("s", messages, [rows], findings, ordered=False)
    assert bool(findings.lost) is planted
    assert bool(findings.doubled) is planted


@pytest.mark.parametrize("planted", [False, True])
def test_an_over_read(embedded: Server, monkeypatch: pytest.MonkeyPatch, planted: bool) -> None:
    """The tail moves between the plan of a batch and its tasks."""
    if planted:
        PLANTS["over-read"](monkeypatch.setattr)
    url = create(embedded.stream())
    query = Query(url, maxPartitionBytes="2k", startingOffsets="earliest")
    append_numbers(url, 0, 300)
    first = query.latest(START)
    append_numbers(url, 300, 500)
    rows = query.rows(START, first)
    rows += query.rows(first, query.latest(first))
    query.close()
    with DurableClient() as client:
        messages = read_messages(client, url, 0, int(client.head(url).tail))
    name = url.rpartition("/")[2]
    found = [Row(row["stream"], int(row["offset"]), row["kind"], row["value"]) for row in rows]
    found = [row._replace(text=bytes(row.text).decode()) for row in found]  # type: ignore[arg-type]
    findings = Findings()
    checker.check_tailed({StreamLife(name, 0): messages}, found, findings)
    assert bool(findings.table) is planted


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_found_by_a_whole_run(plant: str) -> None:
    """The schedule decides whether a kill meets what the bug needs, so a few seeds are tried."""
    reports = (run(seed, 60, plant=plant) for seed in range(1, 6))
    assert any(not report.passed for report in reports)
