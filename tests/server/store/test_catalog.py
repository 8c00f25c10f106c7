from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from spark_durable.server.store.catalog import Captured, Catalog, Statement
from spark_durable.server.store.errors import DiskFull


class Words:
    """A section with a single table."""

    schema = "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY)"

    def __init__(self) -> None:
        self.words: set[str] = set()
        self.changed: set[str] = set()

    def add(self, word: str) -> None:
        self.words.add(word)
        self.changed.add(word)

    def load(self, database: sqlite3.Connection) -> None:
        self.words = {word for (word,) in database.execute("SELECT word FROM words")}

    def capture(self) -> Captured:
        changed, self.changed = self.changed, set()

        def restore() -> None:
            self.changed |= changed

        rows: list[tuple[str, ...]] = [(word,) for word in changed]
        return Captured([Statement("REPLACE INTO words VALUES (?)", rows)], restore)


def test_a_checkpoint_is_all_or_nothing(tmp_path: Path) -> None:
    words = Words()
    catalog = Catalog(tmp_path / "c.sqlite", [words])
    assert catalog.load() == 0
    words.add("a")
    catalog.write(7, catalog.capture().statements)
    words.add("b")
    broken = [*catalog.capture().statements, Statement("INSERT INTO nowhere VALUES (?)", [(1,)])]
    with pytest.raises(sqlite3.OperationalError):
        catalog.write(9, broken)
    catalog.close()

    again = Words()
    catalog = Catalog(tmp_path / "c.sqlite", [again])
    assert catalog.load() == 7
    assert again.words == {"a"}
    catalog.close()


def test_a_capture_that_is_not_used_is_put_back(tmp_path: Path) -> None:
    words = Words()
    catalog = Catalog(tmp_path / "c.sqlite", [words])
    words.add("a")
    unused = catalog.capture()
    words.add("b")
    unused.restore()
    catalog.write(2, catalog.capture().statements)
    catalog.close()
    again = Words()
    catalog = Catalog(tmp_path / "c.sqlite", [again])
    catalog.load()
    assert again.words == {"a", "b"}
    catalog.close()


def test_a_checkpoint_there_is_no_room_for_leaves_the_last_one(tmp_path: Path) -> None:
    words = Words()
    catalog = Catalog(tmp_path / "c.sqlite", [words])
    words.add("a")
    catalog.write(7, catalog.capture().statements)
    pages = catalog._database.execute("PRAGMA page_count").fetchone()[0]
    catalog._database.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(1000):
        words.add(f"{number}" * 50)
    captured = catalog.capture()
    with pytest.raises(DiskFull):
        catalog.write(9, captured.statements)
    assert catalog.load() == 7
    assert words.words == {"a"}
    catalog._database.execute("PRAGMA max_page_count = 100000")
    catalog.write(9, captured.statements)
    assert catalog.load() == 9
    assert len(words.words) == 1001
    catalog.close()
