"""The embedded server beside the reference server: the same answers to the same operations."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import start_node_server
from tests.differential.differences import DIFFERENCES
from tests.differential.exchange import Side
from tests.differential.machine import LONG_POLL_MS, Differential


@pytest.fixture(scope="module")
def sides(embedded_server: str) -> Iterator[None]:
    """Both servers, with long-polls that end soon."""
    os.environ["LONG_POLL_TIMEOUT_MS"] = str(LONG_POLL_MS)
    try:
        process, reference = start_node_server()
    finally:
        del os.environ["LONG_POLL_TIMEOUT_MS"]
    Differential.embedded, Differential.reference = Side(embedded_server), Side(reference)
    yield
    process.terminate()
    process.wait(10)


def compare(examples: int, steps: int, *, same_every_time: bool) -> None:
    run_state_machine_as_test(
        Differential,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=same_every_time,
            # A failure is shown as it came: making it small takes minutes over HTTP.
            phases=(Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_same_answers_as_the_reference_server(sides: None) -> None:
    compare(examples=40, steps=40, same_every_time=True)
    print(f"{sum(Differential.calls.values())} calls; excused: {dict(Differential.met)}")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_answers_in_long_runs_and_no_excuse_without_a_use(sides: None) -> None:
    compare(examples=1500, steps=60, same_every_time=False)
    print(f"{sum(Differential.calls.values())} calls; excused: {dict(Differential.met)}")
    assert {difference.name for difference in DIFFERENCES} == set(Differential.met)
