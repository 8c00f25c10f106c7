from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from spark_durable.server.store import ForkSpec
from spark_durable.server.store.errors import (
    AlreadyExists,
    BadJson,
    BadOffset,
    BucketMissing,
    ConfigMismatch,
    ContentTypeMismatch,
    ForkSourceDeleted,
    NotFound,
    OffsetGone,
    SoftDeleted,
    StoreError,
    TooLarge,
)
from tests.server.store.driver import JSON, TEXT, Driver

S, F, G = "/v1/stream/s", "/v1/stream/f", "/v1/stream/g"


def test_creating_again_is_fine_when_nothing_differs(driver: Driver) -> None:
    assert driver.create(S, "text/plain; charset=utf-8", ttl_s=60).created
    assert not driver.create(S, "TEXT/plain", ttl_s=60).created
    others: list[tuple[str | None, dict[str, Any]]] = [
        (JSON, {"ttl_s": 60}),
        (None, {"ttl_s": 60}),
        (TEXT, {"ttl_s": 61}),
        (TEXT, {}),
        (TEXT, {"ttl_s": 60, "closed": True}),
        (TEXT, {"expires_at": datetime(2100, 1, 1, tzinfo=timezone.utc)}),
        (TEXT, {"ttl_s": 60, "fork": ForkSpec(S)}),
    ]
    for content_type, more in others:
        with pytest.raises(ConfigMismatch):
            driver.create(S, content_type, **more)
    assert driver.call(driver.store.stat, S).content_type == "text/plain; charset=utf-8"


def test_without_a_content_type_bytes_are_bytes(driver: Driver) -> None:
    assert driver.create(S, None).stat.content_type == "application/octet-stream"
    assert not driver.create(S, "application/octet-stream").created


def test_closed_status_counts_as_configuration(driver: Driver) -> None:
    driver.create(S, TEXT, body=b"all", closed=True)
    assert not driver.create(S, TEXT, closed=True).created
    with pytest.raises(ConfigMismatch):
        driver.create(S, TEXT)


def test_the_first_bytes_come_with_the_stream(driver: Driver) -> None:
    assert driver.create(S, JSON, body=b"[1,2]").stat.tail == 6
    assert driver.create(F, JSON, body=b"[]").stat.tail == 0
    assert driver.read(S) == b"[1,\n2]"


def test_a_refused_creation_leaves_nothing(driver: Driver) -> None:
    with pytest.raises(BadJson):
        driver.create(S, JSON, body=b"{")
    with pytest.raises(BucketMissing):
        driver.create("/ds/none/x")
    with pytest.raises(NotFound):
        driver.call(driver.store.stat, S)


def test_first_bytes_are_bounded() -> None:
    driver = Driver(max_append_bytes=4)
    with pytest.raises(TooLarge):
        driver.create(S, TEXT, body=b"12345")
    driver.close()


def test_a_name_created_again_is_another_stream(disk: Driver) -> None:
    first = disk.create(S, TEXT, body=b"old").stat.stream_id
    disk.run(disk.store.delete(S))
    second = disk.create(S, JSON, body=b"1").stat.stream_id
    assert first != second
    disk.reopen(crash=True)
    assert disk.call(disk.store.stat, S).stream_id == second
    assert disk.read(S) == b"[1]"


class TestExpiry:
    def test_reads_and_writes_push_it_back_looking_does_not(self, driver: Driver) -> None:
        driver.create(S, ttl_s=10)
        stat = driver.store.stat
        for use in (
            lambda: driver.append(S, b"1"),
            lambda: driver.read(S),
            lambda: driver.call(stat, S, touch=True),
            lambda: driver.call(driver.store.bootstrap, S),
            lambda: driver.append(S, b"", close=True),
        ):
            driver.clock.now += 9.9
            use()
        driver.clock.now += 9.9
        assert driver.call(stat, S).ttl_s == 10
        driver.clock.now += 0.2
        with pytest.raises(NotFound):
            driver.call(stat, S)

    def test_an_absolute_time_stands(self, driver: Driver) -> None:
        text = "2023-11-14T22:13:30Z"
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        driver.create(S, expires_at=at, expires_at_text=text)
        assert driver.call(driver.store.stat, S).expires_at_text == text
        assert not driver.create(S, expires_at=at, expires_at_text=text).created
        driver.clock.now = at.timestamp() - 0.1
        driver.append(S, b"1")
        driver.clock.now = at.timestamp()
        for use in (lambda: driver.append(S, b"1"), lambda: driver.read(S)):
            with pytest.raises(NotFound):
                use()

    def test_an_expired_name_is_free(self, driver: Driver) -> None:
        driver.create(S, TEXT, ttl_s=1, body=b"old")
        driver.clock.now += 2
        assert driver.create(S, JSON, ttl_s=5).created
        assert driver.read(S) == b"[]"

    def test_a_restart_only_lengthens_a_sliding_one(self, disk: Driver) -> None:
        disk.create(S, ttl_s=10)
        disk.clock.now += 9
        disk.reopen()
        disk.clock.now += 9
        assert disk.call(disk.store.stat, S).ttl_s == 10

    def test_an_expired_stream_stays_gone_after_a_restart(self, disk: Driver) -> None:
        disk.create(S, ttl_s=10)
        disk.clock.now += 11
        with pytest.raises(NotFound):
            disk.read(S)
        disk.reopen()
        with pytest.raises(NotFound):
            disk.read(S)


