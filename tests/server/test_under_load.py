"""What holds alone holds beside 64 other clients of the same server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_durable.server import EmbeddedServer
from tests.server.test_conformance import assert_all_passed, run_suite

ROOT = Path(__file__).parents[2]
CLIENTS = 64

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_the_official_suite_under_load(storage: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data" if storage == "disk" else None
    report = tmp_path / "report.json"
    with EmbeddedServer(data_dir, long_poll_timeout=0.5, webhooks=True) as server:
        command = [sys.executable, "-m", "tests.server.load", server.url, str(CLIENTS)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as load:
            log = run_suite(server.url, report)
            said, _ = load.communicate(timeout=60)
        print(said)
        assert load.returncode == 0, said
    assert_all_passed(report, log)


@pytest.mark.parametrize(
    "tests",
    ["tests/protocol/test_contract.py", "tests/publish/test_contract.py", "tests/differential"],
)
def test_contracts_and_differences_under_load(tests: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.server.load_plugin"]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider", tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    print(run.stdout[-2000:])
    assert run.returncode == 0, run.stdout + run.stderr
