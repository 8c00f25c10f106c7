"""What the driver does when all tasks are done, and before any runs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from spark_durable.protocol.errors import ReplayMismatchError
from spark_durable.sink.commit import commit_write
from spark_durable.sink.identity import WriteIdentity
from spark_durable.sink.plan import RunMark, SinkPlan
from spark_durable.sink.replay import RunMarks, discard, running_batch, take_census
from spark_durable.sink.task import TaskReport
from tests.conftest import Server
from tests.sink.partitions import ROUTED, sink_plan, write
from tests.sink.streams import assert_exactly_once, ids

BATCH = 3
IDENTITY = WriteIdentity("query", BATCH)


def layout(rows: int, partitions: int) -> list[list[int]]:
    size = -(-rows // partitions)
    return [list(range(start, min(rows, start + size))) for start in range(0, rows, size)]


def first_run(plan: SinkPlan, parts: list[list[int]], begun: list[int]) -> None:
    """A run that died when only these partitions had sent."""
    settled = replace(plan, mark=RunMark("first", BATCH - 1))
    for partition in begun:
        write(settled, parts[partition], partition=partition, run="first")


def replay(plan: SinkPlan, parts: list[list[int]], *, censused: bool) -> list[TaskReport]:
    if censused:
        plan = replace(plan, census=take_census(plan.options, IDENTITY))
    try:
        reports = [write(plan, rows, partition=p, run="next") for p, rows in enumerate(parts)]
        commit_write(plan.options, reports)
    finally:
        discard(IDENTITY)
    return reports


@pytest.fixture(autouse=True)
def narrow_census(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("replay", "commit"):
        monkeypatch.setattr(f"spark_durable.sink.{module}.CENSUS_WIDTH", 12)


CENSUSED = pytest.mark.parametrize("censused", [True, False], ids=["census", "no census"])


@CENSUSED
@pytest.mark.parametrize("begun", [[0], [3], [1, 2], [0, 1, 2, 3], []])
def test_a_faithful_replay_completes_the_batch(
    server: Server, begun: list[int], censused: bool
) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k")
    parts = layout(800, 4)
    first_run(plan, parts, begun)
    replay(plan, parts, censused=censused)
    assert_exactly_once(ids(plan.options.url), range(800))


@CENSUSED
@pytest.mark.parametrize("partitions", [1, 3, 8])
@pytest.mark.parametrize("begun", [[3], [1, 2]])
def test_a_replay_partitioned_anew_sends_nothing_and_the_old_layout_still_works(
    server: Server, begun: list[int], partitions: int, censused: bool
) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k")
    parts = layout(800, 4)
    first_run(plan, parts, begun)
    before = ids(plan.options.url)
    with pytest.raises(ReplayMismatchError) as refused:
        replay(plan, layout(800, partitions), censused=censused)
    assert "acceptDoublesForBatch=3" in str(refused.value)
    assert "same parallelism" in " ".join(str(refused.value).split())
    assert ids(plan.options.url) == before
    replay(plan, parts, censused=censused)
    assert_exactly_once(ids(plan.options.url), range(800))


def test_a_fresh_batch_is_not_held_back(server: Server) -> None:
    plan = sink_plan(server.stream())
    reports = replay(plan, layout(800, 4), censused=True)
    assert [report.sent.appended for report in reports] == [1] * 4
    assert all(report.held is None for report in reports)


def test_what_is_too_large_for_a_message_goes_by_file_or_directly(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_durable.sink.hold.MESSAGE_BYTES", 10)
    parts = layout(800, 4)
    for handover in (True, False):
        plan = sink_plan(server.stream(), maxAppendBytes="2k")
        first_run(plan, parts, [1])
        census = take_census(plan.options, IDENTITY)
        assert census.handover is not None
        plan = replace(plan, census=census)
        if not handover:
            os.rmdir(census.handover)  # as a task on another machine sees it
        reports = [write(plan, rows, partition=p, run="next") for p, rows in enumerate(parts)]
        held = [report.held is not None for report in reports]
        assert held == ([True, False, True, True] if handover else [False] * 4)
        commit_write(plan.options, reports)
        assert not os.path.exists(census.handover)
        assert_exactly_once(ids(plan.options.url), range(800))


def test_accepting_doubles_lets_a_new_layout_pass(server: Server) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k", acceptDoublesForBatch=BATCH)
    first_run(plan, layout(800, 4), [3])
    replay(plan, layout(800, 2), censused=True)
    assert_exactly_once(ids(plan.options.url), [*range(800), *range(600, 800)])


def test_routed_rows_are_held_back_too(server: Server) -> None:
    base, _, name = server.stream().rpartition("/")
    plan = sink_plan(base, ROUTED, streamColumn="stream")
    names = [f"{name}{n % 3}" for n in range(30)]
    settled = replace(plan, mark=RunMark("first", BATCH - 1))
    write(settled, list(range(30)), partition=1, run="first", stream=names)
    reports = [write(plan, list(range(30, 60)), partition=0, run="next", stream=names)]
    with pytest.raises(ReplayMismatchError, match="more partitions"):
        commit_write(plan.options, reports)
    reports.append(write(plan, list(range(30)), partition=1, run="next", stream=names))
    commit_write(plan.options, reports)
    for n in range(3):
        assert_exactly_once(ids(f"{base}/{name}{n}"), range(n, 60, 3))


def test_the_running_batch_is_read_from_the_checkpoint(tmp_path: Path) -> None:
    assert running_batch(None, None) is None
    assert running_batch(str(tmp_path), None) is None
    (tmp_path / "metadata").write_text(json.dumps({"id": "some-query"}))
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    assert running_batch(str(tmp_path), None) is None
    for name in ("8", "9", "10", ".11.crc", ".11.tmp"):
        (offsets / name).write_text("v1")
    expected = WriteIdentity("some-query", 10, prefix="p")
    assert running_batch(str(tmp_path), "p") == expected
    assert running_batch(f"file://{tmp_path}", "p") == expected
    assert running_batch("s3a://bucket/checkpoint", None) is None


def test_marks_live_in_the_applications_scratch_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    marks, other = RunMarks("/checkpoint"), RunMarks("/another")
    assert marks.read() is None
    marks.write(RunMark("run", 4))
    assert marks.read() == RunMark("run", 4)
    assert other.read() is None
    marks.clear()
    assert marks.read() is None
