"""Files whose unsynced bytes live in the process only: SIGKILL becomes a power failure.

What a killed process has written stays in the kernel, so a kill alone cannot tell a server that
syncs before it answers from one that does not. Here bytes reach the operating system when they are
synced; until then only their space is reserved, so that a full disk shows where it would.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from spark_durable.server.store.model import Buffer
from spark_durable.server.store.osfiles import OsFiles


class _Held:
    """The bytes of one file from ``base`` on that were written and not synced."""

    __slots__ = ("base", "content")

    def __init__(self) -> None:
        self.base = 0
        self.content = bytearray()


class VolatileFile:
    def __init__(self, files: VolatileFiles, path: Path, held: _Held, flags: int) -> None:
        self._files = files
        self._path = path
        self._held = held
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        if not data:
            return
        with self._files.lock:
            os.posix_fallocate(self._fd, offset, len(data))
            held = self._held
            if not held.content:
                held.base = offset
            elif offset < held.base:
                held.content[:0] = os.pread(self._fd, held.base - offset, offset)
                held.base = offset
            end = held.base + len(held.content)
            if offset > end:
                held.content += os.pread(self._fd, offset - end, end)
            held.content[offset - held.base : offset - held.base + len(data)] = data

    def read_into(self, offset: int, view: memoryview) -> None:
        with self._files.lock:
            content = bytearray(os.pread(self._fd, len(view), offset))
            held = self._held
            low = max(offset, held.base)
            high = min(offset + len(content), held.base + len(held.content))
            if low < high:
                content[low - offset : high - offset] = held.content[
                    low - held.base : high - held.base
                ]
        if len(content) < len(view):
            raise EOFError(f"{self._path} ends at {offset + len(content)}")
        view[:] = content

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        with self._files.lock:
            os.ftruncate(self._fd, size)
            del self._held.content[max(0, size - self._held.base) :]

    def allocate(self, size: int) -> None:
        os.posix_fallocate(self._fd, 0, size)

    def sync(self) -> None:
        with self._files.lock:
            data = memoryview(self._held.content)
            offset = self._held.base
            while data:
                written = os.pwrite(self._fd, data, offset)
                data, offset = data[written:], offset + written
            data.release()
            self._held.content = bytearray()


class VolatileFiles:
    """`Files` below one directory. Names last at once: only bytes are held back."""

    def __init__(self, root: Path) -> None:
        self.lock = threading.RLock()
        self._root = root
        self._names = OsFiles(root)
        self._held: dict[str, _Held] = {}

    def open(self, name: str, *, create: bool) -> VolatileFile:
        with self.lock:
            path = self._root / name
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            held = self._held.setdefault(name, _Held())
            return VolatileFile(self, path, held, os.O_RDWR | (os.O_CREAT if create else 0))

    def remove(self, name: str) -> None:
        with self.lock:
            for each in [each for each in self._held if f"{each}/".startswith(f"{name}/")]:
                del self._held[each]
            self._names.remove(name)

    def rename(self, old: str, new: str) -> None:
        with self.lock:
            self._held[new] = self._held.pop(old, _Held())
            self._names.rename(old, new)

    def list(self, directory: str) -> list[str]:
        return self._names.list(directory)

    def sync_directory(self, directory: str) -> None:
        """Names last at once."""

    def sync_all(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                file = self.open(name, create=False)
            except FileNotFoundError:
                continue
            file.sync()
