"""A disk that keeps only what was synced, and of the rest whatever it likes, torn at any byte."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark_durable.server.store.model import Buffer


class PowerFailure(Exception):
    """The power went off. Every operation from then on raises this."""


@dataclass
class _Inode:
    """A file: what every process sees, what is safe, and the writes between the two."""

    content: bytearray = field(default_factory=bytearray)
    safe: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes] | int] = field(default_factory=list)

    def sync(self) -> None:
        self.safe = bytearray(self.content)
        self.unsynced.clear()


class LossyFile:
    def __init__(self, disk: LossyDisk, directory: str, inode: _Inode) -> None:
        self._disk = disk
        self._directory = directory
        self._inode = inode

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        with self._disk.operation(lambda: self._write(offset, b"".join(parts))):
            self._write(offset, b"".join(parts))

    def _write(self, offset: int, data: bytes) -> None:
        self._inode.unsynced.append((offset, data))
        _put(self._inode.content, offset, data)

    def read_into(self, offset: int, view: memoryview) -> None:
        with self._disk.lock:
            content = self._inode.content[offset : offset + len(view)]
            if len(content) < len(view):
                raise EOFError(f"{len(content)} bytes at {offset}, asked for {len(view)}")
            view[:] = content

    def size(self) -> int:
        return len(self._inode.content)

    def truncate(self, size: int) -> None:
        with self._disk.operation():
            self._inode.unsynced.append(size)
            _cut(self._inode.content, size)

    def allocate(self, size: int) -> None:
        missing = size - len(self._inode.content)
        if missing > 0:
            self.write(len(self._inode.content), [bytes(missing)])

    def sync(self) -> None:
        with self._disk.operation():
            if f"file in {self._directory}" not in self._disk.ignored:
                self._inode.sync()


class LossyDisk:
    """`Files` in memory with the memory of a disk.

    `ignored` names syncs that only pretend to be: `file in wal`, `directory wal`, `all`, and so
    on. After `fail_after` operations the power goes off, in the middle of the next one.
    """

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        self.ignored = frozenset(ignored)
        self.fail_after: int | None = None
        self.lock = threading.RLock()
        self._names: dict[str, _Inode] = {}
        self._safe_names: dict[str, _Inode] = {}
        # names given and taken since the directory was last synced, in order
        self._renamed: list[tuple[str, _Inode | None]] = []

    # the power

    def operation(self, torn: object = None) -> _Operation:
        return _Operation(self, torn)

    def after_power_failure(self, choice: random.Random) -> LossyDisk:
        """What is found when the power comes back: all that was synced, any part of the rest."""
        disk = LossyDisk(self.ignored)
        names = dict(self._safe_names)
        for name, inode in self._renamed:
            if choice.random() < 0.5:
                if inode is None:
                    names.pop(name, None)
                else:
                    names[name] = inode
        for name, inode in names.items():
            disk._names[name] = found = _Inode(_remains(inode, choice))
            found.sync()
        disk._safe_names = dict(disk._names)
        return disk

    # the files

    def open(self, name: str, *, create: bool) -> LossyFile:
        with self.lock:
            if name not in self._names:
                if not create:
                    raise FileNotFoundError(errno.ENOENT, "no such file", name)
                with self.operation():
                    self._names[name] = _Inode()
                    self._renamed.append((name, self._names[name]))
            return LossyFile(self, name.split("/")[0], self._names[name])

    def remove(self, name: str) -> None:
        with self.operation():
            for each in [each for each in self._names if f"{each}/".startswith(f"{name}/")]:
                del self._names[each]
                self._renamed.append((each, None))

    def rename(self, old: str, new: str) -> None:
        with self.operation():
            inode = self._names[new] = self._names.pop(old)
            self._renamed += [(new, inode), (old, None)]

    def list(self, directory: str) -> list[str]:
        prefix = f"{directory}/"
        below = (each[len(prefix) :] for each in self._names if each.startswith(prefix))
        return sorted({each.split("/")[0] for each in below})

    def sync_directory(self, directory: str) -> None:
        with self.operation():
            if f"directory {directory}" not in self.ignored:
                self._sync_names(directory)

    def sync_all(self, names: Sequence[str]) -> None:
        with self.operation():
            if "all" not in self.ignored:
                for name in names:
                    if name in self._names:
                        self._names[name].sync()
                        self._sync_names(name.rsplit("/", 1)[0])

    def _sync_names(self, directory: str) -> None:
        kept = []
        for name, inode in self._renamed:
            if name.rsplit("/", 1)[0] != directory:
                kept.append((name, inode))
            elif inode is None:
                self._safe_names.pop(name, None)
            else:
                self._safe_names[name] = inode
        self._renamed = kept


class _Operation:
    def __init__(self, disk: LossyDisk, torn: object) -> None:
        self._disk = disk
        self._torn = torn

    def __enter__(self) -> None:
        self._disk.lock.acquire()
        left = self._disk.fail_after
        if left is None:
            return
        self._disk.fail_after = left - 1
        if left > 0:
            return
        try:
            if left == 0 and callable(self._torn):
                # it had begun: any part of it may be found
                self._torn()
        finally:
            self._disk.lock.release()
        raise PowerFailure

    def __exit__(self, *_: object) -> None:
        self._disk.lock.release()


def _remains(inode: _Inode, choice: random.Random) -> bytearray:
    content = bytearray(inode.safe)
    for change in inode.unsynced:
        fate = choice.random()
        if isinstance(change, int):
            if fate < 0.5:
                _cut(content, change)
        elif fate < 0.3:
            _put(content, *change)
        elif fate < 0.7:
            offset, data = change
            start, stop = sorted(choice.randint(0, len(data)) for _ in range(2))
            _put(content, offset + start, data[start:stop])
    return content


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    content.extend(bytes(max(0, size - len(content))))
    del content[size:]
