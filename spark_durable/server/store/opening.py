"""Puts a store together: in memory, or from a data directory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from . import effects
from .blobs import Blobs
from .catalog import Catalog
from .committer import Committer
from .directory import DataDirectory
from .errors import CorruptStore
from .files import Files
from .journal import Journal, MemoryJournal
from .memory import MemoryFiles
from .model import StoreConfig
from .osfiles import OsFiles
from .reading import Reader
from .recovery import replay, tidy
from .segments import Segments
from .state import State
from .stream_section import StreamSection
from .verify import verify
from .wal import Log, LogReader

CATALOG: Final = "catalog.sqlite"


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts of a store; `release` gives the data directory back."""

    state: State
    reader: Reader
    journal: Journal
    files: Files
    release: Callable[[], None]


class _Trash:
    """Removes files, at once or when the committer has time."""

    def __init__(self, segments: Segments, blobs: Blobs) -> None:
        self._segments = segments
        self._blobs = blobs
        self.later: Callable[[Callable[[], None]], None] = _at_once

    def stream(self, stream_id: int) -> None:
        self.later(partial(self._segments.remove_stream, stream_id))

    def segment(self, stream_id: int, base: int) -> None:
        self.later(partial(self._segments.remove_segment, stream_id, base))

    def blob(self, name: str) -> None:
        self.later(partial(self._blobs.remove, name))


def _at_once(chore: Callable[[], None]) -> None:
    chore()


def open_parts(config: StoreConfig) -> Opened:
    if config.data_dir is None:
        return _in_memory(config)
    directory = DataDirectory(config.data_dir)
    try:
        return _on_disk(config, directory)
    except sqlite3.DatabaseError as error:
        directory.release()
        raise CorruptStore(
            f"{directory.path / CATALOG} is damaged: {error}. Restore the data directory from a "
            "backup"
        ) from None
    except BaseException:
        directory.release()
        raise


def _in_memory(config: StoreConfig) -> Opened:
    files = MemoryFiles()
    # nothing is held open in memory: the bound only has to be large
    segments = Segments(files, open_files=1 << 20)
    state = State(_Trash(segments, Blobs(files)))
    effects.register(state)
    limit = config.max_memory_bytes or _half_of_the_memory()
    journal = MemoryJournal(segments, files.usage, limit)
    return Opened(state, Reader(segments), journal, files, lambda: None)


def _half_of_the_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # not a Unix
        return 2 << 30


def _on_disk(config: StoreConfig, directory: DataDirectory) -> Opened:
    files = config.files or OsFiles(directory.path)
    segments = Segments(files, config.open_files)
    trash = _Trash(segments, Blobs(files))
    state = State(trash)
    effects.register(state)
    catalog = Catalog(directory.path / CATALOG, [StreamSection(state)])

    old = LogReader(files, directory.salt)
    before = catalog.load()
    applied = replay(state, segments, old.records(before), before)
    tidy(files, state, segments, config.clock())
    if config.verify:
        verify(state, segments, Blobs(files))
    # from here on the catalog is the whole truth and the log starts over
    files.sync_all(sorted(segments.take_dirty()))
    catalog.write(applied, catalog.capture().statements)
    old.remove()

    log = Log(files, directory.salt, config.log_segment_bytes, applied + 1)
    committer = Committer(
        files,
        segments,
        log,
        catalog,
        max_pending_bytes=config.max_pending_bytes,
        checkpoint_bytes=config.checkpoint_bytes,
        on_failure=config.on_failure,
    )
    trash.later = committer.later
    return Opened(state, Reader(segments), committer, files, directory.release)
