"""Bytes shared with the server's process, by which a run moves its clock and fills its disk."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_CELLS = struct.Struct("<d?")


class Control:
    """The clock's offset in seconds, and whether every write is refused for want of space."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_CELLS.size))
        with path.open("r+b") as file:
            self._cells = mmap.mmap(file.fileno(), _CELLS.size)

    def get(self) -> tuple[float, bool]:
        offset, full = _CELLS.unpack(self._cells[:])
        return offset, full

    def set(self, *, clock_offset_s: float | None = None, full: bool | None = None) -> None:
        offset, filled = self.get()
        self._cells[:] = _CELLS.pack(
            offset if clock_offset_s is None else clock_offset_s, filled if full is None else full
        )
