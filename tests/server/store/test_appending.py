from __future__ import annotations

import pytest

from spark_durable.server.store import ProducerTriple
from spark_durable.server.store.errors import (
    BadJson,
    Closed,
    ContentTypeMismatch,
    EmptyBody,
    NotFound,
    ProducerLimit,
    SequenceGap,
    SequenceRegression,
    StaleEpoch,
    TooLarge,
)
from tests.server.store.driver import JSON, TEXT, Driver

S = "/v1/stream/s"


def test_an_append_gives_the_next_offset(driver: Driver) -> None:
    driver.create(S, TEXT)
    assert driver.append(S, b"hello", TEXT).next_offset == 5
    assert driver.append(S, b" world", "Text/PLAIN; charset=utf-8").next_offset == 11
    assert driver.read(S) == b"hello world"


def test_offsets_on_a_json_stream_count_the_bytes_of_the_array(driver: Driver) -> None:
    driver.create(S)
    first = driver.append(S, b"[1,2]").next_offset
    second = driver.append(S, b'{"a":[]}').next_offset
    assert driver.read(S) == b'[1,\n2,\n{"a":[]}]'
    assert len(driver.read(S)) == second
    assert len(driver.read(S, first)) == second - first
    assert driver.read(S, second) == b"[]"


@pytest.mark.parametrize("body", [b"[]", b"{", b'"\xff"'])
def test_a_bad_body_stores_nothing(driver: Driver, body: bytes) -> None:
    driver.create(S)
    with pytest.raises((BadJson, EmptyBody)):
        driver.append(S, body, producer=("p", 0, 0))
    assert driver.append(S, b"1", producer=("p", 0, 0)).outcome == "appended"
    assert driver.read(S) == b"[1]"


def test_what_is_refused_before_the_body_is_read(driver: Driver) -> None:
    driver.create(S)
    with pytest.raises(NotFound):
        driver.append("/v1/stream/other", b"1")
    with pytest.raises(EmptyBody):
        driver.append(S, b"")
    with pytest.raises(ContentTypeMismatch):
        driver.append(S, b"1", TEXT)


def test_an_append_is_bounded(tmp_path: object) -> None:
    driver = Driver(max_append_bytes=10)
    driver.create(S)
    driver.append(S, b"1234567890")
    with pytest.raises(TooLarge) as refused:
        driver.append(S, b"12345678901")
    assert refused.value.limit == 10
    driver.close()


def test_stream_seq_compares_bytes(driver: Driver) -> None:
    driver.create(S)
    for seq in ("09", "10", "2", "Z", "a", "\u00e9"):
        driver.append(S, b"1", stream_seq=seq)
    for seq in ("\u00e9", "a", "10"):
        with pytest.raises(SequenceRegression):
            driver.append(S, b"1", stream_seq=seq)
    assert driver.append(S, b"1").outcome == "appended"


def test_stream_seq_survives_restarts(disk: Driver) -> None:
    disk.create(S)
    disk.append(S, b"1", stream_seq="b")
    for crash in (True, False):
        disk.reopen(crash=crash)
        with pytest.raises(SequenceRegression):
            disk.append(S, b"1", stream_seq="b")


