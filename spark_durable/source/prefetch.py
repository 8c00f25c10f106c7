"""The next body is fetched while the last one is parsed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Final, TypeVar

T = TypeVar("T")

# One being parsed, one ready, one arriving: more would only hold memory.
_READY: Final = 1


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self.error = error


_DONE: Final = object()


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """``items`` in order, made by another thread ahead of their use.

    An error comes out where the item would have. When the consumer stops early, the thread ends
    with the item it is making.
    """
    ready: queue.Queue[object] = queue.Queue(_READY)
    stopped = threading.Event()

    def offer(item: object) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not offer(item):
                    return
        except BaseException as error:
            offer(_Failed(error))
        else:
            offer(_DONE)

    worker = threading.Thread(target=work, name="durable-prefetch", daemon=True)
    worker.start()
    try:
        while True:
            item = ready.get()
            if item is _DONE:
                return
            if isinstance(item, _Failed):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        worker.join()
