"""The server under test: the product's own, on a clock and on files that a run can tamper with.

``python -m tests.chaos.serve PORT DATA_DIR CONTROL plain|volatile``. Segments and checkpoints are
small, so that files roll, are recycled and trimmed all the time.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spark_durable.server import runtime
from spark_durable.server.config import ServerConfig
from spark_durable.server.serve import serve
from spark_durable.server.store.model import StoreConfig
from spark_durable.server.store.osfiles import OsFiles
from tests.chaos.control import Control
from tests.chaos.planted import plant_from_environment
from tests.chaos.volatile import VolatileFiles

KIB = 1 << 10


class FillableFile:
    """A file that has no room for another byte while the control says so."""

    def __init__(self, file: Any, control: Control) -> None:
        self._file = file
        self._control = control

    def write(self, offset: int, parts: Sequence[Any]) -> None:
        self._check()
        self._file.write(offset, parts)

    def allocate(self, size: int) -> None:
        self._check()
        self._file.allocate(size)

    def _check(self) -> None:
        if self._control.get()[1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class FillableFiles:
    def __init__(self, files: Any, control: Control) -> None:
        self._files = files
        self._control = control

    def open(self, name: str, *, create: bool) -> FillableFile:
        return FillableFile(self._files.open(name, create=create), self._control)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def main() -> int:
    plant_from_environment()
    port, directory, shared, layer = sys.argv[1:]
    data_dir, control = Path(directory), Control(Path(shared))
    files: Any = VolatileFiles(data_dir) if layer == "volatile" else OsFiles(data_dir)
    config = partial(
        StoreConfig,
        files=FillableFiles(files, control),
        clock=lambda: time.time() + control.get()[0],
        segment_bytes=96 * KIB,
        log_segment_bytes=256 * KIB,
        checkpoint_bytes=512 * KIB,
        open_files=8,
    )
    setattr(runtime, "StoreConfig", config)  # noqa: B010 - the seam between server and store
    return serve(ServerConfig(port=int(port), data_dir=data_dir, long_poll_timeout=2.0))


if __name__ == "__main__":
    raise SystemExit(main())
