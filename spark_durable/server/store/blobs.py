"""Snapshot bodies: one file each under `snapshots/`, durable before the log speaks of it."""

from __future__ import annotations

import secrets

from .files import Files
from .model import Buffer

DIRECTORY = "snapshots"


class Blobs:
    def __init__(self, files: Files) -> None:
        self._files = files

    def write(self, body: Buffer) -> str:
        """Stores a body under a fresh name and returns the name once both are durable."""
        name = secrets.token_hex(16)
        file = self._files.open(f"{DIRECTORY}/{name}", create=True)
        try:
            file.write(0, [body])
            file.sync()
            self._files.sync_directory(DIRECTORY)
        except BaseException:
            self.remove(name)
            raise
        return name

    def read(self, name: str) -> bytes:
        file = self._files.open(f"{DIRECTORY}/{name}", create=False)
        body = bytearray(file.size())
        file.read_into(0, memoryview(body))
        return bytes(body)

    def remove(self, name: str) -> None:
        self._files.remove(f"{DIRECTORY}/{name}")

    def names(self) -> list[str]:
        return self._files.list(DIRECTORY)
