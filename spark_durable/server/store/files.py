"""The seam to the file system: everything the store keeps goes through `Files`.

Guarantees asked of an implementation: what `write` has written is what `read_into` gives; what was
written before `sync` returned survives a power failure; names survive one after `sync_directory`,
and everything written or named so far does after `sync_all`. Nothing is promised about bytes that
were not synced: any part of them may be lost.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from .model import Buffer


class File(Protocol):
    """An open file. It is closed when the last reference to it is gone."""

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        """Writes all parts one after the other, starting at `offset`."""

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fills the whole view; a file that ends before that is an `EOFError`."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Reserves space up to `size` bytes, so that writing below it cannot run out of it."""

    def sync(self) -> None: ...


class Files(Protocol):
    """Files by name below one directory; names use `/`, their directories come into being."""

    def open(self, name: str, *, create: bool) -> File:
        """Without `create` a missing file is a `FileNotFoundError`."""

    def remove(self, name: str) -> None:
        """Removes a file or a directory with all it holds; missing is fine."""

    def rename(self, old: str, new: str) -> None: ...

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; none if it does not exist."""

    def sync_directory(self, directory: str) -> None: ...

    def sync_all(self, names: Sequence[str]) -> None:
        """Makes the named files durable, with their names."""


class OpenFiles:
    """A bounded number of open files, the least recently used given up first."""

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._open: OrderedDict[str, File] = OrderedDict()
        # the committer writes while the event loop reads
        self._lock = threading.Lock()

    def get(self, name: str, *, create: bool = False) -> File:
        with self._lock:
            file = self._open.get(name)
            if file is None:
                file = self._open[name] = self._files.open(name, create=create)
                if len(self._open) > self._limit:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(name)
            return file

    def forget(self, unwanted: Callable[[str], bool]) -> None:
        with self._lock:
            for name in [each for each in self._open if unwanted(each)]:
                del self._open[name]

    def __len__(self) -> int:
        return len(self._open)
