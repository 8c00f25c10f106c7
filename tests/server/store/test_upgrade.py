"""The data directory across versions and years: what is not understood or not whole is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_durable.server.store import Store, StoreConfig
from spark_durable.server.store.directory import FORMAT
from spark_durable.server.store.errors import CorruptLog, CorruptStore, UnknownFormat
from tests.server.store.driver import TEXT, Driver

S = "/ds/bucket/s"
S_FREE = "/v1/stream/s"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A stream of three appends with a snapshot, cleanly closed."""
    driver = Driver(tmp_path / "data")
    driver.run(driver.store.create_bucket("bucket"))
    driver.create(S, TEXT)
    for body in (b"first", b"second", b"third"):
        driver.append(S, body, TEXT)
    driver.run(driver.store.publish_snapshot(S, 5, "application/json", b'{"state": 1}'))
    driver.close()
    return tmp_path / "data"


def damage(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 0x10
    file.write_bytes(content)


def serve(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark_durable", "serve", "--port", "0"]
    return subprocess.run(
        [*command, "--data-dir", str(data), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_format_on_disk_carries_a_version(data: Path) -> None:
    assert json.loads((data / "FORMAT").read_text())["format"] == FORMAT


@pytest.mark.parametrize("version", [0, FORMAT + 1, 99])
def test_an_unknown_format_is_refused_with_a_clear_text(data: Path, version: int) -> None:
    written = json.loads((data / "FORMAT").read_text())
    (data / "FORMAT").write_text(json.dumps({**written, "format": version}))
    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    said = f"{data} has format {version}, this version reads format {FORMAT}: use the version"
    with pytest.raises(UnknownFormat, match=re.escape(said)):
        Store.open(StoreConfig(data_dir=data))
    refused = serve(data)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert {file: file.read_bytes() for file in before} == before


def test_a_checksum_per_record_finds_bit_rot_in_a_stream_and_says_where(data: Path) -> None:
    (log,) = (data / "streams").rglob("*.log")
    damage(log, 7)
    with pytest.raises(CorruptStore, match=f"'{S}' is damaged between the offsets 5 and 11"):
        Store.open(StoreConfig(data_dir=data, verify=True))
    refused = serve(data, "--verify")
    assert refused.returncode == 1
    assert "between the offsets 5 and 11" in refused.stderr


def test_a_checksum_finds_bit_rot_in_a_snapshot_and_says_where(data: Path) -> None:
    (blob,) = (data / "snapshots").iterdir()
    damage(blob, 3)
    with pytest.raises(CorruptStore, match=f"snapshot of stream '{S}' at offset 5 is damaged"):
        Store.open(StoreConfig(data_dir=data, verify=True))
    blob.unlink()
    with pytest.raises(CorruptStore, match=blob.name):
        Store.open(StoreConfig(data_dir=data, verify=True))


def test_a_checksum_per_record_finds_bit_rot_in_the_log_and_says_where(tmp_path: Path) -> None:
    """As a crash leaves it: the log holds what the catalog does not know yet."""
    driver = Driver(tmp_path / "data")
    driver.create(S_FREE, TEXT)
    for body in (b"first", b"second", b"third"):
        driver.append(S_FREE, body, TEXT)
    driver._settle()
    shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    driver.close()
    (log,) = (tmp_path / "crashed" / "wal").glob("*.log")
    damage(log, log.read_bytes().index(b"second"))
    with pytest.raises(CorruptLog, match=r"\.log is damaged at byte \d+: record 3 is unreadable"):
        Store.open(StoreConfig(data_dir=tmp_path / "crashed"))
    refused = serve(tmp_path / "crashed")
    assert refused.returncode == 1
    assert log.name in refused.stderr


def test_a_damaged_catalog_is_named(data: Path) -> None:
    catalog = data / "catalog.sqlite"
    catalog.write_bytes(b"no database" * 100)
    with pytest.raises(CorruptStore, match=r"catalog\.sqlite is damaged"):
        Store.open(StoreConfig(data_dir=data))
    refused = serve(data)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


def test_what_is_whole_passes_verification(data: Path) -> None:
    driver = Driver(data, verify=True)
    assert driver.store.stat(S).tail == 16
    driver.close()
