"""A data directory: whose it is, which format it has, and who is using it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from .errors import DirectoryInUse, UnknownFormat

FORMAT = 1
# what may lie in a directory that is still to become a data directory
_OURS = {"LOCK", "FORMAT.new", "wal", "streams", "snapshots", "subscriptions", "lost+found"}


class _Format(msgspec.Struct):
    format: int
    salt: str


class DataDirectory:
    """Holds the directory's lock until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # not on Windows, where a store lives in memory only
            import fcntl

            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.salt = self._read_format()
        except BlockingIOError:
            os.close(self._lock)
            raise DirectoryInUse(
                f"{path} is in use by another server: stop that one, or take another directory"
            ) from None
        except BaseException:
            os.close(self._lock)
            raise

    def release(self) -> None:
        os.close(self._lock)

    def _read_format(self) -> bytes:
        file = self.path / "FORMAT"
        if not file.exists():
            self._require_empty()
            for name in ("wal", "streams", "snapshots"):
                (self.path / name).mkdir(exist_ok=True)
            _sync(self.path.parent)
            _write_durably(file, msgspec.json.encode(_Format(FORMAT, secrets.token_hex(8))))
        try:
            found = msgspec.json.decode(file.read_bytes(), type=_Format)
        except msgspec.DecodeError as error:
            raise UnknownFormat(f"{file} is unreadable: {error}") from None
        if found.format != FORMAT:
            raise UnknownFormat(
                f"{self.path} has format {found.format}, this version reads format {FORMAT}: use "
                "the version that wrote it"
            )
        return bytes.fromhex(found.salt)

    def _require_empty(self) -> None:
        others = [each.name for each in self.path.iterdir() if each.name not in _OURS]
        if others:
            raise UnknownFormat(
                f"{self.path} is not empty and has no FORMAT file, so it is not a data directory: "
                "name an empty or new one"
            )


def _write_durably(file: Path, content: bytes) -> None:
    """The file is there whole or not at all, whatever happens."""
    new = file.with_name(file.name + ".new")
    with open(new, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(new, file)
    _sync(file.parent)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
