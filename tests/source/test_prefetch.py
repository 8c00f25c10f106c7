from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from spark_durable.source.prefetch import prefetch


def test_items_come_in_order() -> None:
    assert list(prefetch(iter(range(100)))) == list(range(100))


def test_the_next_item_is_made_while_one_is_used() -> None:
    made = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for i in range(3):
            made.release()
            yield i

    ahead = prefetch(items())
    assert next(ahead) == 0
    assert made.acquire(timeout=5)
    assert made.acquire(timeout=5)  # the second was begun without anybody asking for it
    assert list(ahead) == [1, 2]


def test_an_error_comes_where_the_item_would_have() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broke off")

    ahead = prefetch(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broke off"):
        next(ahead)


def test_stopping_early_ends_the_thread() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            closed.set()

    ahead = prefetch(items())
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    del ahead
    assert closed.wait(5)
    assert not [t for t in threading.enumerate() if t.name == "durable-prefetch"]
