"""All topics of a server: found, created and deleted by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from spark_durable.server.store import CreateSpec, Store
from spark_durable.server.store.errors import NotFound

from .errors import TopicError, not_found
from .model import TopicConfig, WriteIn, merge
from .topic import CONTENT_TYPE, Receipt, Topic, configured

# No route of the other surfaces leads to keys under this prefix.
KEY_PREFIX: Final = "/v0/topics/"


class Topics:
    """Topics are loaded from the store on first use; until then they cost nothing."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._loaded: dict[str, Topic] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    async def find(self, name: str) -> Topic | None:
        if (topic := self._loaded.get(name)) is not None:
            return topic
        async with self._lock(name):
            return await self._load(name)

    async def _load(self, name: str) -> Topic | None:
        if (topic := self._loaded.get(name)) is not None:
            return topic
        topic = Topic(self._store, KEY_PREFIX + name, self._clock)
        try:
            await topic.load()
        except NotFound:
            return None
        self._loaded[name] = topic
        return topic

    async def get(self, name: str) -> Topic:
        topic = await self.find(name)
        if topic is None:
            raise not_found(name)
        return topic

    async def put(self, name: str, changes: Any) -> tuple[TopicConfig, bool]:
        """Creates or configures; the same configuration again changes nothing."""
        async with self._lock(name):
            topic = await self._load(name)
            if topic is None:
                config = merge(TopicConfig(), changes)
                await self._create(name, config)
                return config, True
            config = merge(topic.state.config, changes)
            if config.type != topic.state.config.type:
                raise TopicError(
                    409,
                    "topic_exists_incompatible",
                    f"topic {name!r} is a {topic.state.config.type} and stays one; delete it to "
                    "change its type",
                    {"topic": name},
                )
            if config != topic.state.config:
                await topic.configure(config)
            return config, False

    async def _create(self, name: str, config: TopicConfig) -> Topic:
        first = configured(config, int(self._clock() * 1000))
        await self._store.create(KEY_PREFIX + name, CreateSpec(CONTENT_TYPE, body=first))
        topic = await self._load(name)
        assert topic is not None
        return topic

    async def write(self, name: str, write: WriteIn) -> tuple[Receipt, bool]:
        """Appends, creating the topic where the request or its inline configuration allows it."""
        topic, created = await self.find(name), False
        if topic is None:
            topic, created = await self._create_for(name, write)
        return await topic.write(write), created

    async def _create_for(self, name: str, write: WriteIn) -> tuple[Topic, bool]:
        async with self._lock(name):
            if (topic := await self._load(name)) is not None:
                return topic, False
            config = merge(TopicConfig(), write.config or {})
            allowed = config.auto_create if write.create is None else write.create
            if not allowed:
                raise not_found(name)
            return await self._create(name, config), True

    async def delete(self, name: str) -> bool:
        """True when there was something to delete."""
        async with self._lock(name):
            self._loaded.pop(name, None)
            try:
                await self._store.delete(KEY_PREFIX + name)
            except NotFound:
                return False
            return True

    def names(self, prefix: str) -> list[str]:
        keys = self._store.keys(KEY_PREFIX + prefix)
        return sorted(key.removeprefix(KEY_PREFIX) for key in keys)
