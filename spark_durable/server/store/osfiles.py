"""Files of the operating system, below one data directory."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .model import Buffer

# writev takes this many parts at a time
_IOV_MAX = 1024
# from so many dirty files on, one call for the whole file system beats a sync for each
_SYNC_ONE_BY_ONE = 32


class OsFile:
    """A file descriptor that is closed with the object: a reader never loses its file midway."""

    __slots__ = ("_fd", "_name")

    def __init__(self, path: Path, flags: int) -> None:
        self._name = str(path)
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        # opening may have failed before there was a descriptor
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._fd)

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        for start in range(0, len(parts), _IOV_MAX):
            some = list(parts[start : start + _IOV_MAX])
            while some:
                written = os.pwritev(self._fd, some, offset)
                offset += written
                while some and written >= len(some[0]):
                    written -= len(some.pop(0))
                if written:
                    some[0] = memoryview(some[0])[written:]

    def read_into(self, offset: int, view: memoryview) -> None:
        while view:
            count = os.preadv(self._fd, [view], offset)
            if not count:
                raise EOFError(f"{self._name} ends at {offset}, {len(view)} bytes too early")
            offset += count
            view = view[count:]

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        if sys.platform == "linux":
            os.posix_fallocate(self._fd, 0, size)
        else:
            os.ftruncate(self._fd, size)

    def sync(self) -> None:
        _datasync(self._fd)


class OsFiles:
    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, name: str, *, create: bool) -> OsFile:
        path = self._root / name
        if not create:
            return OsFile(path, os.O_RDWR)
        try:
            return OsFile(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return OsFile(path, os.O_RDWR | os.O_CREAT)

    def remove(self, name: str) -> None:
        path = self._root / name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            if error.errno not in (errno.EISDIR, errno.EPERM):
                raise
            shutil.rmtree(path)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._root / old, self._root / new)

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / directory))
        except FileNotFoundError:
            return []

    def sync_directory(self, directory: str) -> None:
        _sync_path(self._root / directory)

    def sync_all(self, names: Sequence[str]) -> None:
        present = [each for each in map(self._root.joinpath, names) if each.exists()]
        if len(present) > _SYNC_ONE_BY_ONE and _sync_file_system(self._root):
            return
        for path in present:
            _sync_path(path)
        for directory in {
            parent for path in present for parent in (path.parent, path.parent.parent)
        }:
            _sync_path(directory)


def _datasync(fd: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        # fsync there leaves the bytes in the drive's cache
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def _sync_path(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_file_system(root: Path) -> bool:
    """One `syncfs` for everything; False where there is none."""
    if sys.platform != "linux":
        return False
    fd = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(root))
    finally:
        os.close(fd)
    return True
