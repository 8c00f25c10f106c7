from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spark_durable.server.store import Store, StoreConfig, effects, records
from spark_durable.server.store.directory import DataDirectory
from spark_durable.server.store.errors import CorruptLog, CorruptStore, DirectoryInUse
from spark_durable.server.store.osfiles import OsFiles
from spark_durable.server.store.records import Record
from spark_durable.server.store.segments import SegmentWrite
from spark_durable.server.store.state import State
from spark_durable.server.store.wal import Entry, Log
from tests.server.store.driver import JSON, SMALL, TEXT, Driver

S = "/v1/stream/s"


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A data directory as a crash leaves it: a stream of three appends, all in the log only."""
    driver = Driver(tmp_path / "data", **{**SMALL, "segment_bytes": 1 << 20})
    driver.create(S)
    for each in range(3):
        driver.append(S, b"%d" % each, producer=("p", 0, each))
    driver._settle()
    shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    driver.close()
    return tmp_path / "crashed"


def only(directory: Path, pattern: str) -> Path:
    (found,) = directory.rglob(pattern)
    return found


def opened(directory: Path) -> Driver:
    return Driver(directory, **SMALL)


def test_the_log_alone_is_enough(crashed: Path) -> None:
    shutil.rmtree(crashed / "streams")
    driver = opened(crashed)
    assert driver.read(S) == b"[0,\n1,\n2]"
    assert driver.append(S, b"2", producer=("p", 0, 2)).outcome == "duplicate"
    driver.close()


def test_bytes_that_were_never_committed_are_cut_off(crashed: Path) -> None:
    log, index = only(crashed, "*00.log"), only(crashed, "*.idx")
    log.write_bytes(log.read_bytes() + b"half an app")
    index.write_bytes(index.read_bytes() + b"x" * 20)
    driver = opened(crashed)
    assert driver.read(S) == b"[0,\n1,\n2]"
    assert (log.stat().st_size, index.stat().st_size) == (9, 48)
    driver.append(S, b"3")
    assert driver.messages(S) == [b"0", b"1", b"2", b"3"]
    driver.close()


def test_damaged_stream_bytes_are_written_again_from_the_log(crashed: Path) -> None:
    only(crashed, "*00.log").write_bytes(b"?????????")
    driver = opened(crashed)
    assert driver.read(S) == b"[0,\n1,\n2]"
    driver.close()


def test_a_torn_end_of_the_log_is_dropped_whole(crashed: Path) -> None:
    log = only(crashed / "wal", "*.log")
    content = bytearray(log.read_bytes())
    end = len(bytes(content).rstrip(b"\0"))
    content[end - 2 : end] = b"\0\0"
    log.write_bytes(content)
    driver = opened(crashed)
    assert driver.read(S) == b"[0,\n1]"
    assert driver.append(S, b"2", producer=("p", 0, 2)).outcome == "appended"
    driver.close()


def test_damage_in_the_middle_of_the_log_refuses_to_start(crashed: Path) -> None:
    log = only(crashed / "wal", "*.log")
    content = bytearray(log.read_bytes())
    content[30] ^= 0xFF
    log.write_bytes(content)
    before = {path: path.read_bytes() for path in crashed.rglob("*") if path.is_file()}
    with pytest.raises(CorruptLog, match=r"0001\.log is damaged at byte 0"):
        opened(crashed)
    # it touched nothing, and it let go of the directory
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(CorruptLog):
        opened(crashed)


def test_missing_acknowledged_bytes_refuse_to_start(tmp_path: Path) -> None:
    driver = opened(tmp_path / "data")
    driver.create(S, TEXT, body=b"hello")
    driver.close()
    log = only(tmp_path / "data", "*00.log")
    log.write_bytes(b"hel")
    with pytest.raises(CorruptStore, match="has 3 bytes, 5 were acknowledged"):
        opened(tmp_path / "data")
    log.unlink()
    with pytest.raises(CorruptStore, match="has 0 bytes"):
        opened(tmp_path / "data")


def test_what_nothing_refers_to_is_removed(crashed: Path) -> None:
    own = only(crashed, "*00.log").parent
    (crashed / "streams" / f"{5:016x}").mkdir()
    (crashed / "streams" / f"{5:016x}" / f"{0:020d}.log").write_text("orphan")
    (own / f"{999:020d}.log").write_text("of a segment that never was")
    (crashed / "snapshots" / "0123").write_text("never published")
    driver = opened(crashed)
    assert [each.name for each in (crashed / "streams").iterdir()] == [own.name]
    assert len(list(own.iterdir())) == 2
    assert list((crashed / "snapshots").iterdir()) == []
    driver.close()


def test_a_second_server_is_kept_out(tmp_path: Path) -> None:
    driver = opened(tmp_path / "data")
    with pytest.raises(DirectoryInUse):
        opened(tmp_path / "data")
    driver.reopen()
    driver.close()


def test_log_and_catalog_of_different_stores_do_not_mix(crashed: Path) -> None:
    driver = opened(crashed)
    driver.close()
    config = StoreConfig(data_dir=crashed)
    directory = DataDirectory(crashed)
    files = OsFiles(crashed)
    stream = int(only(crashed, "*00.log").parent.name, 16)
    append = records.Appended(stream, 77, 0, 1, False, False, None, None)
    log = Log(files, directory.salt, 4096, 5)
    log.write([Entry(msgspec.msgpack.encode(append))])
    log.sync()
    directory.release()
    with pytest.raises(CorruptLog, match="offset 77 of a stream that is at 9"):
        Store.open(config)


def test_a_record_of_an_unknown_kind_refuses_to_start(crashed: Path) -> None:
    opened(crashed).close()
    directory = DataDirectory(crashed)
    log = Log(OsFiles(crashed), directory.salt, 4096, 5)
    log.write([Entry(msgspec.msgpack.encode((99, "from a newer version")))])
    log.sync()
    directory.release()
    with pytest.raises(CorruptLog, match="record 5 is of no known kind"):
        opened(crashed)


class Noted(Record, frozen=True, array_like=True, tag=99):
    text: str


def test_further_kinds_of_records_join_the_same_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []

    class Note:
        write: SegmentWrite | None = None

        def __init__(self, state: State, record: Noted, payload: object) -> None:
            self._text = record.text

        def publish(self) -> None:
            notes.append(self._text)

        def undo(self) -> None:
            raise AssertionError

    register = effects.register

    def register_more(state: State) -> None:
        register(state)
        state.handle(Noted, Note)

    monkeypatch.setattr(effects, "register", register_more)
    driver = Driver(tmp_path / "data")
    driver.create(S, JSON)
    core: Any = driver.store._core

    async def note() -> None:
        await core.submit(Noted("remember")).wait()

    driver.run(note())
    assert notes == ["remember"]
    driver.reopen(crash=True)
    assert notes == ["remember", "remember"]
    driver.close()
