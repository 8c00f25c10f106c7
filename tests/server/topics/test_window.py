"""The window of idempotency keys and the life of records, with a clock in hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from spark_durable.server.store import Store, StoreConfig
from spark_durable.server.topics.errors import TopicError
from spark_durable.server.topics.model import parse_write
from spark_durable.server.topics.service import KEY_PREFIX, Topics
from spark_durable.server.topics.topic import Receipt

T = TypeVar("T")


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_ms(self, milliseconds: float) -> None:
        self.now += milliseconds / 1000


def with_topics(body: Callable[[Topics, Store, Clock], Awaitable[T]]) -> T:
    async def run() -> T:
        clock = Clock()
        store = Store.open(StoreConfig(clock=clock))
        try:
            return await body(Topics(store, clock), store, clock)
        finally:
            await store.close()

    return asyncio.run(run())


async def write(topics: Topics, *data: Any, key: str | None = None) -> Receipt:
    import json

    body = {"records": [{"data": value} for value in data], "idempotency_key": key}
    receipt, _ = await topics.write("t", parse_write(json.dumps(body).encode(), None))
    return receipt


async def records(topics: Topics, from_seq: int = 0, limit: int = 100) -> list[tuple[int, bytes]]:
    page = (await topics.get("t")).page(from_seq, limit)
    return [(seq, record.data) for seq, _, record in page.records]


def test_the_window_runs_from_the_first_write_and_is_inclusive() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"idempotency_window_ms": 1000})
        await write(topics, 1, key="k")
        clock.pass_ms(600)
        assert (await write(topics, 1, key="k")).deduped
        clock.pass_ms(400)
        assert (await write(topics, 1, key="k")).deduped
        clock.pass_ms(1)
        late = await write(topics, 1, key="k")
        assert not late.deduped
        assert late.first_seq == 2

    with_topics(body)


def test_the_default_window_is_two_minutes() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await write(topics, 1, key="k")
        clock.pass_ms(120_000)
        assert (await write(topics, 1, key="k")).deduped
        clock.pass_ms(2)
        assert not (await write(topics, 1, key="k")).deduped

    with_topics(body)


def test_a_lengthened_window_holds_for_keys_still_remembered() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"idempotency_window_ms": 1000})
        await write(topics, 1, key="k")
        await topics.put("t", {"idempotency_window_ms": 60_000})
        clock.pass_ms(30_000)
        assert (await write(topics, 1, key="k")).deduped

    with_topics(body)


def test_a_restart_neither_forgets_nor_prolongs_a_key() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"idempotency_window_ms": 1000})
        await write(topics, 1, key="k")
        clock.pass_ms(900)
        assert (await write(Topics(store, clock), 1, key="k")).deduped
        clock.pass_ms(200)
        assert not (await write(Topics(store, clock), 1, key="k")).deduped

    with_topics(body)


def test_cap_records_keeps_the_newest() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"cap_records": 3})
        await write(topics, 1, 2)
        await write(topics, 3, 4, 5)
        assert await records(topics) == [(3, b"3"), (4, b"4"), (5, b"5")]
        await write(topics, *range(6, 16))
        assert [seq for seq, _ in await records(topics)] == [13, 14, 15]
        # What was evicted stays so, also when the cap is lifted and the server restarts.
        await topics.put("t", {"cap_records": 0})
        assert [seq for seq, _ in await records(Topics(store, clock))] == [13, 14, 15]

    with_topics(body)


def test_cap_bytes_counts_data_and_keeps_the_newest() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"cap_bytes": 10})
        await write(topics, 1111, 2222, 3333)
        assert [seq for seq, _ in await records(topics)] == [2, 3]
        assert (await topics.get("t")).state.bytes == 8

    with_topics(body)


def test_discard_reject_refuses_the_whole_write_with_422() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"cap_records": 3, "discard": "reject"})
        await write(topics, 1, 2)
        with pytest.raises(TopicError) as refused:
            await write(topics, 3, 4)
        assert (refused.value.status, refused.value.code) == (422, "topic_full")
        assert [seq for seq, _ in await records(topics)] == [1, 2]
        assert (await write(topics, 3)).last_seq == 3

    with_topics(body)


def test_ttl_hides_what_is_too_old() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"ttl_ms": 1000})
        await write(topics, 1)
        clock.pass_ms(600)
        await write(topics, 2)
        clock.pass_ms(600)
        assert [seq for seq, _ in await records(topics)] == [2]
        clock.pass_ms(600)
        assert await records(topics) == []
        assert (await write(topics, 3)).first_seq == 3

    with_topics(body)


def test_evicted_bytes_are_given_back_and_state_survives_the_trim() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        await topics.put("t", {"cap_records": 4})
        for number in range(40):
            await write(topics, "x" * 500_000, key=f"k{number}")
        stat = store.stat(KEY_PREFIX + "t")
        assert stat.retained > 0
        assert stat.tail - stat.retained < 10_000_000
        again = Topics(store, clock)
        state = (await again.get("t")).state
        assert (state.earliest_seq, state.head_seq) == (37, 40)
        assert [seq for seq, _ in await records(again, 38)] == [39, 40]
        # Keys of writes whose bytes are gone are still remembered.
        old = await write(again, "x", key="k0")
        assert old.deduped
        assert old.first_seq == 1
        assert (await write(again, "y")).first_seq == 41

    with_topics(body)


def test_pages_follow_one_another_over_large_writes() -> None:
    async def body(topics: Topics, store: Store, clock: Clock) -> None:
        for start in range(0, 40, 10):
            await write(topics, *("x" * 200_000 + str(n) for n in range(start, start + 10)))
        found: list[int] = []
        while page := await records(topics, found[-1] if found else 0, 7):
            found += [seq for seq, _ in page]
        assert found == list(range(1, 41))

    with_topics(body)
