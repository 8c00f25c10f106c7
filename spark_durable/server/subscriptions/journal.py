"""Subscriptions on disk: definitions, cursors, generations, retry schedules and keys."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from .model import Definition, Link, Subscription

_SCHEMA: Final = """
create table if not exists subscriptions (
    id text primary key, definition text not null, created_at text not null,
    generation integer not null, retries integer not null, next_attempt_at real
) without rowid;
create table if not exists links (
    subscription text not null, path text not null, acked integer not null,
    explicit integer not null, glob integer not null, primary key (subscription, path)
) without rowid;
create table if not exists secrets (name text primary key, value blob not null) without rowid;
"""
_SAVE: Final = "insert or replace into subscriptions values (?, ?, ?, ?, ?, ?)"
_SAVE_LINK: Final = "insert or replace into links values (?, ?, ?, ?, ?)"


class Journal:
    """One SQLite file, written by one thread, each write a synced transaction. A returned future is
    done when its change is durable; changes are applied in the order of the calls."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "subscriptions.sqlite"
        # The file holds private keys: nobody else may read it, from its first moment on.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="subscriptions")
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = full")
        self._database.executescript(_SCHEMA)

    def secret(self, name: str, generate: Callable[[], bytes]) -> bytes:
        """A key that stays the same over restarts."""
        row = self._database.execute("select value from secrets where name = ?", (name,)).fetchone()
        if row is not None:
            return bytes(row[0])
        value = generate()
        self._database.execute("insert into secrets values (?, ?)", (name, value))
        return value

    def load(self) -> list[Subscription]:
        subscriptions = {}
        for row in self._database.execute("select * from subscriptions"):
            identity, definition, created_at, generation, retries, next_attempt_at = row
            subscriptions[identity] = Subscription(
                id=identity,
                definition=Definition.from_json(definition),
                created_at=created_at,
                generation=generation,
                retries=retries,
                next_attempt_at=next_attempt_at,
            )
        for identity, path, acked, explicit, glob in self._database.execute("select * from links"):
            subscriptions[identity].links[path] = Link(path, acked, bool(explicit), bool(glob))
        return list(subscriptions.values())

    def save(self, subscription: Subscription, links: Iterable[Link] = ()) -> asyncio.Future[None]:
        """The subscription's own row, and those of its links that changed."""
        return self._write([(_SAVE, _row(subscription)), *_link_rows(subscription.id, links)])

    def save_links(self, subscription: str, links: Iterable[Link]) -> asyncio.Future[None]:
        return self._write(list(_link_rows(subscription, links)))

    def remove_link(self, subscription: str, path: str) -> asyncio.Future[None]:
        statement = "delete from links where subscription = ? and path = ?"
        return self._write([(statement, (subscription, path))])

    def remove(self, subscription: str) -> asyncio.Future[None]:
        return self._write(
            [
                ("delete from links where subscription = ?", (subscription,)),
                ("delete from subscriptions where id = ?", (subscription,)),
            ]
        )

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close)
        self._thread.shutdown()

    def _write(self, statements: list[tuple[str, tuple[Any, ...]]]) -> asyncio.Future[None]:
        # Rows are built by now, on the loop, so they are the state at the time of the call.
        return asyncio.get_running_loop().run_in_executor(self._thread, self._commit, statements)

    def _commit(self, statements: list[tuple[str, tuple[Any, ...]]]) -> None:
        self._database.execute("begin")
        try:
            for statement, values in statements:
                self._database.execute(statement, values)
        except BaseException:
            self._database.execute("rollback")
            raise
        self._database.execute("commit")


def _row(subscription: Subscription) -> tuple[Any, ...]:
    return (
        subscription.id,
        subscription.definition.to_json(),
        subscription.created_at,
        subscription.generation,
        subscription.retries,
        subscription.next_attempt_at,
    )


def _link_rows(subscription: str, links: Iterable[Link]) -> Iterable[tuple[str, tuple[Any, ...]]]:
    for link in links:
        values = (subscription, link.path, link.acked, link.explicit, link.glob)
        yield _SAVE_LINK, values
