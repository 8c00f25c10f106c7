"""What every job has in common, seen from outside: help, exit codes, one clear line."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_durable import job
from spark_durable.protocol.errors import DataLossError
from tests.jobs.harness import plain, submitted

NOWHERE = "http://127.0.0.1:9/ds/shop/orders"  # the discard port: nobody listens
JOBS = {
    "publish_table": ("--format", "json", "--path", "/x", "--url", NOWHERE, "--checkpoint", "/c"),
    "tail_to_delta": ("--url", NOWHERE, "--table", "/t", "--checkpoint", "/c"),
    "compact_stream": ("--url", NOWHERE, "--schema", "k STRING", "--key", "k"),
    "replicate": ("--from", NOWHERE, "--to", NOWHERE, "--checkpoint", "/c"),
}


@pytest.mark.parametrize("name", JOBS)
def test_help_does_not_start_spark(name: str) -> None:
    found = plain(name, "--help", JAVA_HOME="/nowhere", PATH="/nowhere")
    assert found.returncode == 0, found.stderr
    assert job.EXIT_CODES in found.stdout


@pytest.mark.parametrize("name", JOBS)
def test_a_server_out_of_reach_is_one_line_and_exit_code_1(name: str) -> None:
    found = plain(name, *JOBS[name], JAVA_HOME="/nowhere", PATH="/nowhere")
    assert found.returncode == 1
    [line] = found.stderr.splitlines()
    assert line.startswith(f"{name}.py: ")
    assert "127.0.0.1:9" in line
    assert "Check that the server runs" in line


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("publish_table", ["--format", "xml"], "--format"),
        ("publish_table", ["--interval", "soon"], "--interval"),
        ("publish_table", ["--option", "maxAppendByte=1"], "Did you mean maxAppendBytes?"),
        ("publish_table", ["--option", "oops"], "NAME=VALUE"),
        ("publish_table", ["--read-option", "oops"], "NAME=VALUE"),
        ("publish_table", ["--format", "jdbc"], "--growing-column"),
        ("publish_table", ["--jdbc-url", "jdbc:x"], "--format jdbc"),
        ("publish_table", ["--partitions", "0"], "--partitions"),
        ("publish_table", ["--format", "delta", "--schema", "a INT"], "--schema"),
        ("tail_to_delta", ["--streams", "orders"], "streams"),
        ("tail_to_delta", ["--streams", "[]", "--stream-pattern", "x"], "not allowed with"),
        ("tail_to_delta", ["--starting-offsets", "first"], "startingOffsets"),
        ("compact_stream", ["--sql", "SELECT 1"], "not allowed with"),
        ("replicate", ["--option", "minPartitions=3"], "splitStreams"),
        ("replicate", ["--target-option", "streams=[]"], "belongs to the source"),
    ],
)
def test_wrong_arguments_are_exit_code_2(name: str, arguments: list[str], said: str) -> None:
    found = plain(name, *JOBS[name], *arguments)
    assert found.returncode == 2, found.stderr
    assert said in found.stderr.splitlines()[-1]
    assert "Traceback" not in found.stderr


def test_a_missing_stream_is_told_before_spark_starts(embedded_server: str) -> None:
    url = f"{embedded_server}/v1/stream/not/there"
    found = plain("tail_to_delta", "--url", url, "--table", "/t", "--checkpoint", "/c", PATH="/no")
    assert found.returncode == 1
    [line] = found.stderr.splitlines()
    assert url in line


def test_exit_codes_come_through_spark_submit(tmp_path: Path) -> None:
    with submitted("tail_to_delta", *JOBS["tail_to_delta"]) as out_of_reach:
        assert out_of_reach.exit_code() == 1
    # Spark prints both outputs of a Python driver as its own standard output.
    [line] = out_of_reach.out.splitlines()
    assert "Check that the server runs" in line
    assert len(out_of_reach.err.splitlines()) < 10
    with submitted("replicate", *JOBS["replicate"], "--nonsense") as wrong:
        assert wrong.exit_code() == 2
    assert "--nonsense" in wrong.out.splitlines()[-1]


def test_a_missing_delta_is_told_with_what_to_add(embedded_server: str, tmp_path: Path) -> None:
    import requests

    url = f"{embedded_server}/v1/stream/no-delta"
    requests.put(url, headers={"Content-Type": "application/json"}, timeout=10)
    arguments = ("--url", url, "--table", str(tmp_path / "t"), "--checkpoint", str(tmp_path / "c"))
    with submitted("tail_to_delta", *arguments) as found:
        assert found.exit_code() == 1
    assert "--packages io.delta:delta-spark" in found.out.splitlines()[-1]


def test_the_reason_is_found_under_layers_of_stack_traces() -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception: Job aborted.\n"
        "  File worker.py, line 1\n"
        "urllib3.exceptions.ConnectionError: refused\n"
        "spark_durable.protocol.errors.OffsetGoneError: 410 at 17\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "spark_durable.protocol.errors.DataLossError: retention has passed 17. Start anew.\n"
        "\tat org.apache.spark.SomeException: no\n"
    )
    assert job.reason(RuntimeError(text)) == "DataLossError: retention has passed 17. Start anew."
    assert job.reason(DataLossError("gone")) == "gone"
    assert job.reason(ValueError("\nfirst\nsecond")) == "ValueError: first"
    assert job.reason(ValueError()) == "ValueError"


def test_a_state_file_is_replaced_whole(spark: SparkSession, tmp_path: Path) -> None:
    file = job.StateFile(spark, str(tmp_path / "deep" / "er"), "state.json")
    assert file.read() is None
    file.write("first, and longer")
    file.write("zweiter ü")
    again = job.StateFile(spark, f"file://{tmp_path}/deep/er", "state.json")
    assert again.read() == "zweiter ü"
    assert os.listdir(tmp_path / "deep" / "er") == ["state.json"]


def test_a_stop_wakes_a_wait_and_runs_its_action() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        stop = job.Stop()
        called = threading.Event()
        stop.on_request(called.set)
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(30)
        assert called.wait(30)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
