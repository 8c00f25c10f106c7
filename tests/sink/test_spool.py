from __future__ import annotations

from pathlib import Path

import pytest

from spark_durable.sink.spool import OnDisk, Spool, local_directory


def test_memory_up_to_the_bound_then_disk(tmp_path: Path) -> None:
    pieces = [bytes([n]) * 10 for n in range(8)]
    with Spool(memory=35, directory=str(tmp_path)) as spool:
        kept = [spool.add(piece) for piece in pieces]
        assert [isinstance(piece, OnDisk) for piece in kept] == [False] * 3 + [True] * 5
        assert spool.on_disk == 50
        assert [bytes(spool.read(piece)) for piece in reversed(kept)] == pieces[::-1]


def test_what_is_released_makes_room(tmp_path: Path) -> None:
    with Spool(memory=20, directory=str(tmp_path)) as spool:
        for _ in range(50):
            spool.release(spool.add(b"x" * 15))
        assert spool.on_disk == 0
        spool.release(spool.spill(b"x" * 15))  # what is on disk takes no memory
        assert not isinstance(spool.add(b"x" * 20), OnDisk)
        assert isinstance(spool.add(b"x"), OnDisk)


def test_the_file_has_no_name_at_any_time(tmp_path: Path) -> None:
    with Spool(memory=0, directory=str(tmp_path)) as spool:
        spool.add(b"x" * 100)
        assert list(tmp_path.iterdir()) == []
        assert spool.on_disk == 100
    assert list(tmp_path.iterdir()) == []


def test_reading_what_the_disk_lost_is_an_error(tmp_path: Path) -> None:
    with Spool(memory=0, directory=str(tmp_path)) as spool:
        spool.add(b"x")
        with pytest.raises(OSError, match="ended early"):
            spool.read(OnDisk(0, 2))


def test_scratch_space_is_sparks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"/nowhere,{tmp_path}")
    assert local_directory() == str(tmp_path)
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert local_directory() is None
