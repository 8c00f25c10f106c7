"""What handlers work with: one of each for the life of a server."""

from __future__ import annotations

from dataclasses import dataclass

from spark_durable.server.config import ServerConfig
from spark_durable.server.store import Store
from spark_durable.server.subscriptions.manager import SubscriptionManager

from .budget import ByteBudget
from .lifecycle import LiveReaders
from .security import Access


@dataclass(frozen=True, slots=True)
class Context:
    config: ServerConfig
    store: Store
    subscriptions: SubscriptionManager
    access: Access
    live: LiveReaders
    bodies: ByteBudget
    responses: ByteBudget
