"""A disk that can be filled: a small tmpfs of its own where one may be mounted, else a file layer
that refuses every write as a full disk does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.chaos.control import Control


class Disk:
    """Where the server keeps its data. ``how`` says which of the two it is, for the report."""

    def __init__(self, directory: Path, megabytes: int, control: Control) -> None:
        self.directory = directory
        self._control = control
        directory.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
        try:
            done = subprocess.run(mount, capture_output=True, text=True, timeout=20)
            refused = done.stderr.strip() if done.returncode else None
        except OSError as error:
            refused = str(error)
        self._mounted = refused is None
        self.how = f"a tmpfs of {megabytes} MB"
        if refused is not None:
            self.how = f"a file layer, for no tmpfs could be mounted ({refused})"
        self.data = directory / "data"
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        if not self._mounted:
            self._control.set(full=True)
            return
        fd = os.open(self._ballast, os.O_RDWR | os.O_CREAT)
        try:
            size = 0
            for step in (1 << 20, 1 << 12):
                while True:
                    try:
                        os.posix_fallocate(fd, size, step)
                    except OSError:
                        break
                    size += step
        finally:
            os.close(fd)

    def free(self) -> None:
        self._control.set(full=False)
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        if self._mounted:
            subprocess.run(["umount", "-l", str(self.directory)], check=True, timeout=20)
