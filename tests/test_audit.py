"""The dependency audit: it finds, it passes, and it says when it could not look."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.audit import audit

LOCK = Path(__file__).parents[1] / "requirements.lock"
FLAW = {
    "id": "PYSEC-0000-1",
    "summary": "made up",
    "affected": [
        {
            "package": {"name": "requests", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}


class Database(ThreadingHTTPServer):
    """Answers like OSV: `flaws` by the name of the package asked about."""

    def __init__(self) -> None:
        self.flaws: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        database = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = query["package"]["name"]
                database.asked.append(name)
                found = database.flaws.get(name)
                body = json.dumps({"vulns": found} if found else {}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/query"


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_dependency_audit_asks_about_everything_that_is_locked(database: Database) -> None:
    status, text = audit(LOCK, database.url)
    assert (status, text) == (
        0,
        f"audit: {len(database.asked)} locked dependencies, 0 known vulnerabilities",
    )
    lines = [line.split("#")[0].split("==")[0].strip() for line in LOCK.read_text().splitlines()]
    locked = {line.split("[")[0].lower() for line in lines if line and not line.startswith("-")}
    assert len(database.asked) >= len(locked) - 5  # markers of other systems
    assert {"pyspark", "requests", "uvicorn", "cryptography"} <= set(database.asked)


def test_dependency_audit_fails_on_a_known_vulnerability(database: Database) -> None:
    database.flaws["requests"] = [FLAW]
    status, text = audit(LOCK, database.url)
    assert status == 1
    assert "PYSEC-0000-1, fixed in 99.0" in text


def test_dependency_audit_does_not_pass_when_nobody_answers(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("requests==2.32.3\n")
    status, text = audit(lock, "http://127.0.0.1:9/v1/query")
    assert status == 2
    assert text.startswith("audit: NOT DONE")
