"""One contract for every file layer: the operating system's, memory, and the tests' lossy one."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from spark_durable.server.store.files import Files, OpenFiles
from spark_durable.server.store.memory import MemoryFiles
from spark_durable.server.store.osfiles import OsFiles
from tests.server.store.lossy import LossyDisk, PowerFailure


@pytest.fixture(params=["os", "memory", "lossy"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    layers: dict[str, Files] = {
        "os": OsFiles(tmp_path),
        "memory": MemoryFiles(),
        "lossy": LossyDisk(),
    }
    return layers[request.param]


def content(files: Files, name: str) -> bytes:
    file = files.open(name, create=False)
    buffer = bytearray(file.size())
    file.read_into(0, memoryview(buffer))
    return bytes(buffer)


def test_what_is_written_is_what_is_read(files: Files) -> None:
    file = files.open("a/b/c", create=True)
    file.write(0, [b"hello ", bytearray(b"wide "), memoryview(b"world")])
    file.write(6, [b"WIDE"])
    assert content(files, "a/b/c") == b"hello WIDE world"
    view = memoryview(bytearray(5))
    file.read_into(11, view)
    assert bytes(view) == b"world"


def test_writing_past_the_end_fills_with_zeros(files: Files) -> None:
    files.open("f", create=True).write(3, [b"x"])
    assert content(files, "f") == b"\0\0\0x"


def test_more_parts_than_the_kernel_takes_at_once(files: Files) -> None:
    parts = [bytes([each % 251]) * (each % 7) for each in range(5000)]
    files.open("f", create=True).write(2, parts)
    assert content(files, "f") == b"\0\0" + b"".join(parts)


def test_reading_past_the_end_is_an_error(files: Files) -> None:
    file = files.open("f", create=True)
    file.write(0, [b"abc"])
    with pytest.raises(EOFError):
        file.read_into(1, memoryview(bytearray(3)))


def test_a_missing_file_is_an_error_unless_it_may_be_made(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        files.open("d/f", create=False)
    assert files.open("d/f", create=True).size() == 0


def test_truncating_and_allocating(files: Files) -> None:
    file = files.open("f", create=True)
    file.write(0, [b"abcdef"])
    file.truncate(2)
    assert content(files, "f") == b"ab"
    file.allocate(2)
    assert content(files, "f") == b"ab"
    file.sync()


def test_listing_renaming_removing(files: Files) -> None:
    for name in ("d/b", "d/a", "d/sub/x", "e/y"):
        files.open(name, create=True)
    assert files.list("d") == ["a", "b", "sub"]
    assert files.list("nowhere") == []
    files.rename("d/a", "d/z")
    files.remove("d/b")
    files.remove("d/sub")
    files.remove("d/missing")
    assert files.list("d") == ["z"]
    files.sync_directory("d")
    files.sync_all(["d/z", "d/gone"])
    assert files.list("e") == ["y"]


def test_a_removed_file_stays_readable_for_who_has_it_open(files: Files) -> None:
    file = files.open("d/f", create=True)
    file.write(0, [b"abc"])
    files.remove("d")
    view = memoryview(bytearray(3))
    file.read_into(0, view)
    assert bytes(view) == b"abc"


@pytest.mark.parametrize("count", [3, 60])
def test_many_dirty_files_are_synced_as_few(tmp_path: Path, count: int) -> None:
    files = OsFiles(tmp_path)
    names = [f"streams/{each}/f" for each in range(count)]
    for name in names:
        files.open(name, create=True).write(0, [b"x"])
    files.sync_all(names)


def test_open_files_are_bounded_and_closed_with_their_last_user(tmp_path: Path) -> None:
    open_files = OpenFiles(OsFiles(tmp_path), limit=3)
    before = len(os.listdir("/proc/self/fd"))
    held = open_files.get("0", create=True)
    for each in range(50):
        open_files.get(str(each), create=True)
    assert len(open_files) == 3
    assert len(os.listdir("/proc/self/fd")) <= before + 4
    held.write(0, [b"still open"])
    del held
    open_files.forget(lambda name: True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_least_recently_used_file_is_given_up(tmp_path: Path) -> None:
    open_files = OpenFiles(OsFiles(tmp_path), limit=2)
    first = open_files.get("a", create=True)
    open_files.get("b", create=True)
    assert open_files.get("a") is first
    open_files.get("c", create=True)
    assert open_files.get("a") is first


def test_threads_read_while_others_write(files: Files) -> None:
    file = files.open("f", create=True)
    file.write(0, [b"x" * 1000])
    stop = threading.Event()

    def write() -> None:
        position = 1000
        while not stop.is_set():
            file.write(position, [b"y" * 100])
            position += 100

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            view = memoryview(bytearray(1000))
            file.read_into(0, view)
            assert bytes(view) == b"x" * 1000
    finally:
        stop.set()
        writer.join()


class TestLossyDisk:
    """The disk of the power-loss tests keeps what was synced and may keep the rest."""

    def test_what_was_synced_is_kept(self) -> None:
        disk = LossyDisk()
        file = disk.open("d/f", create=True)
        file.write(0, [b"safe"])
        file.sync()
        disk.sync_directory("d")
        file.write(4, [b"maybe"])
        found = {
            content(disk.after_power_failure(random.Random(seed)), "d/f") for seed in range(200)
        }
        assert all(each.startswith(b"safe") for each in found)
        assert {b"safe", b"safemaybe", b"safem"} <= found

    def test_a_name_needs_its_directory_synced(self) -> None:
        disk = LossyDisk()
        file = disk.open("d/f", create=True)
        file.sync()
        kept = [disk.after_power_failure(random.Random(seed)).list("d") for seed in range(50)]
        assert [] in kept
        assert ["f"] in kept

    def test_the_power_goes_off_once_and_for_all(self) -> None:
        disk = LossyDisk()
        file = disk.open("d/f", create=True)
        disk.fail_after = 1
        file.write(0, [b"a"])
        with pytest.raises(PowerFailure):
            file.sync()
        with pytest.raises(PowerFailure):
            disk.open("d/g", create=True)
