"""A PySpark data source for Durable Streams.

Nothing heavy is imported here: ``spark_durable.protocol`` and ``spark_durable.server`` work without
Spark, and Spark's planner imports this package in a worker on every ``load``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_durable.datasource import DurableStreamDataSource, register
    from spark_durable.server.embedded import EmbeddedServer
    from spark_durable.sink.repeatable import repeatable

__version__ = "0.1.0"

_LAZY = {
    "DurableStreamDataSource": "spark_durable.datasource",
    "register": "spark_durable.datasource",
    "EmbeddedServer": "spark_durable.server.embedded",
    "repeatable": "spark_durable.sink.repeatable",
}

__all__ = ["DurableStreamDataSource", "EmbeddedServer", "register", "repeatable"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
