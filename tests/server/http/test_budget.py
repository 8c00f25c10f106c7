"""The byte budget: never more than its total out, first come first served, nothing leaks."""

from __future__ import annotations

import asyncio

import pytest

from spark_durable.server.http.budget import ByteBudget
from spark_durable.server.http.responses import HttpError


def run(scenario) -> None:
    asyncio.run(scenario)


def test_waits_for_what_is_given_back() -> None:
    async def scenario() -> None:
        budget = ByteBudget(10, timeout=5)
        await budget.take(8)
        waiting = asyncio.create_task(budget.take(5))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.give_back(8)
        await waiting
        assert budget.free == 5

    run(scenario())


def test_a_large_one_is_not_overtaken_by_small_ones() -> None:
    async def scenario() -> None:
        budget = ByteBudget(10, timeout=5)
        await budget.take(6)
        large = asyncio.create_task(budget.take(8))
        await asyncio.sleep(0)
        assert not budget.try_take(1)
        small = asyncio.create_task(budget.take(1))
        await asyncio.sleep(0)
        budget.give_back(6)
        await large
        await small
        assert budget.free == 1

    run(scenario())


def test_503_with_retry_after_when_it_takes_too_long() -> None:
    async def scenario() -> None:
        budget = ByteBudget(10, timeout=0.01)
        await budget.take(10)
        with pytest.raises(HttpError) as refusal:
            await budget.take(1)
        assert refusal.value.status == 503
        assert refusal.value.headers["Retry-After"]
        budget.give_back(10)
        assert budget.free == 10

    run(scenario())


@pytest.mark.parametrize("granted_first", [False, True])
def test_a_cancelled_waiter_leaks_nothing(granted_first: bool) -> None:
    async def scenario() -> None:
        budget = ByteBudget(10, timeout=5)
        await budget.take(10)
        waiting = asyncio.create_task(budget.take(4))
        await asyncio.sleep(0)
        if granted_first:
            budget.give_back(10)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if not granted_first:
            budget.give_back(10)
        assert budget.free == 10
        assert budget.try_take(10)

    run(scenario())


def test_more_than_the_total_takes_all_of_it() -> None:
    async def scenario() -> None:
        budget = ByteBudget(10, timeout=5)
        await budget.take(50)
        assert budget.free == 0
        budget.give_back(50)
        assert budget.free == 10

    run(scenario())
