"""A real PostgreSQL from Debian's packages, and outbox tables in it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest


def _bin() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path is None:
        pytest.fail("PostgreSQL is needed for the relay's tests: apt-get install -y postgresql")
    return Path(on_path).parent


def _as_postgres(command: list[str]) -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Connection string of a server of our own, on a free port of the loopback."""
    home = Path(tempfile.mkdtemp(prefix="spark_durable_pg_", dir="/tmp"))
    home.chmod(0o777)
    data = home / "data"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    binaries = _bin()
    subprocess.run(
        _as_postgres(
            [str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "relay", "-N"]
        ),
        check=True,
        stdout=subprocess.DEVNULL,
        cwd="/tmp",
    )
    control = [str(binaries / "pg_ctl"), "-D", str(data), "-w", "-l", str(home / "log")]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    subprocess.run(
        _as_postgres([*control, "-o", options, "start"]),
        check=True,
        stdout=subprocess.DEVNULL,
        cwd="/tmp",
    )
    yield f"postgresql://relay@127.0.0.1:{port}/postgres"
    subprocess.run(
        _as_postgres([*control, "-m", "immediate", "stop"]),
        check=False,
        stdout=subprocess.DEVNULL,
        cwd="/tmp",
    )
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def db(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


@pytest.fixture
def outbox(db: psycopg.Connection) -> str:
    """An empty outbox table in the words of the draft: locked and delivered."""
    name = f"outbox_{uuid.uuid4().hex[:8]}"
    db.execute(
        f"""
        CREATE TABLE {name} (
            event_id uuid PRIMARY KEY,
            event_type text NOT NULL,
            partition_key text,
            ordering_key text,
            destination text,
            payload bytea,
            headers jsonb,
            status text NOT NULL DEFAULT 'PENDING',
            attempts integer NOT NULL DEFAULT 0,
            last_error text,
            available_at timestamptz NOT NULL DEFAULT now(),
            locked_by text,
            locked_at timestamptz,
            delivered_at timestamptz,
            created_at timestamptz NOT NULL DEFAULT now(),
            updated_at timestamptz
        )
        """
    )
    return name
