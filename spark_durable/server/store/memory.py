"""Files in memory: the store without a data directory."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence

from .model import Buffer


class Usage:
    """What all files hold together. Changed by one thread: without a disk there is no other."""

    def __init__(self) -> None:
        self.bytes = 0


class MemoryFile:
    """Bytes that live as long as the process."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._bytes = bytearray()
        # growing is refused while another thread looks at the bytes
        self._lock = threading.Lock()

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        with self._lock:
            before = len(self._bytes)
            if offset > len(self._bytes):
                self._bytes.extend(bytes(offset - len(self._bytes)))
            for part in parts:
                self._bytes[offset : offset + len(part)] = part
                offset += len(part)
            self._usage.bytes += len(self._bytes) - before

    def read_into(self, offset: int, view: memoryview) -> None:
        with self._lock, memoryview(self._bytes) as whole:
            if offset + len(view) > len(whole):
                raise EOFError(f"{len(whole)} bytes, asked for {offset}+{len(view)}")
            view[:] = whole[offset : offset + len(view)]

    def size(self) -> int:
        return len(self._bytes)

    def truncate(self, size: int) -> None:
        with self._lock:
            before = len(self._bytes)
            del self._bytes[size:]
            self._usage.bytes += len(self._bytes) - before

    def allocate(self, size: int) -> None:
        """Memory is not reserved."""

    def sync(self) -> None:
        """Memory survives nothing."""


class MemoryFiles:
    def __init__(self) -> None:
        self.usage = Usage()
        self._files: dict[str, MemoryFile] = {}

    def open(self, name: str, *, create: bool) -> MemoryFile:
        file = self._files.get(name)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file in memory", name)
            file = self._files[name] = MemoryFile(self.usage)
        return file

    def remove(self, name: str) -> None:
        for each in [name, *(each for each in self._files if each.startswith(name + "/"))]:
            if (file := self._files.pop(each, None)) is not None:
                self.usage.bytes -= file.size()

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def list(self, directory: str) -> list[str]:
        prefix = directory + "/"
        below = (each[len(prefix) :] for each in self._files if each.startswith(prefix))
        return sorted({each.split("/")[0] for each in below})

    def sync_directory(self, directory: str) -> None:
        """Memory survives nothing."""

    def sync_all(self, names: Sequence[str]) -> None:
        """Memory survives nothing."""
