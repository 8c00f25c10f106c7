"""Where a partition waits until its fingerprint is known: memory up to a bound, then local disk."""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import IO

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class OnDisk:
    start: int
    length: int

    def __len__(self) -> int:
        return self.length


Piece = Bytes | OnDisk


def local_directory() -> str | None:
    """Spark's own scratch space where the task has one, else the system's."""
    for directory in os.environ.get("SPARK_LOCAL_DIRS", "").split(","):
        if os.path.isdir(directory) and os.access(directory, os.W_OK):
            return directory
    return None


class Spool:
    """Holds pieces of bytes. Past ``memory`` bytes, further ones go to a file.

    The file has no name from the moment it exists, so that nothing is left behind, not even by a
    worker that is killed. One thread adds; any may read and release.
    """

    def __init__(self, memory: int, directory: str | None = None) -> None:
        self._memory = memory
        self._held = 0
        self._lock = threading.Lock()
        self._directory = directory if directory is not None else local_directory()
        self._file: IO[bytes] | None = None
        self._end = 0

    @property
    def on_disk(self) -> int:
        """Bytes that went to the file."""
        return self._end

    def add(self, piece: Bytes) -> Piece:
        """Keeps a piece. The caller gives it away and must not change it any more."""
        with self._lock:
            if self._held + len(piece) <= self._memory:
                self._held += len(piece)
                return piece
        return self.spill(piece)

    def release(self, piece: Piece) -> None:
        """A piece is no longer needed: what was in memory makes room."""
        if not isinstance(piece, OnDisk):
            with self._lock:
                self._held -= len(piece)

    def spill(self, piece: Bytes) -> OnDisk:
        """Keeps a piece on disk, whatever room there is."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115  (open as long as the spool)
                prefix="spark-durable-", dir=self._directory, buffering=0
            )
        view = memoryview(piece)
        while view:
            view = view[self._file.write(view) :]
        kept = OnDisk(self._end, len(piece))
        self._end += kept.length
        return kept

    def read(self, piece: Piece) -> Bytes:
        if not isinstance(piece, OnDisk):
            return piece
        assert self._file is not None
        found = bytearray(piece.length)
        view, start = memoryview(found), piece.start
        while view:
            count = os.preadv(self._file.fileno(), [view], start)
            if count == 0:
                raise OSError("the spool file ended early: local disk lost what was written to it")
            view, start = view[count:], start + count
        return found

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
