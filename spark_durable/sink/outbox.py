"""Sending beside encoding: few threads, each with its own connection and its own lanes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType

from spark_durable.protocol import ClientSettings, DurableClient

Job = Callable[[DurableClient], None]

# Appends waiting beside the one in flight; with 4 MiB each this is what a task adds in memory.
_WAITING = 2


class Outbox:
    """Runs jobs on ``connections`` threads; jobs of one lane run in order, one at a time.

    The first failure stops everything: it is raised by the next ``submit`` or by ``flush``, and
    jobs still waiting are dropped, which is safe, since whoever retries repeats them all.
    """

    def __init__(self, settings: ClientSettings, connections: int) -> None:
        self._settings = settings
        self._failure: BaseException | None = None
        self._queues: list[queue.Queue[Job | None]] = []
        self._threads: list[threading.Thread] = []
        self._most = connections

    def submit(self, lane: int, job: Job) -> None:
        """Hands over a job of a lane, waiting while its thread has enough to do."""
        self._raise()
        number = lane % self._most
        while len(self._threads) <= number:
            self._start()
        self._queues[number].put(job)

    def flush(self) -> None:
        """Waits for all jobs. When it returns, every one has succeeded."""
        for jobs in self._queues:
            jobs.join()
        self._raise()

    def _start(self) -> None:
        jobs: queue.Queue[Job | None] = queue.Queue(_WAITING)
        thread = threading.Thread(target=self._run, args=(jobs,), daemon=True)
        self._queues.append(jobs)
        self._threads.append(thread)
        thread.start()

    def _run(self, jobs: queue.Queue[Job | None]) -> None:
        with DurableClient(self._settings) as client:
            while (job := jobs.get()) is not None:
                try:
                    if self._failure is None:
                        job(client)
                except BaseException as failure:
                    self._failure = self._failure or failure
                finally:
                    jobs.task_done()

    def _stop(self) -> None:
        for jobs in self._queues:
            jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._queues, self._threads = [], []

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Outbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._failure is None:
            self._failure = error
        self._stop()
