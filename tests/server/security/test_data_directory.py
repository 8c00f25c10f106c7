"""The data directory: one server at a time, and no name leads out of it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
import requests

from spark_durable.server import EmbeddedServer
from spark_durable.server.store.errors import DirectoryInUse

TEXT = {"Content-Type": "text/plain"}
HOSTILE = [
    "..",
    "../../etc/passwd",
    "..%2f..%2fescaped",
    "%2e%2e/%2e%2e/escaped",
    "..\\..\\escaped",
    "a/../../escaped",
    "/etc/passwd",
    "a\0b",
    "a%00b",
    "%c0%ae%c0%ae/escaped",
    "CON",
    "wal/0",
    "catalog.sqlite",
    "x" * 900,
]


def test_a_lock_on_the_data_directory(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path):
        with pytest.raises(DirectoryInUse, match="another server"):
            EmbeddedServer(tmp_path)
        # Nor through another name of it.
        (tmp_path.parent / "link").symlink_to(tmp_path)
        with pytest.raises(DirectoryInUse):
            EmbeddedServer(tmp_path.parent / "link")
    EmbeddedServer(tmp_path).stop()


def test_no_path_escapes(tmp_path: Path, dial) -> None:
    """Whatever a stream, bucket or snapshot is called, files are made in the data directory only,
    and none has a name that a client chose."""
    data = tmp_path / "outer" / "data"
    with EmbeddedServer(data) as server:
        requests.put(f"{server.url}/ds/bucket", timeout=10)
        for name in HOSTILE:
            for form in {name, quote(name, safe=""), quote(name, safe="/")}:
                for path in (
                    f"/v1/stream/{form}",
                    f"/ds/bucket/{form}",
                    f"/ds/{form}",
                    f"/ds/{form}/s",
                    f"/ds/bucket/s/snapshot/{form}",
                    f"/v0/topics/{form}",
                    f"/v1/stream/__ds/subscriptions/{form}",
                ):
                    with dial(server.url) as connection:
                        head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        body = "Content-Type: text/plain\r\nContent-Length: 6\r\n\r\nmarker"
                        connection.sendall((head + body).encode("latin-1"))
                        assert connection.read_all().startswith(b"HTTP/1.1 ")
        streams = {each.name for each in (data / "streams").iterdir()}
    assert {each.name for each in (tmp_path / "outer").iterdir()} == {"data"}
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in streams)
    files = {file.relative_to(data).parts[0] for file in data.rglob("*") if file.is_file()}
    assert files <= {
        "FORMAT",
        "LOCK",
        "catalog.sqlite",
        "snapshots",
        "streams",
        "subscriptions",
        "wal",
    }
    assert not Path("/tmp/escaped").exists()


def test_subscriptions_of_hostile_names_stay_inside(tmp_path: Path) -> None:
    data = tmp_path / "outer" / "data"
    with EmbeddedServer(data) as server:
        requests.put(f"{server.url}/v1/stream/wake", headers=TEXT, timeout=10)
        body = {"type": "pull-wake", "pattern": "a/*", "wake_stream": "wake"}
        for name in ("..%2F..%2Fx", "%2Fetc%2Fx", "a%00b"):
            url = f"{server.url}/v1/stream/__ds/subscriptions/{name}"
            assert requests.put(url, json=body, timeout=10).status_code in (201, 400)
    assert {each.name for each in (tmp_path / "outer").iterdir()} == {"data"}
