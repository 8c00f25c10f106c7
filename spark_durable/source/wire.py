"""Requests as the source makes them: retried, and many at a time where that helps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

from spark_durable.options import SourceOptions
from spark_durable.protocol import DurableClient, RetryPolicy
from spark_durable.protocol.per_thread import PerThread

T = TypeVar("T")
R = TypeVar("R")

# Enough to hide the latency of a server next door; a storm of connections helps nobody.
THREADS: Final = 16


class Wire:
    """Clients, one per thread, under the query's retry policy. Every request here is a read, so one
    whose outcome is unknown may be sent again."""

    def __init__(self, options: SourceOptions) -> None:
        settings = options.client_settings()
        self._policy = RetryPolicy(deadline_s=options.retry_timeout)
        self._clients = PerThread(lambda: DurableClient(settings))
        self._pool: ThreadPoolExecutor | None = None

    def client(self) -> DurableClient:
        """This thread's client."""
        return self._clients.get()

    def call(self, attempt: Callable[[DurableClient], T]) -> T:
        """The result of ``attempt``, through resets, 429 and 503 until the deadline."""
        return self._policy.run(lambda: attempt(self.client()), resend_unknown=True)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """``work`` in another thread."""
        return self._threads().submit(work)

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """``work`` on every item, concurrently, results in order. An error is raised when all
        threads have ended."""
        waiting = list(items)
        lanes = min(THREADS, len(waiting))
        if lanes <= 1:
            return [work(item) for item in waiting]
        # A lane per thread, not a task per item: with ten thousand of them it shows.
        lists = self._threads().map(
            lambda lane: [work(item) for item in waiting[lane::lanes]], range(lanes)
        )
        results: list[R] = [None] * len(waiting)  # type: ignore[list-item]
        for lane, found in enumerate(lists):
            results[lane::lanes] = found
        return results

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="durable-plan")
        return self._pool

    def close(self) -> None:
        """Ends background requests that have not begun and closes all connections."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        self._clients.close()


@contextmanager
def open_wire(options: SourceOptions) -> Iterator[Wire]:
    wire = Wire(options)
    try:
        yield wire
    finally:
        wire.close()
