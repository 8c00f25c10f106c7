from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_durable.server.store.directory import DataDirectory
from spark_durable.server.store.errors import DirectoryInUse, UnknownFormat


def test_a_directory_keeps_its_salt(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "a" / "data")
    first.release()
    second = DataDirectory(tmp_path / "a" / "data")
    other = DataDirectory(tmp_path / "b")
    assert first.salt == second.salt != other.salt
    second.release()
    other.release()


def test_only_one_at_a_time(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(DirectoryInUse, match="another server"):
        DataDirectory(tmp_path)
    first.release()
    DataDirectory(tmp_path).release()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    DataDirectory(tmp_path).release()
    written = json.loads((tmp_path / "FORMAT").read_text())
    (tmp_path / "FORMAT").write_text(json.dumps({**written, "format": 2}))
    with pytest.raises(UnknownFormat, match="format 2, this version reads format 1"):
        DataDirectory(tmp_path)
    (tmp_path / "FORMAT").write_text("{")
    with pytest.raises(UnknownFormat, match="unreadable"):
        DataDirectory(tmp_path)


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(UnknownFormat, match="not a data directory"):
        DataDirectory(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["LOCK", "holiday.jpg"]


def test_a_creation_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    for name in ("wal", "streams"):
        (tmp_path / name).mkdir()
    (tmp_path / "FORMAT.new").write_text('{"form')
    DataDirectory(tmp_path).release()
    assert (tmp_path / "FORMAT").exists()
