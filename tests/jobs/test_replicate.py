"""Streams from one server to another: bytes, names and order stay, through a kill."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import requests

from spark_durable.server.embedded import EmbeddedServer
from tests.conftest import Server
from tests.faults import FaultProxy, Kind
from tests.jobs.harness import KillAt, messages, submitted

NAMES = ["plain", "with space", "ünïcode+%41", "long"]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    with EmbeddedServer(data_dir=tmp_path / "target") as server:
        yield server.url


def fill(base: str, name: str, count: int, first: int = 0) -> str:
    """Messages whose bytes a parser would change: spaces, number forms, escapes, long integers."""
    rng = random.Random(f"{name}{first}")
    url = f"{base}/{quote(name, safe='')}"
    json = {"Content-Type": "application/json"}
    requests.put(url, headers=json, timeout=10).raise_for_status()
    for start in range(first, first + count, 200):
        body = ",".join(
            f'{{"n": {n},"x":1.0e{rng.randrange(9)}, "big":{2**63 + n}, "t":"\\u00e9 é {"y" * rng.randrange(80)}"}}'  # noqa: E501
            for n in range(start, min(start + 200, first + count))
        )
        answer = requests.post(url, f"[{body}]".encode(), headers=json, timeout=10)
        answer.raise_for_status()
    return url


def bucket(server: str, name: str) -> str:
    url = f"{server}/ds/{name}"
    requests.put(url, timeout=10).raise_for_status()
    return url


@pytest.mark.long  # twice spark-submit
def test_killed_in_the_middle_then_followed_until_told_to_stop(
    embedded: Server, target: str, tmp_path: Path
) -> None:
    source, copy = bucket(embedded.url, "original"), bucket(target, "copy")
    for name in NAMES:
        fill(source, name, 3000 if name == "long" else 400)
    fill(source, "other", 5)
    killing = KillAt(lambda request: request.is_append, 6, Kind.LOSE_ANSWER)
    with FaultProxy(target, killing) as proxy:
        arguments = [
            *("--from", source, "--to", proxy.through(copy), "--stream-pattern", "[^o].*"),
            *("--checkpoint", str(tmp_path / "checkpoint")),
            # Small, so that the long stream would be many tasks, appends and batches.
            *("--option", "maxPartitionBytes=32k", "--option", "maxBytesPerTrigger=160k"),
            *("--target-option", "maxAppendBytes=16k"),
        ]
        with submitted("replicate", *arguments) as job:
            killing.job = job
            assert job.exit_code() != 0
        assert killing.happened.is_set()
        begun = sum(len(stored(copy, name)) for name in NAMES)
        assert 0 < begun < 4200
        with submitted("replicate", *arguments, "--follow") as job:
            job.until(lambda: all(len(stored(copy, name)) >= 400 for name in NAMES))
            fill(source, "plain", 100, first=400)
            fill(source, "late", 50)
            job.until(lambda: len(stored(copy, "late")) == 50)
            job.until(lambda: len(stored(copy, "plain")) == 500)
            job.until(lambda: len(stored(copy, "long")) == 3000)
            job.terminate()
            assert job.exit_code() == 0, job.err
    for name in [*NAMES, "late"]:
        there = messages(f"{source}/{quote(name, safe='')}")
        assert stored(copy, name) == there, name
    assert stored(copy, "other") == []


def stored(base: str, name: str) -> list[bytes]:
    url = f"{base}/{quote(name, safe='')}"
    return messages(url) if requests.head(url, timeout=10).ok else []


def test_a_stream_that_is_not_json_keeps_its_bytes_and_type(
    embedded: Server, target: str, tmp_path: Path, run: Callable[..., int]
) -> None:
    source, copy = embedded.stream("blob"), f"{target}/v1/stream/blob"
    blob = {"Content-Type": "application/octet-stream"}
    content = random.Random(7).randbytes(300_000)
    requests.put(source, headers=blob, timeout=10).raise_for_status()
    for start in range(0, len(content), 70_000):
        requests.post(source, content[start : start + 70_000], headers=blob, timeout=10)
    arguments = ["--from", source, "--to", copy, "--checkpoint", str(tmp_path / "checkpoint")]
    assert run("replicate", *arguments) == 0
    found = requests.get(copy, params={"offset": "-1"}, timeout=10)
    assert found.content == content
    assert found.headers["Content-Type"] == "application/octet-stream"


def test_streams_of_another_type_are_refused_not_mangled(
    embedded: Server,
    target: str,
    tmp_path: Path,
    run: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
) -> None:
    source, copy = bucket(embedded.url, "mixed"), bucket(target, "mixed")
    fill(source, "a", 3)
    text = {"Content-Type": "text/plain"}
    requests.put(f"{source}/b", b"[1, 2]", headers=text, timeout=10).raise_for_status()
    arguments = ["--from", source, "--to", copy, "--streams", '["a", "b"]']
    assert run("replicate", *arguments, "--checkpoint", str(tmp_path / "checkpoint")) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert "stream b is text/plain" in last
    assert stored(copy, "b") == []


def test_the_targets_server_never_sees_the_sources_token(
    embedded: Server, target: str, tmp_path: Path, run: Callable[..., int]
) -> None:
    source = embedded.stream("secret")
    requests.put(source, headers={"Content-Type": "application/json"}, timeout=10)
    requests.post(
        source, b"[1]", headers={"Content-Type": "application/json"}, timeout=10
    ).raise_for_status()
    with FaultProxy(target) as proxy:
        arguments = ["--from", source, "--to", proxy.through(f"{target}/v1/stream/secret")]
        checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
        assert run("replicate", *arguments, *checkpoint, "--token", "of-the-source") == 0
        asked = [exchange.request.headers for exchange in proxy.exchanges]
    assert messages(f"{target}/v1/stream/secret") == [b"1"]
    assert asked
    assert not any("of-the-source" in str(headers) for headers in asked)
