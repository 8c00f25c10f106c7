"""The catalog: the state as of a checkpoint, in SQLite, so that the log can start over.

Each part of the state is a `Section`: it knows its tables, what has changed since it was last
asked, and how to come back. A checkpoint is one transaction over all sections together with the
number of the last record it includes; replaying the log from there gives the present.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from .errors import DiskFull

Rows = list[tuple[Any, ...]]


class Statement(NamedTuple):
    """One statement of a checkpoint, executed for each row."""

    sql: str
    rows: Rows


class Captured(NamedTuple):
    """A section's changes as of one moment; `restore` puts them back when they are not used."""

    statements: list[Statement]
    restore: Callable[[], None]


class Section(Protocol):
    """A part of the state with tables of its own."""

    schema: str

    def load(self, database: sqlite3.Connection) -> None:
        """Fills an empty state from the tables."""

    def capture(self) -> Captured:
        """What has changed since the last capture, as values that no longer change."""


class Catalog:
    def __init__(self, path: Path, sections: Sequence[Section]) -> None:
        self._sections = sections
        # opened by one thread, used by the checkpointer's
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = DELETE")
        self._database.execute("PRAGMA synchronous = EXTRA")
        with _transaction(self._database):
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS checkpoint (one INTEGER PRIMARY KEY, applied INTEGER)"
            )
            for section in sections:
                for statement in section.schema.split(";"):
                    self._database.execute(statement)

    def load(self) -> int:
        """Loads all sections; returns the number of the last record they include."""
        for section in self._sections:
            section.load(self._database)
        row = self._database.execute("SELECT applied FROM checkpoint").fetchone()
        return int(row[0]) if row else 0

    def capture(self) -> Captured:
        parts = [section.capture() for section in self._sections]

        def restore() -> None:
            for part in parts:
                part.restore()

        return Captured([each for part in parts for each in part.statements], restore)

    def write(self, applied: int, statements: Iterable[Statement]) -> None:
        """Makes a checkpoint durable. `DiskFull` leaves the one before it in place."""
        try:
            with _transaction(self._database):
                for sql, rows in statements:
                    self._database.executemany(sql, rows)
                self._database.execute("REPLACE INTO checkpoint VALUES (1, ?)", (applied,))
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                raise DiskFull() from error
            raise

    def close(self) -> None:
        self._database.close()


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        # a full disk has ended the transaction already
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