class TestForks:
    def test_inherit_and_go_their_own_way(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"one ")
        driver.append(S, b"two ", TEXT)
        made = driver.create(F, None, fork=ForkSpec(S, 4), body=b"fork")
        assert (made.created, made.stat.tail, made.stat.content_type) == (True, 8, TEXT)
        driver.append(S, b"three", TEXT)
        assert driver.read(F) == b"one fork"
        assert driver.read(S) == b"one two three"
        assert driver.read(F, 4) == b"fork"

    def test_of_forks_of_forks(self, driver: Driver) -> None:
        driver.create(S, JSON, body=b"[0,1,2,3]")
        driver.create(F, JSON, fork=ForkSpec(S, 0, 3), body=b"[10,11]")
        driver.create(G, JSON, fork=ForkSpec(F, 9, 1), body=b"[20]")
        assert driver.read(G) == b"[0,\n1,\n2,\n10,\n20]"
        assert driver.messages(G) == [b"0", b"1", b"2", b"10", b"20"]
        limits = [driver.read(G, limit=limit) for limit in (1, 4, 9, 10, 12, 13, 14, 17)]
        assert limits == [
            b"[0]",
            b"[0]",
            b"[0,\n1,\n2]",
            b"[0,\n1,\n2]",
            b"[0,\n1,\n2]",
            b"[0,\n1,\n2,\n10]",
            b"[0,\n1,\n2,\n10]",
            b"[0,\n1,\n2,\n10,\n20]",
        ]

    def test_may_be_nested_deeper_than_the_stack(self) -> None:
        driver = Driver()
        driver.create("/v1/stream/0", TEXT, body=b"0")
        for each in range(1, 1100):
            fork = ForkSpec(f"/v1/stream/{each - 1}")
            driver.create(f"/v1/stream/{each}", TEXT, fork=fork, body=b"%d" % (each % 10))
        deepest = "/v1/stream/1099"
        assert driver.read(deepest) == b"0123456789" * 110
        assert len(driver.messages(deepest)) == 1100
        assert driver.read(deepest, 700, limit=3) == b"012"
        for each in range(1100):
            driver.run(driver.store.delete(f"/v1/stream/{each}"))
        assert driver.call(driver.store.keys, "/") == []
        driver.close()

    def test_start_open_and_without_the_sources_writers(self, driver: Driver) -> None:
        driver.create(S, JSON)
        driver.append(S, b"1", producer=("p", 4, 0), stream_seq="z", close=True)
        driver.create(F, JSON, fork=ForkSpec(S))
        done = driver.append(F, b"2", producer=("p", 0, 0), stream_seq="a")
        assert done.outcome == "appended"
        assert driver.read(F) == b"[1,\n2]"

    def test_take_a_sub_offset_within_one_append(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"hello")
        driver.append(S, b"world", TEXT)
        driver.create(F, TEXT, fork=ForkSpec(S, 5, 2))
        assert driver.read(F) == b"hellowo"
        assert driver.messages(F) == [b"hello", b"wo"]
        for offset, sub in [(0, 6), (5, 6), (10, 1), (3, 1)]:
            with pytest.raises(BadOffset):
                driver.create(G, TEXT, fork=ForkSpec(S, offset, sub))
        driver.create(G, TEXT, fork=ForkSpec(F, 5, 1))
        assert driver.read(G) == b"hellow"
        for body in (b"LD", b"x" * 100, b"y" * 100):
            driver.append(F, body, TEXT)
        assert [len(driver.read(F, limit=limit)) for limit in range(4, 10)] == [5, 5, 5, 7, 7, 9]

    def test_are_the_same_only_from_the_same_place(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"hello")
        driver.create(F, TEXT, fork=ForkSpec(S, 0, 2))
        assert not driver.create(F, None, fork=ForkSpec(S, 0, 2)).created
        for fork in (ForkSpec(S, 0, 3), ForkSpec(S, 0), ForkSpec(G, 0, 2), ForkSpec(S, 5, 2), None):
            with pytest.raises(ConfigMismatch):
                driver.create(F, TEXT, fork=fork)
        driver.create(G, TEXT, fork=ForkSpec(S))
        driver.append(S, b"more", TEXT)
        assert not driver.create(G, TEXT, fork=ForkSpec(S)).created

    def test_expiry_follows_the_table(self, driver: Driver) -> None:
        at = datetime(2030, 1, 1, tzinfo=timezone.utc)
        text = "2030-01-01T00:00:00Z"
        driver.create(S, ttl_s=100)
        driver.create(F, expires_at=at, expires_at_text=text)

        def made(name: str, source: str, **expiry: Any) -> tuple[int | None, str | None]:
            stat = driver.create(f"/v1/stream/{name}", fork=ForkSpec(source), **expiry).stat
            assert not driver.create(stat.key, fork=ForkSpec(source), **expiry).created
            return stat.ttl_s, stat.expires_at_text

        assert made("a", S) == (100, None)
        assert made("b", S, ttl_s=500) == (500, None)
        assert made("c", S, expires_at=at, expires_at_text=text) == (None, text)
        assert made("d", F) == (None, text)
        assert made("e", F, ttl_s=7) == (7, None)
        with pytest.raises(ConfigMismatch):
            driver.create("/v1/stream/b", fork=ForkSpec(S))

    def test_errors(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"hello")
        for spec, content_type, error in [
            (ForkSpec("/v1/stream/none"), TEXT, NotFound),
            (ForkSpec(S, 6), TEXT, BadOffset),
            (ForkSpec(S, 3), TEXT, BadOffset),
            (ForkSpec(S), JSON, ContentTypeMismatch),
        ]:
            with pytest.raises(error):
                driver.create(F, content_type, fork=spec)
        # none of them has left a reference behind
        driver.run(driver.store.delete(S))
        with pytest.raises(NotFound):
            driver.call(driver.store.stat, S)

    def test_below_what_is_kept_are_gone(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"hello")
        driver.append(S, b"world", TEXT)
        driver.run(driver.store.publish_snapshot(S, 5, TEXT, b"HELLO"))
        with pytest.raises(OffsetGone):
            driver.create(F, TEXT, fork=ForkSpec(S, 0))
        driver.create(F, TEXT, fork=ForkSpec(S))
        stat = driver.call(driver.store.stat, F)
        assert (stat.retained, stat.snapshot_offset) == (5, 5)
        assert driver.call(driver.store.snapshot, F).read() == b"HELLO"


