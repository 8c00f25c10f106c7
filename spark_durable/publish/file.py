"""Publishing to a file or to standard output: for trying out."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spark_durable.publish import payloads
from spark_durable.publish.contract import (
    Capabilities,
    Event,
    PublishResult,
    Verdict,
    for_all,
    shortened,
)

STDOUT = "-"


class FilePublisher:
    """Appends each event as one line of JSON: its metadata and its payload.

    Success means that the line is on disk (``fsync``), or handed to standard output where the path
    is ``-``. Nothing is deduplicated: an attempt repeated is a line repeated. A payload that is
    JSON on one line is embedded as it is, any other as base64 with ``payload_encoding``.
    """

    def __init__(self, path: str = STDOUT) -> None:
        self._path = path
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[..., FilePublisher], tuple[Any, ...]]:
        return FilePublisher, (self._path,)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            acknowledgement="the lines are synced to the file (or written to standard output)",
            idempotence="none: at least once",
            headers=True,
            partitioning=False,
            max_batch_events=1000,
            max_batch_bytes=4 << 20,
        )

    def open(self) -> None:
        if self._path != STDOUT:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Nothing is held between attempts."""

    def check(self, event: Event) -> str | None:
        return None

    def address(self, event: Event) -> str:
        return self._path

    def publish(self, event: Event) -> PublishResult:
        return self.publish_batch([event])[0]

    def publish_batch(self, events: Sequence[Event]) -> list[PublishResult]:
        lines = b"".join(_line(event) for event in events)
        try:
            with self._lock:
                end = self._write(lines)
        except OSError as error:
            text = shortened(f"{self._path}: {error.strerror or type(error).__name__}")
            return for_all(PublishResult(Verdict.RETRY, "io_error", text, ambiguous=True), events)
        return for_all(PublishResult(Verdict.DELIVERED, "written", receipt=end), events)

    def _write(self, lines: bytes) -> str | None:
        if self._path == STDOUT:
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
            return None
        # One write on an append-only descriptor: other processes' lines cannot come in between.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            left = memoryview(lines)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
            return str(os.lseek(descriptor, 0, os.SEEK_CUR))
        finally:
            os.close(descriptor)

    def ping(self) -> PublishResult:
        directory = Path(self._path).parent
        if self._path == STDOUT or os.access(directory, os.W_OK):
            return PublishResult(Verdict.DELIVERED, "writable")
        text = f"{directory} is not a directory that can be written to"
        return PublishResult(Verdict.PAUSE, "io_error", text)


def _line(event: Event) -> bytes:
    line = payloads.envelope(event)
    if b"\n" in line or b"\r" in line:
        line = payloads.envelope(event, always_encode=True)
    return line + b"\n"
