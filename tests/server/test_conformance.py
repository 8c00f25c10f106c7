"""The official server suite, whole: every test passes, none is skipped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spark_durable.server import EmbeddedServer

NODE = Path(__file__).parents[1] / "node"
TESTS = 338


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_official_suite_338_of_338(storage: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data" if storage == "disk" else None
    report = tmp_path / "report.json"
    with EmbeddedServer(data_dir, long_poll_timeout=0.5, webhooks=True) as server:
        log = run_suite(server.url, report)
    assert_all_passed(report, log)


def assert_all_passed(report: Path, log: str) -> None:
    assert report.exists(), log
    summary = json.loads(report.read_text())
    tests = [test for file in summary["testResults"] for test in file["assertionResults"]]
    not_passed = [
        f"{test['status']}: {test['fullName']}\n{''.join(test['failureMessages'])[:500]}"
        for test in tests
        if test["status"] != "passed"
    ]
    assert not not_passed, "\n".join(not_passed)
    assert len(tests) == TESTS
    assert summary["numFailedTests"] == summary["numPendingTests"] == 0


def run_suite(url: str, report: Path) -> str:
    npx = shutil.which("npx")
    if npx is None:
        pytest.fail("Node.js is needed for the official suite: install it")
    if not (NODE / "node_modules").is_dir():
        pytest.fail("the official suite is not installed: run `npm ci` in tests/node")
    # Our own processes may have the machine to themselves less than the suite's 5 seconds assume.
    command = [npx, "vitest", "run", "conformance.test.mjs", "--testTimeout=30000"]
    result = subprocess.run(
        [*command, "--reporter=json", f"--outputFile={report}"],
        cwd=NODE,
        env={**os.environ, "CONFORMANCE_URL": url},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return result.stdout + result.stderr
