"""The embedded server: Durable Streams over HTTP, in memory or on disk, without Spark."""

from .config import ServerConfig
from .embedded import EmbeddedServer
from .serve import serve

__all__ = ["EmbeddedServer", "ServerConfig", "serve"]