class TestProducers:
    def test_a_repetition_is_told_the_highest_number(self, driver: Driver) -> None:
        driver.create(S)
        for seq in range(3):
            done = driver.append(S, b"%d" % seq, producer=("p", 7, seq))
            assert (done.outcome, done.producer_epoch, done.producer_seq) == ("appended", 7, seq)
        again = driver.append(S, b"0", producer=("p", 7, 0))
        assert (again.outcome, again.producer_epoch, again.producer_seq) == ("duplicate", 7, 2)
        assert again.next_offset == 9
        assert driver.read(S) == b"[0,\n1,\n2]"

    def test_a_repetition_is_known_whatever_its_body(self, driver: Driver) -> None:
        driver.create(S)
        driver.append(S, b"1", producer=("p", 0, 0))
        assert driver.append(S, b"not json", producer=("p", 0, 0)).outcome == "duplicate"

    def test_a_repetition_comes_before_stream_seq(self, driver: Driver) -> None:
        driver.create(S)
        driver.append(S, b"1", producer=("p", 0, 0), stream_seq="a")
        again = driver.append(S, b"1", producer=("p", 0, 0), stream_seq="a")
        assert again.outcome == "duplicate"

    def test_a_refused_append_does_not_move_the_producer(self, driver: Driver) -> None:
        driver.create(S)
        driver.append(S, b"1", producer=("p", 0, 0), stream_seq="b")
        with pytest.raises(SequenceRegression):
            driver.append(S, b"2", producer=("p", 0, 1), stream_seq="a")
        with pytest.raises(SequenceGap):
            driver.append(S, b"3", producer=("p", 0, 2))
        assert driver.append(S, b"2", producer=("p", 0, 1)).outcome == "appended"

    def test_are_remembered_across_restarts(self, disk: Driver) -> None:
        disk.create(S)
        disk.append(S, b"1", producer=("p", 3, 0))
        disk.append(S, b"2", producer=("p", 3, 1))
        for crash in (True, False, True):
            disk.reopen(crash=crash)
            assert disk.append(S, b"2", producer=("p", 3, 1)).outcome == "duplicate"
            with pytest.raises(StaleEpoch):
                disk.append(S, b"2", producer=("p", 2, 0))
            with pytest.raises(SequenceGap):
                disk.append(S, b"2", producer=("p", 3, 3))

    def test_are_forgotten_after_a_week(self, driver: Driver) -> None:
        driver.create(S)
        driver.append(S, b"1", producer=("p", 3, 0))
        driver.clock.now += 7 * 86_400 - 1
        assert driver.append(S, b"1", producer=("p", 3, 0)).outcome == "duplicate"
        driver.clock.now += 7 * 86_400
        assert driver.append(S, b"1", producer=("p", 0, 0)).outcome == "appended"

    def test_idleness_is_counted_across_a_restart(self, disk: Driver) -> None:
        disk.create(S)
        disk.append(S, b"1", producer=("p", 3, 0))
        disk.clock.now += 4 * 86_400
        disk.reopen()
        disk.clock.now += 4 * 86_400
        assert disk.append(S, b"1", producer=("p", 0, 0)).outcome == "appended"

    def test_their_number_is_bounded(self) -> None:
        driver = Driver(max_producers=3)
        driver.create(S)
        for each in range(3):
            driver.append(S, b"1", producer=(f"p{each}", 0, 0))
        with pytest.raises(ProducerLimit):
            driver.append(S, b"1", producer=("p3", 0, 0))
        assert driver.append(S, b"1", producer=("p0", 0, 1)).outcome == "appended"
        assert driver.append(S, b"1").outcome == "appended"
        driver.close()


class TestClosure:
    def test_an_append_may_close(self, driver: Driver) -> None:
        driver.create(S)
        done = driver.append(S, b"1", close=True)
        assert (done.outcome, done.closed, done.next_offset) == ("appended", True, 3)
        assert driver.call(driver.store.stat, S).closed
        for content_type in (JSON, TEXT):
            with pytest.raises(Closed) as refused:
                driver.append(S, b"2", content_type)
            assert refused.value.final_offset == 3
        with pytest.raises(Closed):
            driver.append(S, b"2", close=True)
        assert driver.read(S) == b"[1]"

    def test_closing_without_a_body_may_be_repeated(self, driver: Driver) -> None:
        driver.create(S)
        for _ in range(2):
            done = driver.append(S, b"", None, close=True)
            assert (done.outcome, done.closed, done.next_offset) == ("closed", True, 0)

    @pytest.mark.parametrize("body", [b"1", b""])
    def test_a_producer_may_repeat_its_closing_request(self, driver: Driver, body: bytes) -> None:
        driver.create(S)
        driver.append(S, b"0", producer=("p", 0, 0))
        first = driver.append(S, body, producer=("p", 0, 1), close=True)
        assert first.outcome == ("appended" if body else "closed")
        again = driver.append(S, body, producer=("p", 0, 1), close=True)
        assert (again.outcome, again.closed, again.producer_seq) == ("duplicate", True, 1)
        assert again.next_offset == first.next_offset

    def test_others_are_told_how_far_they_got(self, driver: Driver) -> None:
        driver.create(S)
        driver.append(S, b"0", producer=("q", 5, 0))
        driver.append(S, b"1", producer=("p", 0, 0), close=True)
        for sent, known in [
            (("q", 5, 0), (5, 0)),
            (("q", 5, 1), (5, 0)),
            (("q", 4, 0), (5, 0)),
            (("p", 0, 1), (0, 0)),
            (("new", 0, 0), (None, None)),
        ]:
            with pytest.raises(Closed) as refused:
                driver.append(S, b"2", producer=sent, close=True)
            assert (refused.value.producer_epoch, refused.value.producer_seq) == known

    def test_survives_restarts(self, disk: Driver) -> None:
        disk.create(S)
        disk.append(S, b"1", producer=("p", 0, 0), close=True)
        for crash in (True, False):
            disk.reopen(crash=crash)
            assert disk.append(S, b"1", producer=("p", 0, 0), close=True).outcome == "duplicate"
            with pytest.raises(Closed):
                disk.append(S, b"2")


def test_a_triple_is_a_plain_tuple() -> None:
    assert ProducerTriple("p", 1, 2) == ("p", 1, 2)
