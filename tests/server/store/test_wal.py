from __future__ import annotations

import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_durable.server.store.errors import CorruptLog
from spark_durable.server.store.memory import MemoryFiles
from spark_durable.server.store.wal import Entry, Log, LogReader

SALT = b"saltsalt"
Frames = list[list[tuple[bytes, bytes]]]


def entry(description: bytes, payload: bytes = b"") -> Entry:
    return Entry(description, payload, zlib.crc32(payload) if payload else 0)


def commit(log: Log, *records: tuple[bytes, bytes]) -> None:
    log.write([entry(*each) for each in records])
    log.sync()


def read(files: MemoryFiles, after: int = 0, salt: bytes = SALT) -> list[tuple[int, bytes, bytes]]:
    found = LogReader(files, salt).records(after)
    return [(number, bytes(description), bytes(payload)) for number, description, payload in found]


def segment(files: MemoryFiles, index: int = 0) -> tuple[str, bytearray]:
    name = f"wal/{files.list('wal')[index]}"
    return name, files.open(name, create=False)._bytes


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


records = st.tuples(st.binary(max_size=40), st.binary(max_size=300))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(records, min_size=1, max_size=5), max_size=12), st.integers(60, 2000))
def test_all_records_come_back_in_order(frames: Frames, segment_bytes: int) -> None:
    files = MemoryFiles()
    log = Log(files, SALT, segment_bytes, next_record=1)
    for frame in frames:
        commit(log, *frame)
    flat = [each for frame in frames for each in frame]
    expected = [(number, *each) for number, each in enumerate(flat, 1)]
    assert read(files) == expected
    half = len(flat) // 2
    assert read(files, after=half) == expected[half:]


def test_large_payloads_are_logged_too(files: MemoryFiles) -> None:
    log = Log(files, SALT, 1 << 16, next_record=1)
    commit(log, (b"small", b"x"), (b"large", b"y" * 200_000), (b"small", b"z"))
    assert [payload for _, _, payload in read(files)] == [b"x", b"y" * 200_000, b"z"]


def test_an_unsynced_frame_is_replaced_by_the_next(files: MemoryFiles) -> None:
    log = Log(files, SALT, 4096, next_record=1)
    commit(log, (b"a", b""))
    log.write([entry(b"taken back", b"x" * 100)])
    commit(log, (b"b", b""))
    assert [description for _, description, _ in read(files)] == [b"a", b"b"]


@pytest.mark.parametrize("lost", ["zeros", "cut"])
def test_a_torn_last_frame_is_as_if_it_had_never_been(lost: str) -> None:
    reference = MemoryFiles()
    log = Log(reference, SALT, 4096, next_record=1)
    commit(log, (b"first", b"payload"))
    end_of_first = log.written
    commit(log, (b"second", b"p" * 50), (b"third", b"q" * 20))
    _, whole = segment(reference)
    for size in range(end_of_first, log.written):
        torn = MemoryFiles()
        padding = bytes(len(whole) - size) if lost == "zeros" else b""
        torn.open(f"wal/{1:016x}.log", create=True).write(0, [whole[:size] + padding])
        assert [description for _, description, _ in read(torn)] == [b"first"]


def test_damage_before_the_end_is_reported_with_its_place() -> None:
    reference = MemoryFiles()
    log = Log(reference, SALT, 4096, next_record=1)
    commit(log, (b"first", b"payload"))
    end_of_first = log.written
    commit(log, (b"second", b"more"))
    _, whole = segment(reference)
    for position in range(end_of_first):
        files = MemoryFiles()
        damaged = bytearray(whole)
        damaged[position] ^= 0x40
        files.open(f"wal/{1:016x}.log", create=True).write(0, [damaged])
        with pytest.raises(
            CorruptLog, match=rf"damaged at byte 0.*record 2 follows at byte {end_of_first}"
        ):
            read(files)


def test_a_missing_segment_is_reported(files: MemoryFiles) -> None:
    log = Log(files, SALT, 100, next_record=1)
    for _ in range(6):
        commit(log, (b"x" * 40, b""))
    names = files.list("wal")
    assert len(names) > 3
    files.remove(f"wal/{names[1]}")
    with pytest.raises(CorruptLog, match="missing"):
        read(files)
    # records that a checkpoint includes need not be there
    assert [number for number, _, _ in read(files, after=4)] == [5, 6]


def test_segments_are_recycled_and_their_old_frames_never_pass(files: MemoryFiles) -> None:
    log = Log(files, SALT, 300, next_record=1)
    for number in range(1, 60):
        commit(log, (b"%d" % number, b"x" * 60))
        if number % 10 == 0:
            log.release(number)
        assert [each for each, _, _ in read(files, after=number // 10 * 10)] == list(
            range(number // 10 * 10 + 1, number + 1)
        )
    assert len(files.list("wal")) < 12


def test_nothing_is_released_that_a_checkpoint_does_not_include(files: MemoryFiles) -> None:
    log = Log(files, SALT, 100, next_record=1)
    for _ in range(9):
        commit(log, (b"x" * 40, b""))
    for applied in range(10):
        log.release(applied)
        assert [number for number, _, _ in read(files, applied)] == list(range(applied + 1, 10))


def test_an_empty_segment_that_is_too_small_is_replaced(files: MemoryFiles) -> None:
    log = Log(files, SALT, 100, next_record=1)
    log.write([entry(b"taken back")])
    commit(log, (b"large", b"x" * 500))
    assert [description for _, description, _ in read(files)] == [b"large"]
    assert len(files.list("wal")) == 1


def test_bytes_a_client_sent_never_pass_for_a_frame(files: MemoryFiles) -> None:
    log = Log(files, SALT, 4096, next_record=1)
    commit(log, (b"a", b""))
    _, whole = segment(files)
    forged = bytes(whole[: log.written])
    other = MemoryFiles()
    log = Log(other, SALT, 4096, next_record=1)
    commit(log, (b"b", forged * 3))
    _, damaged = segment(other)
    damaged[0] ^= 1
    # the frame is torn; the copies of a good frame inside its payload are not mistaken for one
    assert read(other) == []


def test_a_log_of_another_directory_is_not_read(files: MemoryFiles) -> None:
    log = Log(files, SALT, 4096, next_record=1)
    commit(log, (b"a", b""))
    assert read(files, salt=b"different") == []
