from __future__ import annotations

import asyncio

import pytest

from spark_durable.server.store.errors import BadOffset, NotFound
from tests.server.store.driver import JSON, TEXT, Driver

S = "/v1/stream/s"


class TestReading:
    def test_as_many_whole_messages_as_fit_one_at_least(self, driver: Driver) -> None:
        driver.create(S, TEXT)
        for body in (b"a" * 10, b"b" * 200, b"c" * 10):
            driver.append(S, body, TEXT)

        def lengths(offset: int) -> list[int]:
            found = []
            for limit in (1, 10, 209, 210, 219, 220, 10_000):
                got = driver.call(driver.store.read, S, offset, limit)
                assert len(got.body) == got.end - got.start
                found.append(got.end)
            return found

        assert lengths(0) == [10, 10, 10, 210, 210, 220, 220]
        assert lengths(10) == [210, 210, 210, 220, 220, 220, 220]
        assert lengths(220) == [220] * 7

    def test_a_message_larger_than_the_limit_and_than_any_step(self, driver: Driver) -> None:
        driver.create(S, JSON)
        large = b'"' + b"x" * 100_000 + b'"'
        driver.append(S, b"[1," + large + b",2]")
        assert driver.read(S, 3, limit=10) == b"[" + large + b"]"
        assert driver.read(S, 0, limit=50_000) == b"[1]"

    def test_inside_a_message_is_refused_or_aligned(self, driver: Driver) -> None:
        driver.create(S, TEXT)
        for body in (b"hello", b"wide", b"world"):
            driver.append(S, body, TEXT)
        for offset, start in [(0, 0), (1, 5), (5, 5), (6, 9), (8, 9), (9, 9), (10, 14), (14, 14)]:
            got = driver.call(driver.store.read, S, offset, 1, align="next")
            assert got.start == start
            if start != offset:
                with pytest.raises(BadOffset, match="inside a message"):
                    driver.read(S, offset)
        with pytest.raises(BadOffset, match="past the tail"):
            driver.call(driver.store.read, S, 15, 1, align="next")

    def test_parts_of_a_stream_join_without_gap_or_overlap(self, driver: Driver) -> None:
        driver.create(S, JSON)
        for each in range(40):
            driver.append(S, b'[%d,{"x":"%s"}]' % (each, b"y" * (each * 7 % 90)))
        whole = driver.read(S)
        tail = len(whole)
        for parts in (2, 3, 7, 50):
            cuts = [tail * each // parts for each in range(parts)]
            starts = [driver.call(driver.store.read, S, cut, 1, align="next").start for cut in cuts]
            pieces = []
            for start, stop in zip(starts, [*starts[1:], tail], strict=True):
                while start < stop:
                    got = driver.call(driver.store.read, S, start, stop - start)
                    pieces.append(bytes(got.body[1:-1]))
                    start = got.end
            assert b"[" + b",\n".join(pieces) + b"]" == whole

    def test_tells_tail_and_closure(self, driver: Driver) -> None:
        driver.create(S, TEXT, body=b"one")
        driver.append(S, b"two", TEXT, close=True)
        first = driver.call(driver.store.read, S, 0, 3)
        assert (first.end, first.tail, first.closed, first.up_to_date) == (3, 6, True, False)
        rest = driver.call(driver.store.read, S, 3, 3)
        assert (rest.end, rest.up_to_date) == (6, True)


class TestWaiting:
    """A waiter returns on news, not before, and not after its time."""

    def wait(self, driver: Driver, offset: int, news: object, timeout: float = 30.0) -> bool:
        """True when the news ended the wait."""

        async def both() -> bool:
            waiting = asyncio.ensure_future(driver.store.wait(S, offset, timeout))
            await asyncio.sleep(0)
            before = waiting.done()
            if callable(news):
                await news()
            await asyncio.wait_for(waiting, 10)
            return not before

        return driver.run(both())

    def test_for_data(self, driver: Driver) -> None:
        from spark_durable.server.store import AppendSpec

        driver.create(S)
        assert self.wait(driver, 0, lambda: driver.store.append(S, AppendSpec(JSON, b"1")))

    def test_for_the_end(self, driver: Driver) -> None:
        from spark_durable.server.store import AppendSpec

        driver.create(S)
        assert self.wait(driver, 0, lambda: driver.store.append(S, AppendSpec(close=True)))
        assert not self.wait(driver, 0, None)

    def test_for_deletion(self, driver: Driver) -> None:
        driver.create(S)
        assert self.wait(driver, 0, lambda: driver.store.delete(S))
        with pytest.raises(NotFound):
            driver.run(driver.store.wait(S, 0, 1))

    def test_not_at_all_when_there_is_more(self, driver: Driver) -> None:
        driver.create(S, body=b"1")
        assert not self.wait(driver, 0, None)

    def test_until_its_time_is_over(self, driver: Driver) -> None:
        driver.create(S)
        assert self.wait(driver, 0, None, timeout=0.02)

    def test_keeps_the_stream_alive(self, driver: Driver) -> None:
        driver.create(S, ttl_s=10)

        async def scenario() -> None:
            waiting = asyncio.ensure_future(driver.store.wait(S, 0, 30))
            await asyncio.sleep(0)
            driver.clock.now += 60
            assert driver.store.stat(S).ttl_s == 10
            waiting.cancel()
            await asyncio.wait([waiting])

        driver.run(scenario())
        driver.clock.now += 9
        assert driver.call(driver.store.stat, S).ttl_s == 10
        driver.clock.now += 2
        with pytest.raises(NotFound):
            driver.call(driver.store.stat, S)

    def test_ends_when_the_store_closes(self, driver: Driver) -> None:
        driver.create(S)

        async def scenario() -> None:
            waiting = asyncio.ensure_future(driver.store.wait(S, 0, 30))
            await asyncio.sleep(0)
            await driver.store.close()
            await asyncio.wait_for(waiting, 10)

        driver.run(scenario())
        driver._open()


def test_keys_by_prefix(driver: Driver) -> None:
    for name in ("a/1", "a/2", "b"):
        driver.create(f"/v1/stream/{name}")
    driver.run(driver.store.delete("/v1/stream/a/1"))
    assert driver.call(driver.store.keys, "/v1/stream/a/") == ["/v1/stream/a/2"]
