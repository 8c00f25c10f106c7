"""How many connections are open: together, and from each client."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Final

from spark_durable.server.config import ServerConfig

# Files of the store, the listener, the loop's own, and connections that are being refused.
_RESERVED_FILES: Final = 384
# Refused connections that still wait to be told why; past this many they are just cut.
_LINGERING: Final = 128


class Connections:
    """Admits connections up to the configured numbers, and never so many that the process runs out
    of files: then it could neither accept nor open anything."""

    def __init__(self, config: ServerConfig) -> None:
        self.total = min(config.max_connections, _files_left(config.max_connections))
        self.per_client = config.max_connections_per_client
        self._open: Counter[str] = Counter()
        self._count = 0
        self._lingering = 0

    def admit(self, client: str) -> bool:
        if self._count >= self.total or self._open[client] >= self.per_client:
            return False
        self._open[client] += 1
        self._count += 1
        return True

    def leave(self, client: str) -> None:
        self._count -= 1
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]

    def linger(self) -> bool:
        """Whether a refused connection may stay until it has been answered."""
        if self._lingering >= _LINGERING:
            return False
        self._lingering += 1
        return True

    def go(self) -> None:
        self._lingering -= 1


def _files_left(default: int) -> int:
    with suppress(ImportError):  # not a Unix
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(16, soft - _RESERVED_FILES)
    return default
