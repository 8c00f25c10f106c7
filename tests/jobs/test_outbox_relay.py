"""The job from the outside: help, exit codes, figures, a clean stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Server
from tests.publish.conftest import read_messages
from tests.publish.relay.conftest import db, outbox, postgres
from tests.publish.relay.harness import JOB, start

__all__ = ["db", "outbox", "postgres"]


def job(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    process = start(arguments, **environment)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def add(db: psycopg.Connection, table: str, count: int) -> None:
    for number in range(count):
        db.execute(
            f"INSERT INTO {table} (event_id, event_type, payload) VALUES (%s, 't', %s)",
            (str(uuid.uuid4()), b'{"n":%d}' % number),
        )


def test_help_names_the_exit_codes() -> None:
    found = job("--help")
    assert found.returncode == 0
    assert "Exit codes" in found.stdout
    assert job("run", "--help").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--target", "-"], "--delta"),
        (["run", "--postgres", "outbox", "--target", "-"], "OUTBOX_DSN"),
        (["run", "--delta", "/tmp/x", "--target", "http://h/{nope}"], "{nope}"),
        (["run", "--delta", "/tmp/x", "--target", "-", "--lanes", "-1"], "lanes"),
        (["run", "--delta", "/tmp/x"], "--target"),
        (["run", "--delta", "/tmp/x", "--target", "-", "--pause", "soon"], "duration"),
        (["status", "--postgres", "t", "--dsn", "x=1", "--column", "oops"], "ROLE=NAME"),
    ],
)
def test_wrong_arguments_are_exit_code_2(arguments: list[str], said: str) -> None:
    found = job(*arguments)
    assert found.returncode == 2
    assert said in found.stderr


def test_a_database_out_of_reach_is_exit_code_1_without_the_password() -> None:
    dsn = "postgresql://u:s3cret@127.0.0.1:9/db"
    found = job("status", "--postgres", "outbox", OUTBOX_DSN=dsn)
    assert found.returncode == 1
    assert "PostgreSQL cannot be reached" in found.stderr
    assert "s3cret" not in found.stderr + found.stdout


def test_run_prints_its_figures_and_maintenance_follows(
    postgres: str, db: psycopg.Connection, outbox: str, embedded: Server
) -> None:
    add(db, outbox, 25)
    url = embedded.stream("job")
    found = job("run", "--postgres", outbox, "--target", url, OUTBOX_DSN=postgres)
    assert found.returncode == 0, found.stderr
    figures = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    assert sum(line["delivered"] for line in figures) == 25
    assert {"run", "failed", "dead", "paused", "held", "open", "seconds"} <= set(figures[0])
    assert len(read_messages(url)) == 25
    status = job("status", "--postgres", outbox, OUTBOX_DSN=postgres)
    assert status.stdout.split() == ["DELIVERED", "25"]
    pruned = job("prune", "--postgres", outbox, "--older-than", "0s", OUTBOX_DSN=postgres)
    assert "25 events deleted" in pruned.stdout


def test_a_target_that_is_down_is_exit_code_3(
    postgres: str, db: psycopg.Connection, outbox: str
) -> None:
    add(db, outbox, 2)
    arguments = ["run", "--postgres", outbox, "--target", "http://127.0.0.1:9/v1/stream/x"]
    found = job(*arguments, "--once", OUTBOX_DSN=postgres)
    assert found.returncode == 3, found.stderr
    assert db.execute(f"SELECT DISTINCT attempts FROM {outbox}").fetchall() == [(0,)]


def test_sigterm_ends_a_continuous_relay_with_exit_code_0(
    postgres: str, db: psycopg.Connection, outbox: str, tmp_path: Path
) -> None:
    add(db, outbox, 5)
    target = tmp_path / "out.jsonl"
    arguments = ["run", "--postgres", outbox, "--target", str(target), "--continuous"]
    process = start(arguments, OUTBOX_DSN=postgres)
    try:
        while process.poll() is None and not _delivered(db, outbox, 5):
            time.sleep(0.2)
        add(db, outbox, 1)
        while process.poll() is None and not _delivered(db, outbox, 6):
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert len(target.read_text().splitlines()) == 6
    assert db.execute(
        f"SELECT count(*) FROM {outbox}_relay_shards WHERE token IS NOT NULL"
    ).fetchone() == (0,)


def _delivered(db: psycopg.Connection, table: str, count: int) -> bool:
    row = db.execute(f"SELECT count(*) FROM {table} WHERE status = 'DELIVERED'").fetchone()
    return row == (count,)


def test_the_job_is_a_thin_entry() -> None:
    assert len(JOB.read_text().splitlines()) < 40
    probe = "import sys, spark_durable.publish; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
