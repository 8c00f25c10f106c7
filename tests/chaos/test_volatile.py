"""Files that forget: what is synced reaches the operating system, what is not dies with us."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.volatile import VolatileFile, VolatileFiles


def content(file: VolatileFile, size: int) -> bytes:
    view = memoryview(bytearray(size))
    file.read_into(0, view)
    return bytes(view)


def test_unsynced_bytes_are_seen_here_and_nowhere_else(tmp_path: Path) -> None:
    files = VolatileFiles(tmp_path)
    file = files.open("a/b", create=True)
    file.write(0, [b"hel", b"lo"])
    file.write(5, [b" world"])
    assert content(file, 11) == b"hello world"
    assert content(files.open("a/b", create=False), 11) == b"hello world"
    assert (tmp_path / "a/b").read_bytes() == bytes(11)
    file.sync()
    assert (tmp_path / "a/b").read_bytes() == b"hello world"


def test_writes_in_any_order(tmp_path: Path) -> None:
    files = VolatileFiles(tmp_path)
    file = files.open("x", create=True)
    file.write(0, [b"0123456789"])
    file.sync()
    file.write(6, [b"x"])
    file.write(2, [b"y"])
    file.write(12, [b"z"])
    assert content(file, 13) == b"01y345x789\0\0z"
    file.truncate(7)
    assert content(file, 7) == b"01y345x"
    files.sync_all(["x", "missing"])
    assert (tmp_path / "x").read_bytes() == b"01y345x"


def test_names(tmp_path: Path) -> None:
    files = VolatileFiles(tmp_path)
    files.open("d/old", create=True).write(0, [b"kept"])
    files.rename("d/old", "d/new")
    assert content(files.open("d/new", create=False), 4) == b"kept"
    assert files.list("d") == ["new"]
    files.remove("d")
    with pytest.raises(FileNotFoundError):
        files.open("d/new", create=False)
    assert files.open("d/new", create=True).size() == 0
    with pytest.raises(EOFError):
        content(files.open("d/new", create=False), 1)
