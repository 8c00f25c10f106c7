"""Cursors keep caches from answering live readers with the same response for ever."""

from __future__ import annotations

import random
import time
from typing import Final

# 2024-10-09T00:00:00Z, the epoch the protocol counts intervals from.
_EPOCH_S: Final = 1_728_432_000
_INTERVAL_S: Final = 20
_MAX_JITTER_S: Final = 3600


def next_cursor(client_cursor: str | None, now: float | None = None) -> str:
    """The current interval, or, when the client is there already, a point strictly past its own."""
    interval = int(((time.time() if now is None else now) - _EPOCH_S) // _INTERVAL_S)
    if client_cursor is None or not client_cursor.isascii() or not client_cursor.isdigit():
        return str(interval)
    # A cursor of absurd length is not one we sent, and int() of it would cost time.
    if len(client_cursor) > 18 or int(client_cursor) < interval:
        return str(interval)
    jitter_s = random.randint(1, _MAX_JITTER_S)  # noqa: S311 - spreads caches, guards nothing
    return str(int(client_cursor) + max(1, -(-jitter_s // _INTERVAL_S)))
