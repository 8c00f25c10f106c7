"""A disk whose syncs wait, fail or run out of space when told."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from spark_durable.server.store.model import Buffer
from spark_durable.server.store.osfiles import OsFile, OsFiles


class GatedFiles(OsFiles):
    """Real files. `gate` holds log syncs back, `free` bounds what can still be written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.gate.set()
        self.syncing = threading.Event()
        self.log_syncs = 0
        self.sync_error: OSError | None = None
        self.free: int | None = None

    def open(self, name: str, *, create: bool) -> OsFile:
        super().open(name, create=create)
        return _GatedFile(self, self._root / name, name)

    def take(self, length: int) -> None:
        if self.free is not None:
            if length > self.free:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.free -= length


class _GatedFile(OsFile):
    __slots__ = ("_files", "_in_log")

    def __init__(self, files: GatedFiles, path: Path, name: str) -> None:
        super().__init__(path, os.O_RDWR)
        self._files = files
        self._in_log = name.startswith("wal/")

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        if not self._in_log:
            # the log is preallocated
            self._files.take(sum(map(len, parts)))
        super().write(offset, parts)

    def allocate(self, size: int) -> None:
        self._files.take(size)
        super().allocate(size)

    def sync(self) -> None:
        if self._in_log:
            self._files.log_syncs += 1
            self._files.syncing.set()
            self._files.gate.wait()
            if self._files.sync_error is not None:
                raise self._files.sync_error
        super().sync()
