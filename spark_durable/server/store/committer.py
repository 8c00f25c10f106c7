"""The committer: one thread that makes changes durable, in groups, in order.

Group commit: whatever has come in while the last group was being synced forms the next one. A
group's bytes go into the segment files first, unsynced, then all its records into the log with one
sync; only then is it published. So running out of space shows before anything counts, and is undone
without a trace; a sync that fails leaves nobody knowing, and stops the store.

Checkpoints travel in the same queue: at their turn everything before them is durable and nothing
after them is, which makes the state captured when they were submitted the state to be written.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from .catalog import Captured, Catalog
from .errors import DiskFull, Overloaded, StoreFailed
from .files import Files
from .journal import Change
from .segments import Segments
from .wal import Entry, Log

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_GROUP_BYTES = 16 << 20


class Checkpoint:
    """A captured state on its way into the catalog."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.done = asyncio.get_running_loop().create_future()


class Committer:
    """A `Journal` on disk. `on_failure` is called on the loop when the disk cannot be trusted."""

    def __init__(
        self,
        files: Files,
        segments: Segments,
        log: Log,
        catalog: Catalog,
        *,
        max_pending_bytes: int,
        checkpoint_bytes: int,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._files = files
        self._segments = segments
        self._log = log
        self._catalog = catalog
        self._max_pending_bytes = max_pending_bytes
        self._checkpoint_bytes = checkpoint_bytes
        self._on_failure = on_failure
        self._encode = msgspec.msgpack.Encoder().encode
        self._checkpoints = ThreadPoolExecutor(1, "checkpoint")

        # the loop's own
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: StoreFailed | None = None
        self._pending_bytes = 0
        self._checkpoint: Checkpoint | None = None
        self._checkpointed_at = 0

        # shared with the committer's thread, under the condition's lock
        self._wake = threading.Condition()
        self._queue: list[Change | Checkpoint] = []
        self._chores: list[Callable[[], None]] = []
        self._paused = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    # On the loop.

    def make_room(self, length: int) -> None:
        if self._error is not None:
            raise self._error
        if self._pending_bytes and self._pending_bytes + length > self._max_pending_bytes:
            raise Overloaded(f"{self._pending_bytes} bytes are waiting for the disk already")

    def submit(self, change: Change) -> None:
        self._pending_bytes += len(change.payload)
        self._put(change)

    def _put(self, item: Change | Checkpoint) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        with self._wake:
            self._queue.append(item)
            self._wake.notify()

    def later(self, chore: Callable[[], None]) -> None:
        """Runs file work nobody waits for on the committer's thread."""
        with self._wake:
            self._chores.append(chore)
            self._wake.notify()

    async def aside(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, work)
        except Exception as error:
            if isinstance(error, OSError) and _out_of_space(error):
                raise DiskFull() from error
            raise self._fail([], error) from error

    async def checkpoint(self) -> None:
        """Brings the catalog up to date with everything submitted so far."""
        while self._checkpoint is not None:
            await asyncio.wait([self._checkpoint.done])
        if self._error is None:
            await asyncio.wait([self._begin_checkpoint().done])

    def _begin_checkpoint(self) -> Checkpoint:
        self._checkpoint = Checkpoint(self._catalog.capture())
        self._put(self._checkpoint)
        return self._checkpoint

    async def close(self) -> None:
        await self.checkpoint()
        with self._wake:
            self._stopping = True
            self._wake.notify()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._checkpoints.shutdown()
        self._catalog.close()
        self._error = self._error or StoreFailed("it was closed")

    def _publish(self, group: list[Change], written: int) -> None:
        for change in group:
            self._pending_bytes -= len(change.payload)
            change.publish()
        if self._checkpoint is None and written - self._checkpointed_at > self._checkpoint_bytes:
            self._checkpointed_at = written
            self._begin_checkpoint()

    def _take_back(self, group: list[Change]) -> None:
        """Undoes a group there was no space for, with all that was decided after it."""
        with self._wake:
            queue, self._queue = self._queue, []
        for item in reversed([*group, *queue]):
            if isinstance(item, Checkpoint):
                self._end_checkpoint(item, False)
            else:
                self._pending_bytes -= len(item.payload)
                item.undo(DiskFull())
        with self._wake:
            self._paused = False
            self._wake.notify()

    def _end_checkpoint(self, checkpoint: Checkpoint, written: bool) -> None:
        if checkpoint is self._checkpoint:
            if not written:
                checkpoint.captured.restore()
            self._checkpoint = None
            checkpoint.done.set_result(None)

    def _fail(self, group: list[Change], error: Exception) -> StoreFailed:
        """Ends everything in flight with an error, and the store with it."""
        failure = StoreFailed(str(error) or type(error).__name__)
        if self._error is None:
            self._error = failure
            self._on_failure(failure)
        with self._wake:
            self._stopping, self._paused = True, False
            queue, self._queue = self._queue, []
            self._wake.notify()
        for item in [*group, *queue]:
            if isinstance(item, Change):
                item.abandon(failure)
        if self._checkpoint is not None:
            self._end_checkpoint(self._checkpoint, False)
        return failure

    # On the committer's thread.

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._paused or not (self._queue or self._chores or self._stopping):
                    self._wake.wait()
                group = self._next_group()
                chores, self._chores = self._chores, []
                stopping = self._stopping and not group and not chores
                checkpoint = None
                if not group and self._queue and isinstance(self._queue[0], Checkpoint):
                    checkpoint = self._queue.pop(0)
            if stopping and checkpoint is None:
                return
            if group:
                self._commit(group)
            for chore in chores:
                self._do(chore)
            if isinstance(checkpoint, Checkpoint):
                self._hand_over(checkpoint)

    def _do(self, chore: Callable[[], None]) -> None:
        try:
            chore()
        except OSError as error:
            # a file that could not be removed is found again by the next recovery
            logger.warning("cleaning up has failed: %s", error)
        except Exception as error:
            self._stop_until(self._fail, [], error)

    def _next_group(self) -> list[Change]:
        """The changes up to the next checkpoint, as many as are good for one write."""
        group: list[Change] = []
        length = 0
        for item in self._queue:
            if isinstance(item, Checkpoint) or length > _GROUP_BYTES:
                break
            group.append(item)
            length += len(item.payload)
        del self._queue[: len(group)]
        return group

    def _commit(self, group: list[Change]) -> None:
        assert self._loop is not None
        writes = [each.effect.write for each in group if each.effect.write is not None]
        entries = [self._entry(each) for each in group]
        try:
            try:
                self._segments.write(writes)
                self._log.write(entries)
            except OSError as error:
                if not _out_of_space(error):
                    raise
                self._segments.cut(writes)
                self._stop_until(self._take_back, group)
                return
            self._log.sync()
        except Exception as error:
            self._stop_until(self._fail, group, error)
        else:
            self._loop.call_soon_threadsafe(self._publish, group, self._log.written)

    def _entry(self, change: Change) -> Entry:
        write = change.effect.write
        checksum = write.entry.checksum if write is not None else 0
        return Entry(self._encode(change.record), change.payload, checksum)

    def _stop_until(self, settle: Callable[..., object], *args: object) -> None:
        """Lets the loop settle a failure before anything else is committed."""
        assert self._loop is not None
        with self._wake:
            self._paused = True
        self._loop.call_soon_threadsafe(settle, *args)

    def _hand_over(self, checkpoint: Checkpoint) -> None:
        applied, dirty = self._log.next_record - 1, self._segments.take_dirty()
        self._checkpoints.submit(self._write_checkpoint, checkpoint, applied, dirty)

    # On the checkpoint's thread.

    def _write_checkpoint(self, checkpoint: Checkpoint, applied: int, dirty: set[str]) -> None:
        assert self._loop is not None
        try:
            self._files.sync_all(sorted(dirty))
            self._catalog.write(applied, checkpoint.captured.statements)
        except Exception as error:
            # a failed sync cannot be repeated: the kernel forgets what it could not write
            if isinstance(error, DiskFull):
                self._loop.call_soon_threadsafe(self._end_checkpoint, checkpoint, False)
            else:
                self._loop.call_soon_threadsafe(self._fail, [], error)
        else:
            self.later(lambda: self._log.release(applied))
            self._loop.call_soon_threadsafe(self._end_checkpoint, checkpoint, True)


def _out_of_space(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
