"""The settings and the cluster recipe in conf/, used as they are described there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.conftest import Server
from tests.jobs.harness import ROOT, SPARK_SUBMIT, delta_rows


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def recipe(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "conf" / "local-cluster.sh"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    settings = {
        "SPARK_MASTER_PORT": free_port(),
        "SPARK_MASTER_WEBUI_PORT": free_port(),
        "CLUSTER_DIR": str(tmp_path / "cluster"),
    }
    started = recipe("start", **settings)
    try:
        assert started.returncode == 0, started.stderr
        assert recipe("status", **settings).stdout.split()[-1] == "1"
        yield started.stdout.strip()
    finally:
        pids = [int(file.read_text()) for file in (tmp_path / "cluster").glob("*.pid")]
        assert recipe("stop", **settings).returncode == 0
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert recipe("status", **settings).returncode == 1


def test_a_job_on_the_local_cluster_with_the_settings_of_conf(
    cluster: str, embedded: Server, tmp_path: Path
) -> None:
    url = embedded.stream("on-the-cluster")
    json_type = {"Content-Type": "application/json"}
    requests.put(url, headers=json_type, timeout=10).raise_for_status()
    body = json.dumps([{"id": n} for n in range(1000)]).encode()
    requests.post(url, body, headers=json_type, timeout=10).raise_for_status()
    found = subprocess.run(
        [
            *(str(SPARK_SUBMIT), "--master", cluster),
            *("--properties-file", "conf/spark-defaults.conf", "jobs/tail_to_delta.py"),
            *("--url", url, "--schema", "id LONG", "--table", str(tmp_path / "table")),
            *("--checkpoint", str(tmp_path / "checkpoint")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert sorted(row["id"] for row in delta_rows(tmp_path / "table")) == list(range(1000))
    # Executors of their own did the work, and the log says nothing that nobody has to know.
    assert list((tmp_path / "cluster" / "work").glob("app-*/*/stderr"))
    logged = [line for line in found.stderr.splitlines() if " WARN " in line or " INFO " in line]
    assert logged == []


def test_the_recipe_tells_how_it_is_used() -> None:
    found = recipe("restart")
    assert found.returncode == 2
    assert "start|stop|status" in found.stderr