class TestDeletion:
    def test_a_source_stays_for_its_forks(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"hello")
        driver.create(F, TEXT, fork=ForkSpec(S))
        driver.run(driver.store.delete(S))
        for call in (
            lambda: driver.call(driver.store.stat, S),
            lambda: driver.append(S, b"x", TEXT),
            lambda: driver.read(S),
            lambda: driver.run(driver.store.delete(S)),
        ):
            with pytest.raises(SoftDeleted):
                call()
        with pytest.raises(AlreadyExists):
            driver.create(S, TEXT)
        with pytest.raises(ForkSourceDeleted):
            driver.create(G, TEXT, fork=ForkSpec(S))
        assert driver.read(F) == b"hello"

    def test_the_last_fork_takes_its_sources_along(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"A")
        driver.create(F, TEXT, fork=ForkSpec(S), body=b"B")
        driver.create(G, TEXT, fork=ForkSpec(F), body=b"C")
        driver.run(driver.store.delete(S))
        driver.run(driver.store.delete(F))
        assert driver.read(G) == b"ABC"
        driver.run(driver.store.delete(G))
        for key in (S, F, G):
            with pytest.raises(NotFound):
                driver.call(driver.store.stat, key)
        assert driver.create(S, JSON).created

    def test_an_expired_source_stays_for_its_forks(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"A", ttl_s=5)
        driver.create(F, TEXT, fork=ForkSpec(S), ttl_s=100)
        driver.clock.now += 6
        with pytest.raises(SoftDeleted):
            driver.call(driver.store.stat, S)
        assert driver.read(F) == b"A"

    def test_chains_survive_restarts(self, disk: Driver) -> None:
        disk.create(S, TEXT, body=b"A")
        disk.create(F, TEXT, fork=ForkSpec(S), body=b"B")
        disk.create(G, TEXT, fork=ForkSpec(F), body=b"C")
        disk.run(disk.store.delete(F))
        for crash in (True, False):
            disk.reopen(crash=crash)
            assert disk.read(G) == b"ABC"
            with pytest.raises(SoftDeleted):
                disk.call(disk.store.stat, F)
        disk.run(disk.store.delete(G))
        disk.reopen(crash=True)
        assert disk.read(S) == b"A"
        with pytest.raises(NotFound):
            disk.call(disk.store.stat, F)


def test_every_refusal_survives_pickling() -> None:
    import pickle

    from spark_durable.server.store import errors

    samples: list[StoreError] = [
        errors.Closed("k", 5, 1, 2),
        errors.SequenceGap("p", 1, 2),
        errors.OffsetGone("k", 1, 2),
        errors.Overloaded("busy", 3),
        errors.DiskFull(),
    ]
    for error in samples:
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
